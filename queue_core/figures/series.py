"""The measured history over time, and how long tasks waited and took. Times are UTC."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import accumulate
from math import log10
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from queue_core.figures.base import (
    ACCENT,
    GREY,
    RED,
    STRIP,
    TAG_AXIS,
    TOP,
    Figure,
    categories,
    figure,
    no_data,
    plain,
    records,
    short,
    tag_colour,
)
from queue_core.frames import OTHERS, quantile_text

MARGIN = {"l": 8, "r": 156, "t": 8, "b": 36}  # names stand on the right
ROOM = 24  # ordinary letters of a name there
LINE = 16 / (STRIP - MARGIN["t"] - MARGIN["b"])  # height of a name, of the axis
TOLD = 5  # bands in the hover text
LEAST = 10.0  # seconds: of a span that has just begun, no rate is shown
RATES = (("pushed", GREY, "solid"), ("leased", GREY, "dot"), ("acked", ACCENT, "solid"), ("failed", RED, "solid"))
_MOMENTS = {
    0.001: "1 ms", 0.01: "10 ms", 0.1: "100 ms", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3_600: "1 h",
    36_000: "10 h", 864_000: "10 d",
}  # fmt: skip

Numbers = npt.NDArray[np.float64]


def backlog_over_time(series: pd.DataFrame, column: str = "pending", unit: str = "tasks pending") -> go.Figure:
    """A count of the series frame as bands one above the other: the twelve tags that had most of it, and all others.

    What is not known of a tag by itself is in the band of the others, so that the bands add up to the whole.
    """
    if series.empty:
        return no_data("no data: nothing was measured in this time", STRIP)
    ends, bands, names = _bands(series, column)
    highest = float(bands.sum(axis=0).max())
    if not highest:
        return no_data(f"no data: there were no {unit} in this time", STRIP)
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "lines", "stackgroup": "all", "x": ends, "y": band.astype(int).tolist(),
            "line": {"width": 1, "color": colour}, "fillcolor": f"{colour}99", "name": plain(label),
            "hoverinfo": "skip",
        }
        for band, (label, colour) in zip(bands, names, strict=True)
    ]  # fmt: skip
    whole = bands.sum(axis=0).astype(int).tolist()
    traces.append({
        "type": "scatter", "mode": "lines", "x": ends, "y": whole, "line": {"width": 0}, "hoverinfo": "text",
        "hovertext": [_story(*at, names, unit) for at in zip(ends, bands.astype(int).T.tolist(), strict=True)],
    })  # fmt: skip
    sizes = bands[:, -1].tolist()
    middles = [top - size / 2 for top, size in zip(accumulate(sizes), sizes, strict=True)]
    chosen = _with_room(middles, sizes, highest * 1.05)
    notes = [_note(short(names[place][0], ROOM), middles[place]) for place in chosen]
    y: dict[str, Any] = {"title": unit, "range": [0, highest * 1.05], "tickformat": ",d", "nticks": 6}
    return _over_time(traces, ends, y, notes, hovermode="x")


def _bands(series: pd.DataFrame, column: str) -> tuple[list[int], Numbers, list[tuple[str, str]]]:
    """The end of each span in milliseconds, a row of numbers for each band, and the bands' labels and colours."""
    moments, spans = np.unique(_ends(series), return_inverse=True)
    _, first, tags = np.unique(series["number"].to_numpy(), return_index=True, return_inverse=True)
    values = series[column].fillna(0).to_numpy(np.float64)
    held = np.bincount(tags, values * series["seconds"].to_numpy())
    held[series["other"].to_numpy()[first]] = 0
    tops = np.argsort(-held, kind="stable")[: min(TOP, np.count_nonzero(held))]
    bands = np.zeros((len(tops) + 1, len(moments)))
    for band, tag in zip(bands, tops, strict=False):
        mine = tags == tag
        band[spans[mine]] = values[mine]
    bands[-1] = np.bincount(spans, values, len(moments)) - bands[:-1].sum(axis=0)
    shown = series.iloc[first[tops]]
    names = list(zip(shown["label"], map(tag_colour, shown["tag"]), strict=True))
    if bands[-1].any():
        return moments.tolist(), bands, [*names, (OTHERS, GREY)]
    return moments.tolist(), bands[:-1], names


