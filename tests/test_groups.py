"""Errors that differ in numbers, ids, paths and quoted values fall together, others do not; no text takes long."""

import os
import re
import sys
import time
import traceback
from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from queue_core import groups
from queue_core.groups import FAILED, TOLD, cause, fingerprint, mark_of, normalised, telling_line
from queue_core.task import Record, State, clean_text

SAME = [
    ("timeout after 30 s", "timeout after 5 s", "timeout after <n> s"),
    ("took 1.5e-3ms, not 12ms", "took -2ms, not 1_200ms", "took <n>ms, not <n>ms"),
    ("order 1234567 not found", "order 12345678 not found", "order <n> not found"),
    ("1,234,567 rows at 12:34:56.789", "5 rows at 01:02", "<n> rows at <n>"),
    ("due 2026-01-02T03:04:05Z", "due 1999-12-31T23:59:59Z", "due <n>-<n>-<n>T<n>Z"),
    ("commit 1e5a9c2 is gone", "commit 00000000 is gone", "commit <n> is gone"),
    ("<Job object at 0x7f3a>", "<Job object at 0xFFFF12>", "<Job object at <n>>"),
    ("no req_8fJ2kd93q1", "no req_01ARZ3NDEKTSV4RRFFQ69G5FAV", "no req_<n>"),
    ("peer fe80::1ff:fe23:4567:890a", "peer ::1", "peer <n>"),
    ("peer 10.0.0.1:5432", "peer 192.168.1.254:80", "peer <n>"),
    (f"task {UUID(int=1)} failed", f"task {UUID(int=2**127)} failed", "task <id> failed"),
    ("GET https://a.example/x?id=1#y failed", "GET s3://bucket/key failed", "GET <url> failed"),
    ("mail to a.b+c@x.example bounced", "mail to d@y.co.uk bounced", "mail to <email> bounced"),
    ("can't open '/a/b' in users' way", "can't open 'it\"s' in users' way", "can't open <value> in users' way"),
    ("bad b'\\x00' here", "bad b'' here", "bad <value> here"),
    ('key "a" of `t`', 'key "b c" of `u.v`', "key <value> of <value>"),
    ("no “größe” in «x»", "no “ключ” in «»", "no <value> in <value>"),
    ("no file /var/lib/a.json", "no file C:\\Users\\me\\b.txt", "no file <path>"),
    ("no file data/2024/größe.csv", "no file ./x/y", "no file <path>"),
    ("missing [1, 2, 3] of ('a',)", "missing [4] of ('b','c')", None),
    ("left: 'a', 'b', 'c'", "left: 'd'", "left: <value>"),
    ("\n \n==\nfailed 3 times\nmore 1", "failed 4 times\nmore and more", "failed <n> times"),
    ("a\t b\u00a01", "a b   22", "a b <n>"),
    ("nul \0 1", "nul \0 2", "nul \0 <n>"),
    ("٣ of １２", "4 of 5", "<n> of <n>"),
    ('no "' + "x" * 9_000, 'no "' + "y" * 5_000 + '"', "no <value>"),
    ("n=1 " + "word " * 5_000, "n=1234567 " + "word " * 6_000, None),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "text"), SAME, ids=[one.strip()[:30] for one, _, _ in SAME])
def test_what_differs_in_such_parts_only_falls_together(one: str, other: str, text: str | None) -> None:
    assert normalised(one) == normalised(other) == (text or normalised(one))


APART = [
    "read timeout", "write timeout", "Read timeout", "timeout after 30 s", "timeout after 30 min", "timeout",
    "no file", "no path", "and/or", "n/a", "read/write", "https", "a@b", "users' way", "deadbeef", "defaced", "x86",
    "arm64", "[Errno 2] No such file or directory: '/x/y'", "[Errno 13] Permission denied: '/x/y'",
    "404 Client Error: Not Found", "503 Server Error: Service Unavailable", "größe", "grosse", "🙂", "😀", "a b", "ab",
    "", "?", "!", "x" * (TOLD - 1) + "y", "x" * TOLD,
]  # fmt: skip


def test_what_differs_otherwise_does_not() -> None:
    assert len({fingerprint(normalised(text)) for text in APART}) == len(APART)


# --- the line that tells


def raised(act: Callable[[], object]) -> str:
    """The traceback of what it raises, as a worker records it."""
    try:
        act()
    except BaseException as error:
        return "".join(traceback.format_exception(error))
    raise AssertionError("nothing was raised")


