"""One tag by itself: how long its tasks waited and its attempts took, as a histogram."""

from collections.abc import Sequence
from math import log10
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from queue_core.figures.base import GREY, STRIP, figure, no_data, tag_colour, vertical, whole_axis
from queue_core.frames import quantile_text

LEAST = 0.0005  # seconds: where the lowest bucket begins on the axis
NAMED = {
    0.001: "1 ms", 0.01: "10 ms", 0.1: "100 ms", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3_600: "1 h",
    36_000: "10 h", 864_000: "10 d",
}  # fmt: skip


def times_histogram(times: pd.DataFrame, what: str, tag: str, lines: Sequence[float | None] = ()) -> go.Figure:
    """How many tasks waited so long (``wait``), or attempts took so long (``service``): from the histogram frame.

    ``lines`` are drawn across, such as quantiles, in seconds; those that are None are left out. The axis is
    logarithmic, so that all bars are about equally wide.
    """
    some = times[times["what"] == what]
    if some.empty:
        return no_data(f"no data: nothing has been {'leased' if what == 'wait' else 'worked on'} yet", STRIP)
    counts, begins, ends = (some[name].tolist() for name in ("count", "low", "high"))
    lows = [max(low, LEAST) for low in begins]
    highs = [high if high == high else 2 * low for low, high in zip(begins, ends, strict=True)]
    unit = "tasks" if what == "wait" else "attempts"
    trace = {
        "type": "bar", "x": lows, "y": counts, "offset": 0, "hoverinfo": "text",
        "width": [high - low for low, high in zip(lows, highs, strict=True)], "marker": {"color": tag_colour(tag)},
        "hovertext": [f"{count:,} {unit}: {_range(*ends)}" for count, *ends in zip(counts, begins, ends, strict=True)],
    }  # fmt: skip
    x: dict[str, Any] = {
        "title": "waited" if what == "wait" else "took", "type": "log", "tickvals": list(NAMED), "showgrid": False,
        "ticktext": list(NAMED.values()), "range": [log10(min(lows) / 2), log10(max(highs) * 2)],
    }  # fmt: skip
    y = {"rangemode": "tozero", **whole_axis(unit, int(some["count"].max()))}
    shapes = [vertical(max(at, LEAST), GREY, "dot") for at in lines if at is not None]
    margin = {"l": 8, "r": 24, "t": 8, "b": 36}
    return figure([trace], x, y, height=STRIP, shapes=shapes, margin=margin)


def _range(low: float, high: float) -> str:
    if high != high:
        return f"{quantile_text(low)} or more"
    return f"{quantile_text(low)} to {quantile_text(high)}" if low else "less than 1 ms"
