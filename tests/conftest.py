"""What every test shares: no real queue is touched, and nothing is left out in silence."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from injected import Clock

from queue_core import Queue, open_queue

for name in ("QUEUE_URL", "QUEUE_REDACT", "QUEUE_ROLE", "QUEUE_ACTOR"):
    os.environ.pop(name, None)  # tests make their own queues, and say who acts

settings.register_profile("unhurried", deadline=None)  # a machine that is busy is no fault
settings.load_profile("unhurried")

REQUIRE_ALL = os.environ.get("REQUIRE_ALL", "") not in ("", "0")
LEFT_OUT: Counter[str] = Counter()  # reason -> number of tests


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> Iterator[Queue]:
    """A queue of its own, on the injected clock; it must be sound at the end."""
    with open_queue("memory://", clock=clock) as queue:
        yield queue
        assert queue.check() == []


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium that starts; tests that need one are left out where there is none."""
    fetched = sorted(Path(sys.prefix, "browsers").glob("*/*/chrome-headless-shell"))
    names = [os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome", *map(str, fetched)]
    for path in map(shutil.which, filter(None, names)):
        if path and subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0:
            return path
    pytest.skip("no Chromium that starts was found: install one, or set CHROMIUM to its path")


@pytest.fixture(scope="session")
def promtool() -> str:
    """The path of Prometheus' own checker; tests that need it are left out where there is none."""
    for path in map(shutil.which, filter(None, [os.environ.get("PROMTOOL"), "promtool"])):
        if path:
            return path
    pytest.skip("no promtool was found: install Debian's prometheus, or set PROMTOOL to its path")


def _account(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Note a skip with its reason; with REQUIRE_ALL=1 it is a failure."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    LEFT_OUT[reason] += 1
    if REQUIRE_ALL:
        report.outcome = "failed"
        report.longrepr = f"left out although REQUIRE_ALL=1: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _account(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _account(report)
    return report


def pytest_deselected(items: Iterable[pytest.Item]) -> None:
    if REQUIRE_ALL and (names := [item.nodeid for item in items]):
        raise pytest.UsageError(f"REQUIRE_ALL=1, but {len(names)} tests are deselected, {names[0]} first")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if LEFT_OUT:
        terminalreporter.section("left out")
        for reason, count in LEFT_OUT.most_common():
            terminalreporter.line(f"{count} × {reason}")
