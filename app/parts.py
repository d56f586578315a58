"""Pieces that the pages share. What comes from tasks is shown with st.text, in tables and charts: never as Markdown."""

import pickle
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

import pandas as pd
import streamlit as st
from pandas.io.formats.style import Styler

from app import data
from queue_core import QueueError, StoreBusy, StoreGone
from queue_core.frames import Level, Verdict, busiest, duration, error_line, one_line, tag_label, told_apart

REFRESH = 2.0  # seconds
TAGS_OFFERED = 200
LONGEST = 5_000  # characters of what goes into an address: a server takes one of 64 kB, and an emoji is 12 bytes in it
SPANS = {"15 min": 900.0, "2 h": 7_200.0, "24 h": 86_400.0, "30 days": 2_592_000.0}
RECENT = "15 min"
OVER_TIME = ("Overview", "Tag")  # pages that look back
OF_ONE = ("Task", "Operations")  # pages that are of no tag
SECTIONS = ("Plans", "Audit", "Workers", "Store")  # of Operations
WITH_ROWS = ("Overview", "Fairness", "In flight")  # pages with rows to search in
BOUND = {"tag": None, "text": "", "span": RECENT, "live": True}  # what the address keeps, and what it leaves out
FILTERS = ("tag", "text")  # what goes along from page to page
STYLE = Path(__file__).with_name("style.css").read_text()
ICONS = {
    Level.EMPTY: ":gray[:material/inbox:]",
    Level.IDLE: ":green[:material/check_circle:]",
    Level.HEALTHY: ":green[:material/check_circle:]",
    Level.ATTENTION: ":orange[:material/warning:]",
    Level.TROUBLE: ":red[:material/error:]",
    Level.UNKNOWN: ":gray[:material/help:]",
}


def style() -> None:
    st.html(f"<style>{STYLE}</style>")


# --- filters --------------------------------------------------------------------------------------


def entering(page: str) -> None:
    """A page that is entered anew reads anew; frozen tables hold only while one stays on it."""
    kept: dict[str, str | None] = st.session_state.get("kept", {})
    if st.session_state.get("page") != page:
        st.session_state["page"] = page
        for key in [key for key in st.session_state if str(key).startswith(("shown:", "outcome:", "undone:"))]:
            del st.session_state[key]
        for name in FILTERS:  # a click may have come before the page that was left had told its filters to the address
            if value := st.query_params.get(name) or st.session_state.get(name) or kept.get(name):
                st.session_state[name] = value
    st.session_state["kept"] = {name: st.session_state.get(name) for name in FILTERS}


def filters(page: str, more: Callable[[], object] = lambda: None) -> None:
    """One row, where there is something to filter; what is chosen stays in the address and from page to page.

    A box has the same words in it on all pages, or what is chosen in it is lost on the way. ``more`` draws what stands
    behind them.
    """
    with st.container(horizontal=True, vertical_alignment="center", key="filters"):
        if page not in OF_ONE:
            st.selectbox(
                "Tag", _offered(), index=None, key="tag", bind="query-params", accept_new_options=True, width=280,
                placeholder="Tag", label_visibility="collapsed",
            )  # fmt: skip
        if page in WITH_ROWS:
            st.text_input(
                "Text", key="text", bind="query-params", width=280, placeholder="Search in the rows",
                label_visibility="collapsed", icon=":material/filter_list:",
            )  # fmt: skip
        if page in OVER_TIME:
            st.segmented_control(
                "Time", list(SPANS), default=RECENT, required=True, key="span", bind="query-params",
                label_visibility="collapsed",
            )  # fmt: skip
        if page == "Task":
            st.text_input(
                "Task", key="task", bind="query-params", placeholder="The id of a task", label_visibility="collapsed",
                icon=":material/task:", width=420,
            )  # fmt: skip
        if page == "Operations":
            st.segmented_control(
                "Show", SECTIONS, default=SECTIONS[0], required=True, key="show", bind="query-params",
                label_visibility="collapsed",
            )  # fmt: skip
        more()


def address() -> dict[str, str]:
    """What the address of any page says of the filters."""
    chosen = {name: st.session_state.get(name, usual) for name, usual in BOUND.items()}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in chosen.items()
        if value is not None and value != BOUND[name]
    }


def link(path: str, query: Mapping[str, str]) -> str:
    """Where a page is, on the host of the dashboard."""
    base = st.get_option("server.baseUrlPath").strip("/")
    words = urlencode(query, errors="replace")
    return f"{'/' if base else ''}{base}/{path}{'?' if words else ''}{words}"


def elsewhere() -> None:
    """The page at an address that is no longer used: whoever comes there is taken on."""


def _offered() -> list[str]:
    """What the tags with most to see are called; any other can be typed."""
    try:
        return busiest(data.overview(), TAGS_OFFERED)
    except QueueError:  # the page itself says what is wrong
        return []


def chosen_tag() -> str | None:
    """The exact name of the tag that is filtered by."""
    label = st.session_state.get("tag")
    if label is None:
        return None
    called = tags_called(label)
    return called[0] if len(called) == 1 else label  # of two that are called alike, neither is meant


