"""Frames as Plotly figures. Pure: a frame goes in, a figure comes out, with "no data" in words when it is empty.

Figures fit a light page as they are; the dashboard repaints text, grid and background from its theme. Colours of
tags and marks have the same luminance, so that they stand out (4:1) from a white as from a near-black page.
"""

import colorsys
import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate
from typing import Any
from unicodedata import east_asian_width

try:
    import plotly.graph_objects as go
except ModuleNotFoundError as error:
    from queue_core.errors import MissingDriver

    raise MissingDriver("figures need plotly: pip install 'queue_core[dashboard]' or 'queue_core[notebook]'") from error

import pandas as pd

from queue_core.frames import SLOW_WAIT, duration, one_line, share_text

TOP = 12  # tags that get a bar or a row of their own
RING = 120  # tags that get a dot
LINE = 0.14  # height of a name beside the ring, of its radius
WIDE, LETTERS = 2.17, 21.6  # from the middle of the ring to the edge; ordinary letters: both of its radius
HEIGHT, STRIP = 340, 240  # pixels
GREY, AMBER, RED, ACCENT = "#7d8799", "#b5731b", "#d8474c", "#4b74ee"
_LUMINANCE = 0.19
_HUES = 24


@lru_cache(maxsize=20_000)
def tag_colour(name: str) -> str:
    """The colour of a tag: a function of its name, so the same on all pages and in every process."""
    # the salt is one that sets the largest tags of the demo apart
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=2, salt=b"tag 9").digest()
    hue, chroma = (digest[0] % _HUES) / _HUES, 0.45 + 0.3 * (digest[1] % 3) / 2
    dark, light = 0.0, 1.0
    for _ in range(12):  # luminance grows with lightness: halve until it fits
        middle = (dark + light) / 2
        dark, light = (middle, light) if luminance(_hex(hue, middle, chroma)) < _LUMINANCE else (dark, middle)
    return _hex(hue, dark, chroma)


def _hex(hue: float, lightness: float, saturation: float) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(hue, lightness, saturation))


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb`` as WCAG 2 defines it, 0 to 1."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def plain(text: str) -> str:
    """Text that Plotly shows as it is, instead of taking parts of it for markup, or in JupyterLab for formulas."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")


def _rows(frame: pd.DataFrame) -> list[Any]:
    return list(frame.itertuples())


def _figure(
    traces: Sequence[dict[str, Any]], x: dict[str, Any], y: dict[str, Any], *, height: int = HEIGHT, **layout: Any
) -> go.Figure:
    """A figure built in one step: Plotly's update methods cost ten times as much."""
    title = {"font": {"size": 12}, "standoff": 6}
    axes = {
        name: {"automargin": True, "zeroline": False, **axis, "title": title | {"text": axis.get("title", "")}}
        for name, axis in (("xaxis", x), ("yaxis", y))
    }
    base = {
        "height": height, "template": "none", "showlegend": False, "hoverlabel": {"align": "left"},
        "font": {"size": 12}, "margin": {"l": 8, "r": 56, "t": 4, "b": 36},
    }  # fmt: skip
    return go.Figure(list(traces), base | axes | layout)


def no_data(text: str) -> go.Figure:
    """An empty figure that says why."""
    words = {"text": plain(text), "showarrow": False, "x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper"}
    return _figure([], {"visible": False}, {"visible": False}, annotations=[words])


def _span_ticks(longest: float) -> tuple[list[float], list[str]]:
    """At most six ticks of a round step from 0 s, in words."""
    steps = [
        step * unit
        for unit, small in ((1e-3, False), (1.0, True), (60.0, True), (3600.0, True), (86_400.0, False))
        for step in ((1, 2, 5, 10, 15, 30) if small else (1, 2, 5, 10, 20, 50, 100, 200, 500))
    ]
    step = next((step for step in steps if longest / step <= 5), steps[-1] * math.ceil(longest / steps[-1] / 5))
    ticks = [step * n for n in range(int(longest / step) + 1)]
    return ticks, [duration(tick).replace(".0 s", " s") for tick in ticks]


def _bars(
    labels: Sequence[str], values: Sequence[float], texts: Sequence[str], colours: Sequence[str], hovers: Sequence[str]
) -> dict[str, Any]:
    """Horizontal bars, each with its text at its end."""
    return {
        "type": "bar", "orientation": "h", "x": list(values), "y": [plain(label) for label in labels],
        "marker": {"color": list(colours)}, "text": list(texts), "textposition": "outside", "cliponaxis": False,
        "hovertext": list(map(plain, hovers)), "hoverinfo": "text", "width": min(0.75, len(labels) / TOP),
    }  # fmt: skip


