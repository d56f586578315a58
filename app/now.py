"""The line on top of every page: how the queue is now, who looks at which queue, and a box that finds things."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import streamlit as st

from app import control, data, health, parts, past
from queue_core import InvalidArgument, QueueError, frames
from queue_core.frames import LEVELS, Level, Verdict, address_text, error_line, one_line, short_address
from queue_core.task import parse_id

_go = st.components.v2.component(
    "queue_core_go", js="export default ({ data }) => { window.location.assign(data.to); }", isolate_styles=False
)
OWN_ANSWER = ("Overview",)  # pages that say by themselves how the queue is
HELP = (
    "The id of a task opens it, the exact name of a tag opens that. Anything else is a filter: it opens the dead "
    "letters that fit."
)


@dataclass(frozen=True, slots=True)
class Aim:
    """The page that a person is taken to, by its title, and what the address says besides the filters."""

    page: str
    given: Mapping[str, str] = field(default_factory=dict)


def bar(page: str, to: str | None = None) -> None:
    """The line, renewed every two seconds while the page is live; ``to``: the address that the browser opens next.

    It opens it as a person would. Within a session, what renews itself on the old page could reach the browser among
    the parts of the new one, and break it; for that reason the old page is drawn to its end, too.
    """
    back = past.entering(page)
    with st.container(horizontal=True, vertical_alignment="center", key="now"):
        state = st.container(key="now-state-place")
        if back:
            past.not_live()
        else:
            st.toggle(
                "Live", value=True, key="live", bind="query-params",
                help=f"Refresh every {parts.REFRESH:.0f} s",
            )  # fmt: skip
        st.text_input(
            "Find", key="find", placeholder="Find a task, a tag, dead letters", label_visibility="collapsed",
            icon=":material/search:", help=HELP, on_change=_find, args=(page,), width=280, max_chars=parts.LONGEST,
        )  # fmt: skip
        if to is not None:
            _go(key="go", data={"to": to})
    with state:
        st.fragment(lambda: _state(page), run_every=None if back else parts.pace())()


def _state(page: str) -> None:
    told, at = _health()
    with st.container(horizontal=True, vertical_alignment="center", key="now-state"):
        st.markdown(parts.ICONS[told.level], width="content")
        if page in OWN_ANSWER:
            st.text(LEVELS[told.level])
        else:
            st.container(key="now-sentence").text(frames.sentences.named(told))
        st.text(at + past.pace_word())
        st.text(_who())
        _where()


def _where() -> None:
    """Which queue it is."""
    try:
        short, whole = short_address(data.url()), address_text(data.url())
    except InvalidArgument as error:  # the redaction rules cannot be read, so nothing is shown
        st.text(error_line(error))
        return
    st.text(short, help=f"`{whole.replace('`', '')}`")


def _health() -> tuple[Verdict, str]:
    """How the queue is, and when that was seen."""
    try:
        found = health.lately()
    except QueueError as error:
        return Verdict(Level.UNKNOWN, error_line(error)), ""
    return found.verdict, f"{found.snapshot.at:%H:%M:%S} UTC, "


def _who() -> str:
    try:
        return f"{control.role()}: {one_line(control.actor(), 40)}"
    except InvalidArgument as error:
        return error_line(error)


# --- finding --------------------------------------------------------------------------------------


def _find(page: str) -> None:
    """Callback of the box: the run that follows takes a person there."""
    text = str(st.session_state["find"]).strip()
    st.session_state["find"] = ""
    if not text:
        return
    aim = aimed(text)
    if aim.page == page or (aim.page == "Tag" and page == "Tag"):
        st.session_state.update(aim.given)
    else:
        st.session_state["aim"] = aim


def aimed(text: str) -> Aim:
    """What a text names: a task by its id, a tag by its exact name or label, else dead letters by a filter."""
    try:
        parse_id(text)
    except InvalidArgument:
        pass
    else:
        return Aim("Task", {"task": text})
    try:
        if parts.tags_called(text):
            return Aim("Tag", {"tag": text})
    except QueueError:  # the page that opens says what is wrong
        pass
    return Aim("Dead letters", {"where": text})


def aim() -> Aim | None:
    """Where a person is to be taken in this run."""
    found: Aim | None = st.session_state.pop("aim", None)
    return found
