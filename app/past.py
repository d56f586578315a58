"""Looking back: a page as it was at the end of a recorded bucket. What is shown is over, and nothing can be changed."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pandas as pd
import streamlit as st

from app import data, parts
from queue_core import QueueError, frames
from queue_core.frames import TagThen, TurnsThen, duration, series_frame, series_totals_frame

STEPS = 180  # positions of the slider, about
TIERS = (10, 60, 600, 3_600, 21_600)  # seconds: steps of the slider
PAGES = ("Overview", "Fairness", "Tag")  # pages that look back
KEPT = 60.0  # seconds that a look back is shared
FIELDS = ["pending", "oldest", "inflight", "scheduled", "dead", "leased"]
LONGEST = timedelta(days=31)  # history is kept for 30
Reach = Callable[[], tuple[datetime, datetime] | None]


@dataclass(frozen=True, slots=True)
class Then:
    """The queue at the end of a bucket, which is ``at``: a row of the totals, its tags, and who was served."""

    at: datetime
    totals: pd.Series
    tags: pd.DataFrame
    served: str


# --- the page -------------------------------------------------------------------------------------


def page(
    body: Callable[[], None],
    then: Callable[[datetime], None],
    reach: Reach,
    run: Callable[[Callable[[], None]], None] = parts.live,
) -> None:
    """A page of now, or, when a time is chosen (``?at=``), what was then, once. ``run`` runs what is of now."""
    at = chosen()
    if at is None:
        run(body)
        return
    parts.frozen(lambda: _slider(at, reach))
    parts.frozen(lambda: then(at))


def entering(page: str) -> bool:
    """Before a page is drawn: whether it shows the past. The time goes along from one page that looks back to another;
    a page that cannot look back shows what is now, and the way on from there does so too."""
    entered = st.session_state.get("past:page") != page
    st.session_state["past:page"] = page
    kept = st.session_state.get("past:at")
    if page not in PAGES:
        st.query_params.pop("at", None)
    elif entered and kept is not None and "at" not in st.query_params:  # the links between pages leave it out
        st.query_params["at"] = kept
    back = chosen() is not None
    st.session_state["past:at"] = st.query_params["at"] if back else None
    return back


def offer(page: str) -> None:
    """The way back in time, on a page that looks back where anything is kept of it."""
    if page not in PAGES or chosen() is not None:
        return
    try:
        known = (journal_reach if page == "Fairness" else history_reach)()
    except QueueError:  # the page itself says what is wrong
        return
    if known is not None:
        st.button("Look back", icon=":material/history:", key="look-back", on_click=_go, args=(known[1],))


def not_live() -> None:
    """In place of the switch for refreshing."""
    st.toggle("Live", key="not-live", disabled=True, help="What is past does not change: go back to now first")


def pace_word() -> str:
    """How fresh the page is kept."""
    if chosen() is not None:
        return "page is past"
    return "live" if parts.pace() else "paused"


def chosen() -> datetime | None:
    """The time in the address, of what is kept at most; None when there is none, or none that can be read."""
    try:
        at = datetime.fromisoformat(st.query_params.get("at", ""))
        at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    now = datetime.now(UTC)
    return min(max(at, now - LONGEST), now)


def _slider(at: datetime, reach: Reach) -> None:
    known = reach()
    with st.container(horizontal=True, vertical_alignment="bottom", key="past"):
        if known is not None:
            begin, end, step = _grid(min(known[0], at), max(known[1], at))
            key = f"past-{begin:%s}-{end:%s}"
            st.session_state[key] = min(max(at.replace(tzinfo=None), begin), end)  # wherever the time came from
            st.slider(
                "Time, UTC", begin, end, step=step, format="D MMM HH:mm:ss", key=key, on_change=_moved, args=(key,),
                width=560,
            )  # fmt: skip
            back, on = at - step, at + step
            st.button("Earlier", icon=":material/chevron_left:", key="earlier", on_click=_go, args=(back,))
            late = on > known[1]
            st.button("Later", icon=":material/chevron_right:", key="later", on_click=_go, args=(on,), disabled=late)
        st.button("Back to now", icon=":material/play_arrow:", key="to-now", on_click=_return, type="primary")


def _grid(begin: datetime, end: datetime) -> tuple[datetime, datetime, timedelta]:
    """The ends of the slider, which knows no zones, on whole steps, and the step."""
    seconds = (end - begin).total_seconds()
    step = next((size for size in TIERS if seconds <= size * STEPS), TIERS[-1])
    first, last = (int(moment.timestamp()) // step * step for moment in (begin, end))
    low, high = (datetime.fromtimestamp(edge, UTC).replace(tzinfo=None) for edge in (first, max(last, first + step)))
    return low, high, timedelta(seconds=step)


def _moved(key: str) -> None:
    _go(st.session_state[key].replace(tzinfo=UTC))


def _go(at: datetime) -> None:
    """Callback: look at a time; it stays in the address."""
    st.query_params["at"] = f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _return() -> None:
    """Callback: back to what is now."""
    st.query_params.pop("at", None)


def banner(at: datetime, more: str) -> None:
    """Says that this is past."""
    ago = duration((datetime.now(UTC) - at).total_seconds())
    with st.container(horizontal=True, key="answer-past", vertical_alignment="top", wrap=False):
        st.markdown(":orange[:material/history:]", width="content")
        with st.container(gap=None):
            st.container(key="sentence").text(f"As it was at {at:%Y-%m-%d %H:%M:%S} UTC, {ago} ago")
            st.text(more)
            st.text("This is past: it does not refresh, and nothing can be changed from here.")


# --- what was -------------------------------------------------------------------------------------


def history_reach() -> tuple[datetime, datetime] | None:
    """The span that the overview shows, as far as it was measured; None where nothing is."""
    shown = data.measured(parts.chosen_span())
    if not shown.history or shown.totals.empty:
        return None
    return shown.totals["start"].iloc[0].to_pydatetime(), shown.snapshot.at


def overview(at: datetime, seconds: float) -> Then | None:
    """None where nothing was measured by then."""
    return _overview(data.store(), at, seconds)


@st.cache_resource(ttl=KEPT, max_entries=64, show_spinner=False)
def _overview(store: tuple[str, int], at: datetime, seconds: float) -> Then | None:
    series = data.read(lambda view: view.series(since=at - timedelta(seconds=10), until=at))
    totals = series_totals_frame(series)
    if totals.empty:
        return None
    last = totals.iloc[-1]
    ended = (last["start"] + pd.Timedelta(seconds=last["seconds"])).to_pydatetime()
    found, served = rotation(ended), ""
    if found is not None:
        served = frames.words.then_sentence(frames.turns.around_frame(found.events, ended), found.unseen)
    return Then(ended, last, frames.series.then_frame(series_frame(series, fields=FIELDS)), served)


def journal_reach() -> tuple[datetime, datetime] | None:
    """As far as the journal reaches; None where there is none."""
    return _journal_reach(data.store())


@st.cache_resource(ttl=KEPT, max_entries=8, show_spinner=False)
def _journal_reach(store: tuple[str, int]) -> tuple[datetime, datetime] | None:
    return data.read(frames.then.journal_span) if data.keeps().journal else None


def rotation(at: datetime) -> TurnsThen | None:
    """None where the journal does not reach back to then."""
    return _rotation(data.store(), at)


@st.cache_resource(ttl=KEPT, max_entries=8, show_spinner="Reading the journal from then to now")
def _rotation(store: tuple[str, int], at: datetime) -> TurnsThen | None:
    return data.read(lambda view: frames.turns_then(view, at)) if data.keeps().journal else None


def tag(name: str, at: datetime, seconds: float) -> TagThen:
    """One tag up to then."""
    return _tag(data.store(), name, at, seconds)


@st.cache_resource(ttl=KEPT, max_entries=32, show_spinner=False)
def _tag(store: tuple[str, int], name: str, at: datetime, seconds: float) -> TagThen:
    return data.read(lambda view: frames.tag_then(view, name, at, seconds))
