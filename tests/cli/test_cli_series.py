"""queue-core series: exact numbers by span, for a person and for programs, and words where there is nothing."""

import csv
import io
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from terminal import NASTY, run

from queue_core import Queue, open_queue
from queue_core.ledger import Counts
from queue_core.series import COUNTERS
from queue_core.task import SECOND

MINUTE = 60 * SECOND


@pytest.fixture
def worked(queue: Queue) -> Queue:
    """A queue that worked from 150 to 90 minutes ago: every minute two tasks come, one is done; every tenth fails."""
    now = [time.time_ns() // 1_000 // MINUTE * MINUTE - 150 * MINUTE]
    with open_queue(queue.url, clock=lambda: now[0]) as then:
        for minute in range(60):
            then.push_many([("x", "acme"), ("x", "bolt")])
            held = then.lease()
            assert held is not None
            now[0] += 2 * SECOND
            if minute % 10:
                then.ack(held)
            else:
                then.nack(held, "no", retry_in=100_000)
            now[0] += 58 * SECOND
    return queue


def lines(*args: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("series", *args, "--json").stdout.splitlines()]


def test_what_happened_is_exact(worked: Queue) -> None:
    found = lines("--since", "3h", "--step", "10m")
    totals = worked.snapshot().totals
    for name in ("pushed", "leased", "acked", "nacked"):
        assert sum(line[name] for line in found) == getattr(totals, name)
    assert sum(line["wait_seconds"] for line in found) == pytest.approx(totals.wait / SECOND)
    assert found[-1]["pending"] == worked.counts().pending == 60
    assert found[-1]["scheduled"] == 6
    assert {line["seconds"] for line in found[1:-1]} == {600.0}
    assert found[-1]["pushed"] == 0
    assert found[-1]["oldest_wait_seconds"] > 90 * 60


def test_every_number_has_a_name(worked: Queue) -> None:
    sums = {"wait", "service", "eligible"}
    names = {"start", "seconds", "tag", "oldest_wait_seconds", "longest_wait_seconds"}
    names |= {name for name in COUNTERS if name not in sums} | {f"{name}_seconds" for name in sums}
    assert {*lines()[0]} == names | {*Counts.__struct_fields__}


def test_unknown_is_null_and_not_zero(worked: Queue) -> None:
    last = lines("--since", "20m")[-1]
    assert last["leased"] == 0
    assert last["longest_wait_seconds"] is None
    assert last["oldest_wait_seconds"] is not None
    assert json.loads(json.dumps(last), parse_constant=pytest.fail) == last


def test_tags(worked: Queue) -> None:
    found = lines("--since", "3h", "--step", "1d", "--tag", "acme", "--tag", "bolt")
    by_tag = {tag: [line for line in found if line["tag"] == tag] for tag in ("acme", "bolt")}
    for tag, stats in zip(by_tag, worked.snapshot().tags, strict=True):
        assert sum(line["pushed"] for line in by_tag[tag]) == 60
        assert sum(line["acked"] for line in by_tag[tag]) == stats.totals.acked
        assert by_tag[tag][-1]["pending"] == stats.pending
    out = run("series", "--since", "3h", "--step", "1d", "--tag", "bolt").stdout
    assert "TAG" in out
    assert "bolt" in out
    assert "acme" not in out


def test_a_tag_that_was_not_kept_is_told_and_shown_safely(worked: Queue) -> None:
    found = run("series", "--since", "1h", "--tag", NASTY.replace("\ud800", ""))
    assert "\x1b" not in found.output
    assert "was kept in that time" in found.stderr


def test_a_tag_among_the_others_is_unknown(queue: Queue) -> None:
    queue.push_many([("x", f"t{n:03}") for n in range(150) for _ in range(1 if n == 149 else 2)])
    (line,) = lines("--since", "10s", "--step", "1d", "--tag", "t149")[-1:]
    assert line["pushed"] is None
    assert line["pending"] is None
    assert " — " in run("series", "--since", "10s", "--step", "1d", "--tag", "t149").stdout


def test_a_table_for_a_person(worked: Queue) -> None:
    out = run("series", "--since", "3h", "--step", "1h").stdout.splitlines()
    assert out[0].split() == [
        "FROM", "PUSHED", "LEASED", "ACKED", "FAILED", "DIED", "ACKED/S", "PENDING", "IN", "FLIGHT", "OLDEST", "WAIT",
    ]  # fmt: skip
    assert sum(int(line.split()[3]) for line in out[1:]) == 120
    assert sum(int(line.split()[6]) for line in out[1:]) == 6
    assert all(line.split()[2] == "UTC" for line in out[1:])
    assert out[-1].split()[9:11] == ["60", "0"]


@pytest.mark.parametrize("since", ["2m", "15m", "2h", "24h", "30d"])
def test_without_a_step_there_are_few_lines(worked: Queue, since: str) -> None:
    found = lines("--since", since)
    assert 1 <= len(found) <= 32
    assert found[-1]["pending"] == 60


def test_csv_has_the_columns_of_json(worked: Queue) -> None:
    args = ("series", "--since", "3h", "--step", "1h", "--tag", "acme")
    rows = list(csv.DictReader(io.StringIO(run(*args, "--csv").stdout)))
    expected = [json.loads(line) for line in run(*args, "--json").stdout.splitlines()]
    assert [row["start"] for row in rows] == [line["start"] for line in expected]
    assert [int(row["pushed"]) for row in rows] == [line["pushed"] for line in expected]
    assert list(rows[0]) == list(expected[0])
    assert rows[-1]["longest_wait_seconds"] == ""


def test_from_an_instant_to_an_instant(worked: Queue) -> None:
    begin = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=130)
    ends = [at.strftime("%Y-%m-%dT%H:%MZ") for at in (begin, begin + timedelta(minutes=20))]
    found = lines("--since", ends[0], "--until", ends[1], "--step", "1m")
    assert [line["pushed"] for line in found] == [2] * 20
    assert datetime.fromisoformat(found[0]["start"]) == begin


