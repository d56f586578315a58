"""queue-core fairness: its verdict, its figures, and the serves that prove a violation."""

import json
import re
import threading
from pathlib import Path
from typing import Any

import lmdb
import pytest
from msgspec.structs import replace
from terminal import NASTY, run

from queue_core import Queue, codec, keys, open_queue
from queue_core.cli import fairness
from queue_core.stores.base import Capabilities
from queue_core.stores.memory import MemoryStore


def told(*args: str, code: int = 0) -> Any:
    return json.loads(run("fairness", "--json", *args, code=code).stdout)


def served(path: Path, tags: str, serves: int, ack: bool = True) -> None:
    """A store that served the tags, one letter each, in rotation."""
    with open_queue(path) as queue:
        queue.push_many([(n, tag) for n in range(serves) for tag in tags])
        for _ in range(serves):
            leases = queue.lease_many(1, owner="worker-1")
            if ack:
                queue.ack_many(leases)
        assert queue.check() == []


def forge(path: Path, turns: dict[int, int]) -> None:
    """Make the journal say that these serves went to other tags, as a broken rotation would have had it."""
    with lmdb.open(str(path), max_dbs=0, map_size=1 << 30) as environment, environment.begin(write=True) as txn:
        blocks = [(bytes(key), bytes(data)) for key, data in txn.cursor() if bytes(key)[:1] == keys.JOURNAL]
        for key, data in blocks:
            entries = codec.decode_entries(data)
            changed = [replace(entry, tag=turns.get(entry.serve, entry.tag)) for entry in entries]
            txn.put(key, codec.encode(changed))


# --- a fair queue ---------------------------------------------------------------------------------


def test_a_fair_queue(queue: Queue) -> None:
    queue.configure("heavy", weight=3)
    queue.push_many([(n, tag) for n in range(20) for tag in ("light", "heavy", NASTY[:8])])
    queue.lease_many(30)
    shown = run("fairness").stdout
    assert shown.startswith(
        "Fair: not once in 30 serves was a tag that stayed eligible passed over while another was served more than "
        "its weight.\nserves 1 to 30, the first of them "
    )
    assert "\nJain's index 1.0000 over 3 tags that stayed eligible (1 is exactly by weight)\n" in shown
    assert re.search(r"\nheavy +3 +18 +18\.0 +60\.0% +60\.0% +.*60\.0% +1\.59 +1\.67 +3 +worker time\n", shown)
    assert "\\x1b[31mre" in shown
    assert "\x1b" not in shown
    judged = told()
    assert (judged["fair"], judged["serves"], judged["first_serve"], judged["last_serve"]) == (True, 30, 1, 30)
    assert judged["index"] == 1.0
    assert judged["tags"][0] | {"worker_seconds": 0} == {
        "tag": "heavy", "number": 1, "weight": 3, "stayed_eligible": True, "served": 18,
        "entitled": pytest.approx(18), "served_share": 0.6, "entitled_share": pytest.approx(0.6), "worker_seconds": 0,
        "worker_share": pytest.approx(0.6), "mean_gap": pytest.approx(27 / 17), "ideal_gap": pytest.approx(5 / 3),
        "longest_gap": 3, "turns_waited": 2, "noisy": ["worker time"],
    }  # fmt: skip
    assert {tag["tag"] for tag in judged["tags"]} == {"heavy", "light", NASTY[:8]}
    assert judged["violations"] == []


def test_only_the_last_serves_and_only_some_tags(queue: Queue) -> None:
    queue.push_many([(n, tag) for n in range(20) for tag in "abcd"])
    queue.lease_many(30)
    judged = told("--last", "8")
    assert (judged["serves"], judged["first_serve"], judged["last_serve"]) == (8, 23, 30)
    assert sum(tag["served"] for tag in judged["tags"]) == 8
    assert told("--last", "1000")["serves"] == 30
    shown = run("fairness", "--last", "3", "--tags", "1").stdout
    assert "was not yet a round of 4 tags that stayed eligible\n" in shown.replace("that was", "was")
    assert shown.endswith("… and 3 more tags; --tags 4 shows all\n")


def test_nothing_to_judge(queue: Queue) -> None:
    for _ in range(2):
        result = run("fairness")
        assert (result.stdout, result.stderr) == ("", "Nothing to judge: nothing was served yet.\n")
        judged = told()
        assert (judged["fair"], judged["index"], judged["serves"], judged["tags"]) == (None, None, 0, [])
        queue.push("x", tag="a")
    queue.configure(history=False)
    queue.ack(queue.lease() or "")
    assert run("fairness").stderr == "Nothing to judge: none of 1 serves is in the journal.\n"


def test_a_tag_that_is_gone_and_one_that_came_late(queue: Queue) -> None:
    queue.push_many([(n, "a") for n in range(3)])
    queue.lease_many(2)
    queue.push("x", tag="b")
    queue.lease_many(2)
    shown = run("fairness").stdout
    assert "Jain's index has no value: no tag stayed eligible all the time; --last N looks" in shown
    assert re.search(r"\nb +1 +1 +1\.0 .* — +— +— ", shown)


def test_a_store_without_a_journal_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    none = Capabilities(durable=False, multi_process=False, journal=False)
    monkeypatch.setattr(MemoryStore, "capabilities", none)
    result = run("--url", "memory://", "fairness", code=4)
    assert "memory:// keeps no journal" in result.stderr
    assert result.stdout == ""


