"""The rotation: the ring, what was served against what was due, and the last serves."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from queue_core.figures.base import (
    ACCENT,
    GREY,
    STRIP,
    TAG_AXIS,
    TOP,
    Figure,
    bar_trace,
    categories,
    count_axis,
    figure,
    no_data,
    plain,
    records,
    short,
    tag_colour,
    tick_trace,
    vertical,
    whole_axis,
)
from queue_core.frames import duration, share_text

RING = 120  # tags that get a dot
BEHIND, AHEAD = 20, 40  # of a larger ring: those beside the cursor, whether they can be served or not
BESIDE, CIRCLED = 1.08, 1.17  # from the middle of the ring to a name, and to one beside a large mark: of its radius
LINE = 0.15  # height of a name beside the ring, of its radius
WIDE, LETTERS = 2.17, 21.6  # from the middle of the ring to the edge; ordinary letters: both of its radius


def ring(tags: pd.DataFrame) -> go.Figure:
    """The rotation as a ring, clockwise from the top in first-seen order, from the ring frame.

    Filled dots can be served, hollow ones are skipped; the pointer is the cursor, the large dot is next, the circled
    one was served last. Of a ring of many tags, the neighbourhood of the cursor and those that are served soonest.
    """
    return _ring(tags, past=False)


def ring_then(tags: pd.DataFrame) -> go.Figure:
    """The same of a moment that is over, from its ring frame: filled dots are known to have been eligible."""
    return _ring(tags, past=True)


def _ring(tags: pd.DataFrame, past: bool) -> go.Figure:
    if tags.empty:
        return no_data("no data: no tag is known yet")
    shown = _neighbourhood(tags)
    angles = [2 * math.pi * place / len(shown) for place in range(len(shown))]
    turns = [2 * math.pi * step / 90 for step in range(91)]
    circle = {
        "type": "scatter", "mode": "lines", "x": list(map(math.sin, turns)), "y": list(map(math.cos, turns)),
        "line": {"color": GREY, "width": 1}, "opacity": 0.5, "hoverinfo": "skip",
    }  # fmt: skip
    notes = [_pointer(angle) for angle, cursor in zip(angles, shown["cursor"], strict=True) if cursor]
    notes.append({"x": 0, "y": 0, "showarrow": False, "text": _centre(tags, len(shown), past)})
    x = {"visible": False, "automargin": False, "range": [-WIDE, WIDE]}
    y = {"visible": False, "automargin": False, "range": [-1.22, 1.22], "scaleanchor": "x"}
    margin = {"l": 4, "r": 4, "t": 4, "b": 4}
    traces = [circle, _dots(shown, angles, past), _names(shown, angles), _last(shown, angles)]
    return figure(traces, x, y, annotations=notes, margin=margin)


def _neighbourhood(tags: pd.DataFrame) -> pd.DataFrame:
    """The tags that get a dot, in their order: beside the cursor, and of the others those that are served soonest."""
    if len(tags) <= RING:
        return tags
    beside = (tags["ahead"] < AHEAD) | (tags["ahead"] >= len(tags) - BEHIND)
    important = beside | tags["next"] | tags["last"]
    ranks = tags.assign(held=tags["why_not"].notna(), far=~important)
    chosen = ranks.sort_values(["far", "held", "ahead"], kind="stable").index[:RING]
    return tags.loc[sorted(chosen)]


def _last(shown: pd.DataFrame, angles: Sequence[float]) -> dict[str, Any]:
    """A circle around the tag that was served last."""
    at = [angle for angle, last in zip(angles, shown["last"], strict=True) if last]
    return {
        "type": "scatter", "mode": "markers", "cliponaxis": False, "hoverinfo": "skip", "x": list(map(math.sin, at)),
        "y": list(map(math.cos, at)),
        "marker": {"size": 26, "symbol": "circle-open", "color": GREY, "line": {"width": 2, "color": GREY}},
    }  # fmt: skip


def _pointer(angle: float) -> dict[str, Any]:
    """An arrow from the middle to a place on the ring."""
    return {
        "x": 0.9 * math.sin(angle), "y": 0.9 * math.cos(angle), "ax": 0.45 * math.sin(angle),
        "ay": 0.45 * math.cos(angle), "xref": "x", "yref": "y", "axref": "x", "ayref": "y", "showarrow": True,
        "arrowhead": 2, "arrowwidth": 2, "arrowcolor": ACCENT, "text": "",
    }  # fmt: skip


def _dots(shown: pd.DataFrame, angles: Sequence[float], past: bool) -> dict[str, Any]:
    rows = records(shown)
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
        "hovertext": [plain(_story_then(row) if past else _dot_story(row)) for row in rows],
    }  # fmt: skip


def _names(shown: pd.DataFrame, angles: Sequence[float]) -> dict[str, Any]:
    """Names around the ring, as many as have room: of who is next, of who was served last, and of those that are served
    soonest first."""
    rows = records(shown)
    taken: dict[bool, list[float]] = {True: [], False: []}  # heights on the right and on the left
    chosen, away = list[int](), list[float]()  # places, and how far from the middle
    for place in sorted(
        range(len(rows)),
        key=lambda at: (not rows[at].next, not rows[at].last, isinstance(rows[at].why_not, str), rows[at].ahead),
    ):
        far = CIRCLED if rows[place].last or rows[place].next else BESIDE
        side, height = math.sin(angles[place]) > -1e-9, far * math.cos(angles[place])
        if all(abs(height - other) >= LINE for other in taken[side]):
            taken[side].append(height)
            chosen.append(place)
            away.append(far)
    names = [
        plain(_fit(rows[place].label, rows[place].next, far * abs(math.sin(angles[place]))))
        for place, far in zip(chosen, away, strict=True)
    ]
    return {
        "type": "scatter", "mode": "text", "cliponaxis": False, "hoverinfo": "skip",
        "x": [far * math.sin(angles[place]) for place, far in zip(chosen, away, strict=True)],
        "y": [far * math.cos(angles[place]) for place, far in zip(chosen, away, strict=True)],
        "text": [f"<b>{name} · next</b>" if rows[at].next else name for at, name in zip(chosen, names, strict=True)],
        "textposition": ["middle right" if math.sin(angles[place]) > -1e-9 else "middle left" for place in chosen],
    }  # fmt: skip


def _fit(label: str, next: bool, away: float) -> str:
    """The label, or as much of its beginning as there is room for beside the ring, so far from its middle."""
    room = (WIDE - away) * LETTERS
    return short(label, room - 9 if next else room)


def _dot_story(row: Any) -> str:
    state = f"skipped: {row.why_not}" if isinstance(row.why_not, str) else "can be served"
    served = "never served" if math.isnan(row.since_served) else f"served {duration(row.since_served)} ago"
    return f"{row.label}: {state}, {row.backlog:,} waiting; weight {row.weight}; {served}"


def _story_then(row: Any) -> str:
    state = row.why_not if isinstance(row.why_not, str) else "eligible"
    served = (
        "when it was served is not known"
        if math.isnan(row.since_served)
        else (f"served {duration(row.since_served)} before")
    )
    return f"{row.label}: {state}; weight {row.weight}; {served}"


def _centre(tags: pd.DataFrame, shown: int, past: bool) -> str:
    ready = int(tags["why_not"].isna().sum())
    of = f"{shown:,} of {len(tags):,} tags shown" if shown < len(tags) else f"of {len(tags):,} tags"
    last = [f"last served: {plain(short(label))}" for label in tags.loc[tags["last"], "label"]]
    skipped: list[str] = []
    if shown < len(tags):
        held = tags["why_not"].dropna().value_counts().head(3)
        skipped = [
            f"{count:,} {short(str(why), 40) if past else f'skipped: {short(str(why))}'}" for why, count in held.items()
        ]
    can = "known as eligible" if past else "can be served"
    return "<br>".join([f"<b>{ready:,}</b> {can}", of, *last, *skipped])


def shares(frame: pd.DataFrame) -> go.Figure:
    """Serves got (bar) against serves due (line across it), from the shares frame.

    The six tags that were due most, and of the others the six furthest from what was due.
    """
    if frame.empty:
        return no_data("no data: nothing has been served yet")
    most, others = frame.index[: TOP // 2], frame.iloc[TOP // 2 :]
    furthest = others["difference"].abs().sort_values(ascending=False, kind="stable").index
    rows = records(frame.loc[sorted({*most, *furthest[: TOP // 2]})])
    labels = categories(row.label for row in rows)
    hovers = [
        f"{row.label}, weight {row.weight}: served {row.served:,} times ({share_text(row.share)}), "
        f"due {row.entitled:,.2f} ({share_text(row.entitled_share)}); longest wait {duration(row.longest_wait)}"
        for row in rows
    ]
    colours = [tag_colour(row.tag) for row in rows]
    bars = bar_trace(labels, [row.served for row in rows], [""] * len(rows), colours, hovers)
    notes = [
        {
            "x": max(row.served, row.entitled), "y": label, "showarrow": False, "xanchor": "left",
            "xshift": 8, "text": f"{row.served:,} of {row.entitled:,.1f}",
        }
        for label, row in zip(labels, rows, strict=True)
    ]  # fmt: skip
    of = f", {len(rows)} of {len(frame):,} tags" if len(rows) < len(frame) else ""
    due = tick_trace([row.entitled for row in rows], labels, 14, GREY)
    axis = count_axis(f"serves{of}", [max(row.served, row.entitled) for row in rows])
    return figure([bars, due], axis, TAG_AXIS, annotations=notes)


def serves(frame: pd.DataFrame, last: int = 120) -> go.Figure:
    """A strip of the last serves, one mark each, so that the rotation shows as a pattern.

    A row per tag; with more than twelve tags the height is the place in the ring.
    """
    strip = frame.tail(last)
    if strip.empty:
        return no_data("no data: nothing has been served yet", STRIP)
    rows = records(strip)
    hovers = [
        f"serve {row.serve:,}: {row.label}, waited {duration(row.wait)}, {row.at:%H:%M:%S} UTC, "
        f"{row.owner or 'owner unknown'}"
        for row in rows
    ]
    labels = dict(sorted((row.number, row.label) for row in rows))
    names = dict(zip(labels, categories(labels.values()), strict=True))
    few = len(names) <= TOP
    marks = {
        "type": "scatter", "mode": "markers", "x": list(strip["serve"]), "hoverinfo": "text",
        "y": [names[row.number] if few else row.number for row in rows], "hovertext": list(map(plain, hovers)),
        "marker": {"symbol": "square", "size": 7, "color": [tag_colour(row.tag) for row in rows]},
    }  # fmt: skip
    by_tag = {"type": "category", "categoryorder": "array", "categoryarray": list(names.values()), "ticksuffix": " "}
    by_place = {"title": "place in the ring", "tickformat": ",d", "nticks": 6}
    axis = {**whole_axis("serve number", len(rows), 8), "showgrid": False}
    return figure([marks], axis, {**(by_tag if few else by_place), "autorange": "reversed"}, height=STRIP)


def serves_around(around: pd.DataFrame) -> go.Figure:
    """The strip of an around frame, with a line where the moment is."""
    drawn = serves(around, len(around))
    if around.empty or not around["after"].any():
        return drawn
    place = float(around.loc[around["after"], "serve"].iloc[0]) - 0.5
    return Figure(drawn.data, drawn.layout.to_plotly_json() | {"shapes": [vertical(place, ACCENT, "dot")]})


# --- how fair it was ------------------------------------------------------------------------------


def jain(windows: pd.DataFrame) -> go.Figure:
    """Jain's index in one window of serves after the other, from the jain frame: 1 is exactly by weight."""
    known = windows.dropna(subset=["index"])
    if known.empty:
        return no_data("no data: no full round of two eligible tags", STRIP)
    hovers = [
        f"{row.index_:.4f} over {row.stayed:,} tags that stayed eligible; serves {row.first_:,} to {row.last_:,}, "
        f"{row.begun_at:%H:%M:%S} to {row.at:%H:%M:%S} UTC"
        for row in records(windows.rename(columns={"index": "index_", "first": "first_", "last": "last_"}))
    ]
    line = {
        "type": "scatter", "mode": "lines+markers", "x": list(windows["last"]),
        "line": {"width": 1.75, "color": ACCENT},
        "y": [None if math.isnan(value) else value for value in windows["index"]], "marker": {"size": 6},
        "hoverinfo": "text", "hovertext": list(map(plain, hovers)), "connectgaps": False,
    }  # fmt: skip
    least = float(known["index"].min())
    lowest = 0.9 if least >= 0.92 else max(least - 0.1, 0.0)
    fair = {"type": "line", "x0": 0, "x1": 1, "xref": "paper", "y0": 1, "y1": 1, "line": {"color": GREY, "dash": "dot"}}
    y = {"title": "Jain's index", "range": [lowest, 1.01], "nticks": 6, "tickformat": ".3~f"}
    axis = {**whole_axis("serve number", int(windows["last"].max() - windows["first"].min()), 8), "showgrid": False}
    return figure([line], axis, y, height=STRIP, shapes=[fair])


