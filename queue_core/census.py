"""The demo's work: a census of the Python source on this machine.

Every .py file of the standard library and of the installed distributions is a task, its tag the distribution it
belongs to. ``measure`` reads, decodes and compiles the file with warnings as errors, counts what is in it, and
appends a line of JSON to the results. A file that does not compile cleanly fails with the compiler's own message.
"""

import ast
import importlib.metadata
import json
import os
import re
import sys
import sysconfig
import threading
import time
import tokenize
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol
from uuid import NAMESPACE_URL, uuid5

from queue_core.errors import QueueFull
from queue_core.queue import Item, Queue
from queue_core.worker import Defer

STDLIB = "Python standard library"  # with spaces, so no distribution can have this name
HANDLER = "queue_core.census:measure"
OTHERS = 60.0  # seconds for which a task of other work is put off
MAX_ATTEMPTS = 2  # a broken file stays broken: one retry after a second shows a retry, then it is dead

_compiling = threading.Lock()  # filters of warnings belong to the whole process


class Job(Protocol):
    """What a worker gives its handler."""

    @property
    def payload(self) -> Any: ...

    @property
    def tag(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Source:
    """A Python file and the distribution it belongs to."""

    path: str
    distribution: str


@dataclass(frozen=True, slots=True)
class Measure:
    """What is in one file. ``size`` in bytes; ``lines`` as the file has them, blank ones too."""

    path: str
    distribution: str
    encoding: str
    size: int
    lines: int
    functions: int
    classes: int


# --- what there is ----------------------------------------------------------------------------------


def sources(stdlib: Path | None = None, search: Iterable[str] | None = None) -> list[Source]:
    """Every Python file of the standard library and of the distributions on ``search`` (sys.path), each once.

    Interleaved, so that each distribution has the same share of any stretch as of the whole; inside a distribution
    the smallest file comes first.
    """
    found: dict[str, str] = {}
    root = stdlib or Path(sysconfig.get_path("stdlib"))
    for directory, below, names in os.walk(root):
        below[:] = [name for name in below if name not in ("site-packages", "dist-packages", "__pycache__")]
        found |= {os.path.join(directory, name): STDLIB for name in names if name.endswith(".py")}
    for distribution in importlib.metadata.distributions(path=list(sys.path if search is None else search)):
        for file in distribution.files or ():
            if file.suffix == ".py":
                path = os.path.normpath(str(distribution.locate_file(file)))
                found.setdefault(path, distribution.metadata["Name"])
    return _interleaved(found)


def _interleaved(found: dict[str, str]) -> list[Source]:
    sizes: dict[str, list[tuple[int, str]]] = {}
    for path, distribution in found.items():
        try:
            size = os.stat(path).st_size
        except OSError:
            continue  # in the list of what was installed, and since removed
        sizes.setdefault(distribution, []).append((size, path))
    spread = [
        ((i + 0.5) / len(files), distribution, path)
        for distribution, files in sizes.items()
        for i, (_, path) in enumerate(sorted(files))
    ]
    return [Source(path, distribution) for _, distribution, path in sorted(spread)]


def item(source: Source, results: Path, pace: float = 0.0) -> Item:
    """The task of one file. Its id follows from path and distribution, so that a census taken again
    replaces what still waits and redrives what is dead, instead of piling up."""
    payload: dict[str, Any] = asdict(source) | {"results": str(results)}
    if pace:
        payload["pace"] = pace
    id = uuid5(NAMESPACE_URL, f"{Path(source.path).as_uri()}#{source.distribution}")
    return Item(payload, source.distribution, id, max_attempts=MAX_ATTEMPTS)


def foreign_tag(queue: Queue, known: Iterable[str]) -> str | None:
    """A tag with live tasks that are not of a census, which ``measure`` would hold up; None when there is none."""
    names = set(known)
    with queue.view() as view:
        for tag in view.snapshot().tags:
            if tag.name in names or not tag.pending + tag.scheduled + tag.inflight:
                continue
            for state in ("pending", "scheduled", "inflight"):
                for task in view.tasks(state, tag=tag.name, limit=1):
                    if not is_census(task.payload, tag.name):
                        return tag.name
    return None


def is_census(payload: Any, tag: str) -> bool:
    """Whether a task is one of a census."""
    return isinstance(payload, dict) and payload.get("distribution") == tag and {"path", "results"} <= payload.keys()


class Producer(threading.Thread):
    """Pushes the census in the background: ``stop.set()`` ends it after the commit it is in.

    ``rate``: files a second, as fast as it goes when None. ``backlog``: no push while so many wait. ``again`` gives
    the list anew when it is through; None: it ends. ``pushed`` counts; ``error`` is what ended it early, if anything.
    """

    BATCH = 1_000
    TICK = 0.1  # seconds

    def __init__(
        self, queue: Queue, files: list[Source], results: Path, *, rate: float | None = None, pace: float = 0.0,
        backlog: int | None = None, again: Callable[[], list[Source]] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name="census producer", daemon=True)
        self.stop = threading.Event()
        self.pushed = 0
        self.error: Exception | None = None
        self._queue = queue
        self._files = files
        self._results = results
        self._rate = rate
        self._pace = pace
        self._backlog = backlog
        self._again = again

    def run(self) -> None:
        try:
            self._push_all(self._items())
        except Exception as error:  # noqa: BLE001 - whoever joins the thread raises it
            self.error = error

    def _items(self) -> Iterator[Item]:
        files = self._files
        while True:
            begin(self._results)
            for source in files:
                yield item(source, self._results, self._pace)
            if self._again is None:
                return
            files = self._again()

    def _push_all(self, items: Iterator[Item]) -> None:
        most, saved, at = self.BATCH, 0.0, time.monotonic()
        while not self.stop.is_set():
            if self._rate is not None:
                before, at = at, time.monotonic()
                saved = min(saved + (at - before) * self._rate, max(self._rate, 1.0))  # no more than a second's worth
            n = min(most, self._room(), most if self._rate is None else int(saved))
            batch = list(islice(items, n)) if n > 0 else []
            if n > 0 and not batch:
                return
            try:
                self.pushed += len(self._queue.push_many(batch))
                saved, most = saved - len(batch), min(2 * most, self.BATCH)
            except QueueFull:
                items, most, n = chain(batch, items), max(len(batch) // 2, 1), 0
            if self._rate is not None or n <= 0:
                self.stop.wait(self.TICK)

    def _room(self) -> int:
        if self._backlog is None:
            return self.BATCH
        counts = self._queue.counts()
        return self._backlog - counts.pending - counts.scheduled


# --- the work ---------------------------------------------------------------------------------------


def measure(job: Job) -> None:
    """The handler: measure the file of the payload and append a line to its results.

    Takes at least ``pace`` seconds when the payload has one. Raises what reading, decoding and compiling raise, and
    Defer for a task of other work: it is not the demo's to fail.
    """
    started = time.monotonic()
    payload = job.payload
    if not is_census(payload, job.tag):
        raise Defer(OTHERS)
    try:
        result = measured(Source(payload["path"], payload["distribution"]))
        append(Path(payload["results"]), asdict(result))
    finally:
        time.sleep(max(0.0, payload.get("pace", 0.0) - (time.monotonic() - started)))


def measured(source: Source) -> Measure:
    """Read, decode, compile and count one file. Raises OSError, SyntaxError, ValueError, RecursionError."""
    with open(source.path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        encoding, _ = tokenize.detect_encoding(file.readline)
    with tokenize.open(source.path) as file:
        text = file.read()
    tree = _compiled(text, source.path)
    functions = classes = 0
    for node in ast.walk(tree):
        functions += isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        classes += isinstance(node, ast.ClassDef)
    lines = text.count("\n") + (not text.endswith("\n") and text != "")
    return Measure(source.path, source.distribution, encoding, size, lines, functions, classes)


def _compiled(text: str, path: str) -> ast.Module:
    """The file's tree, after it has been compiled all the way; warnings about this file are errors."""
    module = re.escape(path.removesuffix(".py"))  # the name that the compiler gives the module of a warning
    with _compiling, warnings.catch_warnings():
        warnings.filterwarnings("error", module=f"{module}\\Z")
        tree = ast.parse(text, path)
        compile(tree, path, "exec", dont_inherit=True)
    return tree


# --- results ----------------------------------------------------------------------------------------


def append(path: Path, values: dict[str, Any]) -> None:
    """Add a line of JSON in one write: lines of several processes never mix."""
    line = json.dumps(values).encode() + b"\n"
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        written = os.write(handle, line)
    finally:
        os.close(handle)
    if written != len(line):
        raise OSError(f"only {written} of {len(line)} bytes were written to {path}")


def begin(path: Path) -> None:
    """Begin new results; those that were there become the previous ones, and the previous ones go."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        os.replace(path, path.with_suffix(f".previous{path.suffix}"))


def read(path: Path) -> Iterator[Measure]:
    """The results, each file once: a task may have run twice."""
    seen: dict[str, Measure] = {}
    if path.exists():
        with path.open(encoding="utf-8") as file:
            for line in file:
                one = Measure(**json.loads(line))
                seen[one.path] = one
    return iter(seen.values())


@dataclass(slots=True)
class Row:
    """One distribution in the summary. ``files`` counts the measured and the failed."""

    distribution: str
    files: int = 0
    lines: int = 0
    functions: int = 0
    classes: int = 0
    size: int = 0
    failures: int = 0


def summary(results: Iterable[Measure], failures: dict[str, int]) -> list[Row]:
    """A row for each distribution, the one with the most lines first."""
    rows = {name: Row(name, files=number, failures=number) for name, number in failures.items() if number}
    for one in results:
        row = rows.setdefault(one.distribution, Row(one.distribution))
        row.files += 1
        row.lines += one.lines
        row.functions += one.functions
        row.classes += one.classes
        row.size += one.size
    return sorted(rows.values(), key=lambda row: (-row.lines, row.distribution))
