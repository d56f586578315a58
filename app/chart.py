"""Plotly figures on a node that stays: a refresh keeps zoom and hover, and the theme paints text, grid and background.

``plotly.min.js`` comes from plotly's own package and is served from ``app/static``.
"""

import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Concatenate, ParamSpec

import pandas as pd
import plotly
import plotly.graph_objects as go
import plotly.io
import streamlit as st

from app.shared import Made

P = ParamSpec("P")

log = logging.getLogger(__name__)
SCRIPT = Path(__file__).with_name("chart.js").read_text()
STATIC = Path(__file__).with_name("static")
_component = st.components.v2.component("queue_core_chart", js=SCRIPT, isolate_styles=False)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure as it goes to the browser, made once for all who see it."""

    json: str
    height: int  # pixels

    @classmethod
    def of(cls, figure: go.Figure) -> "Drawn":
        return cls(figure.to_json(), int(figure.layout.height))


_drawn: Made[Drawn] = Made()


@lru_cache(maxsize=1)
def _library() -> str | None:
    """Where the browser finds Plotly; None when it cannot be put there, as in a read-only installation.

    Copies it when it is not there, or is that of another version.
    """
    source = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    copy = STATIC / source.name
    if not copy.exists() or copy.stat().st_size != source.stat().st_size:
        fresh = STATIC / f".{source.name}.{os.getpid()}"
        try:
            shutil.copyfile(source, fresh)
            fresh.replace(copy)
        except OSError as error:
            log.warning("charts are drawn anew at each refresh, as %s cannot be written: %s", copy, error)
            return None
    base = st.get_option("server.baseUrlPath").strip("/")
    return f"{'/' if base else ''}{base}/app/static/{copy.name}?v={plotly.__version__}"


def chart(figure: go.Figure | Drawn, key: str, alt: str) -> None:
    """Draw a figure. ``key`` names its place on the page, ``alt`` says what it shows to who cannot see it."""
    shown, library = figure if isinstance(figure, Drawn) else Drawn.of(figure), _library()
    if library is None:
        st.plotly_chart(plotly.io.from_json(shown.json), key=f"chart-{key}", config={"displayModeBar": False})
        return
    data = {"library": library, "figure": shown.json, "height": shown.height, "alt": alt}
    _component(key=f"chart-{key}", data=data, height=shown.height)


def drawn(
    draw: Callable[Concatenate[pd.DataFrame, P], go.Figure], frame: pd.DataFrame, *args: P.args, **kwargs: P.kwargs
) -> Drawn:
    """``draw(frame, …)``, once for as long as the frame is kept: nobody changes the frame."""
    what = (draw, args, tuple(kwargs.items()))
    return _drawn.get(frame, what, lambda: Drawn.of(draw(frame, *args, **kwargs)))
