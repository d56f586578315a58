"""Searches: what is found, in which order, and how much has to be read for it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from filters import paths, populate, trees
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from injected import Clock

from queue_core import Item, Queue, open_queue
from queue_core.query import EVERYTHING, Expression, Facts, Search, parse, search, searching
from queue_core.query.expression import Compare, Match, Within, highest, named
from queue_core.query.expression import given as reduced
from queue_core.query.words import Pattern
from queue_core.stores.base import PIECE, Found, Reader
from queue_core.task import State, id_text

MINUTE = 60_000_000


@contextmanager
def reading(queue: Queue) -> Iterator[Reader]:
    """The store's own reader, whose pages are counted by no one."""
    with queue._store.view() as reader:
        yield reader


def names(found: list[Found]) -> list[str]:
    return [id_text(task.record.id) for task in found]


def one_by_one(reader: Reader, expression: Expression, states: Any = State) -> list[str]:
    """What matches, without any index: every task of every state is looked at."""
    found = []
    for state in (state for state in State if state in states):
        after: str | None = None
        while True:
            page, after, _ = reader.page(state, None, after, 3, False)
            found += [task for task in page if expression.matches(Facts(task, reader.now))]
            if after is None:
                break
    return names(found)


@pytest.fixture(params=["memory://", "lmdb://{}/queue", "files://{}/queue"])
def filled(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Queue]:
    options: dict[str, Any] = {"durability": "none"} if "memory" not in request.param else {}
    with open_queue(request.param.format(tmp_path), clock=clock, **options) as queue:
        populate(queue, clock.advance)
        yield queue
        assert queue.check() == []


@contextmanager
def populated() -> Iterator[tuple[Queue, Reader]]:
    clock = Clock()
    with open_queue("memory://", clock=clock) as queue:
        populate(queue, clock.advance)
        for minutes in range(1, 7):
            queue.push(minutes, tag="acme" if minutes % 2 else "b", delay=minutes * 600)
            queue.push(minutes, tag="b" if minutes % 2 else "acme")
            assert queue.lease(ttl=minutes * 300)
        clock.advance(-200)
        with reading(queue) as reader:
            yield queue, reader
        assert queue.check() == []


with populated() as (_, _reader):
    KNOWN = [task for state in State for task in _reader.page(state, None, None, 100, False)[0]]
GROUPS = sorted({task.record.group.hex() for task in KNOWN if task.record.group})

near_names = (
    st.builds(Match, st.just("tag"), st.sampled_from(["acme", "acme-2", "b", "", "gone"]).map(Pattern))
    | st.just(Match("tag", Pattern("acme", after=True)))
    | st.builds(Match, st.just("state"), st.sampled_from(State).map(lambda state: Pattern(str(state))))
    | st.builds(Match, st.just("group"), st.sampled_from([*GROUPS, "00" * 8]).map(Pattern))
    | st.builds(Match, st.sampled_from(["group", "reason", "owner", "error"]), st.just(Pattern("", True, True)))
)
SIGNS = st.sampled_from(["<", "<=", ">", ">=", "="])
SPANS = st.integers(-90, 90).map(lambda n: n * MINUTE)
ordered = st.builds(Compare, st.sampled_from(["due", "expires"]), SIGNS, SPANS)
near_numbers = ordered | st.builds(Compare, st.sampled_from(["age", "silence"]), SIGNS, SPANS)
leaves: st.SearchStrategy[Expression] = (
    near_names | near_numbers | st.builds(Within, paths, st.just("="), st.just(Pattern("42")), st.booleans())
)