def several() -> None:
    raise ValueError("2 errors\n\nname\n  field required\nage\n  not a number")


def chained() -> None:
    try:
        several()
    except ValueError as error:
        raise LookupError("no row 7\n(Background: https://x.example/e/1)") from error


def grouped() -> None:
    found = []
    for act in (several, chained):
        try:
            act()
        except Exception as error:
            found.append(error)
    raise ExceptionGroup("in a group", found)


def quoting() -> None:
    raise RuntimeError("a worker said:\n" + raised(several))


def noted() -> None:
    error = OSError(28, "No space left on device")
    error.add_note("while writing part 3")
    raise error


def wrong() -> None:
    compile("x =", "<text>", "exec")


@pytest.mark.parametrize(
    ("act", "line"),
    [
        (several, "ValueError: 2 errors"),
        (chained, "LookupError: no row 7"),
        (grouped, "LookupError: no row 7"),
        (quoting, "ValueError: 2 errors"),
        (noted, "OSError: [Errno 28] No space left on device"),
        (wrong, "SyntaxError: invalid syntax"),
        (lambda: os.environ["NO SUCH"], "KeyError: 'NO SUCH'"),
        (lambda: sys.exit(), "SystemExit"),
    ],
)
def test_of_a_traceback_the_exception_tells(act: Callable[[], object], line: str) -> None:
    for text in (raised(act), f"job 7 failed\n{raised(act)}", raised(act).replace("\n", "\r\n")):
        assert telling_line(text) == line


def test_frames_do_not_count_but_what_was_raised() -> None:
    def deeper(n: int) -> None:
        several() if n == 0 else deeper(n - 1)

    assert normalised(raised(lambda: deeper(3))) == normalised(raised(several)) == normalised("ValueError: 5 errors")


def test_a_traceback_whose_end_is_cut_off_is_known_by_its_beginning() -> None:
    frames = "".join(f'  File "/app/x{n % 2}.py", line {n}, in f{n % 2}\n    return f{n % 2}()\n' for n in range(3_000))
    text = clean_text(f"Traceback (most recent call last):\n{frames}RecursionError: too deep\n")
    assert "RecursionError" not in text
    assert normalised(text) == "File <value>, line <n>, in f<n>"


@pytest.mark.parametrize("text", ["Traceback (most recent call last):\n", "Traceback (most", '  File "'])
def test_a_traceback_of_nothing_is_a_text(text: str) -> None:
    assert normalised(text) == text.strip()


# --- whatever the text

NASTY = [
    "a", "/", "'", '"', "`", "0x", "1.1", "1 ", "-1", "a.", "a@", "a.@b", "a:", ":", "::1", "1a", "f1", "<a", "<n>, ",
    "\\a", "./", " '", " b'", "“", "\n", " ", "\0", "🙂", "١", "\x85",
    'Traceback (most recent call last):\n  File "', '  File "x"\n',
    "8-4-4", "0" * 8 + "-" + "0" * 4 + "-", "a://", "a+://", "(", "_1",
]  # fmt: skip


