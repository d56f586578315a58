"""Masking: what is hidden and what is not, in payloads and in texts; twice is once; odd, deep and huge things."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_core import Queue, Task, Undecodable
from queue_core.redact import Redactor
from queue_core.redact.cut import completed
from queue_core.redact.masks import cover
from queue_core.redact.redactor import AHEAD
from queue_core.redact.shapes import SHAPES
from queue_core.task import Attempt, Edit, Outcome, Record, State

REDACTOR = Redactor()
ALL = Redactor(rules=frozenset(SHAPES), patterns=(("numbers", r"\d{3,}"), ("rest", "sec.et.*")))
SECRET = "Zq9_hunter2"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJib2IifQ.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----"


def m(least: int) -> str:
    """The mask of a text of at least so many characters, one of 1, 8, 16, 32, …"""
    return f"•••• ({least}–{7 if least == 1 else 2 * least - 1} characters)"


# --- names of fields ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["password", "Password", "PASSWD", "db_password", "dbpassword", "password2", "passwordHash", "PGPASSWORD",
     "passWord", "user.pass", "secret", "client_secret", "clientSecret", "secrets", "token", "access_token",
     "accessToken", "authtoken", "tokens", "X-Auth-Token", "Authorization", "proxy-authorization", "api_key", "apikey",
     "api-key", "API Key", "X-Api-Key", "XAPIKey", "openaiApiKeys", "private_key", "privateKey", "aws_access_key_id",
     "Cookie", "set-cookie", "session", "session_id", "JSESSIONID", "PHPSESSID", "credential", "credentials", "csrf",
     "otp", "cvv", "token_type_secret", "api key (prod)", "my\npassword"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert REDACTOR.value({name: "x"}) == {name: m(1)}


@pytest.mark.parametrize(
    "name",
    ["", "user", "url", "tokenizer", "tokenized", "passwordless", "secretary", "obsession", "keys", "key", "monkey",
     "author", "authors", "passenger", "compass", "token_type", "tokenType", "session_timeout", "sessionTimeoutSeconds",
     "cookie_max_age", "password_length", "token_expires_at", "secret_version", "cookie_name", "1", "-", "\ud800", "é"],
)  # fmt: skip
def test_names_that_only_look_alike_or_tell_about_a_secret(name: str) -> None:
    payload = {name: "x"}
    assert REDACTOR.value(payload) is payload


def test_a_number_under_a_plural_is_a_count() -> None:
    counts = {"max_tokens": 4096, "tokens_used": 17, "totalTokens": 1.5}
    assert REDACTOR.value(counts) is counts
    assert REDACTOR.value({"tokens": "abc", "token": 17}) == {"tokens": m(1), "token": 0}
    assert REDACTOR.value({"tokens": ["abc", 5]}) == {"tokens": [m(1), 0]}
    assert REDACTOR.text("max_tokens=4096 tokens=abc") == f"max_tokens=4096 tokens={m(1)}"


# --- payloads -------------------------------------------------------------------------------------


def test_kinds_and_classes_of_length_are_kept() -> None:
    secret = ["a", "a" * 7, "a" * 8, "a" * 15, "a" * 16, "a" * 100_000, "", 5, -5, 2**70, 1.5, True, None, {}, [[]]]
    assert REDACTOR.value({"secret": secret})["secret"] == [
        m(1), m(1), m(8), m(8), m(16), "•••• (65,536–131,071 characters)", "", 0, 0, 0, 0.0, True, None, {}, [[]],
    ]  # fmt: skip


def test_masks_stand_anywhere_and_the_rest_is_the_same() -> None:
    payload = {
        "user": "bob",
        "jobs": [{"token": "abc"}, {"url": "https://bob:hunter2@host/x"}],
        "auth": {"a": {"b": 7}},
    }
    assert REDACTOR.value(payload) == {
        "user": "bob", "jobs": [{"token": m(1)}, {"url": f"https://bob:{m(1)}@host/x"}], "auth": {"a": {"b": 0}},
    }  # fmt: skip
    assert REDACTOR.masked(payload) == ["payload.jobs[0].token", "payload.jobs[1].url", "payload.auth.a.b"]
    assert payload["jobs"] == [{"token": "abc"}, {"url": "https://bob:hunter2@host/x"}]
    assert REDACTOR.value("password=x") == f"password={m(1)}"
    assert REDACTOR.masked("password=x") == ["payload"]


@pytest.mark.parametrize(
    "payload", [None, True, 0, 2**70, "", "abc", "\ud800\0", [], {}, [1, {"a": ["b"]}], {"id": 1e300}]
)
def test_what_has_no_secret_is_returned_itself(payload: Any) -> None:
    assert REDACTOR.value(payload) is payload
    assert REDACTOR.masked(payload) == []


def test_a_card_number_is_found_as_a_number_too_and_an_id_is_not() -> None:
    assert REDACTOR.value({"n": 4111111111111111}) == {"n": 0}
    ids = {
        "snowflake": 1009513310189256287,
        "micros": 1_750_000_000_000_000,
        "barcode": 4006381333931,
        "odd": 4111111111111112,
    }
    assert REDACTOR.value(ids) is ids


def test_a_key_that_is_a_secret_is_masked_and_no_entry_is_lost() -> None:
    masked = REDACTOR.value({"Bearer abc123": 1, "Bearer xyz789": 2, "c": 3, f"Bearer {m(1)}": 4})
    assert sorted(masked.values()) == [1, 2, 3, 4]
    assert all("abc123" not in key and "xyz789" not in key for key in masked)
    assert REDACTOR.value(masked) == masked


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}, lambda inner: {"secret": inner}])
def test_nesting_deeper_than_calls_can_be(wrap: Any) -> None:
    deep: Any = {"password": "hunter2"}
    for _ in range(5_000):
        deep = wrap(deep)
    (path,) = REDACTOR.masked(deep)
    assert path.endswith(".password")
    assert len(path) < 500
    masked = REDACTOR.value(deep)
    for _ in range(5_000):
        (masked,) = masked if isinstance(masked, list) else masked.values()
    assert masked == {"password": m(1)}


# --- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=hunter2", f"password={m(1)}"),
        ("login(password='hun ter', user='bob')", f"login(password='{m(1)}', user='bob')"),
        ('{"token": "abc", "n": 1}', f'{{"token": "{m(1)}", "n": 1}}'),
        ('{"token": "a\\"b", "n": 1}', f'{{"token": "{m(1)}", "n": 1}}'),
        (r"{\"token\": \"a b\", \"n\": 1}", rf"{{\"token\": \"{m(1)}\", \"n\": 1}}"),
        ("{'credentials': {'user': 'bob', 'keys': [1, '}']}, 'n': 1}", f"{{'credentials': {m(32)}, 'n': 1}}"),
        ('config["password"] = b"hunter2"', f'config["password"] = b"{m(1)}"'),
        ("?a=1&access_token=abc&b=2", f"?a=1&access_token={m(1)}&b=2"),
        ("Password: hunter2, retried", f"Password: {m(1)}, retried"),
        ("token => abc; secret := def", f"token => {m(1)}; secret := {m(1)}"),
        ("Invalid API key: sk-1, see docs", f"Invalid API key: {m(1)}, see docs"),
        ("--password hunter2 --user bob", f"--password {m(1)} --user bob"),
        ("['curl', '--token', 'abc', '-v']", f"['curl', '--token', '{m(1)}', '-v']"),
        ("<db:password kind='x'>hunter2</db:password>", f"<db:password kind='x'>{m(1)}</db:password>"),
        ('<login password="hunter2" user="bob">', f'<login password="{m(1)}" user="bob">'),
        ("Authorization: Token abc def\nHost: x", f"Authorization: {m(8)}\nHost: x"),
        ("Authorization: Bearer abc.def1\nHost: x", f"Authorization: Bearer {m(8)}\nHost: x"),
        ("curl -H 'Cookie: a=b; c=d' http://x", f"curl -H 'Cookie: {m(8)}' http://x"),
        (f"Cookie: {JWT}; sid=abc", f"Cookie: {m(32)}"),
        ("sent Bearer abc123 to", f"sent Bearer {m(1)} to"),
        ("sent basic dXNlcjpwYXNz to", f"sent basic {m(8)} to"),
        (f"token is {JWT}.", f"token is {m(32)}."),
        ("postgres://bob:hun@ter2@db/x", f"postgres://bob:{m(8)}@db/x"),
        ("redis://:hunter2@db", f"redis://:{m(1)}@db"),
        ("cannot open ftp://bob:hun/ter@host", f"cannot open ftp://bob:{m(1)}@host"),
        ("cut in amqp://bob:hunt", f"cut in amqp://bob:{m(1)}"),
        ("https://abc0123:x-oauth-basic@github.com/x", f"https://{m(1)}:x-oauth-basic@github.com/x"),
        ("key AKIAIOSFODNN7EXAMPLE of", f"key {m(16)} of"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123", m(32)),
        (f"bad key {PEM}\nend", f"bad key -----BEGIN RSA PRIVATE KEY-----{m(8)}-----END RSA PRIVATE KEY-----\nend"),
        ("-----BEGIN PRIVATE KEY-----\\nMIIE", f"-----BEGIN PRIVATE KEY-----{m(1)}"),
        ("card 4111 1111 1111 1111, 3782-822463-10005", f"card {m(16)}, {m(16)}"),
        ("2024 4111111111111111 123", f"2024 {m(16)} 123"),
        ("4000 4111 1111 1111 1111", f"4000 {m(16)}"),
        (f"password={JWT}!tail x", f"password={m(32)} x"),
        ("4111111111111111eyJaaaa.bbb", m(16) + m(8)),
    ],
)  # fmt: skip
def test_secrets_in_texts(text: str, shown: str) -> None:
    assert REDACTOR.text(text) == shown
    assert REDACTOR.text(shown) == shown


@pytest.mark.parametrize(
    "text",
    ["", "read timeout", "JWT token is invalid: signature has expired", "Basic authentication failed for bob",
     "Bearer authentication required", "the bearer of this: bob", "password: None, token=null", "token_type=bearer",
     "std::session::open", "http://host:8080/a@b", "at http://host:8080", "http://[::1]:8080/x", "12:30:59", "a = b",
     "took 0.4532015112830366 s", "order 4111111111111112", "bob@example.org", "File \"x.py\", line 3, in login",
     "KeyError: 'password'", "tokens: []", "secret://vault/path", "\ud800\0\u202e"],
)  # fmt: skip
def test_texts_without_secrets_are_returned_themselves(text: str) -> None:
    assert REDACTOR.text(text) is text


def test_mail_addresses_are_a_choice() -> None:
    assert Redactor(rules=frozenset({"email"})).text("to bob.o'x+1@mail.example.org.") == f"to bob.o'{m(16)}."


@pytest.mark.parametrize(
    "digits",
    ["4242424242424242", "5555555555554444", "2223003122003222", "378282246310005", "6011111111111117",
     "30569309025904", "3530111333300000", "6200000000000005"],
)  # fmt: skip
def test_cards_of_all_issuers(digits: str) -> None:
    assert REDACTOR.text(digits) == m(8 if len(digits) < 16 else 16)
    wrong = digits[:-1] + str((int(digits[-1]) + 1) % 10)
    assert REDACTOR.text(wrong) is wrong


# --- properties -----------------------------------------------------------------------------------

PIECES = [
    "password", "=", ":", '"', "'", "\\", '\\"', " ", "\n", "token", "tokens", "12,", "{", "}", "[", "]", "(", ")", "&",
    ";", ",", "://", "@", "/", "a", "Bearer ", "basic ", "dXNlcjpwYXNz", "eyJaaaa.b", ".", "--", "--token ", "<", ">",
    "<password>", "</", "Authorization: ", "Cookie:", "api key", "-----BEGIN PRIVATE KEY-----", "-----END", "null",
    "4111111111111111", "4111 1111 1111 1111", "AKIAIOSFODNN7EXAMPLE", "=>", ":=", m(1), "••••", " (8–15 characters)",
    "é", "\ud800", "\0", "https://u:p@h", "https://u:", "x" * 300, "\t", "_", "characters)", "…", "b'", "a@b.c",
]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=14).map("".join)


@given(texts)
@settings(max_examples=1_000, deadline=None)
def test_masking_a_text_twice_is_masking_it_once(text: str) -> None:
    for redactor in (REDACTOR, ALL):
        once = redactor.text(text)
        assert redactor.text(once) == once


names = st.sampled_from(["password", "accessToken", "X-Api-Key", "api key (prod)", "cookies", "auth", "bob's token"])
spoilers = st.sampled_from(
    ["", '"', "'", "\\", "\\\\", ", x", " y", "\n", "}", "]", "&a", "{", "[", '\\"', "é", "\ud800"]
)
hidden = st.recursive(
    st.builds(lambda before, after: before + SECRET + after, spoilers, spoilers),
    lambda inner: st.lists(inner, min_size=1, max_size=2) | st.dictionaries(st.text(max_size=3), inner, min_size=1),
    max_leaves=3,
)


def payloads_of(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """JSON values with such texts, and here and there a secret under its name."""
    plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text
    return st.recursive(
        plain | st.dictionaries(names, hidden, min_size=1),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
        max_leaves=6,
    )


payloads = payloads_of(texts)


@given(payloads)
@settings(max_examples=300, deadline=None)
def test_no_secret_under_its_name_is_seen_in_a_payload(payload: Any) -> None:
    masked = REDACTOR.value(payload)
    assert SECRET not in repr(masked)
    assert REDACTOR.value(masked) == masked
    assert (masked is payload) or REDACTOR.masked(payload) != []
    stored = json.dumps(payload).encode()
    assert json.loads(REDACTOR.stored(stored)) == masked


@given(payloads_of(st.text(max_size=20)))
@settings(max_examples=300, deadline=None)
def test_no_secret_under_its_name_is_seen_in_a_text_that_quotes_a_payload(payload: Any) -> None:
    once = json.dumps(payload)
    for text in (once, json.dumps(payload, indent=1), repr(payload), json.dumps(once), json.dumps(json.dumps(once))):
        assert SECRET not in REDACTOR.text(text)


@given(payloads, st.data())
@settings(max_examples=300, deadline=None)
def test_a_payload_that_was_cut_off_is_a_payload(payload: Any, data: st.DataObject) -> None:
    text = json.dumps(payload)
    cut = completed(text[: data.draw(st.integers(0, len(text)))])
    if cut:
        assert SECRET not in repr(REDACTOR.value(json.loads(cut)))


@given(payloads)
@settings(max_examples=200, deadline=None)
def test_the_kind_of_everything_stays(payload: Any) -> None:
    pairs = [(payload, REDACTOR.value(payload))]
    while pairs:
        old, new = pairs.pop()
        assert type(old) is type(new)
        if isinstance(old, dict | list):
            assert len(old) == len(new)
            inner = (old.values(), new.values()) if isinstance(old, dict) else (old, new)
            pairs += zip(*inner, strict=True)


@pytest.mark.parametrize(
    "piece",
    ["a", "://", "://a:", "://a:b@", ":", "=", "a:", " :", "token=", "token=[", 'token="', '\\"token\\":\\"', '"', "\\",
     "-", "--a", "--token ", "<a", "<password>", "eyJ", "eyJaaaa.", "bearer ", "basic ", "AKIAIOSFODNN7EXAMPLE", "sk-",
     "-----BEGIN PRIVATE KEY-----", "1", "4", "4111 ", "4111111111111111 ", "a@", "{token={", ".", "•", m(1), "api ",
     "\ud800", "é:"],
)  # fmt: skip
def test_the_time_grows_with_the_text(piece: str) -> None:
    """A pattern that goes back and forth would take hours for a mebibyte; the slowest takes a second or two."""
    begun = time.process_time()
    long = piece * ((1 << 20) // len(piece))
    short = long[: 1 << 16]
    for text in (short, f'token="{short}', f"x {short}", long):
        ALL.text(text)
    assert time.process_time() - begun < 30
    assert REDACTOR.value({"a": short, "secret": long})["secret"] == cover(long)


# --- what is stored -------------------------------------------------------------------------------


def test_stored_text_keeps_its_digits_and_its_bytes() -> None:
    data = b'{"a":1.50,"big":1' + b"0" * 4_000 + b"}"
    assert REDACTOR.stored(data) is data
    assert (
        REDACTOR.stored(b'{"pin":1,"token":"x","s":"\\ud800"}')
        == json.dumps({"pin": 1, "token": m(1), "s": "\ud800"}, separators=(",", ":")).encode()
    )
    assert REDACTOR.stored(b"\xff password=x") == b"\xff password=" + m(1).encode()
    assert REDACTOR.stored(b"\xff\0") == b"\xff\0"
    deep = b'{"a":' * 2_000 + b'{"token":"' + SECRET.encode() + b'"}' + b"}" * 2_000
    assert SECRET.encode() not in REDACTOR.stored(deep)


def test_the_beginning_of_a_large_payload() -> None:
    assert REDACTOR.head(b'{"token":"x"}', 100) == (f'{{"token":"{m(1)}"}}', True)
    large = json.dumps({"token": SECRET, "auth": {"x": SECRET}, "text": "é" * 1_000_000, "secret": SECRET}).encode()
    shown, whole = REDACTOR.head(large, 100)
    assert not whole
    assert shown.startswith(f'{{"token":"{m(8)}","auth":{{"x":"{m(8)}"}},"text":"éé')
    assert 100 < len(shown) < AHEAD + 600
    assert REDACTOR.head(b'{"pin_secret": ' + b"7" * 9_000 + b"}", 10) == ("{}", False)
    for cut in range(AHEAD + 300, AHEAD + 450):  # the password is cut off far behind what is shown
        url = json.dumps("x" * cut + f" https://bob:{SECRET}@host " + "x" * 9_000).encode()
        assert SECRET[:4] not in REDACTOR.head(url, 100)[0]


WORDS = {"payload", "error", "reason", "dedupe_key", "history", "edits"}
NAMES_AND_NUMBERS = {
    "id", "tag", "place", "state", "version", "created", "ready", "due", "max_attempts", "attempts", "cycle", "leases",
    "defers", "hold", "entry", "entered", "aged", "origin", "group",
}  # fmt: skip


def test_every_word_of_a_task_is_masked(queue: Queue) -> None:
    assert set(Record.__struct_fields__) == WORDS | NAMES_AND_NUMBERS, "is a new field masked, or is it no text?"
    text, payload = f"password={SECRET}", json.dumps({"token": SECRET}).encode()
    attempt = Attempt(1, 1, "w", 0, 1, Outcome.NACKED, text)
    record = Record(
        b"\0" * 16, 1, 1, State.DEAD, 7, payload, 0, 0, 0, dedupe_key=text, history=(attempt,), error=text, reason=text,
        edits=(Edit(0, 1, payload),),
    )  # fmt: skip
    seen, masked = REDACTOR.seen(Task(record, "acme", json.loads))
    assert SECRET not in repr(seen.record)
    assert seen.payload == {"token": m(8)}
    assert (seen.version, seen.tag, seen.record) == (7, "acme", REDACTOR.record(record))
    assert masked == ("payload.token", "error", "reason", "dedupe_key", "history", "edits")
    assert REDACTOR.seen(seen).task is seen
    task = queue.push({"a": 1}, tag="acme")
    assert REDACTOR.seen(task) == (task, ())


def test_a_payload_that_does_not_decode_is_masked_too() -> None:
    record = Record(b"\0" * 16, 1, 1, State.DEAD, 7, b"\xff token=" + SECRET.encode(), 0, 0, 0)
    seen, masked = REDACTOR.seen(Task(record, "acme", lambda data: Undecodable(data, "bad")))
    assert masked == ("payload",)
    assert seen.payload.data == b"\xff token=" + m(8).encode()
