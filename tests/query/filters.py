"""Filters and tasks that the tests of the query package share."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from queue_core import Queue
from queue_core.query import EVERYTHING, both, quote
from queue_core.query.expression import (
    NUMBER,
    Compare,
    Expression,
    Match,
    Path,
    Within,
    either,
    negated,
    spelled,
)
from queue_core.query.facts import MISSING
from queue_core.query.fields import FIELDS, Kind
from queue_core.query.words import Pattern
from queue_core.task import State

DAY = 86_400_000_000


def whole(text: str) -> str:
    """Two surrogates that make one sign are that sign."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


ANY = st.text(st.characters(), max_size=20).map(whole)  # lone surrogates, NUL, anything
TEXT = st.text(max_size=20)
SIGNS = st.sampled_from(["OR", "AND", "NOT", "-", "*", '"', "\\", "(", ")", ":", "a b", "tag:x", "", "42", "true", "é"])
WORDS = ANY | SIGNS


@st.composite
def patterns(draw: st.DrawFn, text: st.SearchStrategy[str] = WORDS) -> Pattern:
    return Pattern(draw(text), draw(st.booleans()), draw(st.booleans()))


def _id(value: UUID, cut: int) -> Pattern:
    return Pattern(str(value)) if cut == 32 else Pattern(str(value)[: cut + cut // 5].rstrip("-") or "0", after=True)


names = (
    st.builds(Match, st.just("tag"), patterns(TEXT | SIGNS))
    | st.builds(Match, st.sampled_from(["owner", "dedupe"]), patterns())
    | st.builds(Match, st.just("state"), st.sampled_from(State).map(lambda state: Pattern(str(state))))
    | st.builds(Match, st.just("id"), st.builds(_id, st.uuids(), st.sampled_from([1, 7, 20, 32])))
    | st.builds(Match, st.just("group"), st.binary(min_size=8, max_size=8).map(lambda mark: Pattern(mark.hex())))
    | st.builds(Match, st.sampled_from(list(FIELDS)), st.just(Pattern("", True, True))).filter(
        lambda term: FIELDS[term.field].kind in (Kind.NAME, Kind.TEXT)
    )
)
texts = st.builds(Match, st.sampled_from(["error", "reason"]), patterns()) | st.builds(
    lambda text: Match("payload", Pattern(text, True, True)), WORDS
)
NUMBERS = {
    Kind.COUNT: st.integers(0, 10**30 - 1) | st.integers(0, 3),
    Kind.SIZE: st.integers(0, 10**30 - 1) | st.integers(0, 3_000_000) | st.integers(0, 99).map(lambda n: n * 1024),
    Kind.SPAN: st.integers(-(10**9) * DAY, 10**9 * DAY) | st.integers(-100, 100).map(lambda n: n * 60_000_000),
}
SIGN = st.sampled_from(["=", "<", "<=", ">", ">="])
comparisons = st.sampled_from([field for field in FIELDS.values() if field.kind in NUMBERS]).flatmap(
    lambda field: st.builds(Compare, st.just(field.name), SIGN, NUMBERS[field.kind])
)
paths = st.lists(WORDS | st.integers(0, 999_999_999) | st.none(), max_size=4).map(tuple)


@st.composite
def within(draw: st.DrawFn) -> Within:
    path: Path = draw(paths)
    sign = draw(SIGN)
    pattern = draw(patterns()) if sign == "=" else Pattern(draw(WORDS | st.floats(allow_nan=False).map(str)))
    literal = not (NUMBER.fullmatch(pattern.text) and spelled(pattern.text) is MISSING)
    able = pattern.exact and quote(pattern.text) == pattern.text and literal
    return Within(path, sign, pattern, able and draw(st.booleans()))


terms: st.SearchStrategy[Expression] = names | texts | comparisons | within()


def trees(leaves: st.SearchStrategy[Expression], most: int = 20) -> st.SearchStrategy[Expression]:
    """Expressions over these terms."""
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(both, st.lists(inner, min_size=2, max_size=4))
            | st.builds(either, st.lists(inner, min_size=2, max_size=4))
            | st.builds(negated, inner)
        ),
        max_leaves=most,
    )


expressions = trees(terms) | st.just(EVERYTHING)


# --- tasks ----------------------------------------------------------------------------------------

PAYLOADS: dict[str, Any] = {
    "number": {"user": {"id": 42, "name": "Ann"}, "n": 2**70, "items": [{"sku": "x"}, {"sku": "y"}]},
    "text": {"user": {"id": "42", "name": "Bob"}, "n": "x", "day": "2026-11-02", "none": None},
    "odd": {"a.b": {"c": 1.5}, "user": {"id": 420}, 'say "é"\n\x00😀': True, "lone": "\ud800"},
    "list": [1, [2, 3], {"k": False}],
    "scalar": 42,
    "empty": "",
}


def populate(queue: Queue, advance: Callable[[float], None]) -> dict[str, str]:
    """A task of each kind, each with a name; name -> id. An hour passes between them."""
    ids: dict[str, str] = {}

    def push(name: str, tag: str, payload: str, **options: Any) -> str:
        advance(3600)
        ids[name] = queue.push(PAYLOADS[payload], tag=tag, **options).id
        return ids[name]

    def lease(owner: str) -> Any:
        held = queue.lease(owner=owner, ttl=60)
        assert held is not None
        return held

    for name, tag, payload, error in (
        ("timed out", "acme", "number", "TimeoutError: Read timed out after 30 s"),
        ("timed out too", "acme-2", "odd", "TimeoutError: Read timed out after 31 s"),
        ("straße", "acme", "text", 'Fehler: STRASSE "x" (é)\n😀'),
    ):
        push(name, tag, payload, max_attempts=1)
        queue.nack(lease(f"worker {name[0]}"), error)
    push("expired", "😀\n", "list", max_attempts=1)
    lease("w*")
    queue.requeue_inflight()
    push("given up", "acme", "scalar", dedupe_key="order-1")
    queue.dead_letter(ids["given up"], "Given up by hand")
    push("purged", "acme", "empty", max_attempts=1)
    queue.nack(lease("w"), "no route")
    queue.purge(ids["purged"])
    push("cancelled", "b", "empty")
    queue.cancel(ids["cancelled"])
    push("retried", "b", "number", max_attempts=9)
    queue.nack(lease("w"), "no route to host", retry_in=5 * 3600)
    push("later", "", "text", delay=86_400, dedupe_key="order*2")
    push("held", "acme", "number")
    lease("worker 9")
    push("waiting", "acme", "number")
    push("waiting too", "b", "odd")
    advance(120)
    return ids