@pytest.mark.parametrize("part", NASTY)
def test_no_text_takes_long(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times 64 KiB looked at in full take a tenth of a second: time that grew with the square would be minutes."""
    monkeypatch.setattr(groups, "LOOKED", 1 << 18)
    text = part * ((1 << 18) // len(part)) + "x"
    started = time.process_time()
    assert len(normalised(text)) <= TOLD
    assert time.process_time() - started < 3


PIECES = st.sampled_from(
    [*NASTY, "x", "word", "12", "-3.5", "1e5", "deadbeef1", str(UUID(int=5)), "/a/b", "a/b/c", "x@y.zz", "http://h/p",
     "'v'", '"w"', ", ", "\r\n", "\ud800", "=", "é"]
)  # fmt: skip
TEXTS = st.text() | st.lists(PIECES, max_size=12).map("".join)


@given(TEXTS)
@example("Traceback (most recent call last):\n" * 2)
@example("\ud800 12")
def test_any_text_has_a_fingerprint_and_no_number_in_it(text: str) -> None:
    found = normalised(text)
    assert len(found) <= TOLD
    assert found == found.strip()
    assert not re.search(r"\d|\s\s|\n", found)
    assert len(fingerprint(found)) == 8


@given(st.lists(PIECES.filter(lambda part: not set(part) & set("'\"`“«")), max_size=12).map(" ".join))
def test_what_is_normalised_stays_so(text: str) -> None:
    """But for quotes, which may be others' ends once what stood between them has gone, and for words that touch."""
    assert normalised(normalised(text)) == normalised(text)


NAMES = st.text("abz09._-é", min_size=1, max_size=8)
WORDS = st.lists(st.sampled_from(["disk", "full", "row", "user", "höhe", "of", "(", ")", "=", ":", "at"]), max_size=6)


@given(WORDS, WORDS, st.data())
def test_a_number_an_id_or_a_path_among_words_does_not_count(
    before: list[str], after: list[str], data: st.DataObject
) -> None:
    kinds = [
        st.integers(-(10**30), 10**30).map(str) | st.floats(allow_nan=False, allow_infinity=False).map(str)
        | st.integers(0, 2**64).map(hex),
        st.uuids().map(str),
        st.lists(NAMES, min_size=2, max_size=5).map(lambda names: "/" + "/".join(names)),
        st.text("ab 09:/\\é", max_size=30).map(lambda text: f"'{text}'"),
    ]  # fmt: skip
    kind = data.draw(st.sampled_from(kinds))
    one, other = (" ".join(["Error", *before, data.draw(kind), *after]) for _ in range(2))
    assert normalised(one) == normalised(other)


# --- dead letters


def dead(reason: str | None, error: str | None, group: bytes = b"") -> Record:
    return Record(bytes(16), 1, 1, State.DEAD, 1, b"1", 1, 1, 0, reason=reason, error=error, entered=5, group=group)


def test_what_counts_is_the_error_of_a_failure_and_else_the_reason() -> None:
    assert cause(dead(FAILED, "boom")) == "boom"
    assert cause(dead(FAILED, "")) == cause(dead(FAILED, None)) == FAILED
    assert cause(dead("by hand", "boom")) == "by hand"
    assert cause(dead("", "boom")) == cause(dead(None, "boom")) == "boom"
    assert cause(dead(None, None)) == ""


def test_a_dead_letter_is_of_the_group_it_was_put_into() -> None:
    assert mark_of(dead("r", None, b"12345678")) == b"12345678"
    assert mark_of(dead("r 1", None)) == fingerprint("r <n>")


def test_a_group_tells_when_it_was_seen_and_is_reopened_by_a_death_only() -> None:
    group = groups.Group(bytes(8), "x")
    group.came(dead("came", None))
    assert (group.deaths, group.first, group.last, group.error) == (0, 5, 5, "came")
    group.resolved, group.resolved_by = 7, "me"
    group.came(dead("again", None))
    assert (group.error, group.resolved) == ("came", 7)
    group.died(dead("died", None))
    assert (group.deaths, group.error, group.resolved, group.resolved_by, group.reopened) == (1, "died", 0, "", 5)


def test_the_error_that_a_group_shows_begins_with_what_tells_when_it_is_cut() -> None:
    text = "Traceback (most recent call last):\n" + '  File "x", line 1, in f\n    f()\n' * 90 + "OSError: disk full\n"
    group = groups.Group(fingerprint("x"), "")
    group.died(dead(FAILED, text))
    assert group.error.startswith("OSError: disk full\nTraceback")
    assert len(group.error) == groups.SAMPLE_KEPT
    assert group.said(str) == "OSError: disk full"


@pytest.mark.parametrize("size", [groups.SAMPLE_KEPT - 1, groups.SAMPLE_KEPT, groups.SAMPLE_KEPT + 1, 5_000])
def test_a_group_is_called_by_what_tells_however_long_its_error_is(size: int) -> None:
    """Of a chain of exceptions the last one tells, which the beginning that is kept does not reach."""
    first = 'Traceback (most recent call last):\n  File "x", line 1, in f\n    f()\nLookupError: first\n'
    last = "\nDuring handling of the above exception, another exception occurred:\n\n" + first.replace(
        "LookupError: first", "SyntaxError: last of 7"
    )
    frame = '  File "y", line 22, in g\n    g()\n'
    frames, rest = divmod(size - len(first + last), len(frame))
    text = first + last.replace("    f()\n", f"    f({'x' * rest})\n{frame * frames}")
    assert len(text) == size
    group = groups.Group(fingerprint(text), normalised(text))
    group.died(dead(FAILED, text))
    assert group.said(str) == group.text
    assert group.text.startswith("SyntaxError: last of <n>")
