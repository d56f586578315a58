"""The grammar: what can be said, that it is written back, and that a mistake is shown where it is."""

import pickle

import pytest
from filters import WORDS, expressions, whole
from hypothesis import example, given, settings
from hypothesis import strategies as st

from queue_core.errors import InvalidArgument, InvalidFilter
from queue_core.query import EVERYTHING, FIELDS, OPERATORS, SYNTAX, Expression, Kind, both, parse, quote
from queue_core.query.expression import And, Match, Or
from queue_core.query.grammar import DEPTH, LENGTH, TERMS
from queue_core.query.words import Pattern

FRAGMENTS = st.sampled_from(
    ["tag", "state", "payload", "error", "age", "size", ":", "=", ">", "<=", '"', "\\", "*", "(", ")", "-", " ", ".",
     "[", "]", "[*]", "[0]", "OR", "AND", "NOT", "dead", "42", "2h", "1k", "\\u00", "\\ud83d\\ude00", "x", "é", "\n",
     "\u200b"]
)  # fmt: skip


@given(expressions)
@settings(max_examples=400, deadline=None)
def test_an_expression_is_written_so_that_it_is_read_back(expression: Expression) -> None:
    text = str(expression)
    assert parse(text) == expression
    assert str(parse(text)) == text
    assert text.isprintable()


@given(st.lists(FRAGMENTS | WORDS, max_size=12).map("".join))
@example("payload.a:\u200b")
@example('tag:"\ud83d\\ude00"')
@settings(max_examples=600, deadline=None)
def test_any_text_is_a_filter_or_a_mistake_inside_it(text: str) -> None:
    try:
        expression = parse(text)
    except InvalidFilter as error:
        mistake = error
    else:
        assert parse(str(expression)) == expression
        assert str(parse(str(expression))) == str(expression)
        return
    assert 0 <= mistake.position <= len(text)
    shown, mark = str(mistake).split("\n")[-2:]
    assert mark.strip() == "^"
    assert shown.startswith("  ")


@given(st.text(max_size=300))
def test_any_tag_can_be_written(tag: str) -> None:
    assert parse(f"tag:{quote(tag)}") == Match("tag", Pattern(tag))


