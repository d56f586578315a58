"""The attempts of one task on a time axis."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from queue_core.figures.base import ACCENT, AMBER, GREY, RED, TAG_AXIS, figure, no_data, plain, records
from queue_core.frames import duration, one_line

ROWS = 16  # attempts with a row of their own
LEAST = 1_000.0  # milliseconds that the axis spans at least
EDGE = 0.04  # of the axis on both sides, so that the first and the last mark are whole
COLOURS = {"running": ACCENT, "nacked": AMBER, "expired": AMBER, "dead_lettered": RED}  # all others are grey


def attempts(tried: pd.DataFrame, rows: int = ROWS) -> go.Figure:
    """The last attempts of the attempts or the timeline frame, a row for each: a bar from the lease to its end, and a
    dotted line over the wait since the attempt before.

    However short it was, its begin has a mark. Outcome and length stand beside each. An end before its begin, of a
    clock that was set back, counts as the begin.
    """
    if tried.empty:
        return no_data("no data: it has not been leased yet")
    some = records(tried.tail(rows))
    begins = [row.started_at.timestamp() * 1_000 for row in some]
    ends = [max(row.ended_at.timestamp() * 1_000, begin) for row, begin in zip(some, begins, strict=True)]
    labels = [f"{row.number:,} · {_named(row.outcome)} · {duration(row.took)}" for row in some]
    colours = [COLOURS.get(row.outcome, GREY) for row in some]
    hovers = [_told(row, waited) for row, waited in zip(some, _waits(some, begins, ends), strict=True)]
    bars = {
        "type": "bar", "orientation": "h", "width": 0.6, "y": list(map(plain, labels)), "base": begins,
        "x": [end - begin for begin, end in zip(begins, ends, strict=True)],
        "marker": {"color": colours, "opacity": 0.55}, "hoverinfo": "text", "hovertext": hovers,
    }  # fmt: skip
    marks = {
        "type": "scatter", "mode": "markers", "x": begins, "y": list(map(plain, labels)), "hoverinfo": "text",
        "hovertext": hovers, "marker": {"symbol": "line-ns", "size": 13, "line": {"width": 3, "color": colours}},
    }  # fmt: skip
    more = f"; the last {len(some)} of {len(tried):,}" if len(some) < len(tried) else ""
    order = {"categoryorder": "array", "categoryarray": list(map(plain, labels))}
    return figure(
        [_gaps(some, begins, ends, labels), bars, marks], _times(min(begins), max(ends), more), {**TAG_AXIS, **order},
        height=64 + 22 * max(len(some), 2), margin={"l": 8, "r": 16, "t": 4, "b": 36},
    )  # fmt: skip


def _named(outcome: str) -> str:
    return outcome.replace("_", "-")


def _waits(some: Sequence[Any], begins: Sequence[float], ends: Sequence[float]) -> list[float | None]:
    """Milliseconds since the end of the attempt before; None where that is not there, or ended later."""
    waits: list[float | None] = [None]
    for place, (before, row) in enumerate(pairwise(some)):
        waited = begins[place + 1] - ends[place]
        waits.append(waited if row.number == before.number + 1 and waited >= 0 else None)
    return waits


def _gaps(some: Sequence[Any], begins: Sequence[float], ends: Sequence[float], labels: Sequence[str]) -> dict[str, Any]:
    """The time between two attempts, in the row of the later one."""
    waits = _waits(some, begins, ends)
    x, y = list[float | None](), list[str | None]()
    for begin, waited, label in zip(begins, waits, labels, strict=True):
        if waited:
            x += [begin - waited, begin, None]
            y += [plain(label), plain(label), None]
    line = {"width": 1.5, "color": GREY, "dash": "dot"}
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": line, "hoverinfo": "skip"}


def _told(row: Any, waited: float | None) -> str:
    """One attempt, exactly."""
    lines = [
        f"Lease {row.number:,} in cycle {row.cycle:,}: {_named(row.outcome)}",
        f"from {row.started_at:%Y-%m-%d %H:%M:%S.%f} UTC",
        f"to {row.ended_at:%Y-%m-%d %H:%M:%S.%f} UTC, {row.took:,.6g} s",
    ]
    lines += [f"{waited / 1_000:,.6g} s after the end of the one before"] if waited is not None else []
    lines += [f"held by {one_line(row.owner, 60)}"] if row.owner else []
    lines += [one_line(row.error, 90)] if isinstance(row.error, str) else []
    return "<br>".join(map(plain, lines))


def _times(first: float, last: float, more: str) -> dict[str, Any]:
    """The axis: milliseconds since 1970, drawn as UTC."""
    middle, span = (first + last) / 2, max(last - first, LEAST)
    edges = [middle - span * (0.5 + EDGE), middle + span * (0.5 + EDGE)]
    hours = span / 3_600_000
    shape = "%H:%M:%S.%1f" if hours < 0.001 else "%H:%M:%S" if hours < 0.1 else "%H:%M" if hours < 26 else "%b %-d"
    day = f"{pd.Timestamp(first, unit='ms'):%Y-%m-%d}, UTC"
    return {
        "type": "date", "title": day + more, "range": edges, "nticks": 4, "tickangle": 0, "tickformat": shape,
    }  # fmt: skip
