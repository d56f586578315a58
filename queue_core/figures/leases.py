"""Leases in flight."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import repeat
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from queue_core.figures.base import (
    ACCENT,
    AMBER,
    GREY,
    RED,
    TAG_AXIS,
    TOP,
    categories,
    count_axis,
    figure,
    no_data,
    plain,
    records,
    span_ticks,
    tick_trace,
    vertical,
)
from queue_core.frames import one_line, plural

LEAST = 0.005  # of the whole width


def lease_ages(leases: pd.DataFrame, rows: int = TOP) -> go.Figure:
    """The oldest leases, each from its begin to its end on a line where 0 is now, with its last heartbeat as a tick.

    Grey is good, red has run out.
    """
    if leases.empty:
        return no_data("no data: no leases to show")
    some = leases.sort_values("age", ascending=False, kind="stable").head(rows)
    labels = categories(f"{row.label} · {one_line(row.owner, 18)} · {row.id[-4:]}" for row in records(some))
    least = LEAST * float(some["age"].max() + some["expires_in"].clip(lower=0.0).max())
    good, over = (_spans(some, labels, expired, least) for expired in (False, True))
    beats = tick_trace([-silence for silence in some["silence"]], labels, 12, ACCENT)
    ticks, words = span_ticks(max(float(some["age"].max()), float(some["expires_in"].max()), 1.0))
    axis = {
        "title": "before and after now; tick: last heartbeat",
        "tickvals": [-tick for tick in ticks[:0:-1]] + ticks, "ticktext": [f"−{word}" for word in words[:0:-1]] + words,
    }  # fmt: skip
    order = {"categoryorder": "array", "categoryarray": labels}
    return figure(
        [good, over, beats], axis, {**TAG_AXIS, **order}, height=_height(len(some)), barmode="overlay",
        shapes=[vertical(0, GREY, "dot")],
    )  # fmt: skip


def _height(rows: int) -> int:
    return 80 + 24 * max(rows, 6)


def _spans(some: pd.DataFrame, labels: Sequence[str], expired: bool, least: float) -> dict[str, Any]:
    """A bar from begin to end for each lease that has run out, or has not, at least ``least`` seconds wide."""
    rows = [(row, label) for row, label in zip(records(some), labels, strict=True) if row.expired == expired]
    left = "over for" if expired else "time left"
    hovers = [
        f"{row.label}, held by {row.owner or 'somebody'}: age {row.age:,.1f} s, silent for {row.silence:,.1f} s, "
        f"{left} {abs(row.expires_in):,.1f} s, attempt {row.attempt} of {row.max_attempts}"
        for row, _ in rows
    ]
    return {
        "type": "bar", "orientation": "h", "width": 0.6, "y": [label for _, label in rows],
        "base": [-row.age for row, _ in rows], "x": [max(row.age + row.expires_in, least) for row, _ in rows],
        "marker": {"color": RED if expired else GREY, "opacity": 0.55}, "hoverinfo": "text",
        "hovertext": list(map(plain, hovers)),
    }  # fmt: skip


AGES = (1, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400)  # seconds: where the next bar of ages begins
FEWEST = 6  # bars that have room at least, or one alone would be as wide as the figure
_BARS = (
    "< 1 s",
    "1–5 s",
    "5–10 s",
    "10–30 s",
    "30–60 s",
    "1–5 min",
    "5–15 min",
    "15–60 min",
    "1–6 h",
    "6–24 h",
    "> 1 d",
)


def age_histogram(leases: pd.DataFrame) -> go.Figure:
    """How long leases have been held: a bar for each span of ages; good ones, those of lost workers, and expired. As
    high as the figure of their ages."""
    if leases.empty:
        return no_data("no data: no leases to show")
    kinds: dict[str, list[int]] = {name: [0] * len(_BARS) for name in ("good", "worker lost or stopped", "ran out")}
    marks = leases["mark"] if "mark" in leases else repeat("")
    for age, expired, mark in zip(leases["age"], leases["expired"], marks, strict=False):
        kind = "ran out" if expired else "worker lost or stopped" if mark else "good"
        kinds[kind][bisect_right(AGES, age)] += 1
    whole = [sum(counts) for counts in zip(*kinds.values(), strict=True)]
    last = max(FEWEST, *(place + 1 for place, count in enumerate(whole) if count))
    bars = [
        {
            "type": "bar", "x": list(_BARS[:last]), "y": counts[:last], "marker": {"color": colour},
            "hoverinfo": "text",
            "hovertext": [f"{bar}: {plural(count, 'lease')}, {kind}" for bar, count in zip(_BARS, counts, strict=True)],
        }
        for (kind, counts), colour in zip(kinds.items(), (GREY, AMBER, RED), strict=True)
    ]  # fmt: skip
    axis = {"title": "age", "type": "category", "showgrid": False}
    return figure(
        bars, axis, count_axis("leases", whole), height=_height(min(len(leases), TOP)), barmode="stack", bargap=0.15
    )
