"""What all figures share: colours, axes, bars, ticks, and the words in place of a figure that has nothing to show."""

import colorsys
import json
import math
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
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

from queue_core.frames import duration

TOP = 12  # tags that get a bar, a band or a row of their own
HEIGHT, STRIP = 340, 240  # pixels
GREY, AMBER, RED, ACCENT = "#7d8799", "#b5731b", "#d8474c", "#4b74ee"
# On the page of a notebook, light or dark. In JupyterLab text is coloured as that of the page; elsewhere it has a grey
# that both let one read (4.3:1 on white and on #111; no colour has more on both).
INK, GRID, LABEL = "#747b88", "rgba(127,127,127,0.25)", "#3a4152"
PAGE = {
    "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "font_color": INK,
    "xaxis_gridcolor": GRID, "yaxis_gridcolor": GRID, "hoverlabel_bgcolor": LABEL, "hoverlabel_font_color": "#ffffff",
    "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": INK, "activecolor": ACCENT},
}  # fmt: skip
PAGE_STYLE = (
    '<style class="queue-core">.jp-OutputArea-child:has(> .jp-RenderedHTML > style.queue-core){display:none}'
    f'text[style*="rgb({", ".join(str(part) for part in bytes.fromhex(INK[1:]))})"]'
    f"{{fill:var(--jp-content-font-color1,{INK})!important}}</style>"
)
MIME = "application/vnd.plotly.v1+json"
TAG_AXIS = {"type": "category", "autorange": "reversed", "showgrid": False, "ticksuffix": " "}
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


def short(label: str, room: float = 26) -> str:
    """The label, cut where it gets wider than ``room`` ordinary letters."""
    widths = [2 if east_asian_width(sign) in "WF" else 1.5 if sign.isupper() else 1 for sign in label]
    if sum(widths) <= room:
        return label
    return label[: bisect_right(list(accumulate(widths)), room - 2)] + "…"


def categories(labels: Iterable[str]) -> list[str]:
    """Labels as categories of an axis. Of some that are the same, each gets one more sign at its end that is not seen:
    tags with one label would be one category, and their bars one bar."""
    seen: Counter[str] = Counter()
    found = []
    for label in labels:
        found.append(plain(label) + "\N{ZERO WIDTH SPACE}" * seen[label])
        seen[label] += 1
    return found


def records(frame: pd.DataFrame) -> list[Any]:
    return list(frame.itertuples())


class Figure(go.Figure):  # type: ignore[misc] # plotly has no types
    """A figure that shows itself in a notebook without a ground of its own, in the colours of the page."""

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display({"text/html": PAGE_STYLE}, raw=True)  # type: ignore[no-untyped-call]
        shown = go.Figure(self).update_layout(PAGE)
        if _asked_for_mime():
            display(mime_bundle(shown), raw=True)  # type: ignore[no-untyped-call]
        else:
            shown._ipython_display_()


def mime_bundle(figure: go.Figure) -> dict[str, Any]:
    """A figure for ``display(…, raw=True)``, as the renderer of Plotly that is chosen makes it."""
    if _asked_for_mime():
        return {MIME: json.loads(figure.to_json())}
    bundle: dict[str, Any] = figure._repr_mimebundle_()
    return bundle


def _asked_for_mime() -> bool:
    """Whether the choice is known: what Plotly imports to choose among its renderers takes two to three seconds."""
    return os.environ.get("PLOTLY_RENDERER") == "plotly_mimetype"


def figure(
    traces: Sequence[dict[str, Any]], x: dict[str, Any], y: dict[str, Any], *, height: int = HEIGHT, **layout: Any
) -> Figure:
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
    return Figure(list(traces), base | axes | layout)


def no_data(text: str, height: int = HEIGHT) -> go.Figure:
    """An empty figure that says why, as high as the one that it stands for."""
    words = {"text": plain(text), "showarrow": False, "x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper"}
    return figure([], {"visible": False}, {"visible": False}, height=height, annotations=[words])


def span_ticks(longest: float) -> tuple[list[float], list[str]]:
    """At most six ticks of a round step from 0 s, in words."""
    steps = [
        step * unit
        for unit, small in ((1e-3, False), (1.0, True), (60.0, True), (3600.0, True), (86_400.0, False))
        for step in ((1, 2, 5, 10, 15, 30) if small else (1, 2, 5, 10, 20, 50, 100, 200, 500))
    ]
    step = next((step for step in steps if longest / step <= 5), steps[-1] * math.ceil(longest / steps[-1] / 5))
    ticks = [step * n for n in range(int(longest / step) + 1)]
    return ticks, [duration(tick).replace(".0 s", " s") for tick in ticks]


def bar_trace(
    at: Sequence[str], values: Sequence[float], texts: Sequence[str], colours: Sequence[str], hovers: Sequence[str]
) -> dict[str, Any]:
    """Horizontal bars at these places, each with its text at its end."""
    return {
        "type": "bar", "orientation": "h", "x": list(values), "y": list(at),
        "marker": {"color": list(colours)}, "text": list(texts), "textposition": "outside", "cliponaxis": False,
        "hovertext": list(map(plain, hovers)), "hoverinfo": "text", "width": min(0.75, len(at) / TOP),
    }  # fmt: skip


def tick_trace(values: Sequence[float], at: Sequence[str], size: int, colour: str) -> dict[str, Any]:
    """A short line across each bar."""
    line = {"width": 2 if size < 16 else 3, "color": colour}
    return {
        "type": "scatter", "mode": "markers", "x": list(values), "y": list(at),
        "hoverinfo": "skip", "marker": {"symbol": "line-ns", "size": size, "line": line},
    }  # fmt: skip


def vertical(x: float, colour: str, dash: str) -> dict[str, Any]:
    """A vertical line over the whole height."""
    return {
        "type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper",
        "line": {"color": colour, "width": 1, "dash": dash},
    }  # fmt: skip


def whole_axis(title: str, span: float, most: int = 6) -> dict[str, Any]:
    """An axis of whole numbers, none of them twice where there are few."""
    return {"title": title, "tickformat": ",d"} | ({"dtick": 1} if span < most else {"nticks": most})


def count_axis(title: str, counts: Sequence[float]) -> dict[str, Any]:
    return {"rangemode": "tozero", **whole_axis(title, max(counts))}
