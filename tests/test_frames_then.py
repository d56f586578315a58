"""The rotation told of a moment that is over, against the rotation as it was at that moment."""

from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from injected import Clock
from msgspec.structs import replace

from queue_core import Queue, Snapshot, figures, frames, open_queue
from queue_core.fairness.past import turn_after
from queue_core.frames import JournalCheck, proof, then
from queue_core.history import Entry, Kind
from queue_core.rotation import Turn

STEPS = ["push", "push", "lease", "lease", "lease", "batch", "ack", "nack", "requeue", "weight"]
HALTS = ["pause", "resume", "halt", "go on"]
STEP = st.tuples(st.sampled_from(STEPS), st.sampled_from("abcd"), st.booleans())
ANY = st.tuples(st.sampled_from([*STEPS, *HALTS]), st.sampled_from("abcd"), st.booleans())


def run(queue: Queue, clock: Clock, steps: list[tuple[str, str, bool]]) -> list[tuple[datetime, Snapshot]]:
    """Do the steps; the moments that are asked for, each behind a step, with the queue as it was then."""
    held: list[Any] = []
    seen = []
    for number, (step, tag, look) in enumerate(steps):
        clock.advance(number % 3 / 4)  # some steps are at one instant
        if step == "push":
            queue.push_many([("x", tag)] * (1 + number % 3))
        elif step in ("lease", "batch"):
            held += queue.lease_many(1 if step == "lease" else 5, ttl=10_000)
        elif step == "weight":
            queue.configure(tag=tag, weight=1 + number % 4)
        elif step in ("pause", "resume"):
            queue.configure(tag=tag, paused=step == "pause")
        elif step in ("halt", "go on"):
            queue.configure(paused=step == "halt")
        elif held:
            lease = held.pop(number % len(held))
            {"ack": queue.ack, "nack": lambda one: queue.nack(one, "no"), "requeue": lambda one: queue.requeue(one.id)}[
                step
            ](lease)
        if look:
            seen.append((clock.at(), queue.snapshot()))
            clock.advance(0.001)
    return seen


def told(queue: Queue, at: datetime) -> tuple[then.TurnsThen, pd.DataFrame] | None:
    with queue.view() as view:
        found = frames.turns_then(view, at)
    return None if found is None else (found, frames.ring_then_frame(found))


def exact(real: pd.DataFrame, ring: pd.DataFrame) -> None:
    """The tags, the cursor, what was left of its turn, who was served when: all as it was."""
    same = ["number", "tag", "label", "ahead", "cursor", "last", "left", "last_serve", "since_served", "last_served_at"]
    pd.testing.assert_frame_equal(ring[same], real[same])


def compare(queue: Queue, seen: list[tuple[datetime, Snapshot]]) -> int:
    """How many of the moments the journal reaches; what is told of each is true."""
    events = queue.journal(limit=10_000)
    reached = 0
    for at, was in seen:
        found = told(queue, at)
        if found is None:
            assert not [event for event in events if event.at <= at]
            continue
        reached += 1
        tale, ring = found
        exact(frames.ring_frame(was), ring)
        later = [event for event in events if event.at > at]
        leases = [event.entry.tag for event in later if event.kind == "lease"]
        assert list(ring.loc[ring["next"], "number"]) == leases[:1] or leases[0] not in list(ring["number"])
        if later and later[0].kind == "lease":  # nothing was changed before it
            assert list(ring.loc[ring["next"], "tag"]) == [was.ring.next]
        changed = {event.entry.tag for event in later if event.kind == "configure"}
        for row, tag in zip(ring.itertuples(), was.tags, strict=True):
            if pd.isna(row.why_not):
                assert tag.eligible_since_serve is not None
            if tag.number not in changed:
                assert row.weight == tag.settings.weight
        assert tale.unseen == 0
    return reached


@settings(max_examples=30, deadline=None)
@given(st.lists(ANY, max_size=50))
def test_what_is_told_of_any_moment_is_true(steps: list[tuple[str, str, bool]]) -> None:
    clock = Clock()
    with open_queue("memory://", clock=clock) as queue:
        compare(queue, run(queue, clock, steps))
        assert queue.check() == []


@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, max_size=50))
def test_who_was_eligible_is_told_unless_it_became_so_about_then(steps: list[tuple[str, str, bool]]) -> None:
    """Where no tag stops being eligible without a serve."""
    clock = Clock()
    with open_queue("memory://", clock=clock) as queue:
        for at, was in run(queue, clock, steps):
            found = told(queue, at)
            for row, tag in zip(found[1].itertuples(), was.tags, strict=True) if found else ():
                assert (row.why_not != then.NOT_SEEN) or tag.eligible_since_serve is None
                if row.why_not == then.NOT_TOLD and tag.eligible_since_serve is not None:
                    assert tag.eligible_since_serve == was.ring.serves
        assert queue.check() == []


