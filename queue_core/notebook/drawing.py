"""Figures of a live view: low, in the colours of the page, and changed in place where a frontend would not.

JupyterLab hands an updated figure to Plotly's renderer, which leaves what it has drawn as it is. So the text of the
view, which JupyterLab does renew, has a script that finds the figures of the view and gives them their new data; zoom
stays. Other frontends draw the updated figure themselves, and find nothing to do for the script.
"""

import json
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from queue_core.figures.base import PAGE, mime_bundle

HEIGHT = 240  # pixels
SCRIPT = """<script>(figures => {
  if (!window.Plotly) return;
  for (const node of document.querySelectorAll(".jp-RenderedPlotly.js-plotly-plot")) {
    const name = node.layout && node.layout.meta && node.layout.meta.queue_core;
    const found = figures.find(figure => figure.layout.meta.queue_core === name);
    if (found) window.Plotly.react(node, found.data, found.layout);
  }
})(FIGURES)</script>"""


def bundle(figure: go.Figure, name: str) -> dict[str, Any]:
    """A figure as Plotly would show it: its own display makes a new output each time. ``name`` is its alone."""
    height = min(figure.layout.height or HEIGHT, HEIGHT)
    figure.update_layout(PAGE, height=height, meta={"queue_core": name}, uirevision=name)
    return mime_bundle(figure)


def changing(figures: Sequence[go.Figure]) -> str:
    """A script that gives the figures that are drawn, by their names, this data; nothing when there are none."""
    if not figures:
        return ""
    data = f"[{','.join(figure.to_json() for figure in figures)}]"
    return SCRIPT.replace("FIGURES", _inside_a_script(data))


def _inside_a_script(text: str) -> str:
    """JSON text that no text of a task in it can end."""
    json.loads(text)  # what is not JSON has no place in a script
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
