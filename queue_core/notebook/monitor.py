"""A live view of a queue in a notebook: backlog, fairness, leases, updated in place.

It lives on the kernel's own loop as a timer, so that its cell ends at once and others can run; a cell that computes
holds it up until it ends. Between two updates there is nothing: no transaction, no thread, no task. An idle kernel
ignores an interrupt; while a view is live, it stops the view.
"""

import asyncio
import signal
import threading
import time
from contextvars import Context
from typing import Any
from uuid import uuid4

from IPython import get_ipython

from queue_core import figures
from queue_core.errors import InvalidArgument
from queue_core.figures.base import PAGE_STYLE
from queue_core.frames import (
    address_text,
    error_line,
    fairness_sentence,
    inflight_sentence,
    leases_frame,
    shares_frame,
    tags_frame,
)
from queue_core.notebook import drawing
from queue_core.notebook.cards import Card
from queue_core.notebook.display import put, snapshot_card, stamp
from queue_core.notebook.links import dashboard_url
from queue_core.queue import LONGEST, Queue
from queue_core.task import State, moment

JOURNAL, LEASES = 3_000, 500  # newest events, and leases that run out first
LEAST = 0.2  # seconds between two updates
PART = 0.1  # of the kernel's time that a view may take
AGAIN = 0.1  # seconds until it is looked again whether a cell runs

_live: list["Monitor"] = []


def monitor(queue: Queue, every: float = 2.0, seconds: float | None = None, *, hold: bool = False) -> "Monitor":
    """Show a queue, and go on showing it as it is by then, ``every`` so many seconds.

    It ends with its button, with ``stop()``, when the kernel is interrupted while no cell runs, after ``seconds``, when
    the queue is closed or cannot be read, when its cell is run again or found to be deleted, and when another view of
    the same queue begins. With ``hold`` its cell runs for as long as the view, and an interrupt ends both; so it does
    outside a notebook, where there is no loop to live on. Raises InvalidArgument.
    """
    view = Monitor(queue, every, seconds, hold=hold)
    view.start()
    return view


