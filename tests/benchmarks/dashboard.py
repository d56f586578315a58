"""What the dashboard costs on a large queue: each page for one viewer, and ten viewers beside workers for long.

The viewers speak the protocol of a browser without drawing, in this process. The server is one of its own.
"""

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from queue_core import open_queue

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from viewing import Viewer

ROOT = Path(__file__).resolve().parents[2]
TICKS = os.sysconf("SC_CLK_TCK")
ERRORS = ("ReadTimeout: no answer within 30 s", "HTTPError: 503 from the archive", "ValueError: no title in the page")
VIEWERS, OWNERS = 10, 20


@dataclass(frozen=True)
class Server:
    """A dashboard in a process of its own."""

    address: str
    pid: int

    def computed(self) -> float:
        """Seconds of computing time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self) -> float:
        """What it holds now, in MB; without the pages of the store's file, which the system keeps as it likes."""
        _, resident, shared, *_ = map(int, Path(f"/proc/{self.pid}/statm").read_text().split())
        return (resident - shared) * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def serving(url: str) -> Iterator[Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "app.serve", "--server.port", str(port)]
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "QUEUE_URL": url}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            while True:
                try:
                    urllib.request.urlopen(f"{address}/_stcore/health", timeout=5)
                    break
                except OSError:
                    time.sleep(0.1)
            yield Server(address, process.pid)
        finally:
            process.terminate()


def large(directory: Path, tasks: int, dead: int, leases: int, tags: int) -> tuple[str, str]:
    """The address of a store with so many, and the id of one of its dead letters."""
    url = f"lmdb://{directory / 'dashboard'}"
    with open_queue(url, durability="none") as queue:
        for start in range(0, tasks + dead + leases, 10_000):
            queue.push_many([
                ({"url": f"https://example.org/{n}", "n": n}, f"tenant-{n % tags:05}")
                for n in range(start, min(start + 10_000, tasks + dead + leases))
            ])  # fmt: skip
        for n in range(dead):
            lease = queue.lease(owner=f"worker-{n % OWNERS}")
            assert lease is not None
            queue.dead_letter(lease, ERRORS[n % len(ERRORS)])
        for n in range(OWNERS):
            queue.lease_many(leases // OWNERS, ttl=86_400, owner=f"worker-{n}")
        return url, queue.tasks("dead", limit=1).items[0].id


def each_page(server: Server, pages: dict[str, dict[str, str]], seconds: float) -> None:
    """One viewer on each page: what a visit takes, and what looking costs."""
    reach = "≤ 1 s, ≤ 2 MB, ≤ 8 %"
    print(f"{'page, one viewer':<18}{'visit':>10}{'computing':>11}{'to browser':>12}{'a refresh':>11}"
          f"{'of a core':>11}   reach {reach}")  # fmt: skip
    for page, query in pages.items():
        with Viewer(server.address, page, **query) as first:
            first.load()  # what the server does once is not the page's
        with Viewer(server.address, page, **query) as viewer:
            before = server.computed()
            took = viewer.load()
            visit, sent = server.computed() - before, viewer.received
            before, viewer.slowest = server.computed(), 0.0
            viewer.watch(seconds)
            share = (server.computed() - before) / seconds
            print(f"{page or 'overview':<18}{took:>8.2f} s{visit:>9.2f} s{sent / 1e6:>9.2f} MB"
                  f"{viewer.slowest:>9.2f} s{share * 100:>9.1f} %")  # fmt: skip


class Workers:
    """Processes that take, finish and push again, so that the backlog stays; they tell how many tasks a second."""

    CODE = """
import sys, time
from queue_core import open_queue
queue, end, done = open_queue(sys.argv[1], durability="relaxed"), time.monotonic() + float(sys.argv[2]), 0
lease = queue.lease()
while time.monotonic() < end:
    queue.push(lease.payload, tag=lease.tag)
    lease = queue.lease(ack=lease)
    done += 1
queue.ack(lease)
print(done / float(sys.argv[2]))
"""

    def __init__(self, url: str, seconds: float) -> None:
        command = [sys.executable, "-c", self.CODE, url, str(seconds)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def rate(self) -> float:
        told, _ = self._process.communicate()
        return float(told)


def together(server: Server, url: str, pages: dict[str, dict[str, str]], seconds: float, alone: float) -> None:
    """Ten viewers, each on a page, while a worker works."""
    before = Workers(url, alone).rate()
    with ExitStack() as stack:
        of = list(pages.items())
        viewers = [
            stack.enter_context(Viewer(server.address, page, **query))
            for page, query in (of[n % len(of)] for n in range(VIEWERS))
        ]
        in_threads([viewer.load for viewer in viewers])
        worker = Workers(url, seconds)
        computed, begun = server.computed(), time.monotonic()
        memory: list[float] = []
        watching = threading.Thread(target=in_threads, args=([lambda v=v: v.watch(seconds) for v in viewers],))
        watching.start()
        while watching.is_alive():
            memory.append(server.memory())
            watching.join(max(seconds / 40, 1.0))
        share = (server.computed() - computed) / (time.monotonic() - begun)
        during = worker.rate()
        slowest = max(viewer.slowest for viewer in viewers)
        sent = sum(viewer.received for viewer in viewers)
    after = Workers(url, alone).rate()
    rest = (before + after) / 2
    settled = memory[len(memory) // 4 :]
    middle = sorted(settled)[len(settled) // 2]
    print(f"{VIEWERS} viewers at 2 s for {seconds:.0f} s: {share * 100:.0f} % of a core "
          f"({share / VIEWERS * 100:.1f} % each, ≤ 8 %), {sent / seconds / 1e3:,.0f} kB/s, "
          f"slowest refresh {slowest:.2f} s")  # fmt: skip
    least, most = (edge / middle * 100 - 100 for edge in (min(settled), max(settled)))
    print(f"  memory {memory[0]:.0f} MB at first; then {min(settled):.0f} to {max(settled):.0f} MB, "
          f"{least:+.1f} to {most:+.1f} % of the median (± 10 %)")  # fmt: skip
    print(f"  one worker: {rest:,.0f} tasks/s alone, {during:,.0f} beside them ({during / rest * 100 - 100:+.0f} %, "
          f"the viewers' own computing included, on {os.cpu_count()} cores)")  # fmt: skip


def in_threads(works: Sequence[Callable[[], object]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def dashboard(directory: Path, tasks: int, dead: int, leases: int, tags: int, *, look: float, long: float) -> None:
    """Every page on a queue of this size, ``look`` seconds each; then ten viewers for ``long`` seconds."""
    begun = time.monotonic()
    url, letter = large(directory, tasks, dead, leases, tags)
    print(f"\ndashboard: {tags:,} tags, {tasks:,} pending, {dead:,} dead, {leases:,} leases "
          f"(made in {time.monotonic() - begun:.0f} s)")  # fmt: skip
    pages: dict[str, dict[str, str]] = {
        "": {}, "fairness": {}, "inflight": {}, "dead": {}, "tag": {"tag": "tenant-00001"}, "task": {"task": letter},
        "operations": {},
    }  # fmt: skip
    with serving(url) as server:
        each_page(server, pages, look)
        together(server, url, pages, long, min(20.0, long / 3))
    with open_queue(url) as queue:
        assert queue.check() == []
