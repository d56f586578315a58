"""Frames: declared columns and dtypes, defined when empty, safe whatever tasks hold, true to the queue."""

import traceback
from datetime import timedelta
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_core import Item, Queue, State, frames, open_queue
from queue_core.frames import tables, turns
from queue_core.frames.words import QUIET, Level
from queue_core.redact import UNMASKED
from queue_core.task import SECOND

ODD = [
    "",
    "(empty tag)",
    "a\0b",
    "<b>bold</b>",
    "x" * 10_000,
    "x" * 9_999 + "y",
    "nan",
    "001",
    "1e5",
    "a\nb",
    "\u202eevil",
    "é",
]


def everything(queue: Queue) -> dict[str, tuple[pd.DataFrame, tables.Schema]]:
    """Every frame there is, with its schema."""
    snapshot, journal = queue.snapshot(), queue.journal(limit=10_000)
    return {
        "tags": (frames.tags_frame(snapshot), tables.TAGS),
        "tasks": (frames.tasks_frame(queue.tasks("pending"), snapshot.at), tables.TASKS),
        "leases": (frames.leases_frame(queue.tasks("inflight"), snapshot.at), tables.LEASES),
        "dead": (frames.dead_frame(queue.tasks("dead"), snapshot.at), tables.DEAD),
        "serves": (frames.serves_frame(journal), tables.SERVES),
        "ring": (frames.ring_frame(snapshot), turns.RING),
        "shares": (frames.shares_frame(snapshot, journal), turns.SHARES),
    }


def fill(queue: Queue) -> None:
    """Odd tags and payloads in every state."""
    queue.push_many([({"big": 2**70, "text": "\ud800\0<script>", "n": n}, tag) for n in range(6) for tag in ODD])
    for n in range(4 * len(ODD)):
        lease = queue.lease(owner=f"w{n}\0<i>")
        if n % 4 == 0:
            queue.ack(lease)
        elif n % 4 == 1:
            queue.dead_letter(lease, "why \0 \ud800 " + "y" * 70_000)
        elif n % 4 == 2:
            queue.nack(lease, ValueError("boom\nsecond line"))


@pytest.mark.parametrize("full", [False, True])
def test_columns_and_dtypes_are_as_declared(queue: Queue, full: bool) -> None:
    if full:
        fill(queue)
    for name, (frame, schema) in everything(queue).items():
        assert list(frame.columns) == list(schema), name
        assert {column: str(dtype) for column, dtype in frame.dtypes.items()} == dict(schema), name
        assert frame.empty is not full, name


def test_every_frame_survives_arrow(queue: Queue) -> None:
    pa = pytest.importorskip("pyarrow")
    fill(queue)
    for name, (frame, _) in everything(queue).items():
        assert pa.Table.from_pandas(frame).num_rows == len(frame), name


def test_an_empty_frame_can_be_grouped(queue: Queue) -> None:
    leases = frames.leases_frame([], queue.snapshot().at)
    assert leases.groupby("owner")["age"].max().empty
    assert (queue.snapshot().at - leases["expires_at"]).dt.total_seconds().empty


def test_counts_are_those_of_the_snapshot(queue: Queue) -> None:
    fill(queue)
    snapshot, tags = queue.snapshot(), frames.tags_frame(queue.snapshot())
    assert list(tags["tag"]) == ODD
    for column in ("pending", "scheduled", "inflight", "dead", "due", "expired"):
        assert tags[column].sum() == getattr(snapshot, column), column
    assert tags["pushed"].sum() == 6 * len(ODD)
    assert tags["acked"].sum() == snapshot.totals.acked == len(ODD)


def test_labels_are_short_safe_and_different() -> None:
    names = [*ODD, *(f"{'x' * 100}{n}" for n in range(500)), "x" * 40, "x" * 41, " x", "x ", "x", "a b", "a  b"]
    labels = [frames.tag_label(name) for name in names]
    assert len(set(labels)) == len(names)
    assert max(map(len, labels)) <= 40
    assert all(label.isprintable() for label in labels)
    assert frames.tag_label("acme") == "acme"
    assert frames.tag_label("") == "(empty tag)"


@given(st.text(st.characters(codec=None), max_size=400), st.integers(0, 50))
@settings(max_examples=200, deadline=None)
def test_any_text_becomes_safe(text: str, limit: int) -> None:
    for safe in (frames.one_line(text, limit), frames.safe_text(text, limit), frames.tag_label(text)):
        safe.encode()  # no lone surrogates
        assert "\0" not in safe
        assert len(safe) <= max(limit + 30, 40)
    assert "\n" not in frames.one_line(text, limit)


