"""Which errors hit which tags."""

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from queue_core.figures.base import figure, no_data, plain, short

ERRORS, TAGS = 8, 8  # rows and columns of their own
ROOM, MORE = 22, 30  # ordinary letters of an error, and of one beside few columns
FEW = 3  # columns, above which names have the room to stand level
ROW, HEAD = 35, 72  # pixels: of an error, as in the table beside it, and of the names above
OTHER_ERRORS, OTHER_TAGS = "other errors", "other tags"
SHADES = [[0, "#6b7690"], [1, "#2f5bea"]]  # white on them has a contrast of 4.5:1, in both themes


def errors_by_tag(heat: pd.DataFrame, errors: int = ERRORS, tags: int = TAGS) -> go.Figure:
    """Dead letters by error group and tag, from the heat frame: the largest of both, and all the others together."""
    if heat.empty:
        return no_data("no data: no dead letters to show")
    by_group = heat.groupby("group")["count"].sum().sort_values(ascending=False, kind="stable")
    by_tag = heat.groupby("tag")["count"].sum().sort_values(ascending=False, kind="stable")
    rows, columns = list(by_group.index[:errors]), list(by_tag.index[:tags])
    texts, labels = (
        shown[shown[key].isin(kept)].drop_duplicates(key).set_index(key)[what].to_dict()
        for shown, key, kept, what in ((heat, "group", rows, "text"), (heat, "tag", columns, "label"))
    )
    counts: dict[tuple[Any, Any], int] = {}
    for group, tag, count in zip(*(heat[name].tolist() for name in ("group", "tag", "count")), strict=True):
        cell = (group if group in texts else None, tag if tag in labels else None)
        counts[cell] = counts.get(cell, 0) + count
    rows += [None] * (len(by_group) > errors)
    columns += [None] * (len(by_tag) > tags)
    texts[None], labels[None] = _others(len(by_group) - errors, OTHER_ERRORS), _others(len(by_tag) - tags, OTHER_TAGS)
    values = [[counts.get((row, column), 0) for column in columns] for row in rows]
    own = max(max(row[:tags]) for row in values[:errors])  # the sums of all others would take all the colour
    return _drawn(
        values, own, [texts[row] or "(no error text)" for row in rows], [labels[column] for column in columns]
    )


def _others(number: int, words: str) -> str:
    return f"{number:,} {words if number > 1 else words[:-1]}"


def _drawn(values: list[list[int]], most: int, texts: list[str], labels: list[str]) -> go.Figure:
    """Cells in shades of one colour, the count in each."""
    hovers = [
        [plain(f"{count:,} dead letters of {label}: {text}") for count, label in zip(row, labels, strict=True)]
        for row, text in zip(values, texts, strict=True)
    ]
    cells = {
        "type": "heatmap", "z": [[count or None for count in row] for row in values], "xgap": 2, "ygap": 2, "zmin": 0,
        "zmax": most, "colorscale": SHADES, "showscale": False, "hoverinfo": "text",
        "hovertext": hovers, "text": [[f"{count:,}" if count else "" for count in row] for row in values],
        "texttemplate": "%{text}", "textfont": {"size": 11, "color": "#ffffff"},
    }  # fmt: skip
    few = len(labels) <= FEW
    across = _named([short(label, 40 / len(labels) if few else 14) for label in labels])
    across |= {"side": "top", "tickangle": 0 if few else -35}
    down = _named([short(_kind(text), MORE if few else ROOM) for text in texts]) | {
        "autorange": "reversed",
        "ticksuffix": " ",
    }
    margin = {"l": 8, "r": 8 if few else 84, "t": 8, "b": 8}  # on the right leans the last name
    return figure([cells], across, down, height=HEAD + ROW * len(texts), margin=margin)


def _kind(text: str) -> str:
    """An error without the module of its class: there is little room, and it tells least."""
    kind, colon, rest = text.partition(":")
    return f"{kind.rpartition('.')[2]}{colon}{rest}" if colon and " " not in kind else text


def _named(names: list[str]) -> dict[str, Any]:
    """An axis whose places have names: two of them may begin alike."""
    words = {"tickvals": list(range(len(names))), "ticktext": list(map(plain, names)), "tickfont": {"size": 11}}
    return {"showgrid": False, "showline": False, "ticks": "", **words}
