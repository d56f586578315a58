"""The audit: who did what, when, why, and what came of it; searched, page by page, and to be taken away."""

from dataclasses import dataclass, field
from functools import partial

import streamlit as st

from app import data, parts
from queue_core import frames
from queue_core.frames import AuditFilter, AuditPage, plural

PIECE = 100  # entries of a page
MOST = 50_000  # entries of a download
PAGES = "shown:audit"
COLUMNS = {
    "number": "Entry", "at": "At", "actor": "Who", "role": "Role", "origin": "From", "action": "Action",
    "count": "Tasks", "where": "Where", "reason": "Reason", "intent": "What", "outcome": "Outcome", "plan": "Plan",
}  # fmt: skip


@dataclass
class Pages:
    """What is asked for, where each page so far begins, and what was read: a page stays as it was."""

    asked: AuditFilter
    begins: list[int | None] = field(default_factory=lambda: [None])
    read: dict[int | None, AuditPage] = field(default_factory=dict)


def section() -> None:
    """The filters, one page of what fits, and the same as a file."""
    with st.container(horizontal=True, vertical_alignment="center", key="audit-filters"):
        for name, what in (("actor", "Who"), ("entry", "Search in the entries")):
            st.text_input(
                what, key=name, bind="query-params", placeholder=what, label_visibility="collapsed", width=220,
                icon=":material/filter_list:", on_change=_first,
            )  # fmt: skip
        st.selectbox(
            "Action", frames.ACTIONS, index=None, key="action", bind="query-params", placeholder="All actions",
            label_visibility="collapsed", width=200, on_change=_first,
        )  # fmt: skip
    asked = AuditFilter(
        str(st.session_state.get("actor") or "").strip(), st.session_state.get("action"),
        str(st.session_state.get("entry") or "").strip(),
    )  # fmt: skip
    kept: Pages | None = st.session_state.get(PAGES)
    if kept is None or kept.asked != asked:
        st.session_state[PAGES] = kept = Pages(asked)
    before = kept.begins[-1]
    if before not in kept.read:
        kept.read[before] = data.read(lambda view: frames.audit_page(view, asked, before=before, limit=PIECE))
    _shown(kept.read[before], kept)


def _shown(page: AuditPage, kept: Pages) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="audit-bar"):
        st.button("Newest", icon=":material/refresh:", key="audit-newest", on_click=_first)
        st.button(
            "Older", icon=":material/chevron_right:", key="audit-older", disabled=page.before is None,
            on_click=_older, args=(kept, page.before),
        )  # fmt: skip
        for kind, mime in (("csv", "text/csv"), ("ndjson", "application/x-ndjson")):
            st.download_button(
                kind.upper(), partial(_file, kind, kept.asked), f"audit.{kind}", mime, key=f"audit-{kind}",
                icon=":material/download:", on_click="ignore", help=f"What fits, the newest {MOST:,} at most, masked",
            )  # fmt: skip
        parts.part(lambda: _news(page))
    if page.frame.empty:
        st.text("No entry fits." if page.total else "Nothing has been done yet, by anybody.")
        return
    parts.grid(page.frame, COLUMNS, key=f"audit-{kept.begins[-1]}")


def _news(page: AuditPage) -> None:
    newer = data.read(lambda view: view.reader.meta.audits) - page.total
    told = f"{plural(len(page.frame), 'entry', 'entries')} of {page.total:,}, {page.looked:,} looked at"
    st.text(f"{told}; {newer:,} newer" if newer else told)


def _older(kept: Pages, before: int | None) -> None:
    """Callback: to the page behind. The second of two quick clicks may find none, or that it is there already."""
    if before is not None and before not in kept.begins:
        kept.begins.append(before)


def _first() -> None:
    """Callback: from the newest on."""
    st.session_state.pop(PAGES, None)


def _file(kind: str, asked: AuditFilter) -> bytes:
    """What fits as a file; read when it is asked for."""
    page = data.read(lambda view: frames.audit_page(view, asked, limit=MOST, looked_at=MOST))
    return frames.audit_csv(page.frame) if kind == "csv" else frames.audit_ndjson(page.frame)