def _story(end: int, counts: Sequence[int], names: Sequence[tuple[str, str]], unit: str) -> str:
    """The largest bands at one moment."""
    held = sorted(((count, label) for count, (label, _) in zip(counts, names, strict=True) if count), reverse=True)
    lines = [f"{datetime.fromtimestamp(end / 1_000, UTC):%Y-%m-%d %H:%M:%S} UTC: {sum(counts):,} {unit}"]
    lines += [f"{count:,} {label}" for count, label in held[:TOLD]]
    if rest := held[TOLD:]:
        lines.append(f"{sum(count for count, _ in rest):,} in {len(rest)} further bands")
    return "<br>".join(map(plain, lines))


def _ends(frame: pd.DataFrame) -> npt.NDArray[np.int64]:
    """The end of each span, in milliseconds."""
    return frame["start"].to_numpy(np.int64) // 1_000 + (frame["seconds"].to_numpy() * 1_000).astype(np.int64)


def _over_time(
    traces: Sequence[dict[str, Any]],
    moments: Sequence[int],
    y: dict[str, Any],
    notes: Sequence[dict[str, Any]],
    hovermode: str,
) -> go.Figure:
    """Moments are milliseconds since 1970, and drawn as UTC: an axis that knows of zones would be slow."""
    hours = (moments[-1] - moments[0]) / 3_600_000
    x = {
        "type": "date", "title": "UTC", "showgrid": False, "nticks": 7, "hoverformat": "%Y-%m-%d %H:%M:%S UTC",
        "tickformat": "%H:%M:%S" if hours < 0.1 else "%H:%M" if hours < 26 else "%b %-d",
    }  # fmt: skip
    return figure(traces, x, y, height=STRIP, margin=MARGIN, annotations=notes, hovermode=hovermode)


def _note(text: str, height: float) -> dict[str, Any]:
    """A name on the right."""
    return {
        "x": 1, "xref": "paper", "xanchor": "left", "xshift": 6, "y": height, "showarrow": False, "text": plain(text),
    }  # fmt: skip


def _with_room(middles: Sequence[float], sizes: Sequence[float], highest: float) -> list[int]:
    """The bands that get a name: the largest first, as many as have room."""
    chosen: list[int] = []
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        if sizes[place] > 0 and all(abs(middles[place] - middles[other]) >= LINE * highest for other in chosen):
            chosen.append(place)
    return chosen


def throughput(totals: pd.DataFrame) -> go.Figure:
    """Tasks pushed, leases, acknowledgements and failed attempts a second, from the totals frame.

    Each is the mean of its span, and stands at its middle. A span that has just begun is left out.
    """
    if len(totals) > 1 and totals["seconds"].iloc[-1] < LEAST:
        totals = totals.iloc[:-1]
    if totals.empty:
        return no_data("no data: nothing was measured in this time", STRIP)
    middles = (_ends(totals) - (totals["seconds"].to_numpy() * 500).astype(np.int64)).tolist()
    rates = {name: totals[f"{name}_rate"].tolist() for name, _, _ in RATES}
    highest = max(map(max, rates.values())) or 1.0
    traces = [
        {
            "type": "scatter", "mode": "lines" if len(middles) > 1 else "markers", "x": middles, "y": rates[name],
            "line": {"width": 1.75, "color": colour, "dash": dash}, "marker": {"size": 8, "color": colour},
            "name": name, "hovertemplate": f"%{{y:,.3~f}}/s {name}<extra></extra>",
        }
        for name, colour, dash in RATES
    ]  # fmt: skip
    now = sorted((values[-1], name) for name, values in rates.items())
    heights = _apart([rate for rate, _ in now], LINE * highest * 1.05, highest)
    notes = [_note(f"{name} {_rate(rate)}", height) for (rate, name), height in zip(now, heights, strict=True)]
    y = {"title": "per second", "range": [0, highest * 1.05], "nticks": 6}
    return _over_time(traces, middles, y, notes, hovermode="x unified")