def test_of_a_traceback_the_exception_is_shown() -> None:
    try:
        compile("return", "bad.py", "exec")
    except SyntaxError:
        text = traceback.format_exc()
    assert frames.error_preview(text) == "SyntaxError: 'return' outside function"
    assert frames.error_preview("read timeout\nsecond line") == "read timeout second line"
    assert frames.error_preview("Traceback (most recent call last):") == "Traceback (most recent call last):"
    assert frames.error_preview(None) == ""


def test_big_integers_keep_their_digits(queue: Queue) -> None:
    task = queue.push({"id": 1009513310189256287, "big": 2**70})
    assert frames.payload_preview(task) == f'{{"id":1009513310189256287,"big":{2**70}}}'


def test_a_long_payload_is_previewed_with_its_size(queue: Queue) -> None:
    assert frames.payload_preview(queue.push("z" * 5_000)) == '"' + "z" * 299 + "… (5,002 bytes)"
    assert frames.payload_preview(queue.push("é" * 200)) == '"' + "é" * 200 + '"'
    assert frames.payload_preview(queue.push("é" * 5_000)).endswith("… (10,002 bytes)")


def test_ages_of_leases(queue: Queue, clock: Any) -> None:
    queue.push_many(["a", "b"])
    first, _ = queue.lease(ttl=30, owner="w1"), queue.lease(ttl=5, owner="w2")
    clock.advance(4)
    queue.heartbeat(first)
    clock.advance(3)
    leases = frames.leases_frame(queue.tasks("inflight"), queue.snapshot().at).set_index("owner")
    assert list(leases.loc["w1", ["age", "silence", "expires_in", "expired"]]) == [7.0, 3.0, 27.0, False]
    assert list(leases.loc["w2", ["age", "silence", "expires_in", "expired"]]) == [7.0, 7.0, -2.0, True]


def test_no_age_is_negative_when_the_clock_is_set_back(queue: Queue, clock: Any) -> None:
    queue.push_many([Item("a"), Item("b", max_attempts=1)])
    queue.lease()
    queue.nack(queue.lease(), "no")
    clock.advance(-3600)
    at = queue.snapshot().at
    assert list(frames.leases_frame(queue.tasks("inflight"), at)[["age", "silence"]].iloc[0]) == [0.0, 0.0]
    assert frames.dead_frame(queue.tasks("dead"), at)["age"].iloc[0] == 0.0
    assert frames.tasks_frame(queue.tasks("dead"), at)["age"].iloc[0] == 0.0
    assert (frames.tags_frame(queue.snapshot())["since_served"] >= 0).all()


def test_dead_frame_tells_why(queue: Queue, clock: Any) -> None:
    queue.push({"n": 1}, tag="acme", max_attempts=1)
    task = queue.nack(queue.lease(owner="w1"), "read timeout")
    clock.advance(60)
    row = frames.dead_frame(queue.tasks("dead"), queue.snapshot().at).iloc[0]
    assert (row["id"], row["version"], row["label"], row["error"]) == (task.id, task.version, "acme", "read timeout")
    assert (row["attempts"], row["max_attempts"], row["age"]) == (1, 1, 60.0)


def test_serves_frame_follows_the_journal(queue: Queue, clock: Any) -> None:
    queue.push_many([(n, tag) for n in range(3) for tag in "abc"])
    clock.advance(2)
    queue.lease_many(7)
    serves = frames.serves_frame(queue.journal(limit=100))
    assert list(serves["tag"]) == list("abcabca")
    assert list(serves["serve"]) == list(range(1, 8))
    assert set(serves["wait"]) == {2.0}
    assert list(frames.serves_frame(queue.journal(limit=100), last=2)["tag"]) == ["c", "a"]
    assert frames.serves_frame(queue.journal(limit=100), last=0).empty


# --- turns ----------------------------------------------------------------------------------------


def test_ring_shows_cursor_next_and_why_skipped(queue: Queue) -> None:
    queue.push_many([(n, tag) for n in range(4) for tag in "abcd"])
    queue.configure("b", weight=2)
    queue.configure("c", paused=True)
    queue.lease_many(2)  # a, b: one more of b's turn is left
    ring = frames.ring_frame(queue.snapshot()).set_index("tag")
    assert list(ring.index[ring["cursor"]]) == list(ring.index[ring["next"]]) == ["b"]
    assert list(ring.index[ring["last"]]) == ["b"]
    assert ring.loc["b", "left"] == 1
    assert ring.loc["c", "why_not"] == "paused"
    assert list(ring["ahead"]) == [3, 0, 1, 2]


