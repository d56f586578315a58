"""Reads that all viewers share, on a clock of the test's own."""

import threading
from dataclasses import dataclass
from weakref import ref

import pytest

from app import shared
from app.shared import Made, Shared


@dataclass
class Now:
    """What the clock says, and how much was computed so far, in seconds."""

    wall: float = 1_000.0
    computed: float = 0.0


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    moment = Now()
    monkeypatch.setattr(shared.time, "monotonic", lambda: moment.wall)
    monkeypatch.setattr(shared.time, "thread_time", lambda: moment.computed)
    return moment


def reader(now: Now, cost: float) -> tuple[list[float], "shared.Callable[[], float]"]:
    """A read that takes so much computing, and what was read so far."""
    found: list[float] = []

    def read() -> float:
        now.computed += cost
        found.append(now.wall)
        return now.wall

    return found, read


@pytest.mark.parametrize(("cost", "kept"), [(0.001, 1.5), (0.02, 2.0), (0.05, 5.0), (9.0, 15.0)])
def test_what_costs_more_is_kept_for_longer(now: Now, cost: float, kept: float) -> None:
    values: Shared[float] = Shared(4)
    found, read = reader(now, cost)
    assert values.get("a", read) == 1_000.0
    now.wall += kept - 0.01
    assert values.get("a", read) == 1_000.0
    now.wall += 0.02
    assert values.get("a", read) == now.wall
    assert len(found) == 2


def test_each_question_has_its_value_and_the_oldest_is_let_go(now: Now) -> None:
    values: Shared[str] = Shared(2)
    read: list[str] = []
    for asked in ("a", "b", "a", "c", "a", "b"):
        assert values.get(asked, lambda asked=asked: read.append(asked) or asked) == asked  # type: ignore[misc]
    assert read == ["a", "b", "c", "b"]


def test_cleared_it_is_read_anew(now: Now) -> None:
    values: Shared[float] = Shared(4)
    found, read = reader(now, 0.0)
    values.get("a", read)
    values.clear()
    values.get("a", read)
    assert len(found) == 2


def test_an_error_is_for_who_asked_and_not_kept(now: Now) -> None:
    values: Shared[float] = Shared(4)

    def fail() -> float:
        raise LookupError("not now")

    with pytest.raises(LookupError, match="not now"):
        values.get("a", fail)
    assert values.get("a", lambda: 7.0) == 7.0


def test_all_who_ask_at_once_wait_for_one_reading() -> None:
    values: Shared[int] = Shared(4)
    asked, go = threading.Barrier(9), threading.Event()
    found: list[int] = []
    readings: list[int] = []

    def read() -> int:
        assert go.wait(30)
        readings.append(1)
        return len(readings)

    def ask() -> None:
        asked.wait(30)
        found.append(values.get("a", read))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    asked.wait(30)
    go.set()
    for thread in threads:
        thread.join(30)
    assert found == [1] * 8


class Thing:
    """A value, or what is made of one."""


def test_what_is_made_of_a_value_is_made_once_for_each_and_goes_with_it() -> None:
    made: Made[Thing] = Made()
    value, other = Thing(), Thing()
    ring = made.get(value, "ring", Thing)
    assert made.get(value, "ring", Thing) is ring
    assert made.get(value, "gaps", Thing) is not ring
    assert made.get(other, "ring", Thing) is not ring
    kept = ref(ring)
    del value, ring
    assert kept() is None


def test_a_value_that_is_gone_is_not_taken_for_the_next_in_its_place() -> None:
    made: Made[int] = Made()
    seen = [made.get(Thing(), "number", lambda number=number: number) for number in range(50)]  # type: ignore[misc]
    assert seen == list(range(50))


def test_what_could_not_be_made_is_tried_again() -> None:
    made: Made[int] = Made()
    value = Thing()
    with pytest.raises(ZeroDivisionError):
        made.get(value, "part", lambda: 1 // 0)
    assert made.get(value, "part", lambda: 1) == 1