@pytest.mark.parametrize("tag", ["\x01" * 65_535, "a" * 65_535, "😀" * 16_383, "", "*", "OR", '"', "\\", " "])
def test_a_tag_of_any_length_can_be_written(tag: str) -> None:
    assert parse(f"-tag:{quote(tag)}") == parse(str(parse(f"-tag:{quote(tag)}")))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        (" \n\t ", ""),
        ("read  timeout", "error:read error:timeout"),
        ('"read timeout"', 'error:"read timeout"'),
        ("*", "error:*"),
        ("time*", "error:time"),
        ('error:""', "error:*"),
        ("error=*out", "error=*out"),
        ("tag=acme AND state=DEAD", "tag:acme state:dead"),
        ("a OR b c", "error:a OR error:b error:c"),
        ("(a OR b) c", "(error:a OR error:b) error:c"),
        ("((a) b) (c d)", "error:a error:b error:c error:d"),
        ("-tag:a -(tag:b tag:c) -x", "-tag:a -(tag:b tag:c) -error:x"),
        ("-(-tag:a)", "tag:a"),
        ("--tag:a", "tag:a"),
        ('tag:"a*"', 'tag:"a*"'),
        ('tag:"a b"* tag:*x*', 'tag:"a b"* tag:*x*'),
        ('tag:"\\u0041\\n\\ud83d\\ude00\x7f"', 'tag:"A\\n😀\\u007f"'),
        (r"error:C:\dir", r"error:C:\dir"),
        ("age>90 age>=90s age<1.5h age<=0.5ms age=25h", "age>1m30s age>=1m30s age<1h30m age<=500us age=1d1h"),
        ("due<-5m expires<0", "due<-5m expires<0s"),
        ("size>1k size>1kB size>1KiB size>1.5m size>1000KB", "size>1kB size>1kB size>1KiB size>1500kB size>1MB"),
        ("attempts:003 version>1180591620717411303424", "attempts=3 version>1180591620717411303424"),
        ("id:0195F2C47D3A7C529A431F0E8F5F0D11", "id:0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11"),
        ("id:0195f2c47d*", "id:0195f2c4-7d*"),
        ("group:9F86D081884C7D65", "group:9f86d081884c7d65"),
        ('payload.a."b.c"[0][*].d-e:x', 'payload.a."b.c"[0][*].d-e:x'),
        ('payload.x:42 payload.x:"42" payload.x:"4"*', 'payload.x:42 payload.x:"42" payload.x:4*'),
        ("payload:x payload=x payload.x:* payload[0]>=5", "payload:x payload=x payload.x:* payload[0]>=5"),
    ],
)  # fmt: skip
def test_a_filter_has_one_canonical_text(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical
    assert str(parse(canonical)) == canonical


def test_and_binds_closer_than_or_and_trees_are_flat() -> None:
    a, b, c = (Match("tag", Pattern(name)) for name in "abc")
    assert parse("tag:a tag:b OR tag:c") == Or((And((a, b)), c))
    assert parse("tag:a (tag:b tag:c)") == And((a, b, c)) == both([a, parse("tag:b tag:c")])
    assert both([EVERYTHING, a]) == a
    assert parse("") == EVERYTHING


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("state:dead tga:acme", 11, r"there is no field 'tga': did you mean tag"),
        ("max:3", 0, "did you mean max_attempts"),
        ("qqq:3", 0, "fields are tag, state, error"),
        ("https://example.org/x", 0, r'there is no field \'https\'.* write "https://example.org/x"'),
        ("state:ded", 6, "state is ded: expected one of pending, scheduled, inflight, dead, trash"),
        ("state:d*", 6, "expected one of pending"),
        ("age:2h", 3, 'age cannot be compared with ":": .* as in age>2h'),
        ("age>2x", 4, "'2x': expected a span of time such as 90s, 5m, 2h"),
        ("age>1000000001d", 4, "at most 1,000,000,000 days"),
        ("size>1x", 5, "a size in bytes such as"),
        ("attempts>=many", 10, "expected a whole number"),
        ("attempts:3*", 9, "a star has no meaning in a number"),
        ("attempts>-1", 9, "expected a whole number"),
        ("tag>5", 3, 'tag cannot be compared with ">": expected one of : ='),
        ("tag:", 4, r'expected a value right after tag:, such as tag:acme; the empty text is ""'),
        ("tag:(a OR b)", 4, "expected a value right after tag:"),
        ("tag:a*b", 5, "a star may stand at one end or both"),
        ('tag:"x', 4, "these quotes have no end"),
        (r'tag:"a\q"', 6, r"expected one of"),
        ('tag:"\\ud800"', 4, "text without lone surrogates, which no tag has"),
        ('tag:"x"y', 7, "expected a space after a value"),
        ('a"b"', 1, "quoted as a whole"),
        ("foo(bar)", 3, r'expected a space after a value; a text with "\(" in it is quoted as a whole'),
        ("(a)b", 3, r"expected a space after a \)"),
        ("(a", 0, r"this \( has no \)"),
        ("a)", 1, r"a \) without its \("),
        ("()", 1, "expected a term"),
        ("OR a", 0, 'OR has nothing on one side; the word itself is "OR"'),
        ("a OR", 4, "expected a term"),
        ("a AND OR b", 6, "OR has nothing on one side"),
        ("NOT a", 0, "put a - before what must not hold"),
        ("a - b", 2, 'the sign itself is "-"'),
        (">5", 0, "expected a field right before this sign"),
        ("attempts > 3", 9, "without a space"),
        ("tag:a*\u00a0b*c", 8, "a star may stand"),
        ("id:0195", 3, r"or the beginning of one and a star, such as 0195f2\*"),
        ("id:*95", 3, r"id is \*95: expected an id such as"),
        ("group:12", 6, "the 16 hexadecimal digits"),
        ("payload.", 8, "expected a key"),
        ("payload.a..b:1", 10, "expected a key"),
        ("payload[x]:1", 7, r"expected the number of an item, as in \[0\], or \[\*\] for any"),
        ("payload.user", 12, r"expected one of .* after payload.user, .* payload.user:\* for any value"),
        ("payload.x>a*", 10, "a star has no meaning after >"),
        ("payload.x>1e999", 10, "1e999 is not a number of JSON"),
        ("payload.x:", 10, "expected a value right after the path"),
        ("-" * (DEPTH + 1) + "a", DEPTH, "more than 50 levels"),
        ("(" * 5_000, DEPTH, "more than 50 levels"),
        ("a " * TERMS + "b", 2 * TERMS, "more than 1,000 terms"),
        ("a" * (LENGTH + 1), LENGTH, "has 500,001 characters, at most 500,000"),
        ('"' + "\x01" * (LENGTH - 2) + '"', 0, "written out, the filter has more than 500,000 characters"),
    ],
)
def test_a_mistake_is_shown_at_its_character(text: str, position: int, message: str) -> None:
    with pytest.raises(InvalidFilter, match=message) as caught:
        parse(text)
    assert caught.value.position == position
    assert f"(at character {position + 1:,})" in str(caught.value)
    assert isinstance(caught.value, InvalidArgument)


def test_the_mark_stands_under_the_character() -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse("state:dead tga:acme")
    assert str(caught.value).split("\n")[1:] == ["  state:dead tga:acme", "             ^"]
    with pytest.raises(InvalidFilter) as caught:
        parse("x" * 100 + ' "日本\n" e\u0301 tga:1 ' + "y" * 100)
    _, shown, mark = str(caught.value).split("\n")
    assert shown.index("tga") + 2 - 1 == mark.index("^")  # two signs are twice as wide, one has no width
    assert len(shown) < 80


def test_a_mistake_keeps_its_position_on_its_way_to_another_process() -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse("a tga:1")
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (str(copied), copied.position) == (str(caught.value), 2)


def test_only_text_is_a_filter() -> None:
    with pytest.raises(InvalidFilter, match="a filter is text, not 5 of type int"):
        parse(5)  # type: ignore[arg-type]


def test_a_filter_may_be_as_long_as_is_said() -> None:
    terms = " OR ".join(f'tag:"{"x" * 400}{i}"' for i in range(TERMS))
    assert len(parse(terms).parts) == TERMS  # type: ignore[union-attr]
    assert parse("(" * DEPTH + "a" + ")" * DEPTH) == parse("a")
    with pytest.raises(InvalidFilter, match="these quotes have no end"):
        parse('"' + "\\" * (LENGTH - 1))


def test_every_example_of_the_help_is_true() -> None:
    for field in FIELDS.values():
        assert str(parse(field.example)) == field.example
        assert field.example.startswith(field.name)
        assert field.help
        for sign in OPERATORS[field.kind]:
            assert parse(f"{field.name}{sign}*" if field.kind in (Kind.NAME, Kind.TEXT) else f"{field.name}{sign}1")
    for text, meaning in SYNTAX:
        assert str(parse(text)) not in ("", meaning)


def test_two_surrogates_that_make_one_sign_are_that_sign() -> None:
    assert parse('owner:"\\ud83d\\ude00"') == parse("owner:😀") == parse("owner:" + "\ud83d\ude00")
    assert whole("\ud83d\ude00") == "😀"