@pytest.mark.parametrize(
    ("where", "tags", "top"),
    [
        ("due<2m", None, 2),
        ("due=2m tag:a", {"a"}, 2),
        ("due>2m -tag:a", None, None),
        ("due<2m OR due<=5m", None, 5),
        ("due<2m OR tag:a", None, None),
        ("due<2m due<=5m", None, 2),
        ("(due<2m OR due<7m) (due<5m OR due>1m)", None, 7),
        ("(tag:a OR tag:b) (tag:b OR tag:c)", {"b"}, None),
        ("tag:a due<1m OR tag:b due<3m", {"a", "b"}, 3),
        ("tag:a OR tag:b*", None, None),
        ("tag:a tag:b", set(), None),
    ],
)
def test_bounds_are_read_off_a_filter(where: str, tags: set[str] | None, top: int | None) -> None:
    assert named(parse(where), "tag") == tags
    assert highest(parse(where), "due") == (None if top is None else top * MINUTE)


@given(trees(ordered, 4) | trees(leaves, 6), st.sampled_from(KNOWN), SPANS)
@settings(max_examples=1_000, deadline=None)
def test_what_is_known_without_a_task_is_true_of_each_that_matches(
    expression: Expression, found: Found, later: int
) -> None:
    facts = Facts(found, Clock().now + 12 * 60 * MINUTE + later)
    state = str(found.record.state)
    left = reduced(expression, {"state": state})
    assert left.matches(facts) == expression.matches(facts)
    assert reduced(left, {"state": state, "tag": found.tag}).matches(facts) == expression.matches(facts)
    if expression.matches(facts):
        for name, value in (("due", facts.due), ("expires", facts.expires)):
            top = highest(left, name)
            assert top is None or value is None or value <= top
        for name, text in (("tag", found.tag), ("state", state), ("group", facts.group)):
            values = named(left, name)
            assert values is None or text in values


@given(
    expression=trees(leaves, 8),
    ids=st.lists(st.integers(0, 23), max_size=2),
    chosen=st.sets(st.sampled_from(State)),
)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_search_finds_what_matches_in_the_order_of_the_pages(
    expression: Expression, ids: list[int], chosen: set[State]
) -> None:
    with populated() as (_, reader), pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "PIECE", 2)  # many pages of a few tasks
        patch.setattr(searching, "_SMALLEST", 1)
        tasks = [task for state in State for task in reader.page(state, None, None, 100, False)[0]]
        by_id = " OR ".join(f"id:{id_text(tasks[number].record.id)}" for number in ids)
        if by_id:
            expression = parse(f"({expression}) ({by_id})" if str(expression) else by_id)
        for states in (State, chosen):
            found = Search(reader, expression, states=states)
            assert names(list(found)) == one_by_one(reader, expression, states)
            assert found.found <= found.scanned <= found.total
            assert found.explain()


@pytest.mark.parametrize(
    ("where", "uses"),
    [
        ("state:dead", ["reads 5 dead letters"]),
        ("state:dead tag:acme", ["reads 3 dead letters of tag acme"]),
        ("state:dead (tag:acme OR tag:acme-2)", ["reads 4 dead letters of 2 tags"]),
        ("state:dead -tag:acme", ["scans 5 dead letters"]),
        ("state:dead tag:acme timeout", ["scans 3 dead letters of tag acme"]),
        ("state:dead tag:gone", ["reads 0 dead letters of tag gone"]),
        ("tag:acme tag:b", ["nothing can match"]),
        ("state:dead (tag:acme OR tag:acme-2) (tag:b OR tag:acme)", ["reads 3 dead letters of tag acme"]),
        ("state:dead (tag:acme OR tag:acme-2) -tag:acme", ["reads 1 dead letter of tag acme-2"]),
        ("state:dead state:trash", ["nothing can match"]),
        ("(tag:acme timeout) OR (tag:b state:dead)", [
            "scans 1 pending task of tag acme",
            "scans 0 scheduled tasks of tag acme", "scans 1 task in flight of tag acme",
            "scans 3 dead letters of 2 tags", "scans 1 task in the trash of tag acme"]),
        ("reason:x", ["scans 5 dead letters", "scans 2 tasks in the trash"]),
        ("silence>1m", ["scans 1 task in flight"]),
        ("due<1h", ["scans at most 2 scheduled tasks, in the order of due, up to the bound"]),
        ("due>1h", ["scans 2 scheduled tasks"]),
        ("", ["reads 2 pending tasks", "reads 2 scheduled tasks", "reads 1 task in flight", "reads 5 dead letters",
              "reads 2 tasks in the trash"]),
        ("state:dead OR tag:acme -state:dead", [
            "reads 1 pending task of tag acme", "reads 0 scheduled tasks of tag acme",
            "reads 1 task in flight of tag acme", "reads 5 dead letters", "reads 1 task in the trash of tag acme"]),
    ],
)  # fmt: skip
def test_a_search_says_what_it_reads(filled: Queue, where: str, uses: list[str]) -> None:
    with reading(filled) as reader:
        found = search(reader, where)
        assert list(found.uses) == uses
        assert found.indexed == all("reads" in use or "nothing" in use for use in uses)
        assert found.explain() == ("; ".join(uses))[0].upper() + "; ".join(uses)[1:]
        assert found.total == sum(int(number) for use in uses for number in re.findall(r"(\d+) (?!tags)", use))
        assert names(list(found)) == one_by_one(reader, parse(where))


