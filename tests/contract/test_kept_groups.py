"""Error groups of stores that keep them: what is no death, resolved and open again, and how many there may be."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from changing import adopt, dead, group, held, move
from planned import ENTRY, control, planned, to_the_end, undone

from queue_core import Conflict, Queue, State, open_queue
from queue_core.groups import OTHERS_TEXT, Group
from queue_core.stores.engine import moves
from queue_core.task import parse_id


@pytest.fixture
def elsewhere(clock: Callable[[], int]) -> Iterator[Queue]:
    """Another store."""
    with open_queue("memory://", clock=clock) as queue:
        yield queue
        assert queue.check() == []


def test_what_comes_from_elsewhere_is_counted(queue: Queue, elsewhere: Queue) -> None:
    dead(queue, "boom 0")
    found = [elsewhere.get(dead(elsewhere, f"boom {n}", tag=tag)) for n, tag in enumerate("aab")]
    assert adopt(queue, *found) == [None, None, None]
    assert adopt(queue, found[1]) == ["a task of this id is here already: it is dead"]
    assert held(queue) == {"boom <n>": 4}
    assert group(queue, "boom <n>").tags == 2


@pytest.mark.needs("plans")
def test_what_comes_from_elsewhere_is_no_death_and_shows_what_is_known(
    queue: Queue, elsewhere: Queue, clock: Any
) -> None:
    died = [elsewhere.get(dead(elsewhere, error)) for error in ("boom 1", "gone 1")]
    clock.advance(60)
    purged = elsewhere.purge(died[1].id)
    adopt(queue, died[0], purged)
    (found,) = queue.groups()
    at = died[0].record.entered
    assert (found.text, found.count, found.deaths, found.first, found.last) == ("boom <n>", 1, 0, at, at)
    assert (found.sample, found.error) == (parse_id(died[0].id), "boom 1")
    assert queue.get(purged.id).record.group == died[1].record.group
    assert queue.restore(purged.id).state == State.DEAD
    assert (group(queue, "gone <n>").deaths, group(queue, "gone <n>").error) == (0, "gone 1")
    clock.advance(60)
    dead(queue, "boom 2")
    assert (group(queue, "boom <n>").deaths, group(queue, "boom <n>").first) == (1, at)
    assert group(queue, "boom <n>").last == clock()


@pytest.mark.needs("plans")
def test_an_undo_of_a_redrive_is_no_death(queue: Queue, clock: Any) -> None:
    ids = [dead(queue, "boom 1"), dead(queue, "boom 2", tag="b")]
    before = queue.groups()
    clock.advance(60)
    plan = planned(queue, "redrive", *ids)
    assert held(queue) == {}
    assert to_the_end(queue, undone(queue, plan.number).number).moved == 2
    assert queue.groups() == before


def resolve(queue: Queue, text: str, by: str | None = "ann") -> Group:
    mark = group(queue, text).fingerprint
    return control(queue, lambda c: c.resolve(mark, by, ENTRY))


@pytest.mark.needs("plans")
def test_a_resolved_group_is_reopened_by_a_death_and_by_nothing_else(
    queue: Queue, elsewhere: Queue, clock: Any
) -> None:
    ids = [dead(queue, "boom"), dead(queue, "boom")]
    clock.advance(5)
    done = resolve(queue, "boom")
    assert (done.resolved, done.resolved_by, done.reopened) == (clock(), "ann", 0)
    assert group(queue, "boom") == done
    clock.advance(5)
    queue.purge(ids[0])
    queue.restore(ids[0])
    move(queue, ids[0], "b")
    plan = planned(queue, "redrive", *ids)
    to_the_end(queue, undone(queue, plan.number).number)
    adopt(queue, elsewhere.get(dead(elsewhere, "boom")))
    dead(queue, "another")
    assert (group(queue, "boom").resolved, group(queue, "boom").count) == (done.resolved, 3)
    clock.advance(5)
    dead(queue, "boom")
    open_again = group(queue, "boom")
    assert (open_again.resolved, open_again.resolved_by, open_again.reopened) == (0, "", clock())
    dead(queue, "boom")
    assert group(queue, "boom").reopened == open_again.reopened


@pytest.mark.needs("plans")
def test_a_group_may_be_resolved_without_dead_letters_and_opened_by_hand(queue: Queue, clock: Any) -> None:
    queue.redrive(dead(queue, "boom"))
    assert resolve(queue, "boom").resolved_by == "ann"
    assert (resolve(queue, "boom", None).resolved, group(queue, "boom").reopened) == (0, 0)
    with pytest.raises(Conflict, match="there is no error group 0102030405060708"):
        control(queue, lambda c: c.resolve(bytes(range(1, 9)), "ann", ENTRY))
    assert [entry.count for entry in queue.audit()] == [0, 0]


# --- how many there may be


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """No more than three groups with texts of their own."""
    monkeypatch.setattr(moves, "GROUP_LIMIT", 3)
    return 3


@pytest.mark.needs("plans")
def test_above_the_limit_new_errors_share_one_group(queue: Queue, clock: Any, few: int) -> None:
    ids = {error: dead(queue, error) for error in ("one", "two", "three", "four", "five", "one")}
    clock.advance(3600)
    ids["six"] = dead(queue, "six", tag="b")
    assert held(queue) == {"one": 2, "two": 1, "three": 1, OTHERS_TEXT: 3}
    others = group(queue, OTHERS_TEXT)
    assert (others.tags, others.deaths, others.error, others.sample) == (2, 3, "six", parse_id(ids["six"]))
    assert queue.get(ids["four"]).record.group == others.fingerprint
    queue.purge(ids["four"])
    queue.restore(ids["four"])
    queue.redrive(ids["five"])
    assert held(queue) == {"one": 2, "two": 1, "three": 1, OTHERS_TEXT: 2}


@pytest.mark.needs("plans")
def test_groups_that_have_become_empty_make_room(queue: Queue, clock: Any, few: int) -> None:
    """Half of them, those that were seen longest ago."""
    for error in ("one", "two", "three"):
        queue.purge(dead(queue, error))
        clock.advance(1)
    queue.restore(queue.tasks("trash").items[2].id)
    dead(queue, "four")
    assert {found.text for found in queue.groups()} == {"two", "three", "four"}
    queue.restore(queue.tasks("trash").items[0].id)
    assert held(queue) == {"one": 1, "three": 1, "four": 1}
    assert group(queue, "one").deaths == 0


@pytest.mark.needs("plans")
def test_in_a_storm_of_new_errors_room_is_looked_for_once_a_minute(
    queue: Queue, clock: Any, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [dead(queue, error) for error in ("one", "two", "three", "four")]
    for id in ids:
        queue.purge(id)
    dead(queue, "five")
    assert held(queue) == {OTHERS_TEXT: 1}
    clock.advance(60)
    dead(queue, "six")
    assert held(queue) == {OTHERS_TEXT: 1, "six": 1}
    queue.purge(queue.tasks("dead").items[0].id)
    for error in ("seven", "eight", "nine", "ten"):
        clock.advance(61)
        dead(queue, error)
    assert held(queue) == {"six": 1, "seven": 1, "eight": 1, OTHERS_TEXT: 2}
    assert len(queue.groups()) == few + 1