def gaps(frame: pd.DataFrame) -> go.Figure:
    """How many serves apart the serves of a tag were: the mean (bar), the ideal (line across it), the longest (ring),
    from the shares frame. The twelve tags whose mean is furthest above the ideal."""
    some = frame.dropna(subset=["mean_gap", "ideal_gap"])
    if some.empty:
        return no_data("no data: no tag that stayed eligible was served twice")
    over = (some["mean_gap"] / some["ideal_gap"]).sort_values(ascending=False, kind="stable").index[:TOP]
    rows = records(some.loc[over])
    labels = categories(row.label for row in rows)
    hovers = [
        f"{row.label}: every {row.mean_gap:,.2f} serves, ideal {row.ideal_gap:,.2f}, longest {row.longest_gap:,}; "
        f"it waited through {row.turns_waited:,} turns of others at most"
        for row in rows
    ]
    bars = bar_trace(labels, [row.mean_gap for row in rows], [""] * len(rows), _colours(rows), hovers)
    ideal = tick_trace([row.ideal_gap for row in rows], labels, 14, GREY)
    longest = {
        "type": "scatter", "mode": "markers", "x": [int(row.longest_gap) for row in rows], "hoverinfo": "skip",
        "y": labels, "marker": {"symbol": "circle-open", "size": 8, "color": _colours(rows)},
    }  # fmt: skip
    axis = count_axis("serves apart: mean (bar), ideal (line), longest (ring)",
                      [int(row.longest_gap) for row in rows])  # fmt: skip
    return figure([bars, ideal, longest], axis, TAG_AXIS)