def tags_called(label: str) -> list[str]:
    """The exact names of the tags that are called so on the pages, or else of the one that has this name: one, unless
    the hashes in two labels are the same by chance."""
    tags = data.overview().tags
    if label == tag_label("") or "… #" in label:  # else a tag that is called so has this name
        called = [tag.name for tag in tags if tag_label(tag.name) == label]
        if called:
            return called
    return [tag.name for tag in tags if tag.name == label]


def chosen_span() -> float:
    """How far back the page looks, in seconds."""
    return SPANS[st.session_state.get("span") or RECENT]


def chosen_text() -> str:
    return str(st.session_state.get("text") or "").strip()


def narrowed(tags: pd.DataFrame) -> pd.DataFrame:
    """The rows of a frame with a ``tag`` and a ``label`` that fit both filters."""
    tag, text = chosen_tag(), chosen_text().casefold()
    if "other" in tags and (tag is not None or text):  # the row of all others is of no tag
        tags = tags[~tags["other"]]
    if tag is not None:
        tags = tags[tags["tag"] == tag]
    if text:
        tags = tags[tags["label"].str.casefold().str.contains(text, regex=False).astype(bool)]
    return tags


# --- refreshing -----------------------------------------------------------------------------------


def pace() -> float | None:
    """Seconds between refreshes; None while paused."""
    return REFRESH if st.session_state.get("live", True) else None


def live(body: Callable[[], None]) -> None:
    """Run a page's body now and every two seconds."""
    st.fragment(guarded(body), run_every=pace())()


def frozen(body: Callable[[], None]) -> None:
    """Run a page's body once; when the store cannot be read, try again every two seconds."""
    try:
        body()
    except QueueError as error:
        unreadable(error, of="-whole")
        runs = count()
        st.fragment(lambda: st.rerun() if next(runs) else None, run_every=pace())()  # the first run is this one


def guarded(body: Callable[[], None]) -> Callable[[], None]:
    """The body, or, when the store cannot be read, what is wrong and what to do."""

    def run() -> None:
        try:
            body()
        except QueueError as error:
            unreadable(error)

    return run


def part(body: Callable[[], None]) -> None:
    """Run a part of a page now and every two seconds; when the store cannot be read, another part says so."""

    def run() -> None:
        try:
            body()
        except QueueError:
            st.empty()

    st.fragment(run, run_every=pace())()


def unreadable(error: QueueError, of: str = "") -> None:
    """A calm page in place of numbers."""
    address = data.url()
    if isinstance(error, StoreGone):
        answer(Verdict(Level.UNKNOWN, "There is no queue here yet", (f"Looked at {one_line(address)}",)), None, of)
        st.text("Start one with real work in it, or set QUEUE_URL to one that exists:")
        st.code(f"queue-core demo --url {shlex.quote(address)}", language="bash")
        return
    what = "The queue is busy" if isinstance(error, StoreBusy) else "The queue cannot be read"
    answer(Verdict(Level.UNKNOWN, what, (error_line(error), f"at {one_line(address)}")), None, of)
    st.text("This page tries again by itself while it is live.")


# --- words ----------------------------------------------------------------------------------------


def answer(verdict: Verdict, at: datetime | None, of: str = "") -> None:
    """The page's answer in one sentence, its reasons, and the time of everything on the page. ``of`` names a part of
    the page that has an answer of its own."""
    with st.container(horizontal=True, key=f"answer{of}-{verdict.level}", vertical_alignment="top", wrap=False):
        st.markdown(ICONS[verdict.level], width="content")
        with st.container(gap=None):
            st.container(key=f"sentence{of}").text(verdict.text)
            for reason in verdict.reasons:
                st.text(reason)
        if at is not None:
            st.caption(clock(at), width="content")


def clock(at: datetime) -> str:
    return f"as of {at:%H:%M:%S} UTC"


def how_to_begin() -> None:
    """What to do with a queue that has nothing in it."""
    st.text("Fill it with real work: a census of the Python source on this machine.")
    st.code(f"queue-core demo --url {shlex.quote(data.url())}", language="bash")


def number(value: int, capped: bool = False) -> str:
    return f"{value:,}+" if capped else f"{value:,}"


def facts(known: Sequence[tuple[str, str]]) -> None:
    """Names, which are ours, and what there is to say to each, which may hold anything."""
    with st.container(gap="xsmall"):
        for name, value in known:
            with st.container(horizontal=True, wrap=False, gap="small"):
                st.caption(name, width=120)
                st.text(value, width="stretch")


# --- tables ---------------------------------------------------------------------------------------

Words = Callable[[float], str]
LINK = "task_page"  # the column with the address of a task's page
WIDTHS = {  # pixels: a tag would be cut where others have room, and others would push each other out of sight
    "label": 170, "text": 210, "error": 270, "payload": 240, LINK: 245,
}  # fmt: skip


def ago(seconds: float) -> str:
    return "—" if seconds != seconds else f"{duration(seconds)} ago"


def left(seconds: float) -> str:
    return f"over by {duration(-seconds)}" if seconds <= 0 else duration(seconds)