def _rate(rate: float) -> str:
    return f"{rate:,.0f}/s" if rate >= 99.5 else f"{rate:.3g}/s"


def _apart(heights: Sequence[float], least: float, most: float) -> list[float]:
    """Ascending heights, moved until each is ``least`` above the one before, and none above ``most``."""
    moved: list[float] = []
    for height in heights:
        moved.append(max(height, moved[-1] + least) if moved else height)
    for place in reversed(range(len(moved))):
        moved[place] = min(moved[place], most)
        most = moved[place] - least
    return [max(height, 0.0) for height in moved]  # rounding may leave one below the axis, where it is not drawn


def times_by_tag(times: pd.DataFrame, what: str = "wait") -> go.Figure:
    """How long tasks of a tag waited (``wait``), or attempts took (``service``), from the times frame.

    A line from the median to the 99th percentile, with a tick at the 95th: of the whole queue, and of the twelve tags
    whose 95th is the longest. The axis is logarithmic.
    """
    some = times[times[f"{what}_count"] > 0]
    if some.empty:
        return no_data(f"no data: nothing has been {'leased' if what == 'wait' else 'worked on'} yet")
    slowest = some[~some["whole"]].sort_values(f"{what}_p95", ascending=False, kind="stable").head(TOP)
    some = pd.concat([some[some["whole"]], slowest])
    labels = categories(some["label"])
    half, most, nearly = (some[f"{what}_{name}"].tolist() for name in ("p50", "p95", "p99"))
    hovers = [
        f"{row.label}: half within {p50:,.3f} s, 95 % within {p95:,.3f} s, 99 % within {p99:,.3f} s"
        for row, p50, p95, p99 in zip(records(some), half, most, nearly, strict=True)
    ]
    colours = [ACCENT if row.whole else tag_colour(row.tag) for row in records(some)]
    lines = {
        "type": "scatter", "mode": "lines", "hoverinfo": "skip", "line": {"width": 2, "color": GREY},
        "x": [x for ends in zip(half, nearly, strict=True) for x in (*ends, None)],
        "y": [label for label in labels for _ in range(3)],
    }  # fmt: skip
    marks = [
        {
            "type": "scatter", "mode": "markers", "x": places, "y": labels, "hoverinfo": "text",
            "hovertext": list(map(plain, hovers)),
            "marker": {"symbol": symbol, "size": size, "color": colours, "line": {"width": 2, "color": colours}},
        }
        for places, symbol, size in ((half, "circle", 8), (most, "line-ns", 14), (nearly, "circle-open", 8))
    ]  # fmt: skip
    notes = [
        {"x": log10(p99), "y": label, "showarrow": False, "xanchor": "left", "xshift": 8, "text": quantile_text(p95)}
        for p99, p95, label in zip(nearly, most, labels, strict=True)
    ]
    axis = {
        "title": f"{what}: median (dot), 95th percentile (tick, in words), 99th (ring)", "type": "log",
        "range": [log10(min(half) / 1.5), log10(max(nearly) * 4)], "tickvals": list(_MOMENTS),
        "ticktext": list(_MOMENTS.values()),
    }  # fmt: skip
    return figure([lines, *marks], axis, TAG_AXIS, annotations=notes)


def marked(drawn: go.Figure, at: datetime) -> go.Figure:
    """A figure over time with a line at a moment."""
    moment = int(at.timestamp() * 1_000)
    line = {
        "type": "line", "x0": moment, "x1": moment, "y0": 0, "y1": 1, "yref": "paper",
        "line": {"color": ACCENT, "width": 2, "dash": "dot"},
    }  # fmt: skip
    layout = drawn.to_plotly_json()["layout"]
    return Figure(drawn.data, {**layout, "shapes": [*layout.get("shapes", ()), line]})