moves = st.lists(
    st.tuples(
        st.sampled_from(["push", "lease", "end", "pause", "resume", "weight", "limit", "interval", "delay", "wait"]),
        st.sampled_from("abcde"),
        st.integers(1, 3),
    ),
    max_size=40,
)


def played(history: list[tuple[str, str, int]]) -> Queue:
    """A queue with this history; every half second something happens."""
    now = [1_700_000_000 * SECOND]
    queue = open_queue("memory://", clock=lambda: now[0])
    held = []
    for what, tag, number in history:
        now[0] += SECOND // 2
        match what:
            case "push":
                queue.push_many([Item(k, tag, max_attempts=1_000) for k in range(number)])
            case "lease":
                held += queue.lease_many(number, ttl=2 * number)
            case "end" if held:
                lease = held.pop()
                if queue.get(lease.id).state is State.INFLIGHT:
                    queue.requeue(lease.id)
            case "pause" | "resume":
                queue.configure(tag, paused=what == "pause")
            case "weight":
                queue.configure(tag, weight=number)
            case "limit":
                queue.configure(tag if number > 1 else None, max_inflight=number * 2)
            case "interval":
                queue.configure(tag, min_interval=number)
            case "delay":
                queue.push(0, tag=tag, delay=number, max_attempts=1_000)
            case "wait":
                now[0] += number * SECOND
    return queue


@given(moves, st.integers(1, 12))
@settings(max_examples=150, deadline=None)
def test_upcoming_is_what_lease_many_brings(history: list[tuple[str, str, int]], n: int) -> None:
    queue = played(history)
    expected = [stats.name for stats in frames.upcoming(queue.snapshot(), n)]
    assert [lease.tag for lease in queue.lease_many(n)] == expected
    assert queue.check() == []


def test_shares_by_weight(queue: Queue) -> None:
    queue.configure("heavy", weight=3)
    queue.push_many([(n, tag) for n in range(100) for tag in ("light", "heavy")])
    queue.lease_many(80)
    shares = frames.shares_frame(queue.snapshot(), queue.journal(limit=1_000)).set_index("tag")
    assert list(shares["served"]) == [60, 20]
    assert list(shares["entitled"]) == pytest.approx([60.0, 20.0])
    assert list(shares.index) == ["heavy", "light"]
    assert shares["share"].sum() == pytest.approx(1.0)


def test_a_tag_is_entitled_only_while_it_is_eligible(queue: Queue) -> None:
    queue.push_many([(n, "busy") for n in range(50)])
    queue.lease_many(10)
    queue.push("late", tag="quiet")
    queue.lease_many(2)
    queue.lease_many(8)
    shares = frames.shares_frame(queue.snapshot(), queue.journal(limit=1_000)).set_index("tag")
    assert list(shares.loc["quiet", ["served", "entitled"]]) == [1, 1.0]
    assert list(shares.loc["busy", ["served", "entitled"]]) == [19, 19.0]


def test_shares_of_worker_time_and_gaps(queue: Queue, clock: Any) -> None:
    queue.push_many([(n, tag) for n in range(20) for tag in ("slow", "quick")])
    for _ in range(20):
        lease = queue.lease(ttl=60)
        clock.advance(3 if lease.tag == "slow" else 1)
        queue.ack(lease)
    shares = frames.shares_frame(queue.snapshot(), queue.journal(limit=1_000)).set_index("tag")
    assert dict(shares["worker_time"]) == {"slow": 30.0, "quick": 10.0}
    assert dict(shares["worker_share"]) == {"slow": 0.75, "quick": 0.25}
    assert list(shares.loc["slow", ["mean_gap", "ideal_gap", "longest_gap", "turns_waited"]]) == [2.0, 2.0, 2, 1]
    assert dict(shares["noisy"]) == {"slow": "worker time", "quick": "worker time"}


def test_a_tag_that_waits_and_is_not_served_is_behind(queue: Queue, clock: Any) -> None:
    queue.push_many([(n, tag) for n in range(50) for tag in ("a", "b")])
    clock.advance(1)
    queue.lease_many(20)
    journal = [event for event in queue.journal(limit=1_000) if event.tag != "b"]  # as if b had been passed over
    shares = frames.shares_frame(queue.snapshot(), journal, last=10).set_index("tag")
    assert shares.loc["b", "served"] == 0
    assert shares.loc["b", "entitled"] == 5.0
    assert frames.fairness_sentence(queue.snapshot(), shares).endswith("in the last 10 serves b got 0 where 5 were due")
    behind = frames.lagging(shares)
    assert behind is not None
    assert behind["label"] == "b"