def grid(
    frame: pd.DataFrame,
    columns: Mapping[str, str | None],
    key: str,
    *,
    spans: Mapping[str, Words] | None = None,
    alarming: pd.Series | None = None,
    selected: Sequence[int] | None = None,
    mode: Literal["multi-row", "single-row"] = "multi-row",
    shares: Mapping[str, str] | None = None,
    widths: Mapping[str, int] | None = None,
) -> None:
    """A table of the named columns; those that are called None are out of sight until somebody wants to see them, by
    the menu of the table. ``spans`` are columns of seconds and how to say them; ``alarming`` rows are bold;
    rows can be selected when ``selected`` says which are at first. ``shares`` are columns of shares of one, drawn as
    bars, with what they are called; ``widths`` of columns are in pixels, where others than the usual ones fit better.
    Ids of tasks link to their pages, in a new tab; tags do not, as a link is read out as its address."""
    looks = _Looks(
        dict(columns), key, dict(spans or {}), () if alarming is None else tuple(map(bool, alarming)),
        dict(shares or {}), dict(widths or {}),
    )  # fmt: skip
    if selected is None:
        told = [name for name in frame if name in columns or name in ("tag", "label")]
        _still(pickle.dumps(frame[told]), looks.named, frame, looks)
        return
    first = {"selection": {"rows": list(selected), "columns": [], "cells": []}}
    table, how = looks.of(frame)
    st.dataframe(table, **how, on_select="rerun", selection_mode=mode, selection_default=first)


@dataclass(frozen=True, slots=True)
class _Looks:
    """How a table is drawn, whatever is in it."""

    columns: dict[str, str | None]
    key: str
    spans: dict[str, Words]
    bold: tuple[bool, ...]
    shares: dict[str, str]
    widths: dict[str, int]

    @property
    def named(self) -> str:
        """All of it as text; words are functions of a module, which have one name."""
        spans = {name: f"{word.__module__}.{word.__qualname__}" for name, word in self.spans.items()}
        return repr((self.columns, self.key, spans, self.bold, self.shares, self.widths))

    def of(self, frame: pd.DataFrame) -> tuple[Styler, dict[str, Any]]:
        """The table, and what ``st.dataframe`` is to know of it."""
        columns = self.columns
        table = frame[list(columns)].reset_index(drop=True)
        if "label" in columns and "tag" in frame:
            table["label"] = _told_apart(frame.reset_index(drop=True))
        texts = [name for name in columns if pd.api.types.is_string_dtype(table[name])]
        table = table.fillna(dict.fromkeys(texts, ""))
        words: dict[str, Any] = dict(self.spans)
        words |= dict.fromkeys((name for name in columns if pd.api.types.is_integer_dtype(table[name])), _count)
        words |= dict.fromkeys((name for name in columns if isinstance(table[name].dtype, pd.DatetimeTZDtype)), _stamp)
        order = list(columns)
        if "id" in columns:  # the id stays as it is beside its link, for who takes ids from the table
            table, words[LINK] = table.assign(**{LINK: [_task_page(id) for id in table["id"]]}), _id_in
            order[order.index("id")] = LINK
        styled = table.style.format(words)
        if any(self.bold):
            marks = ["font-weight: 700" if loud else "" for loud in self.bold]
            styled = styled.apply(lambda column: marks)
        looks = {"column_config": self._config(), "column_order": order, "hide_index": True, "key": self.key}
        return styled, looks | {"placeholder": "—"}

    def _config(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            name: title and st.column_config.Column(title, width=(WIDTHS | self.widths).get(name))
            for name, title in self.columns.items()
        }
        for name, title in self.shares.items():
            config[name] = st.column_config.ProgressColumn(
                title, format="percent", min_value=0.0, max_value=1.0, width=110
            )
        if "id" in self.columns:
            config[LINK] = st.column_config.LinkColumn(
                self.columns["id"], width=WIDTHS[LINK], help="Opens the task in a new tab"
            )
        return config


@st.cache_data(max_entries=128, show_spinner=False)
def _still(told: bytes, looks: str, _frame: pd.DataFrame, _looks: _Looks) -> None:
    """A table that nobody selects in, drawn once for as long as it is the same: a Styler costs more than a refresh.

    It is the same when its columns are, as bytes, and how it looks, as text: both are quicker told than by Streamlit.
    """
    table, how = _looks.of(_frame)
    st.dataframe(table, **how)


def _told_apart(frame: pd.DataFrame) -> pd.Series:
    """Labels; of tags that have the same one, the names in full."""
    names = {tag: name for tag, name in told_apart(frame["tag"].unique()).items() if name != tag_label(tag)}
    labels = [names.get(tag, label) for tag, label in zip(frame["tag"], frame["label"], strict=True)]
    return pd.Series(labels, index=frame.index, dtype="str")


def _task_page(id: str) -> str:
    return link("task", {"task": id}) if id else ""


def _id_in(link: str) -> str:
    return link.rpartition("=")[2]


def _count(value: Any) -> str:
    return "—" if value is pd.NA else f"{value:,}"


def _stamp(value: Any) -> str:
    return "—" if value is pd.NaT else f"{value:%Y-%m-%d %H:%M:%S} UTC"
