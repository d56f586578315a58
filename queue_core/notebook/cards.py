"""What a thing says of itself, once, and as HTML and as plain text.

What comes from tasks may hold anything: all of it is made safe and escaped here, and JupyterLab takes none of it for a
formula. There is no colour, so that it can be read on a light page as on a dark one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from queue_core.frames import safe_text

_LEFT = "padding:0.1em 0.6em;text-align:left;vertical-align:top;overflow-wrap:anywhere;max-width:40em"
_RIGHT = "padding:0.1em 0.6em;text-align:right;vertical-align:top;font-variant-numeric:tabular-nums;white-space:nowrap"
_QUIET = "opacity:0.75"
_BOX = "white-space:pre-wrap;overflow-wrap:anywhere;margin:0.3em 0"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text. Columns of numbers have a name that begins with ">"."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """A title, sentences, facts, tables, and text that is shown as it is."""

    title: str
    lines: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    tables: Sequence[Table] = ()
    code: str = ""

    def html(self) -> str:
        """As HTML, escaped."""
        parts = [f"<div><strong>{_escaped(self.title)}</strong></div>"]
        parts += [f"<div>{_escaped(line)}</div>" for line in self.lines]
        if self.facts:
            rows = [_row([name, value], ["", ""], (f"{_LEFT};{_QUIET}", _LEFT)) for name, value in self.facts]
            parts.append(_table("", rows))
        if self.code:
            parts.append(f'<pre style="{_BOX}">{_escaped(self.code)}</pre>')
        parts += [_html_of(table) for table in self.tables if table.rows]
        return f'<div class="queue-core mathjax_ignore tex2jax_ignore" style="line-height:1.4">{"".join(parts)}</div>'

    def plain(self) -> str:
        """As plain text, without the end of the last line."""
        parts = [safe_text(self.title), *map(safe_text, self.lines)]
        width = max((len(name) for name, _ in self.facts), default=0)
        parts += [f"  {name:<{width}}  {safe_text(value)}" for name, value in self.facts]
        parts += [safe_text(self.code)] if self.code else []
        for table in self.tables:
            parts += _plain_of(table) if table.rows else []
        return "\n".join(parts)

    def bundle(self) -> dict[str, str]:
        """For ``display(…, raw=True)``."""
        return {"text/html": self.html(), "text/plain": self.plain()}

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return self.bundle()

    def __repr__(self) -> str:
        return self.plain()


def _escaped(text: str) -> str:
    return escape(safe_text(text))


def _row(cells: Sequence[str], heads: Sequence[str], styles: Sequence[str] = (), kind: str = "td") -> str:
    kept = styles or [_RIGHT if head.startswith(">") else _LEFT for head in heads]
    inside = (f'<{kind} style="{style}">{_escaped(cell)}</{kind}>' for cell, style in zip(cells, kept, strict=True))
    return f"<tr>{''.join(inside)}</tr>"


def _table(head: str, rows: Sequence[str]) -> str:
    return f'<table style="margin:0.3em 0">{head and f"<thead>{head}</thead>"}<tbody>{"".join(rows)}</tbody></table>'


def _html_of(table: Table) -> str:
    title = f'<div style="{_QUIET}">{_escaped(table.title)}</div>' if table.title else ""
    head = _row([head.removeprefix(">") for head in table.heads], table.heads, kind="th")
    return title + _table(head, [_row(row, table.heads) for row in table.rows])


def _plain_of(table: Table) -> list[str]:
    names = [head.removeprefix(">") for head in table.heads]
    rows = [names, *([safe_text(cell) for cell in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [safe_text(table.title)] if table.title else []
    for row in rows:
        cells = [
            cell.rjust(width) if head.startswith(">") else cell.ljust(width)
            for cell, width, head in zip(row, widths, table.heads, strict=True)
        ]
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return lines
