"""The verdict by rules: each speaks at its threshold and names it, and a file tunes them."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from queue_core import InvalidArgument, Queue, frames
from queue_core.frames import Level, rules
from queue_core.frames.rules import DEFAULT, Limits, Rules, judge
from queue_core.ledger import WorkerRecord
from queue_core.snapshot import Storage


def found(queue: Queue, name: str, **given: Any) -> rules.Found:
    return next(one for one in judge(queue.snapshot(), **given).found if one.rule.name == name)


def test_every_threshold_has_a_rule_and_every_rule_a_threshold() -> None:
    limits = [name for name in Rules.__dataclass_fields__ if isinstance(getattr(DEFAULT, name), Limits)]
    assert sorted(limits) == sorted(rule.name for rule in rules.TABLE)


def test_a_calm_queue_is_judged_as_before(queue: Queue, clock: Any) -> None:
    assert judge(queue.snapshot()).verdict == frames.verdict(queue.snapshot())
    queue.push_many([(n, "acme") for n in range(3)])
    assert judge(queue.snapshot()).verdict == frames.verdict(queue.snapshot())
    queue.dead_letter(queue.lease(), "why")
    queue.ack_many(queue.lease_many(2))
    assert judge(queue.snapshot()).verdict == frames.verdict(queue.snapshot())


def test_the_first_reason_names_rule_value_and_threshold(queue: Queue, clock: Any) -> None:
    queue.push_many([("x", "slow"), ("x", "slow"), ("x", "held")])
    queue.configure("slow", max_inflight=1)
    queue.configure("held", paused=True)
    queue.lease(ttl=9_000)
    clock.advance(720)
    verdict = judge(queue.snapshot()).verdict
    assert (verdict.level, verdict.text) == (
        Level.ATTENTION,
        "1 tag has waited more than 5 min; the oldest is slow, 12 min",
    )
    assert verdict.reasons == (
        "Oldest wait: 12 min, attention from 5 min and trouble from 1 h",
        "1 tag is paused with 1 task waiting (Paused tags: 1 task, attention from 1 task)",
    )
    clock.advance(3_600)
    assert judge(queue.snapshot()).verdict.level is Level.TROUBLE


def test_nobody_works(queue: Queue, clock: Any) -> None:
    queue.push("x", tag="acme")
    clock.advance(59)
    assert judge(queue.snapshot()).verdict.level is Level.HEALTHY
    clock.advance(1)
    verdict = judge(queue.snapshot()).verdict
    assert (verdict.level, verdict.text) == (Level.TROUBLE, "Nobody has leased a task for 1 min while 1 task waits")


def test_leases_that_ran_out(queue: Queue, clock: Any) -> None:
    queue.push("x")
    queue.lease(ttl=5)
    assert found(queue, "expired_leases").level is None
    clock.advance(6)
    assert found(queue, "expired_leases").level is Level.ATTENTION


def test_workers(queue: Queue, clock: Any) -> None:
    queue.push("x")
    assert found(queue, "no_worker").value is None  # nobody has ever reported
    queue._store.report(WorkerRecord("w1", "host", 1, clock.now, clock.now))
    assert found(queue, "no_worker").level is None
    clock.advance(31)
    assert found(queue, "no_worker").says == "no worker is there while 1 task waits; the last was seen 31 s ago"
    assert found(queue, "silent_worker").level is Level.ATTENTION
    queue._store.report(WorkerRecord("w1", "host", 1, clock.now, clock.now, clock.now))
    assert found(queue, "silent_worker").level is None  # it has said that it stops
    assert found(queue, "no_worker").level is Level.ATTENTION


def test_growth_of_dead_letters(queue: Queue, clock: Any) -> None:
    assert found(queue, "deaths").value is None
    queue.push_many(["x"] * 10)
    for lease in queue.lease_many(10):
        queue.dead_letter(lease, "no")
    recent = frames.series_totals_frame(queue.series())
    assert found(queue, "deaths", recent=recent).level is Level.ATTENTION
    assert found(queue, "deaths", recent=recent).value == 10
    clock.advance(1_000)  # all of them before the time that counts
    recent = frames.series_totals_frame(queue.series(), step=10)
    assert found(queue, "deaths", recent=recent).value == 0


def test_room(queue: Queue) -> None:
    assert found(queue, "store_used").value is None
    assert found(queue, "store_used", room=Storage(None, None, None)).value is None
    assert found(queue, "store_used", room=Storage(79, 100, 100)).level is None
    assert found(queue, "store_used", room=Storage(80, 100, 100)).level is Level.ATTENTION
    assert found(queue, "store_used", room=Storage(95, 100, 100)).level is Level.TROUBLE


def test_the_rotation_starves_nobody_and_a_starved_tag_would_be_told(queue: Queue) -> None:
    for tag, weight in (("a", 1), ("b", 5), ("c", 2)):
        queue.configure(tag, weight=weight)
    queue.push_many([(n, tag) for n in range(40) for tag in "abc"])
    for _ in range(50):
        queue.lease()
        assert (found(queue, "starvation").value or 0) <= 1
    queue.push("x", tag="d")
    strict = found(queue, "starvation", rules=Rules(starvation=Limits(0.01, None)))
    assert strict.level is Level.ATTENTION
    assert "was passed over for" in strict.says


def test_stale_data_is_unknown(queue: Queue) -> None:
    queue.push("x")
    snapshot = queue.snapshot()
    assert judge(snapshot, now=snapshot.at + timedelta(seconds=30)).verdict.level is Level.HEALTHY
    verdict = judge(snapshot, now=snapshot.at + timedelta(seconds=31)).verdict
    assert (verdict.level, verdict.reasons) == (Level.UNKNOWN, ("Stale data: 31 s old, unknown from 30 s",))
    assert judge(snapshot, now=snapshot.at - timedelta(hours=1)).verdict.level is Level.HEALTHY  # a clock set back


def test_a_file_tunes(tmp_path: Path, queue: Queue, clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rules.toml"
    file.write_text("stale = 60\n[oldest_wait]\nattention = 10\ntrouble = false\n[no_serve]\ntrouble = false\n")
    monkeypatch.setenv(rules.VARIABLE, str(file))
    tuned = rules.configured()
    assert (tuned.stale, tuned.oldest_wait, tuned.deaths) == (60, Limits(10, None), DEFAULT.deaths)
    queue.push("x", tag="acme")
    clock.advance(100_000)
    assert judge(queue.snapshot(), tuned).verdict.text == "1 tag has waited more than 10 s; the oldest is acme, 1 d 3 h"
    assert judge(queue.snapshot(), tuned).verdict.level is Level.ATTENTION
    monkeypatch.delenv(rules.VARIABLE)
    assert rules.configured() == DEFAULT


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("oldest = 1", "there is no rule 'oldest'; there are stale, deaths_within"),
        ("oldest_wait = 5", "oldest_wait is 5: it is a table with attention and trouble"),
        ("[oldest_wait]\nwarn = 5", "oldest_wait has no 'warn'"),
        ("[oldest_wait]\nattention = -1", "oldest_wait.attention is -1: it is a number above 0"),
        ("[oldest_wait]\nattention = true", "oldest_wait.attention is True"),
        ("stale = inf", "stale is inf"),
        ("stale = false", "stale is False"),
        ("nonsense", "cannot be read"),
        ("a = '\udcff'", "cannot be read"),
    ],
)
def test_a_file_that_is_wrong_says_where(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "rules.toml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidArgument) as error:
        rules.load(file)
    assert says in str(error.value)
    assert str(file) in str(error.value)


@pytest.mark.parametrize("path", ["/nowhere/rules.toml", "a\0b"])
def test_a_file_that_is_not_there(path: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot be read"):
        rules.load(path)


def test_the_table_shows_every_rule(queue: Queue) -> None:
    table = rules.rules_frame(judge(queue.snapshot()))
    assert list(table.columns) == list(rules.RULES)
    assert list(table["rule"]) == [rule.title for rule in rules.TABLE]
    of = table.set_index("name")
    assert (of.loc["oldest_wait", "attention"], of.loc["oldest_wait", "trouble"]) == ("5 min", "1 h")
    assert (of.loc["store_used", "value"], of.loc["store_used", "level"]) == ("—", "not known")


def test_a_tag_of_any_name_is_named_safely(queue: Queue, clock: Any) -> None:
    queue.push("x", tag="<b>\0" + "x" * 10_000)
    clock.advance(400)
    text = judge(queue.snapshot(), Rules(no_serve=Limits())).verdict.text
    assert "\0" not in text
    assert len(text) < 200


def test_no_limit_is_no_level(queue: Queue, clock: Any) -> None:
    queue.push("x")
    clock.advance(10**6)
    silent = Rules(**{rule.name: Limits() for rule in rules.TABLE})
    assert judge(queue.snapshot(), silent).verdict.level is Level.HEALTHY