class Monitor:
    """One live view. ``error`` is what ended it, ``updates`` counts how often it was drawn."""

    def __init__(self, queue: Queue, every: float = 2.0, seconds: float | None = None, *, hold: bool = False) -> None:
        self.queue, self.every, self.hold = queue, _span(every, "every", LEAST), hold
        self.seconds = None if seconds is None else _span(seconds, "seconds", 0)
        self.error: BaseException | None = None
        self.running = False
        self.updates = 0
        self._ended = ""
        self._until = float("inf")
        self._cell, self._message = _here()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._handles: list[Any] = []
        self._name = uuid4().hex  # of its figures, in the page
        self._card = Card(address_text(queue.url))
        self._button: Any = None

    def url(self, base: str | None = None) -> str:
        """Where the dashboard shows this."""
        return dashboard_url(base=base)

    def stop(self, why: str = "stopped") -> None:
        """Update it no more; what was seen last stays. More than once does no harm."""
        if not self.running:
            return
        self.running = False
        _live.remove(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._button is not None:
            self._button.disabled, self._button.description = True, "Stopped"
        self._ended = f"{why} at {stamp(moment(self.queue.clock()))}"
        self._show([self._head()])

    def __repr__(self) -> str:
        return f"Monitor({self.queue.url!r}, {'live' if self.running else self._ended or 'not begun'})"

    # --- its life

    def start(self) -> None:
        """Draw it for the first time; it is started once."""
        for other in [other for other in _live if other._makes_way_for(self)]:
            other.stop("stopped, as another began")
        self._until = time.monotonic() + self.seconds if self.seconds is not None else float("inf")
        self.running = True
        _live.append(self)
        if (shell := get_ipython()) is not None:
            shell.events.register("pre_execute", _cells_gone)  # once, however often
        self._loop = None if self.hold else _running_loop()
        try:
            if self._loop is None:
                self._hold()
            else:
                self._tick(self._loop)
                _listen(self._loop)
        except KeyboardInterrupt:
            self.stop("interrupted")

    def _makes_way_for(self, other: "Monitor") -> bool:
        if self._cell and self._cell == other._cell:
            return self._message != other._message  # else both are of one run of the cell
        private = self.queue.url == "memory://"
        return self.queue is other.queue if private else self.queue.url == other.queue.url

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        pause = self._update(with_button=True)
        if self.running:
            # not in the context of this cell: a client that runs one cell after the other looks at the present one only
            self._timer = loop.call_later(pause, self._tick, loop, context=Context())

    def _hold(self) -> None:
        """Live inside the cell."""
        self.hold = True
        while self.running:
            pause = self._update(with_button=False)
            if self.running:
                time.sleep(pause)

    def _update(self, *, with_button: bool) -> float:
        """Read and draw; the seconds until the next time. Whatever goes wrong ends it, and is shown."""
        begun = time.thread_time()
        try:
            self._draw(with_button)
        except Exception as error:  # noqa: BLE001 - on a timer of the kernel nobody else would see it
            self.error = error
            self.stop(f"ended by {error_line(error)}")
            return self.every
        cost = time.thread_time() - begun if self.updates > 1 else 0.0  # the first time, Plotly is imported
        left = self._until - time.monotonic()
        if left <= 0:
            self.stop()
        return max(min(max(self.every, cost / PART), left), 0.0)

    # --- what is shown

    def _draw(self, with_button: bool) -> None:
        kept = self.queue.capabilities.journal
        with self.queue.view() as view:
            snapshot = view.snapshot()
            journal = view.journal(limit=JOURNAL) if kept else []
            inflight = view.tasks(State.INFLIGHT, limit=LEASES)
        shares, leases = shares_frame(snapshot, journal), leases_frame(inflight, snapshot.at)
        told = [fairness_sentence(snapshot, shares if kept else None), inflight_sentence(snapshot, leases)]
        self._card = snapshot_card(snapshot, address_text(self.queue.url), told)
        drawn = [figures.count_by_tag(tags_frame(snapshot), "backlog", "tasks waiting")]
        drawn += [figures.shares(shares), figures.lease_ages(leases)]
        shown = [drawing.bundle(figure, f"{self._name}-{place}") for place, figure in enumerate(drawn)]
        self.updates += 1
        self._show([self._head(drawing.changing(drawn)), *shown], with_button)

    def _head(self, script: str = "") -> dict[str, str]:
        live = f"Live, every {self.every:g} s" + (", until it is interrupted" if self.hold else "")
        state = live if self.running else self._ended[:1].upper() + self._ended[1:]
        card = Card(self._card.title, [state, *self._card.lines], self._card.facts, self._card.tables)
        html = f'<div class="queue-core-monitor">{PAGE_STYLE}{card.html()}</div>{script}'
        return {"text/html": html, "text/plain": card.plain()}

    def _show(self, bundles: list[dict[str, Any]], with_button: bool = False) -> None:
        """Each in its place; the places are made the first time. After that the first comes last: its script is for the
        others."""
        order = range(len(bundles)) if not self._handles else [*range(1, len(bundles)), 0]
        for place, bundle in ((place, bundles[place]) for place in order):
            if place < len(self._handles):
                self._handles[place].update(bundle, raw=True)
                continue
            self._handles.append(put(bundle))
            if with_button and not place:
                self._button = _button(self)


# --- what ends it from outside


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs the cell, if there is one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _listen(loop: asyncio.AbstractEventLoop) -> None:
    """Hear interrupts that come while no cell runs, which ipykernel ignores; those of a cell are the cell's.

    ipykernel sets a handler of its own for each cell, then puts back what was there before: so ours is set in between.
    """
    main = threading.current_thread() is threading.main_thread()  # another thread gets no signals
    if not main or not _live or signal.getsignal(signal.SIGINT) is _interrupted:
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupted)
    else:
        loop.call_later(AGAIN, _listen, loop, context=Context())


def _interrupted(*_: Any) -> None:
    """Stop the views as soon as their loops come to it; without one, do nothing, as ipykernel does."""
    for view in list(_live):
        if view._loop is not None:
            view._loop.call_soon_threadsafe(view.stop, "interrupted")


def _span(value: Any, name: str, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= LONGEST:
        raise InvalidArgument(f"{name} is {value!r:.100}: it is a number of seconds, at least {least:g}")
    return value


def _button(view: Monitor) -> Any:
    """A button that stops the view; None where ipywidgets is not installed."""
    try:
        from ipywidgets import Button
    except ModuleNotFoundError:
        return None
    button = Button(description="Stop", tooltip="Update it no more")
    button.on_click(lambda _: view.stop())
    put(button._repr_mimebundle_())
    return button


def _cells_gone() -> None:
    """Stop the views whose cells were deleted: with the next cell that is run, a frontend may say which these are."""
    gone = _asked().get("metadata", {}).get("deletedCells", ())
    for view in [view for view in _live if view._cell in gone]:
        view.stop("stopped, as its cell was deleted")


def _here() -> tuple[str, str]:
    """The cell that runs, and which run of it this is; empty where a frontend does not say."""
    asked = _asked()
    return str(asked.get("metadata", {}).get("cellId", "")), str(asked.get("header", {}).get("msg_id", ""))


def _asked() -> dict[str, Any]:
    """The request to run the cell that runs; empty outside a kernel."""
    return getattr(get_ipython(), "get_parent", dict)() or {}