def _ticks(places: Sequence[float], labels: Sequence[str], size: int, colour: str) -> dict[str, Any]:
    """A short line across each bar."""
    line = {"width": 2 if size < 16 else 3, "color": colour}
    return {
        "type": "scatter", "mode": "markers", "x": list(places), "y": [plain(label) for label in labels],
        "hoverinfo": "skip", "marker": {"symbol": "line-ns", "size": size, "line": line},
    }  # fmt: skip


def _whole(title: str, span: float, most: int = 6) -> dict[str, Any]:
    """An axis of whole numbers, none of them twice where there are few."""
    return {"title": title, "tickformat": ",d"} | ({"dtick": 1} if span < most else {"nticks": most})


def _counts(title: str, counts: Sequence[float]) -> dict[str, Any]:
    return {"rangemode": "tozero", **_whole(title, max(counts))}


TAG_AXIS = {"type": "category", "autorange": "reversed", "showgrid": False, "ticksuffix": " "}


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
    bars = _bars(labels, values, [f"{value:,}" for value in values], colours, hovers)
    return _figure([bars], _counts(unit, values), TAG_AXIS)


def errors(dead: pd.DataFrame, rows: int = 8) -> go.Figure:
    """The most frequent errors of the dead frame (the reason, where there was no error), and all the others."""
    if dead.empty:
        return no_data("no data: no dead letters to show")
    texts = dead["error"].where(dead["error"] != "", dead["reason"])
    counts = texts.value_counts()
    top, rest = counts.iloc[:rows], counts.iloc[rows:]
    labels = [f"{text[:43]}…" if len(text) > 44 else text or "(no error text)" for text in top.index]
    labels = [label if label not in labels[:place] else f"{label} ({place})" for place, label in enumerate(labels)]
    values, hovers = [int(value) for value in top], [f"{value:,} × {text}" for text, value in top.items()]
    if len(rest):
        labels.append(f"{len(rest):,} other errors" if len(rest) > 1 else "1 other error")
        values.append(int(rest.sum()))
        hovers.append(f"{values[-1]:,} with other errors")
    bars = _bars(labels, values, [f"{value:,}" for value in values], [GREY] * len(values), hovers)
    return _figure([bars], _counts("dead letters shown", values), TAG_AXIS)


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
    bars = _bars(list(some["label"]), waits, [duration(wait) for wait in waits], colours, hovers)
    ticks, words = _span_ticks(max(waits))
    axis = {"title": "oldest wait", "rangemode": "tozero", "tickvals": ticks, "ticktext": words}
    return _figure([bars], axis, TAG_AXIS, shapes=[_line(SLOW_WAIT, AMBER, "dash")] if max(waits) > SLOW_WAIT else [])


def _line(x: float, colour: str, dash: str) -> dict[str, Any]:
    """A vertical line over the whole height."""
    return {
        "type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper",
        "line": {"color": colour, "width": 1, "dash": dash},
    }  # fmt: skip


def ring(tags: pd.DataFrame) -> go.Figure:
    """The rotation as a ring, clockwise from the top in first-seen order, from the ring frame.

    Filled dots can be served, hollow ones are skipped; the pointer is the cursor, the large dot is next.
    """
    if tags.empty:
        return no_data("no data: no tag is known yet")
    shown = tags
    if len(tags) > RING:  # those that matter for the next serves, in their order
        important = tags["cursor"] | tags["next"] | tags["last"]
        ranks = tags.assign(held=tags["why_not"].notna() & ~important).sort_values(["held", "ahead"], kind="stable")
        shown = tags.loc[sorted(ranks.index[:RING])]
    angles = [2 * math.pi * place / len(shown) for place in range(len(shown))]
    turns = [2 * math.pi * step / 90 for step in range(91)]
    circle = {
        "type": "scatter", "mode": "lines", "x": list(map(math.sin, turns)), "y": list(map(math.cos, turns)),
        "line": {"color": GREY, "width": 1}, "opacity": 0.5, "hoverinfo": "skip",
    }  # fmt: skip
    notes = [_pointer(angle) for angle, cursor in zip(angles, shown["cursor"], strict=True) if cursor]
    notes.append({"x": 0, "y": 0, "showarrow": False, "text": _centre(tags, len(shown))})
    x = {"visible": False, "automargin": False, "range": [-WIDE, WIDE]}
    y = {"visible": False, "automargin": False, "range": [-1.22, 1.22], "scaleanchor": "x"}
    margin = {"l": 4, "r": 4, "t": 4, "b": 4}
    return _figure([circle, _dots(shown, angles), _names(shown, angles)], x, y, annotations=notes, margin=margin)