def test_a_long_history_on_a_disk(tmp_path: Path) -> None:
    """With the reading in many pieces, and moments whose serves are further back than the nearest entries."""
    clock, random = Clock(), Random(5)
    steps = [(random.choice(STEPS), random.choice("abcd"), random.random() < 0.04) for _ in range(800)]
    with (
        open_queue(f"lmdb://{tmp_path / 'queue'}", clock=clock, durability="none") as queue,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(then, "PIECE", 100)
        patch.setattr(then, "NEAR", 50)
        assert compare(queue, run(queue, clock, steps)) > 20
        assert queue.check() == []


def test_who_waits_while_nothing_happens_is_known(queue: Queue, clock: Clock) -> None:
    """They came after the last serve, and the next one, or none, was much later."""
    queue.push_many([("x", tag) for tag in "ab"])
    queue.ack_many(queue.lease_many(2))
    queue.push_many([("x", tag) for tag in "abc"])
    at = clock.at()
    clock.advance(60)
    for _ in range(3):
        found = told(queue, at)
        assert found is not None
        assert found[1]["why_not"].isna().tolist() == [True, True, True]
        queue.lease()
    queue.configure(tag="c", min_interval=1)
    found = told(queue, at)
    assert found is not None
    assert found[1]["why_not"].tolist()[2] == then.NOT_TOLD  # the end of an interval is in no journal


def test_a_weight_is_that_of_the_next_turn(queue: Queue, clock: Clock) -> None:
    queue.configure(tag="a", weight=3)
    queue.push_many([("x", "a")] * 4)
    queue.lease()
    queue.configure(tag="a", weight=1)
    at = clock.at()
    clock.advance(1)
    queue.lease()  # of the turn that began with weight 3
    found = told(queue, at)
    assert found is not None
    assert (list(found[1]["weight"]), list(found[1]["left"])) == ([1], [2])


# --- what cannot be told --------------------------------------------------------------------------


def test_serves_that_are_in_no_journal(queue: Queue, clock: Clock) -> None:
    queue.push_many([("x", tag) for tag in "aabbcc"])
    queue.lease_many(1)
    queue.configure(history=False)
    queue.lease_many(2)
    at = clock.at()
    clock.advance(1)
    queue.configure(history=True)
    queue.lease_many(1)
    found = told(queue, at)
    assert found is not None
    tale, ring = found
    assert tale.unseen == 2
    assert not ring[["cursor", "last", "next"]].any(axis=None)
    assert "2 serves about then are in no journal" in then.ring_then_sentence(tale, ring)


def test_where_in_its_turn_a_tag_was_needs_the_begin_of_the_turn(
    queue: Queue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.configure(tag="a", weight=5)
    queue.push_many([("x", "a")] * 12)
    queue.lease_many(8)
    monkeypatch.setattr(then, "FAR", 4)
    monkeypatch.setattr(then, "NEAR", 4)
    found = told(queue, clock.at())
    assert found is not None
    assert list(found[1]["cursor"]) == [False]
    assert list(found[1]["last"]) == [True]
    assert "Where the cursor was is not known" in then.ring_then_sentence(*found)
    monkeypatch.undo()
    found = told(queue, clock.at())
    assert found is not None
    assert list(found[1]["left"]) == [2]


@pytest.mark.parametrize(
    ("serves", "expected"),
    [("", None), ("a2", None), ("a2 a2 a2", None), ("a1", Turn(2)), ("d1", Turn(1)), ("b1 a2", Turn(1, 1, 2)),
     ("a2 a2 b3 b3", Turn(2, 1, 3)), ("a2 a3", Turn(1, 2, 3)), ("a1 a2 a2", Turn(2)), ("a3 b1 a3", Turn(1, 2, 3))],
)  # fmt: skip
def test_the_cursor_after_leases(serves: str, expected: Turn | None) -> None:
    """Written as tag and weight of the turn; the ring is a to d, and the first serve seen is not the first of all."""
    leases = [
        Entry(Kind.LEASE, 0, "abcd".index(tag) + 1, serve=serve, weight=int(weight))
        for serve, (tag, weight) in enumerate(serves.split(), 100)
    ]
    assert turn_after(leases, 4) == expected


def test_a_moment_before_the_journal(queue: Queue, clock: Clock) -> None:
    queue.push("x", tag="a")
    assert told(queue, clock.at(-1)) is None
    found = told(queue, clock.at())
    assert found is not None
    assert {name: str(kind) for name, kind in found[1].dtypes.items()} == dict(then.RING_THEN)


def test_the_ring_then_is_drawn(queue: Queue, clock: Clock) -> None:
    queue.push_many([("x", f"t{n}") for n in range(300)])
    queue.lease_many(150)
    at = clock.at()
    clock.advance(1)
    queue.lease_many(5)
    found = told(queue, at)
    assert found is not None
    drawn = figures.rotation.ring_then(found[1])
    assert "<b>150</b> known as eligible" in drawn.layout.annotations[-1].text
    assert "<b>t150 · next</b>" in drawn.data[2].text
    assert any(then.NOT_SEEN in text for text in drawn.data[1].hovertext)
    assert not any("waiting" in text for text in drawn.data[1].hovertext)


def test_shares_then_are_those_of_then(queue: Queue, clock: Clock) -> None:
    queue.configure(tag="b", weight=3)
    queue.push_many([("x", tag) for tag in "abc" * 30])
    queue.ack_many(queue.lease_many(40))
    was, journal = queue.snapshot(), queue.journal(limit=10_000)
    clock.advance(1)
    queue.ack_many(queue.lease_many(30))
    found = told(queue, was.at)
    assert found is not None
    pd.testing.assert_frame_equal(frames.shares_then_frame(found[0], 25), frames.shares_frame(was, journal, 25))


# --- one tag --------------------------------------------------------------------------------------


def test_one_tag_up_to_then(queue: Queue, clock: Clock) -> None:
    for _ in range(30):
        queue.push_many([("x", "a"), ("x", "a"), ("x", "b")])
        queue.ack_many(queue.lease_many(2))
        clock.advance(10)
    with queue.view() as view:
        found = frames.tag_then(view, "a", clock.at(-100), 900)
    begun = 1_750_000_000
    assert list(found.serves["at"].astype("int64") // 10**6) == [begun + 10 * n for n in range(20, -1, -1)]
    assert set(found.serves["tag"]) == {"a"}
    assert found.sentence.startswith("a had 20 tasks pending at ")
    with queue.view() as view:
        before = frames.tag_then(view, "a", clock.at(-10_000), 900)
    assert (before.reached, len(before.serves), before.sentence[:19]) == (False, 0, "Nothing is known of")


# --- the whole journal ----------------------------------------------------------------------------


def checked(queue: Queue) -> frames.Checked:
    check = JournalCheck()
    while True:
        with queue.view() as view:
            found = check.feed(view)
        if found is not None:
            return found


def served(queue: Queue) -> None:
    queue.push_many([(n, tag) for n in range(12) for tag in "abc"])
    for _ in range(30):
        queue.ack(queue.lease(owner="w"))


def test_the_whole_journal_in_pieces(queue: Queue, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = checked(queue)
    assert (empty.serves, empty.sentence) == (0, "Nothing to check: no serve is in the journal")
    served(queue)
    for size in (1, 7, 96, 97, 20_000):  # the journal has 96 entries
        monkeypatch.setattr(proof, "PIECE", size)
        found = checked(queue)
        assert (found.serves, found.broken, found.holes) == (30, 0, 0)
        assert found.sentence.startswith("The guarantee was kept over 30 serves, all that the journal keeps, from ")
    assert {name: str(kind) for name, kind in found.violations.dtypes.items()} == dict(frames.turns.VIOLATIONS)
    queue.configure(history=False)
    queue.ack(queue.lease())
    queue.configure(history=True)
    queue.ack(queue.lease())
    assert "serves are missing in 1 place" in checked(queue).sentence


def test_a_breach_anywhere_in_the_journal(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rotation never breaks the guarantee, so serves of b are told to have been of c, across pieces."""
    served(queue)
    monkeypatch.setattr(proof, "PIECE", 5)
    with queue.view() as view:
        kind = type(view.reader)
    read = kind.journal

    def told(self: Any, after: int, limit: int, tag: str | None) -> list[Any]:
        return [
            (number, "c", replace(entry, tag=3)) if entry.tag == 2 and 4 < entry.serve < 15 else (number, name, entry)
            for number, name, entry in read(self, after, limit, tag)
        ]

    monkeypatch.setattr(kind, "journal", told)
    found = checked(queue)
    assert found.broken > 0
    assert "was broken" in found.sentence
    first = found.violations.iloc[0]
    assert (first["other_label"], first["served"]) == ("c", 2)
    assert {first["since"], first["until"]} <= set(found.proof["serve"])
    assert list(found.proof["tag"]).count("c") >= 2