def worker_shares(frame: pd.DataFrame) -> go.Figure:
    """The part of the workers' time that each tag took (bar), with its part of the serves (line across it), from the
    shares frame: the largest twelve."""
    some = frame[frame["worker_share"].fillna(0.0) > 0]
    if some.empty:
        return no_data("no data: no worker time was measured in these serves")
    rows = records(some.sort_values("worker_share", ascending=False, kind="stable").head(TOP))
    labels = categories(row.label for row in rows)
    hovers = [
        f"{row.label}: {duration(row.worker_time)} of worker time ({share_text(row.worker_share)}), "
        f"{share_text(row.share)} of the serves" + (f"; much of: {row.noisy}" if isinstance(row.noisy, str) else "")
        for row in rows
    ]
    notes = [
        {
            "x": 100 * max(row.worker_share, row.share), "y": label, "showarrow": False, "xanchor": "left",
            "xshift": 8, "text": share_text(row.worker_share) + (", noisy" if isinstance(row.noisy, str) else ""),
        }
        for label, row in zip(labels, rows, strict=True)
    ]  # fmt: skip
    bars = bar_trace(labels, [100 * row.worker_share for row in rows], [""] * len(rows), _colours(rows), hovers)
    served = tick_trace([100 * row.share for row in rows], labels, 14, GREY)
    axis = {"title": "% of worker time; the line is the part of the serves", "rangemode": "tozero", "nticks": 6}
    return figure([bars, served], axis, TAG_AXIS, annotations=notes, margin={"l": 8, "r": 96, "t": 4, "b": 36})


def _colours(rows: Sequence[Any]) -> list[str]:
    return [tag_colour(row.tag) for row in rows]
