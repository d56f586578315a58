"""An executed notebook as one HTML file: nothing is fetched when it is read, and the text of tasks stays text.

Figures are drawn by the plotly.js of the plotly package, which is in the file once, in the colours of the page.
"""

import json
from datetime import datetime
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from nbconvert.filters import markdown2html
from plotly.offline import get_plotlyjs

from queue_core.figures.base import PAGE_STYLE
from queue_core.frames import safe_text

STYLE, SCRIPT = (Path(__file__).with_name(f"sheet.{kind}").read_text() for kind in ("css", "js"))
FIGURE = "application/vnd.plotly.v1+json"
ASIDE = "Set `QUEUE_URL`"  # how a paragraph begins that is for who runs the notebook
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"


def sheet(notebook: Any, *, about: str, at: datetime, code: bool = False) -> str:
    """The HTML of a notebook (of nbformat) with its outputs. ``about`` says what it was run on, ``at`` (aware) when;
    with ``code`` its code is shown, too."""
    title = notebook.cells[0].source.partition("\n")[0].lstrip("# ")
    body = "\n".join(_cell(cell, code) for cell in notebook.cells)
    scripts = [get_plotlyjs(), SCRIPT] if 'class="figure"' in body else []
    return "\n".join([
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>",
        f'<p class="about">{_text(about)}, {at:%Y-%m-%d %H:%M:%S} UTC</p>\n<main>\n{body}\n</main>',
        *(f"<script>{script}</script>" for script in scripts),
        "</body>\n</html>\n",
    ])  # fmt: skip


def _cell(cell: Any, code: bool) -> str:
    if cell.cell_type == "markdown":
        kept = [part for part in cell.source.split("\n\n") if not part.startswith(ASIDE)]
        return str(markdown2html("\n\n".join(kept)))
    shown = [_output(output) for output in cell.get("outputs", ())]
    if code:
        shown.insert(0, f'<pre class="code">{escape(cell.source)}</pre>')
    return "\n".join(shown)


def _output(output: Any) -> str:
    """What a cell printed, or the richest of what it showed that needs no kernel."""
    if output.output_type == "stream":
        return _said(output.text.rstrip())
    data = output.get("data", {})
    if FIGURE in data:
        height = data[FIGURE].get("layout", {}).get("height") or 400
        figure = json.dumps(data[FIGURE]).replace("<", "\\u003c")  # nothing in it ends the script
        place = f'<div class="figure" style="height:{int(height)}px"></div>'
        return f'{place}\n<script type="application/json">{figure}</script>'
    if data == {"text/html": PAGE_STYLE}:  # the script paints the figures
        return ""
    if "text/html" in data:
        return f'<div class="shown">{data["text/html"]}</div>'
    return f"<pre>{_text(data.get('text/plain', ''))}</pre>"


def _said(text: str) -> str:
    """Sentences in the letters of the page; lines with columns in them in letters of one width."""
    parts = groupby(text.split("\n"), key=lambda line: "  " in line)
    blocks = ((columns, _text("\n".join(lines))) for columns, lines in parts)
    return "\n".join(
        f"<pre>{block}</pre>" if columns else f'<div class="said">{block}</div>' for columns, block in blocks
    )


def _text(text: str) -> str:
    return escape(safe_text(text))
