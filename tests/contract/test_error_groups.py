"""Error groups on every store: what makes a death, what joins and leaves a group, and how it is read."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from changing import dead, edit, group, held, move
from drive import Open, lease

from queue_core import InvalidArgument, Item, Queue, State, Task
from queue_core.groups import SAMPLE_KEPT, TEXT_KEPT, cause, normalised
from queue_core.task import clean_text, id_text, parse_id

# --- how a task dies


def nack(queue: Queue, clock: Any) -> str:
    dead(queue, "boom 1\nmore")
    return "boom <n>"


def expiry(queue: Queue, clock: Any) -> str:
    queue.push("x", max_attempts=1)
    lease(queue, ttl=1)
    clock.advance(2)
    assert queue.lease() is None
    return "lease expired with no attempts left"


def recovery(queue: Queue, clock: Any) -> str:
    queue.push("x", max_attempts=1)
    lease(queue)
    assert queue.requeue_inflight() == 1
    return "lease expired with no attempts left"


def by_id(queue: Queue, clock: Any) -> str:
    queue.dead_letter(queue.push("x").id, "no customer 17")
    return "no customer <n>"


def by_lease(queue: Queue, clock: Any) -> str:
    queue.push("x")
    queue.dead_letter(lease(queue), ValueError("bad"))
    return "ValueError: bad"


def by_recovery(queue: Queue, clock: Any) -> str:
    queue.push("x")
    lease(queue)
    assert queue.dead_letter_inflight(older_than=clock.at(), reason="host down") == 1
    return "host down"


def with_no_reason(queue: Queue, clock: Any) -> str:
    queue.dead_letter(queue.push("x").id, "")
    return ""


def odd(queue: Queue, clock: Any) -> str:
    error = "\0\ud800🙂 5 " + "é" * 100_000
    dead(queue, error)
    return normalised(clean_text(error))[:TEXT_KEPT]


DEATHS = [nack, expiry, recovery, by_id, by_lease, by_recovery, with_no_reason, odd]


@pytest.mark.parametrize("die", DEATHS)
def test_a_death_makes_a_group_and_another_joins_it(queue: Queue, clock: Any, die: Callable[[Queue, Any], str]) -> None:
    began = clock()
    text = die(queue, clock)
    (found,) = queue.groups()
    (task,) = queue.tasks("dead")
    assert (found.text, found.count, found.tags, found.deaths) == (text, 1, 1, 1)
    assert found.first == found.last == task.record.entered >= began
    assert found.sample == parse_id(task.id)
    assert found.error == cause(task.record)[:SAMPLE_KEPT]
    assert found.fingerprint == task.record.group
    clock.advance(60)
    assert die(queue, clock) == text
    (again,) = queue.groups()
    assert (again.count, again.tags, again.deaths, again.first) == (2, 1, 2, found.first)
    assert again.last >= found.last + 60_000_000
    assert again.sample == parse_id(queue.tasks("dead", reverse=True).items[0].id) != found.sample
    assert held(queue) == {text: 2}


class Readable:
    """A serializer that cannot read what another has written."""

    def dump(self, payload: Any) -> Any:
        return payload

    def load(self, value: Any) -> Any:
        raise ValueError(f"not readable: {value}")


def test_a_payload_that_does_not_decode_is_a_death_at_the_lease(opened: Open) -> None:
    queue = opened(serializer=Readable())
    queue.push_many([17, 18])
    assert queue.lease() is None
    assert held(queue) == {"payload does not decode: ValueError: not readable: <n>": 2}


def test_errors_that_say_the_same_are_one_group_over_all_tags(queue: Queue) -> None:
    for tag, error in [
        ("a", "timeout after 30 s"),
        ("b", "timeout after 5 s"),
        ("a", "timeout after 1 s"),
        ("c", "no"),
    ]:
        dead(queue, error, tag=tag)
    assert held(queue) == {"timeout after <n> s": 3, "no": 1}
    first, second = queue.groups()
    assert (first.text, first.tags, second.text, second.tags) == ("timeout after <n> s", 2, "no", 1)
    with queue.view() as view:
        assert view.group_tags(first.fingerprint.hex()) == {"a": 2, "b": 1}
        assert view.group_tags("00" * 8) == {}


def test_a_group_counts_the_deaths_of_every_cycle(queue: Queue) -> None:
    """The same task dies again and again; with each cause it is in one group at a time."""
    id = dead(queue, "first")
    for number in range(3):
        queue.redrive(id)
        queue.nack(lease(queue), "again", retry_in=0)
        assert held(queue) == {"again": 1}, number
    queue.redrive(id)
    queue.dead_letter(id, "first")
    assert held(queue) == {"first": 1}


# --- how it leaves


def push_again(queue: Queue, id: str) -> None:
    queue.push("new", tag="a", id=id)


EXITS: dict[str, Callable[[Queue, str], object]] = {
    "redrive": lambda queue, id: queue.redrive(id),
    "purge": lambda queue, id: queue.purge(id),
    "push_again": push_again,
    "retention": lambda queue, _: queue.configure(dead_retention=0),
}


@pytest.mark.parametrize("leave", EXITS.values(), ids=EXITS)
def test_every_exit_of_a_dead_letter_leaves_its_group(
    queue: Queue, clock: Any, leave: Callable[[Queue, str], object]
) -> None:
    stays = dead(queue, "other", tag="b") if leave is not EXITS["retention"] else None
    clock.advance(1)
    id = dead(queue, "boom")
    clock.advance(1)
    leave(queue, id)
    clock.advance(1)
    queue.configure()  # a commit, for the retention
    assert held(queue) == ({"other": 1} if stays else {})
    if queue.capabilities.plans:
        left = group(queue, "boom")
        assert (left.count, left.tags, left.deaths, left.sample) == (0, 0, 1, parse_id(id))


STAYS: dict[str, Callable[[Queue, str], object]] = {
    "replace": lambda queue, id: queue.replace(queue.get(id), payload="new"),
    "edit": lambda queue, id: edit(queue, id, b"7"),
    "look": lambda queue, id: [queue.get(id), queue.tasks("dead"), queue.groups()],
}


@pytest.mark.parametrize("change", STAYS.values(), ids=STAYS)
def test_what_does_not_move_it_leaves_the_group_as_it_is(queue: Queue, change: Callable[[Queue, str], object]) -> None:
    id = dead(queue, "boom")
    before = queue.groups()
    change(queue, id)
    assert queue.groups() == before


def test_another_tag_takes_it_along_and_its_group_counts_the_tags_anew(queue: Queue) -> None:
    ids = [dead(queue, "boom"), dead(queue, "boom")]
    move(queue, ids[0], "b")
    assert (group(queue, "boom").count, group(queue, "boom").tags, group(queue, "boom").deaths) == (2, 2, 2)
    move(queue, ids[1], "b")
    assert (held(queue), group(queue, "boom").tags) == ({"boom": 2}, 1)


def test_trash_is_in_no_group_and_going_from_there_changes_none(queue: Queue) -> None:
    ids = [dead(queue, "boom"), dead(queue, "boom"), queue.push("x").id]
    queue.purge(ids[0])
    queue.cancel(ids[2])
    assert held(queue) == {"boom": 1}
    before = queue.groups()
    queue.expunge(ids[0])
    queue.restore(ids[2])
    assert queue.groups() == before


def test_restore_brings_a_dead_letter_back_without_a_new_death(queue: Queue, clock: Any) -> None:
    id = dead(queue, "boom 1")
    died = group(queue, "boom <n>")
    clock.advance(60)
    queue.purge(id)
    assert held(queue) == {}
    clock.advance(60)
    assert queue.restore(id).state == State.DEAD
    back = group(queue, "boom <n>")
    assert (back.count, back.tags, back.deaths, back.sample) == (1, 1, 1, parse_id(id))
    if queue.capabilities.plans:
        assert back == died


# --- reading


def test_a_group_is_read_in_pages_by_entry(queue: Queue) -> None:
    ids = [dead(queue, f"boom {n}", tag="ab"[n % 2]) if n % 3 else dead(queue, "other") for n in range(20)]
    booms = [id for n, id in enumerate(ids) if n % 3]
    queue.purge(booms[0])
    queue.restore(booms[0])
    booms.append(booms.pop(0))
    move(queue, booms[2], "c")
    mark = group(queue, "boom <n>").fingerprint
    for limit in (1, 2, 5, 13, 14, 100):
        with queue.view() as view:
            pages = [view.reader.grouped(mark, None, limit)]
            while (after := pages[-1][1]) is not None:
                pages.append(view.reader.grouped(mark, after, limit))
        assert [id_text(one.record.id) for page, _ in pages for one in page] == booms
        assert len(pages) == -(-len(booms) // limit)
    with queue.view() as view:
        assert view.reader.grouped(bytes(8), None, 10) == ([], None)


@pytest.mark.parametrize("after", ["", "x", "-1", "1" + "0" * 16, "ffffffffffffffff", "1-1", "🙂", "9" * 5_000])
def test_a_foreign_place_in_a_group_is_refused(queue: Queue, after: str) -> None:
    dead(queue, "boom")
    mark = group(queue, "boom").fingerprint
    with queue.view() as view, pytest.raises(InvalidArgument, match="is not the `next` of a page"):
        view.reader.grouped(mark, after, 10)


def test_groups_come_with_the_largest_first(queue: Queue, clock: Any) -> None:
    for error in ("a", "b", "b", "c", "d", "c", "c"):
        clock.advance(1)
        dead(queue, error)
    assert [(found.text, found.count) for found in queue.groups()] == [("c", 3), ("b", 2), ("d", 1), ("a", 1)]


def test_a_retention_empties_many_groups_in_one_commit(queue: Queue, clock: Any) -> None:
    words = [f"{one}{other}" for one in "abcdef" for other in "ghijkl"]
    tasks = queue.push_many([Item(word, tag=word[1]) for word in words])
    for task in tasks:
        queue.dead_letter(task.id, task.payload)
    assert held(queue) == dict.fromkeys(words, 1)
    queue.configure(dead_retention=0)
    clock.advance(1)
    queue.configure()
    assert held(queue) == {}


def test_deaths_of_many_threads_are_all_counted(queue: Queue) -> None:
    parts = [queue.push_many([Item(n, tag="ab"[n % 2]) for n in range(20)]) for _ in range(4)]

    def work(tasks: list[Task]) -> None:
        for number, task in enumerate(tasks):
            queue.dead_letter(task.id, f"{('boom', 'no', 'gone')[number % 3]} {task.id}")
            if number % 5 == 0:
                queue.redrive(task.id)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, parts))
    assert held(queue) == {"boom <id>": 20, "no <id>": 24, "gone <id>": 20}
    if queue.capabilities.plans:
        assert sum(found.deaths for found in queue.groups()) == 80
