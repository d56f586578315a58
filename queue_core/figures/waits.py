"""How long the tags of a simulation waited: of one result, or of two against each other."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from queue_core.figures.base import (
    GREY,
    TAG_AXIS,
    TOP,
    bar_trace,
    categories,
    figure,
    no_data,
    plain,
    records,
    span_ticks,
    tag_colour,
    tick_trace,
)
from queue_core.frames import duration

NOTHING = "no data: nothing was served"
MARGIN = {"l": 8, "r": 152, "t": 4, "b": 36}  # on the right words


def waits(tags: pd.DataFrame) -> go.Figure:
    """Mean wait (bar) and 95th percentile (line across it) by tag, both in words behind them, from the tags frame of a
    result: the twelve tags of the longest mean."""
    some = tags[tags["served"] > 0].sort_values("wait_mean", ascending=False, kind="stable")
    if some.empty:
        return no_data(NOTHING)
    rows = records(some.head(TOP))
    labels = categories(row.label for row in rows)
    hovers = [
        f"{row.label}: {row.served:,} served; mean {row.wait_mean:,.3f} s, half within {row.wait_p50:,.3f} s, "
        f"95 % within {row.wait_p95:,.3f} s, 99 % within {row.wait_p99:,.3f} s, longest {row.longest_wait:,.3f} s"
        for row in rows
    ]
    bars = bar_trace(labels, [row.wait_mean for row in rows], [""] * len(rows), _colours(rows), hovers)
    most = tick_trace([row.wait_p95 for row in rows], labels, 14, GREY)
    ends = [max(row.wait_mean, row.wait_p95) for row in rows]
    notes = [
        _note(label, end, f"{duration(row.wait_mean)}; 95 %: {duration(row.wait_p95)}")
        for label, row, end in zip(labels, rows, ends, strict=True)
    ]
    axis = _axis(f"wait: mean (bar), 95th percentile (line){_part(rows, some)}", max(ends))
    return figure([bars, most], axis, TAG_AXIS, annotations=notes, margin=MARGIN)


def waits_compared(compared: pd.DataFrame, measure: str = "wait_mean") -> go.Figure:
    """A wait before (ring) and after (dot) by tag, joined by a line, from the frame of ``simulate.compare``: the twelve
    tags that changed most. ``measure`` is "wait_mean", "wait_p95" or "longest_wait"."""
    some = compared.dropna(subset=[f"{measure}_change"])
    if some.empty:
        return no_data("no data: no tag was served both times")
    order = some[f"{measure}_change"].abs().sort_values(ascending=False, kind="stable").index
    rows = records(some.loc[order[:TOP]])
    labels = categories(row.label for row in rows)
    before, after = ([float(getattr(row, f"{measure}_{when}")) for row in rows] for when in ("before", "after"))
    words = {"wait_mean": "mean wait", "wait_p95": "95th percentile of the wait", "longest_wait": "longest wait"}
    hovers = [
        f"{row.label}: {words[measure]} {old:,.3f} s before, {new:,.3f} s after"
        for row, old, new in zip(rows, before, after, strict=True)
    ]
    colours, longest = _colours(rows), max(*before, *after) or 1.0
    lines = {
        "type": "scatter", "mode": "lines", "hoverinfo": "skip", "line": {"width": 2, "color": GREY},
        "x": [x for ends in zip(before, after, strict=True) for x in (*ends, None)],
        "y": [label for label in labels for _ in range(3)],
    }  # fmt: skip
    marks = [
        {
            "type": "scatter", "mode": "markers", "x": places, "y": labels, "hoverinfo": "text",
            "cliponaxis": False, "hovertext": list(map(plain, hovers)),
            "marker": {"symbol": symbol, "size": 10, "color": colours, "line": {"width": 2, "color": colours}},
        }
        for places, symbol in ((before, "circle-open"), (after, "circle"))
    ]  # fmt: skip
    notes = [
        _note(label, max(old, new), f"{duration(old)} → {duration(new)}")
        for label, old, new in zip(labels, before, after, strict=True)
    ]
    axis = _axis(f"{words[measure]}: before (ring), after (dot){_part(rows, some)}", longest)
    axis["range"] = [-0.03 * longest, 1.03 * longest]  # no mark on a name
    return figure([lines, *marks], axis, TAG_AXIS, annotations=notes, margin=MARGIN)


def _colours(rows: Sequence[Any]) -> list[str]:
    return [tag_colour(row.tag) for row in rows]


def _note(at: str, end: float, text: str) -> dict[str, Any]:
    return {"x": end, "y": at, "showarrow": False, "xanchor": "left", "xshift": 10, "text": text}


def _part(rows: Sequence[Any], some: pd.DataFrame) -> str:
    return f"; {len(rows)} of {len(some):,} tags" if len(rows) < len(some) else ""


def _axis(title: str, longest: float) -> dict[str, Any]:
    ticks, words = span_ticks(longest)
    return {"title": title, "rangemode": "tozero", "tickvals": ticks, "ticktext": words}