def test_a_step_that_is_too_fine_is_raised_and_told(worked: Queue) -> None:
    found = run("series", "--since", "3h", "--step", "10s")
    widths = {bucket.width for bucket in worked.series().buckets}
    assert ("is in spans of 1 min" in found.stderr) == (MINUTE in widths)
    assert "is in spans" not in run("series", "--since", "3h", "--step", "10m").stderr


def test_nothing_was_measured(queue: Queue) -> None:
    found = run("series")
    assert found.stdout == ""
    assert "Nothing was measured in that time." in found.stderr
    assert run("series", "--csv").stdout == run("series", "--json").stdout == ""


def test_history_that_is_switched_off_is_told(queue: Queue) -> None:
    queue.push("x")
    queue.configure(history=False)
    assert "queue-core configure --history yes" in run("series").stderr


def test_a_store_without_history_says_what_to_use(tmp_path: Path) -> None:
    with open_queue(f"files://{tmp_path}/files", durability="none") as queue:
        queue.push("x")
        found = run("series", "--url", queue.url, code=4)
    assert "keeps no history" in found.stderr
    assert "queue-core metrics" in found.stderr
    assert found.stdout == ""


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--since", "yesterday"), "is not a span of time"),
        (("--since", "2026-03-01T12:00"), "has no time zone"),
        (("--since", "1h", "--until", "2h"), "--since is not before --until"),
        (("--since", "0"), "is not between 0 and ten years"),
        (("--step", "99999d"), "is not between 0 and ten years"),
        (("--json", "--csv"), "choose one"),
    ],
)
def test_a_wrong_command_line_is_told(queue: Queue, args: tuple[str, ...], words: str) -> None:
    assert words in run("series", *args, code=2).stderr