def test_an_error_group_is_read_from_its_index_where_there_is_one(filled: Queue) -> None:
    with reading(filled) as reader:
        dead = list(search(reader, "state:dead"))
        mark = next(task.record.group.hex() for task in dead if "30 s" in (task.record.error or ""))
        found = search(reader, f"group:{mark} state:dead")
        kept = filled.capabilities.plans
        assert found.uses == ((f"reads 2 dead letters of error group {mark}",) if kept else ("scans 5 dead letters",))
        assert names(list(found)) == names(dead[:2])
        found = search(reader, f"group:{mark} tag:acme-2 state:dead")
        assert found.uses == ("scans 1 dead letter of tag acme-2",)
        assert names(list(found)) == names(dead[1:2])
        assert names(list(search(reader, f"group:{mark}"))) == names(dead[:2])
        assert names(list(search(reader, f"group:{mark} OR group:{dead[2].record.group.hex()}"))) == names(dead[:3])


def test_ids_are_read_one_by_one(filled: Queue) -> None:
    with reading(filled) as reader:
        dead = list(search(reader, "state:dead"))
        where = " OR ".join(f"id:{id}" for id in [*reversed(names(dead)), "00000000-0000-0000-0000-000000000000"])
        found = search(reader, f"({where}) -tag:acme-2")
        assert (found.uses, found.total, found.indexed) == (("reads 6 tasks by id",), 6, False)
        assert names(list(found)) == [id for task, id in zip(dead, names(dead), strict=True) if task.tag != "acme-2"]
        assert list(search(reader, where, states=[State.TRASH])) == []
        assert search(reader, f"id:{names(dead)[0]}").explain() == "Reads 1 task by id"


@pytest.fixture
def many(queue: Queue, clock: Clock) -> Queue:
    """2,500 dead letters of three tags in turn, and as many scheduled, a second apart."""
    tasks = queue.push_many([(i, "abc"[i % 3]) for i in range(2_500)])
    for i, task in enumerate(tasks):
        clock.advance(-1 if i % 100 == 0 else 1)
        queue.dead_letter(task.id, "boom" if i % 5 else "bang")
    for i in range(2_500):
        queue.push(i, tag="abc"[i % 3], delay=100 + i)
    return queue


def payloads(found: Search | list[Found]) -> list[int]:
    return [int(task.record.payload) for task in found]


