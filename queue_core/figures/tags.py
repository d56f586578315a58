"""Counts, waits and errors, as bars: the largest, and all the others together."""

import pandas as pd
import plotly.graph_objects as go

from queue_core.figures.base import (
    AMBER,
    GREY,
    TAG_AXIS,
    TOP,
    bar_trace,
    categories,
    count_axis,
    figure,
    no_data,
    span_ticks,
    tag_colour,
    vertical,
)
from queue_core.frames import SLOW_WAIT, duration


def count_by_tag(tags: pd.DataFrame, column: str = "backlog", unit: str = "tasks") -> go.Figure:
    """A count of the tags frame (``backlog``, ``dead``, ``inflight`` …): the largest twelve, and all the others."""
    some = tags[tags[column] > 0].sort_values([column, "number"], ascending=[False, True], kind="stable")
    if some.empty:
        return no_data(f"no data: no tag has any {unit}")
    top, rest = some.head(TOP), some.iloc[TOP:]
    labels, values = list(top["label"]), [int(value) for value in top[column]]
    colours = [tag_colour(name) for name in top["tag"]]
    if len(rest):
        labels.append(f"{len(rest):,} other tags" if len(rest) > 1 else "1 other tag")
        values.append(int(rest[column].sum()))
        colours.append(GREY)
    hovers = [f"{label}: {value:,} {unit}" for label, value in zip(labels, values, strict=True)]
    bars = bar_trace(categories(labels), values, [f"{value:,}" for value in values], colours, hovers)
    return figure([bars], count_axis(unit, values), TAG_AXIS)


def errors(dead: pd.DataFrame, rows: int = 8) -> go.Figure:
    """The most frequent errors of the dead frame (the reason, where there was no error), and all the others."""
    if dead.empty:
        return no_data("no data: no dead letters to show")
    texts = dead["error"].where(dead["error"] != "", dead["reason"])
    counts = texts.value_counts()
    top, rest = counts.iloc[:rows], counts.iloc[rows:]
    labels = [f"{text[:43]}…" if len(text) > 44 else text or "(no error text)" for text in top.index]
    values, hovers = [int(value) for value in top], [f"{value:,} × {text}" for text, value in top.items()]
    if len(rest):
        labels.append(f"{len(rest):,} other errors" if len(rest) > 1 else "1 other error")
        values.append(int(rest.sum()))
        hovers.append(f"{values[-1]:,} with other errors")
    bars = bar_trace(categories(labels), values, [f"{value:,}" for value in values], [GREY] * len(values), hovers)
    return figure([bars], count_axis("dead letters shown", values), TAG_AXIS)


def oldest_wait_by_tag(tags: pd.DataFrame) -> go.Figure:
    """How long the next task of a tag has waited: the longest twelve, with a line where it becomes too long."""
    some = tags[tags["oldest_wait"].notna()].sort_values("oldest_wait", ascending=False, kind="stable").head(TOP)
    if some.empty:
        return no_data("no data: nothing waits")
    waits = [float(wait) for wait in some["oldest_wait"]]
    held = [why if isinstance(why, str) else "" for why in some["why_not"]]
    hovers = [
        f"{label}: {wait:,.3f} s" + (f", not served: {why}" if why else "")
        for label, wait, why in zip(some["label"], waits, held, strict=True)
    ]
    colours = [tag_colour(name) for name in some["tag"]]
    bars = bar_trace(categories(some["label"]), waits, [duration(wait) for wait in waits], colours, hovers)
    ticks, words = span_ticks(max(waits))
    axis = {"title": "oldest wait", "rangemode": "tozero", "tickvals": ticks, "ticktext": words}
    return figure([bars], axis, TAG_AXIS, shapes=[vertical(SLOW_WAIT, AMBER, "dash")] if max(waits) > SLOW_WAIT else [])