def test_a_tag_that_ran_empty_got_what_it_was_due(queue: Queue) -> None:
    queue.push_many([(n, tag) for n in range(30) for tag in ("a", "b")] + [("only", "c")])
    queue.lease_many(21)
    shares = frames.shares_frame(queue.snapshot(), queue.journal(limit=1_000)).set_index("tag")
    assert dict(shares["served"]) == {"a": 10, "b": 10, "c": 1}
    assert dict(shares["entitled"]) == pytest.approx({"a": 10.0, "b": 10.0, "c": 1.0})


@given(moves)
@settings(max_examples=100, deadline=None)
def test_what_is_due_is_what_was_served_in_all(history: list[tuple[str, str, int]]) -> None:
    queue = played(history)
    queue.lease_many(20)
    shares = frames.shares_frame(queue.snapshot(), queue.journal(limit=10_000))
    assert shares["entitled"].sum() == pytest.approx(queue.snapshot().ring.serves)
    assert shares["served"].sum() == queue.snapshot().ring.serves


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "—"), (float("nan"), "—"), (0, "0 s"), (0.00001, "0.1 ms"), (0.34, "340 ms"), (0.9999, "1.0 s"),
        (4.2, "4.2 s"), (9.96, "10 s"), (59.4, "59 s"), (59.7, "1 min"), (252, "4 min 12 s"), (3_599.6, "1 h"),
        (3_600 * 3 + 720, "3 h 12 min"), (86_400 * 2 + 3_600 * 4, "2 d 4 h"), (86_400 * 4_000, "4,000 d"),
        (-12, "−12 s"),
    ],
)  # fmt: skip
def test_duration(seconds: float | None, words: str) -> None:
    assert frames.duration(seconds) == words


def test_verdict_of_an_empty_and_of_an_idle_queue(queue: Queue) -> None:
    assert frames.verdict(queue.snapshot()).level is Level.EMPTY
    queue.push("x")
    queue.ack(queue.lease())
    assert frames.verdict(queue.snapshot()) == frames.Verdict(Level.IDLE, "Nothing waits: all of 1 task were handled")
    queue.push("x", delay=60)
    assert frames.verdict(queue.snapshot()).text == "Nothing waits: 1 task scheduled for later"


def test_verdict_of_a_working_queue(queue: Queue, clock: Any) -> None:
    queue.push_many([(n, "acme") for n in range(3)])
    queue.lease(ttl=600)
    clock.advance(70)
    verdict = frames.verdict(queue.snapshot())
    assert verdict.level is Level.HEALTHY
    assert verdict.text == "Healthy: 1 task is in flight, 2 wait; no tag has waited longer than 1 min 10 s"


def test_verdict_when_nobody_works(queue: Queue, clock: Any) -> None:
    queue.push("x", tag="acme")
    clock.advance(QUIET - 1)
    assert frames.verdict(queue.snapshot()).level is Level.HEALTHY
    clock.advance(1)
    verdict = frames.verdict(queue.snapshot())
    assert verdict == frames.Verdict(Level.TROUBLE, "Nobody has leased a task for 1 min while 1 task waits")


def test_verdict_names_what_holds_tasks_up(queue: Queue, clock: Any) -> None:
    queue.push_many([("x", "slow"), ("x", "slow"), ("x", "held")])
    queue.configure("slow", max_inflight=1)
    queue.configure("held", paused=True)
    queue.lease(ttl=900)
    clock.advance(720)
    verdict = frames.verdict(queue.snapshot())
    assert verdict.level is Level.ATTENTION
    assert verdict.text == "1 tag has waited more than 5 min; the oldest is slow, 12 min"
    assert verdict.reasons == ("1 tag is paused with 1 task waiting",)
    queue.configure(paused=True)
    assert frames.verdict(queue.snapshot()).text == "The queue is paused while 2 tasks wait"


def test_verdict_counts_leases_that_ran_out(queue: Queue, clock: Any) -> None:
    queue.push("x")
    queue.lease(ttl=5)
    clock.advance(6)
    assert frames.verdict(queue.snapshot()).text == "1 lease has run out and waits to be taken back by the next lease"


def test_verdict_tells_of_dead_letters(queue: Queue) -> None:
    queue.push_many([("x", "acme"), ("y", "acme")])
    queue.dead_letter(queue.lease(), "why")
    verdict = frames.verdict(queue.snapshot())
    assert (verdict.level, verdict.reasons) == (Level.HEALTHY, ("1 dead letter, of acme",))
    queue.ack(queue.lease())
    dead = ("1 dead letter, of acme",)
    assert frames.verdict(queue.snapshot()) == frames.Verdict(Level.IDLE, "Nothing waits", dead)
    queue.push("z", tag="acme")
    queue.configure(paused=True)
    assert frames.verdict(queue.snapshot()).reasons == dead