def test_tags_side_by_side_keep_the_order_of_the_deaths(many: Queue) -> None:
    with reading(many) as reader:
        found = search(reader, "state:dead (tag:a OR tag:c)")
        assert payloads(found) == [i for i in range(2_500) if i % 3 != 1]
        assert (found.scanned, found.found, found.total) == (1_667, 1_667, 1_667)
        assert found.indexed
        found = search(reader, "state:dead (tag:a OR tag:c) bang")
        assert payloads(found) == []
        found = search(reader, "state:dead (tag:a reason:bang OR tag:c reason:boom)")
        assert payloads(found) == [i for i in range(2_500) if (i % 3 == 0) == (i % 5 == 0) and i % 3 != 1]
        marks = {task.record.group.hex() for task in search(reader, "state:dead tag:a")}
        assert payloads(search(reader, "state:dead (" + " OR ".join(f"group:{mark}" for mark in marks) + ")")) == list(
            range(2_500)
        )


def test_ages_of_deaths_are_right_though_the_clock_was_set_back(many: Queue, clock: Clock) -> None:
    with reading(many) as reader:
        for seconds in (1, 100, 1_000, 2_000):
            expression = parse(f"state:dead age>={seconds}s")
            found = Search(reader, expression)
            assert names(list(found)) == one_by_one(reader, expression)
            assert 0 < found.found < 2_500 == found.scanned


def test_due_times_end_the_reading_early(many: Queue) -> None:
    with reading(many) as reader:
        found = search(reader, "due<=150s")
        assert payloads(found) == list(range(51))
        assert found.scanned == PIECE
        found = search(reader, "due<=150s tag:b OR due<=90s tag:c")
        assert payloads(found) == [i for i in range(51) if i % 3 == 1]
        assert found.scanned < 1_500
        found = search(reader, "state:scheduled (due<=150s OR tag:b)")
        assert len(list(found)) == found.found > 800


def test_tasks_that_are_due_at_one_time_are_all_found(many: Queue) -> None:
    many.push_many([Item(i, tag="d", delay=10_000) for i in range(2 * PIECE + 1)])
    with reading(many) as reader:
        for where in ("due<=10000s tag:d", "due=10000s", "due<10000.000001s due>3000s"):
            assert payloads(search(reader, where)) == list(range(2 * PIECE + 1))
        assert payloads(search(reader, "due<10000s tag:d")) == []


def test_a_search_can_be_watched_and_stopped_after_any_page(many: Queue) -> None:
    with reading(many) as reader:
        found = search(reader, "state:dead reason:bang")
        seen = []
        for page in found.pages():
            seen.append((found.scanned, len(page), found.found))
            if found.scanned >= 2 * PIECE:
                found.stop()
        assert seen == [(1_000, 200, 200), (2_000, 200, 400)]
        assert found.stopped
        assert found.total == 2_500
        nothing = search(reader, "state:dead reason:never")
        assert [len(page) for page in nothing.pages()] == [0, 0, 0]


def test_an_index_that_answers_the_filter_leaves_nothing_to_match(many: Queue) -> None:
    class Refusing:
        def value(self, payload: Any) -> Any:
            raise AssertionError("a payload was looked at")

        def text(self, text: str) -> str:
            raise AssertionError("a text was looked at")

    with reading(many) as reader:
        for where in ("state:dead", "state:dead tag:b", "state:dead (tag:b OR error:*) tag:b", ""):
            assert len(list(search(reader, where, mask=Refusing()))) > 800
        with pytest.raises(AssertionError, match="a text was looked at"):
            list(search(reader, "state:dead reason:boom", mask=Refusing()))


def test_an_empty_queue_has_nothing_to_find(queue: Queue) -> None:
    with reading(queue) as reader:
        for where in ("", "tag:x", "state:dead", "group:" + "0" * 16, "id:" + "0" * 32, "-tag:x", "payload.a:1"):
            found = search(reader, where)
            assert list(found) == []
            assert (found.scanned, found.found, found.total - where.startswith("id:")) == (0, 0, 0)
        assert Search(reader, EVERYTHING, states=[]).uses == ("nothing can match",)
