"""The rules of masking: given, or in the file that QUEUE_REDACT names, with every mistake told."""

from pathlib import Path

import pytest
from test_redact import JWT, m

from queue_core import InvalidArgument
from queue_core.redact import UNMASKED, Redactor, configured, load


def test_rules_can_be_added_removed_and_switched() -> None:
    redactor = Redactor(("ssn", "*pin code"), frozenset({"card"}), (("iban", r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}"),))
    payload = {
        "ssn": "1",
        "homePinCode": 5,
        "password": "x",
        "text": f"DE89370400440532013000 {JWT}",
        "card": "4111111111111111",
    }
    assert redactor.value(payload) == {
        "ssn": m(1), "homePinCode": 0, "password": "x", "text": f"{m(16)} {JWT}", "card": m(16),
    }  # fmt: skip
    assert UNMASKED.value(payload) is payload
    assert UNMASKED.text(text := f"password={JWT}") is text


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of rules, named by the environment; the default ones, as it is empty."""
    path = tmp_path / "redact.toml"
    path.write_text("")
    monkeypatch.setenv("QUEUE_REDACT", str(path))
    return path


def test_without_a_file_the_default_rules_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUE_REDACT", "")
    assert configured() == Redactor()
    monkeypatch.delenv("QUEUE_REDACT")
    assert configured() == Redactor()


def test_a_file_of_rules(rules: Path) -> None:
    assert configured() == Redactor()
    rules.write_text(
        'email = true\ncard = false\nadd_keys = ["ssn"]\nremove_keys = ["Session", "api-key"]\n'
        "[patterns]\nticket = 'T-\\d+'\n"
    )
    redactor = configured()
    assert redactor.value({"ssn": "1", "session": "1", "api_key": "1", "password": "1"}) == {
        "ssn": m(1), "session": "1", "api_key": "1", "password": m(1),
    }  # fmt: skip
    assert redactor.text("bob@example.org T-100 4111111111111111") == f"{m(8)} {m(1)} 4111111111111111"
    rules.write_text("mask = false\n")
    assert configured() == UNMASKED
    rules.unlink()
    with pytest.raises(InvalidArgument, match=r"redact.toml.*QUEUE_REDACT"):
        configured()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mail = true", r"redact.toml: unknown key 'mail': allowed are mask, add_keys, .*email.*patterns"),
        ("mask = 1", "mask is 1: write true or false"),
        ("jwt = 'no'", "jwt is 'no': write true or false"),
        ("add_keys = 'ssn'", "add_keys is 'ssn': write a list"),
        ("add_keys = [1]", "add_keys is"),
        ("add_keys = ['1-2']", "the key '1-2' has no letter"),
        ("remove_keys = ['ssn']", "remove_keys has 'ssn', which is none of the keys: .*password"),
        ("patterns = 1", "patterns is 1: write"),
        ("[patterns]\na = 1", "patterns is"),
        ("[patterns]\na = '('", r"pattern 'a', '\(', is no regular expression: missing \)"),
        ("[patterns]\na = 'x*'", r"pattern 'a', 'x\*', fits the empty text"),
        ("mask = ", "redact.toml: not TOML"),
        ("mask = true\nmask = true", "redact.toml: not TOML"),
    ],
)
def test_a_mistake_in_the_file_names_file_and_key(rules: Path, text: str, told: str) -> None:
    rules.write_text(text)
    with pytest.raises(InvalidArgument, match=told):
        configured()
    with pytest.raises(InvalidArgument, match=told):
        load(rules)


def test_a_file_that_is_no_text_or_no_file(rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgument, match="not TOML"):
        configured()
    for name in (str(tmp_path), "a\0b"):
        monkeypatch.setattr("os.environ", {"QUEUE_REDACT": name})
        with pytest.raises(InvalidArgument, match="cannot be read"):
            configured()


def test_what_cannot_be_a_rule_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="there is no rule 'mail'"):
        Redactor(rules=frozenset({"mail"}))
