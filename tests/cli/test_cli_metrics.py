"""queue-core metrics: one scrape, a server in a real process, and the files that it writes."""

import json
import re
import shutil
import signal
import socket
import subprocess
import urllib.request
from importlib import resources
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse
from terminal import ended, program, run
from waiting import until

from queue_core import Queue, open_queue

NAMES = ["queue-core-alerts.yml", "queue-core-dashboard.json"]


def scraped(text: str) -> dict[str, float]:
    """The samples without labels."""
    return {sample.name: sample.value for family in parse(text) for sample in family.samples if not sample.labels}


def serving(*args: str) -> "tuple[subprocess.Popen[str], str, str]":
    """The program as a server: the process, where it serves, and what it said before."""
    process = program("metrics", "--port", "0", *args)
    assert process.stderr is not None
    said = ""
    while "Serving" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    found = re.search(r"http://\S+/metrics", said)
    assert found is not None
    return process, found[0], said


def get(url: str) -> dict[str, float]:
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return scraped(answer.read().decode())


def test_once_prints_what_promtool_takes(queue: Queue, promtool: str) -> None:
    queue.push_many([(n, f"tag {n}") for n in range(60)])
    assert len(set(re.findall(r'tag="([^"]*)"', run("metrics", "--once").stdout))) == 50 + 1
    result = run("metrics", "--once", "--tags", "2")
    assert result.stderr == ""
    assert scraped(result.stdout)["queue_core_backlog_tasks"] == 60
    assert set(re.findall(r'tag="([^"]*)"', result.stdout)) == {"tag 0", "tag 1", "_other"}
    checked = subprocess.run([promtool, "check", "metrics"], input=result.stdout, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_once_without_a_store_says_so_in_words_code_and_metrics(tmp_path: Path) -> None:
    result = run("metrics", "--once", "--url", str(tmp_path / "none"), code=4)
    assert scraped(result.stdout)["queue_core_up"] == 0
    assert "Error: " in result.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_it_serves_until_a_signal(queue: Queue, number: int, code: int) -> None:
    process, url, _ = serving("--tags", "1")
    assert url.startswith("http://127.0.0.1:")
    assert get(url)["queue_core_backlog_tasks"] == 0
    queue.push(1)
    assert get(url)["queue_core_backlog_tasks"] == 1
    process.send_signal(number)
    ended(process, code)
    with pytest.raises(OSError, match="refused"):
        get(url)


def test_it_outlives_its_store(tmp_path: Path) -> None:
    path = tmp_path / "queue"
    process, url, said = serving("--url", str(path))
    assert "cannot be read yet" in said
    assert get(url)["queue_core_up"] == 0
    for pushed in (1, 2):
        with open_queue(path) as queue:
            queue.push_many(list(range(pushed)))
            assert queue.check() == []
        assert get(url)["queue_core_pushed_total"] == pushed
        shutil.rmtree(path)
        assert get(url)["queue_core_up"] == 0
    process.send_signal(signal.SIGTERM)
    _, err = ended(process, 0)
    assert err.count("can be read again") == 2


def test_a_port_that_is_taken(queue: Queue) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = run("metrics", "--port", str(port), code=2)
    assert f"cannot serve at 127.0.0.1 port {port}: it is taken" in result.stderr
    assert "cannot serve at 192.0.2.1" in run("metrics", "--host", "192.0.2.1", "--port", "0", code=2).stderr


def test_a_client_that_says_nothing_does_not_hold_up_the_end(queue: Queue) -> None:
    process, url, _ = serving()
    host, port = url.split("/")[2].split(":")
    with socket.create_connection((host, int(port)), timeout=30):
        assert get(url)["queue_core_up"] == 1
        process.send_signal(signal.SIGTERM)
        ended(process, 0)


def test_write_the_dashboard_and_the_rules(tmp_path: Path) -> None:
    target = tmp_path / "new" / "rules"
    first = run("metrics", "--write", str(target))
    assert sorted(path.name for path in target.iterdir()) == NAMES
    for name in NAMES:
        assert f"{target / name} written." in first.stderr
        assert (target / name).read_bytes() == (resources.files("queue_core") / "data" / name).read_bytes()
    assert json.loads((target / NAMES[1]).read_text())["title"] == "queue_core"
    assert run("metrics", "--write", str(target)).stderr.count("is as it should be") == 2


def test_write_overwrites_nothing_that_was_changed(tmp_path: Path) -> None:
    (tmp_path / NAMES[0]).write_text("mine")
    refused = run("metrics", "--write", str(tmp_path), code=2)
    assert f"{tmp_path / NAMES[0]} differs" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == NAMES[:1]
    assert (tmp_path / NAMES[0]).read_text() == "mine"
    run("metrics", "--write", str(tmp_path), "--force")
    assert (tmp_path / NAMES[0]).read_text() != "mine"


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    assert "exclude each other" in run("metrics", "--once", "--write", str(tmp_path), code=2).stderr
    assert "--write" in run("metrics", "--once", "--force", code=2).stderr
    assert "QUEUE_URL" in run("metrics", "--once", code=2).stderr
    assert "QUEUE_URL" in run("metrics", code=2).stderr


def test_a_store_that_stays_away_is_told_once(tmp_path: Path) -> None:
    process, url, _ = serving("--url", str(tmp_path / "none"))
    for _ in range(3):
        assert get(url)["queue_core_up"] == 0
    process.send_signal(signal.SIGTERM)
    until(lambda: process.poll() is not None)
    _, err = ended(process, 0)
    assert err.count("scrapes say") == 1