def test_it_makes_no_store(tmp_path: Path) -> None:
    assert str(tmp_path / "missing") in run("--url", str(tmp_path / "missing"), "fairness", code=4).stderr
    assert not (tmp_path / "missing").exists()


def test_the_journal_is_read_in_pieces_and_of_one_moment(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "PIECE", 7)
    queue.push_many([(n, tag) for n in range(2_000) for tag in "abc"])
    queue.lease_many(90)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set() and queue.lease_many(1):
            pass

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(3):
            judged = told()
            assert judged["fair"] is True
            assert judged["serves"] == judged["last_serve"] == sum(tag["served"] for tag in judged["tags"])
            assert max(tag["served"] for tag in judged["tags"]) - min(tag["served"] for tag in judged["tags"]) <= 1
    finally:
        stop.set()
        thread.join()


# --- violations -----------------------------------------------------------------------------------


def test_a_violation_is_printed_with_the_serves_that_show_it(tmp_path: Path) -> None:
    path = tmp_path / "forged"
    served(path, "abc", 9)
    forge(path, {5: 1})  # a b c a A c a b c
    with open_queue(path) as queue:
        events = {event.serve: event for event in queue.journal(limit=100) if event.serve}
    shown = run("--url", str(path), "fairness", code=1).stdout
    assert shown.startswith(
        "Not fair: 2 times in 9 serves was a tag that stayed eligible passed over while another was served more than "
        "its weight.\n"
    )
    story = shown[shown.index("violation 2 of 2") :].rstrip().split("\n")
    assert story[0] == (
        "violation 2 of 2: b, eligible throughout, waited from serve 2 to serve 8 while a of weight 1 was served "
        "3 times"
    )
    assert story[1].split() == ["SERVE", "TIME", "TAG", "WEIGHT", "ELIGIBLE", "SINCE", "TASK", "OWNER"]
    rows = [line.split() for line in story[2:]]
    assert [(row[0], row[4]) for row in rows] == [("2", "b"), ("4", "a"), ("5", "a"), ("7", "a"), ("8", "b")]
    for row in rows:
        event = events[int(row[0])]
        assert row[1:4] == [f"{event.at:%Y-%m-%d}", f"{event.at:%H:%M:%S}", "UTC"]
        assert row[5:] == ["1", "0", event.task_id, "worker-1"]
    judged = told("--url", str(path), code=1)
    assert judged["fair"] is False
    assert judged["violations_in_all"] == 2
    violation = judged["violations"][1]
    assert [serve.pop("serve") for serve in violation["serves"]] == [2, 4, 5, 7, 8]
    assert violation.pop("serves")[1] == {
        "at": events[4].at.isoformat(timespec="microseconds"), "tag": "a", "weight": 1, "eligible_since_serve": 0,
        "task_id": events[4].task_id, "owner": "worker-1",
    }  # fmt: skip
    assert violation == {"tag": "b", "since_serve": 2, "until_serve": 8, "other": "a", "served": 3, "weight": 1}
    assert "invariant 3: tag number 2" in run("--url", str(path), "check", code=1).stdout


def test_a_tag_that_still_waits_is_a_violation(tmp_path: Path) -> None:
    path = tmp_path / "forged"
    served(path, "abc", 60)
    forge(path, dict.fromkeys(range(3, 61, 3), 1))  # c was never served
    shown = run("--url", str(path), "fairness", code=1).stdout
    assert "… and 15 more violations; --json has the first 100\n" in shown
    judged = told("--url", str(path), code=1)
    waiting = judged["violations"][-1]
    assert (waiting["tag"], waiting["since_serve"], waiting["until_serve"]) == ("c", 0, None)
    assert (waiting["other"], waiting["served"], len(waiting["serves"])) == ("a", 40, 40)
    assert told("--last", "1", "--url", str(path))["fair"] is True


def test_a_long_run_is_cut_and_many_violations_are_limited(tmp_path: Path) -> None:
    path = tmp_path / "forged"
    served(path, "ab", 600)
    forge(path, dict.fromkeys(range(3, 440), 1) | dict.fromkeys(range(440, 600, 3), 2))
    shown = run("--url", str(path), "fairness", code=1).stdout
    story = shown[shown.index("violation 1 of") :].split("\n\n")[0].split("\n")
    assert (
        "b, eligible throughout, waited from serve 2 to serve 440 while a of weight 1 was served 437 times" in story[0]
    )
    assert [line.split()[0] for line in story[2:4]] == ["2", "3"]
    assert story[-2] == "  … and 427 more serves of a"
    assert story[-1].split()[0] == "440"
    judged = told("--url", str(path), code=1)
    assert len(judged["violations"][0]["serves"]) == 102
    assert judged["violations_in_all"] == len(judged["violations"]) > 5


def test_a_tag_that_nobody_knows_any_more_has_its_number(tmp_path: Path) -> None:
    path = tmp_path / "forged"
    served(path, "ab", 9)
    forge(path, {9: 99})
    assert "\n(forgotten, number 99)  " in run("--url", str(path), "fairness", code=1).stdout
    assert told("--url", str(path), code=1)["tags"][-1]["tag"] is None