def _pointer(angle: float) -> dict[str, Any]:
    """An arrow from the middle to a place on the ring."""
    return {
        "x": 0.9 * math.sin(angle), "y": 0.9 * math.cos(angle), "ax": 0.45 * math.sin(angle),
        "ay": 0.45 * math.cos(angle), "xref": "x", "yref": "y", "axref": "x", "ayref": "y", "showarrow": True,
        "arrowhead": 2, "arrowwidth": 2, "arrowcolor": ACCENT, "text": "",
    }  # fmt: skip


def _dots(shown: pd.DataFrame, angles: Sequence[float]) -> dict[str, Any]:
    rows = _rows(shown)
    colours = [tag_colour(row.tag) for row in rows]
    small = min(12, max(5, 600 // len(rows)))  # pixels, so that they do not touch
    return {
        "type": "scatter", "mode": "markers", "cliponaxis": False, "hoverinfo": "text",
        "x": list(map(math.sin, angles)), "y": list(map(math.cos, angles)),
        "marker": {
            "size": [small + 7 if row.next else small for row in rows], "color": colours,
            "symbol": ["circle-open" if isinstance(row.why_not, str) else "circle" for row in rows],
            "line": {"width": 2 if small > 8 else 1, "color": colours},
        },
        "hovertext": [plain(_dot_story(row)) for row in rows],
    }  # fmt: skip


def _names(shown: pd.DataFrame, angles: Sequence[float]) -> dict[str, Any]:
    """Names around the ring, those that are served soonest first, as many as have room."""
    rows = _rows(shown)
    taken: dict[bool, list[float]] = {True: [], False: []}  # heights on the right and on the left
    chosen: list[int] = []
    for place in sorted(
        range(len(rows)), key=lambda at: (not rows[at].next, isinstance(rows[at].why_not, str), rows[at].ahead)
    ):
        side, height = math.sin(angles[place]) > -1e-9, math.cos(angles[place])
        if all(abs(height - other) >= LINE for other in taken[side]):
            taken[side].append(height)
            chosen.append(place)
    names = [plain(_fit(rows[place].label, rows[place].next, angles[place])) for place in chosen]
    return {
        "type": "scatter", "mode": "text", "cliponaxis": False, "hoverinfo": "skip",
        "x": [1.08 * math.sin(angles[place]) for place in chosen],
        "y": [1.08 * math.cos(angles[place]) for place in chosen],
        "text": [f"<b>{name} · next</b>" if rows[at].next else name for at, name in zip(chosen, names, strict=True)],
        "textposition": ["middle right" if math.sin(angles[place]) > -1e-9 else "middle left" for place in chosen],
    }  # fmt: skip


def _fit(label: str, next: bool, angle: float) -> str:
    """The label, or as much of its beginning as there is room for beside the ring."""
    room = (WIDE - 1.08 * abs(math.sin(angle))) * LETTERS
    return _short(label, room - 9 if next else room)


def _short(label: str, room: float = 26) -> str:
    """The label, cut where it gets wider than ``room`` ordinary letters."""
    widths = [2 if east_asian_width(sign) in "WF" else 1.5 if sign.isupper() else 1 for sign in label]
    if sum(widths) <= room:
        return label
    return label[: bisect_right(list(accumulate(widths)), room - 2)] + "…"


def _dot_story(row: Any) -> str:
    state = f"skipped: {row.why_not}" if isinstance(row.why_not, str) else "can be served"
    served = "never served" if math.isnan(row.since_served) else f"served {duration(row.since_served)} ago"
    return f"{row.label}: {state}, {row.backlog:,} waiting; weight {row.weight}; {served}"


def _centre(tags: pd.DataFrame, shown: int) -> str:
    ready = int(tags["why_not"].isna().sum())
    of = f"{shown:,} of {len(tags):,} tags shown" if shown < len(tags) else f"of {len(tags):,} tags"
    last = [f"last served: {plain(_short(label))}" for label in tags.loc[tags["last"], "label"]]
    return "<br>".join([f"<b>{ready:,}</b> can be served", of, *last])


def shares(frame: pd.DataFrame) -> go.Figure:
    """Serves got (bar) against serves due (line across it), from the shares frame.

    The six tags that were due most, and of the others the six furthest from what was due.
    """
    if frame.empty:
        return no_data("no data: nothing has been served yet")
    most, others = frame.index[: TOP // 2], frame.iloc[TOP // 2 :]
    furthest = others["difference"].abs().sort_values(ascending=False, kind="stable").index
    rows = _rows(frame.loc[sorted({*most, *furthest[: TOP // 2]})])
    labels = [row.label for row in rows]
    hovers = [
        f"{row.label}, weight {row.weight}: served {row.served:,} times ({share_text(row.share)}), "
        f"due {row.entitled:,.2f} ({share_text(row.entitled_share)}); longest wait {duration(row.longest_wait)}"
        for row in rows
    ]
    colours = [tag_colour(row.tag) for row in rows]
    bars = _bars(labels, [row.served for row in rows], [""] * len(rows), colours, hovers)
    notes = [
        {
            "x": max(row.served, row.entitled), "y": plain(row.label), "showarrow": False, "xanchor": "left",
            "xshift": 8, "text": f"{row.served:,} of {row.entitled:,.1f}",
        }
        for row in rows
    ]  # fmt: skip
    of = f", {len(rows)} of {len(frame):,} tags" if len(rows) < len(frame) else ""
    due = _ticks([row.entitled for row in rows], labels, 14, GREY)
    axis = _counts(f"serves{of}", [max(row.served, row.entitled) for row in rows])
    return _figure([bars, due], axis, TAG_AXIS, annotations=notes)


def serves(frame: pd.DataFrame, last: int = 120) -> go.Figure:
    """A strip of the last serves, one mark each, so that the rotation shows as a pattern.

    A row per tag; with more than twelve tags the height is the place in the ring.
    """
    strip = frame.tail(last)
    if strip.empty:
        return no_data("no data: nothing has been served yet")
    rows = _rows(strip)
    hovers = [
        f"serve {row.serve:,}: {row.label}, waited {duration(row.wait)}, {row.at:%H:%M:%S} UTC, "
        f"{row.owner or 'owner unknown'}"
        for row in rows
    ]
    names = {row.number: plain(row.label) for row in sorted(rows, key=lambda row: row.number)}
    few = len(names) <= TOP
    marks = {
        "type": "scatter", "mode": "markers", "x": list(strip["serve"]), "hoverinfo": "text",
        "y": [names[row.number] if few else row.number for row in rows], "hovertext": list(map(plain, hovers)),
        "marker": {"symbol": "square", "size": 7, "color": [tag_colour(row.tag) for row in rows]},
    }  # fmt: skip
    by_tag = {"type": "category", "categoryorder": "array", "categoryarray": list(names.values()), "ticksuffix": " "}
    by_place = {"title": "place in the ring", "tickformat": ",d", "nticks": 6}
    axis = {**_whole("serve number", len(rows), 8), "showgrid": False}
    return _figure([marks], axis, {**(by_tag if few else by_place), "autorange": "reversed"}, height=STRIP)


def lease_ages(leases: pd.DataFrame, rows: int = TOP) -> go.Figure:
    """The oldest leases, each from its begin to its end on a line where 0 is now, with its last heartbeat as a tick.

    Grey is good, red has run out.
    """
    if leases.empty:
        return no_data("no data: no leases to show")
    some = leases.sort_values("age", ascending=False, kind="stable").head(rows)
    labels = [f"{row.label} · {one_line(row.owner, 18)} · {row.id[-4:]}" for row in _rows(some)]
    good, over = (_spans(some, labels, expired) for expired in (False, True))
    beats = _ticks([-silence for silence in some["silence"]], labels, 12, ACCENT)
    ticks, words = _span_ticks(max(float(some["age"].max()), float(some["expires_in"].max()), 1.0))
    axis = {
        "title": "before and after now; the tick is the last heartbeat",
        "tickvals": [-tick for tick in ticks[:0:-1]] + ticks, "ticktext": [f"−{word}" for word in words[:0:-1]] + words,
    }  # fmt: skip
    order = {"categoryorder": "array", "categoryarray": [plain(label) for label in labels]}
    return _figure(
        [good, over, beats], axis, {**TAG_AXIS, **order}, height=80 + 24 * max(len(some), 4), barmode="overlay",
        shapes=[_line(0, GREY, "dot")],
    )  # fmt: skip


def _spans(some: pd.DataFrame, labels: Sequence[str], expired: bool) -> dict[str, Any]:
    """A bar from begin to end for each lease that has run out, or has not."""
    rows = [(row, label) for row, label in zip(_rows(some), labels, strict=True) if row.expired == expired]
    left = "over for" if expired else "time left"
    hovers = [
        f"{row.label}, held by {row.owner or 'somebody'}: age {row.age:,.1f} s, silent for {row.silence:,.1f} s, "
        f"{left} {abs(row.expires_in):,.1f} s, attempt {row.attempt} of {row.max_attempts}"
        for row, _ in rows
    ]
    return {
        "type": "bar", "orientation": "h", "width": 0.6, "y": [plain(label) for _, label in rows],
        "base": [-row.age for row, _ in rows], "x": [max(row.age + row.expires_in, 0.0) for row, _ in rows],
        "marker": {"color": RED if expired else GREY, "opacity": 0.55}, "hoverinfo": "text",
        "hovertext": list(map(plain, hovers)),
    }  # fmt: skip