def test_sentences(queue: Queue, clock: Any) -> None:
    snapshot = queue.snapshot()
    leases, shares = frames.leases_frame([], snapshot.at), frames.shares_frame(snapshot, [])
    assert frames.inflight_sentence(snapshot, leases) == "Nothing is in flight"
    assert frames.dead_sentence(snapshot) == "No dead letters"
    assert frames.fairness_sentence(snapshot, shares) == "Nobody can be served now; nothing has been served yet"
    queue.push_many([(n, tag) for n in range(9) for tag in ("a", "b")])
    queue.dead_letter(queue.lease(), "x")
    queue.dead_letter(queue.lease(), "x")
    queue.dead_letter(queue.lease(), "x")
    queue.lease(owner="w1")
    clock.advance(5)
    snapshot = queue.snapshot()
    leases = frames.leases_frame(queue.tasks("inflight"), snapshot.at)
    shares = frames.shares_frame(snapshot, queue.journal(limit=100))
    assert frames.inflight_sentence(snapshot, leases) == (
        "1 task is in flight; the oldest shown has been held for 5.0 s by w1"
    )
    assert frames.dead_sentence(snapshot) == "3 dead letters in 2 tags; most are of a: 2"
    assert frames.fairness_sentence(snapshot, shares) == (
        "a is next, one of 2 tags that can be served; in the last 4 serves every tag got its share, to within a turn "
        "or 5%"
    )
    assert frames.lagging(shares) is None


def test_a_starved_tag_is_named(queue: Queue) -> None:
    queue.push_many([(n, tag) for n in range(9) for tag in ("a", "b")])
    queue.lease_many(4)
    shares = frames.shares_frame(queue.snapshot(), queue.journal(limit=100))
    shares = shares.assign(served=[100, 20], entitled=[60.0, 60.0], difference=[40.0, -40.0], label=["a", "b"])
    assert frames.fairness_sentence(queue.snapshot(), shares).endswith(
        "in the last 120 serves b got 20 where 60 were due"
    )


def test_a_tag_may_be_behind_by_a_turn(queue: Queue) -> None:
    queue.configure("b", weight=5)
    queue.push_many([(n, tag) for n in range(9) for tag in ("a", "b")])
    queue.lease_many(4)
    shares = frames.shares_frame(queue.snapshot(), queue.journal(limit=100)).set_index("tag", drop=False)
    for behind, late in [({"a": -2.0, "b": -6.0}, None), ({"a": -2.1, "b": -6.0}, "a"), ({"a": -3.0, "b": -6.1}, "b")]:
        found = frames.lagging(shares.assign(difference=pd.Series(behind)))
        assert (None if found is None else found["tag"]) == late


def test_times_are_utc_to_the_microsecond(queue: Queue, clock: Any) -> None:
    queue.push("x")
    created = frames.tasks_frame(queue.tasks("pending"), queue.snapshot().at)["created_at"].iloc[0]
    assert created == pd.Timestamp(clock.now * 1_000, tz="UTC")
    assert created.utcoffset() == timedelta(0)


def test_no_frame_shows_a_secret_unless_it_is_told_to(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUEUE_REDACT", raising=False)
    secret, said = "Zq9_hunter2", "Traceback (most recent call last):\nError: password=Zq9_hunter2"
    for payload in ({"token": secret}, {"token": secret, "pad": "x" * 50_000}):
        for n in range(3):
            queue.push(payload, tag="acme", dedupe_key=f"token={secret}{n}{len(payload)}", max_attempts=1 + n % 2)
    for lease in queue.lease_many(4):
        queue.nack(lease, said)
    queue.dead_letter(queue.lease(), said)
    assert queue.lease() is not None
    at = queue.snapshot().at
    for state in ("scheduled", "inflight", "dead"):
        for make in (frames.tasks_frame, frames.leases_frame, frames.dead_frame):
            page = queue.tasks(state)
            assert secret not in make(page, at).to_csv()
            shown = make(page, at, UNMASKED)
            assert secret in shown.to_csv() or (make is frames.leases_frame and shown.empty and state != "inflight")
    dead = frames.dead_frame(queue.tasks("dead"), at)
    assert "Error: password=•••• (8–15 characters)" in list(dead["error"])
    assert dead["payload"].str.startswith('{"token":"•••• (8–15 characters)"').all()
