"""Dead letters and the trash as they are searched, paged and grouped: what is shown is frozen until a refresh."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import pandas as pd
import streamlit as st

from app import acting, control, data, listings, parts, triage
from app.listings import Listing, Since
from app.triage import Shown
from queue_core import InvalidFilter, QueueError, Snapshot, State, View
from queue_core.frames import (
    Letters,
    dead_frame,
    error_line,
    filter_help,
    filter_of,
    groups_frame,
    groups_of,
    groups_sentence,
    heat_frame,
    may_stand,
    newest,
    plural,
    safe_text,
    tag_label,
    with_text,
)

PAGE = 200  # rows of a page
GROUPS = 50  # error groups in the table
GROUP_COLUMNS = {
    "text": "Error", "count": "Dead", "tags": "Tags", "since_last": "Last", "since_first": "First", "status": "Status",
    "deaths": None, "group": None,
}  # fmt: skip
PAGES = "shown:pages"
CHOSEN = "shown:groups"  # the groups that the filter was made of, as it is
SALT = "shown:groups:salt"


@dataclass(frozen=True, slots=True)
class Read(Listing):
    """A page of letters with the error groups, all from one view. ``where`` is the whole filter, ``mistake`` that of
    the one that was written. ``grouped`` is the tag that the groups are of, ``unsure`` tells that it may have more."""

    where: str
    found: Letters | None
    grouped: str | None
    groups: pd.DataFrame
    more_groups: int
    unsure: bool
    heat: pd.DataFrame | None
    mistake: str = ""


# --- reading --------------------------------------------------------------------------------------


def shown(state: State, where: str) -> tuple[Shown, Read, int]:
    """What is shown, frozen; and the number of its first row."""
    tag = parts.chosen_tag()
    after, first = _page(state, (tag, where))
    frozen = triage.frozen(state, (tag, where, after), lambda: _read(state, tag, where, after))
    assert isinstance(frozen.listing, Read)
    return frozen, frozen.listing, first


def _read(state: State, tag: str | None, where: str, after: str | None) -> Read:
    kept = data.with_queue(lambda queue: queue.capabilities.plans)
    try:
        whole = filter_of(state, where, tag=tag)
    except InvalidFilter as mistake:
        said = safe_text(str(mistake))
        return data.read(lambda view: _ask(view, state, tag, None, None, kept, said))
    return data.read(lambda view: _ask(view, state, tag, whole, after, kept, ""))


def _ask(
    view: View, state: State, tag: str | None, where: str | None, after: str | None, kept: bool, mistake: str
) -> Read:
    snapshot: Snapshot = view.snapshot()
    grouped = tag if kept else None  # else each group would be counted from all dead letters
    groups, unsure = groups_of(view, snapshot, grouped) if state is State.DEAD else ([], False)
    heat = heat_frame(view, groups[:GROUPS]) if kept and groups else None
    if heat is not None and grouped is not None:
        heat = heat[heat["tag"] == grouped]
    found = newest(view, state, where, after=after, limit=PAGE) if where is not None else None
    frame = dead_frame(found.tasks if found else (), snapshot.at)
    top = view.tasks(state, tag=tag, limit=1, reverse=True)
    entry = max((task.record.entry for task in top), default=0)
    return Read(
        snapshot, frame, top.total, top.total, len(frame), entry, where or "", found, grouped,
        groups_frame(groups[:GROUPS], snapshot.at), len(groups[GROUPS:]), unsure, heat, mistake,
    )  # fmt: skip


def since(state: State, read: Read, where: str) -> Since:
    """What has changed since: by the filter, where one was written that can be read."""
    if where and not read.mistake:
        return listings.since_by(state, read.where, read)
    return listings.since(state, parts.chosen_tag(), read)


def told(read: Read) -> list[str]:
    """The error groups in a sentence; of the tag that they are of."""
    if read.grouped is None:
        return [groups_sentence(read.groups)]
    label = tag_label(read.grouped)
    if not read.total:
        return [f"None of {label}"]
    return [f"Of {label}, {plural(read.total, 'dead letter')}: {groups_sentence(read.groups)}"]


# --- pages ----------------------------------------------------------------------------------------


def _page(state: State, filters: tuple[object, ...]) -> tuple[str | None, int]:
    """Where the page begins, and the number of its first row; the first page when the filters are others."""
    kept = st.session_state.get(f"{PAGES}:{state}")
    if kept is None or kept[0] != filters:
        kept = st.session_state[f"{PAGES}:{state}"] = (filters, [(None, 1)])
    cursor, first = kept[1][-1]
    return cursor, first


def pager(state: State, read: Read, first: int) -> None:
    """To the page behind, and back."""
    if read.found is None:
        return
    begun = st.session_state[f"{PAGES}:{state}"][1]
    behind = read.found.behind(first)
    if len(begun) > 1 or behind[0] is not None:
        with st.container(horizontal=True, vertical_alignment="center", key="pages"):
            st.button("Newer", icon=":material/chevron_left:", key="page-back", disabled=len(begun) < 2,
                      on_click=_back, args=(begun,))  # fmt: skip
            st.button("Older", icon=":material/chevron_right:", key="page-on", disabled=behind[0] is None,
                      on_click=_on, args=(begun, behind))  # fmt: skip
            st.text(read.found.extent(first))


def _back(begun: list[tuple[str | None, int]]) -> None:
    """Callback: to the page before. The second of two quick clicks may find none."""
    if len(begun) > 1:
        begun.pop()


def _on(begun: list[tuple[str | None, int]], behind: tuple[str | None, int]) -> None:
    """Callback: to the page behind. The second of two quick clicks may find none, or that it is there already."""
    if behind[0] is not None and behind not in begun:
        begun.append(behind)


# --- searching ------------------------------------------------------------------------------------


def box() -> str:
    """The filter that was written, or that the selected error groups make."""
    _take_text()
    _take_groups()
    with st.container(horizontal=True, vertical_alignment="center", key="searching"):
        where = st.text_input(
            "Filter", key="where", bind="query-params", placeholder="error:timeout tag:acme attempts>=3 payload.id:42",
            label_visibility="collapsed", icon=":material/filter_alt:", max_chars=parts.LONGEST,
        )  # fmt: skip
        with st.popover("How to filter", icon=":material/help:"):
            st.code(filter_help(), language=None)
    return str(where or "").strip()


def _take_text() -> None:
    """Text in the address, of before there was the filter or of another page, becomes a part of the filter."""
    given = st.query_params.to_dict()
    text = given.pop("text", "").strip()
    if text:
        st.switch_page("views/dead.py", query_params=given | {"where": with_text(given.get("where", "").strip(), text)})


def effort(read: Read, where: str) -> None:
    """What the filter reads, or where it is mistaken and what may stand there."""
    if read.mistake:
        st.code(read.mistake, language=None)
        offers = may_stand(where, [tag.name for tag in read.snapshot.tags[: parts.TAGS_OFFERED]])
        if offers:
            st.text(safe_text(f"There may stand: {'   '.join(offers)}"))
    elif where and read.found is not None:
        st.container(key="small-effort").text(safe_text(read.found.effort))


# --- error groups ---------------------------------------------------------------------------------


def _key(groups: pd.DataFrame) -> str:
    """The same as long as the same groups stand in the same rows, so that a selection means the same ones."""
    digest = blake2b("".join(groups["group"]).encode(), digest_size=6).hexdigest()
    return f"groups-{st.session_state.get(SALT, 0)}-{digest}"


def _selected(groups: pd.DataFrame) -> list[str]:
    widget = st.session_state.get(_key(groups))
    if widget is None:
        return list(st.session_state.get(CHOSEN, ()))
    return [groups["group"].iloc[row] for row in widget["selection"]["rows"] if row < len(groups)]


def _of(groups: Sequence[str]) -> str:
    return " OR ".join(f"group:{group}" for group in groups)


def _take_groups() -> None:
    """Let the filter follow the groups that are selected; one that a person wrote after that selects none."""
    kept: Shown | None = st.session_state.get(f"shown:{State.DEAD}")
    before: list[str] = st.session_state.get(CHOSEN, [])
    if before and st.session_state.get("where") != _of(before):
        st.session_state[SALT] = st.session_state.get(SALT, 0) + 1
        st.session_state[CHOSEN] = []
    elif kept is not None and isinstance(kept.listing, Read):
        chosen = _selected(kept.listing.groups)
        if chosen != before:
            st.session_state[CHOSEN] = chosen
            st.session_state["where"] = _of(chosen)


def groups(read: Read) -> None:
    """What they died of. A group that is clicked is filtered by; its cause can be said to be mended."""
    frame, chosen = read.groups, list(st.session_state.get(CHOSEN, ()))
    more = f", the {GROUPS} largest of {plural(GROUPS + read.more_groups, 'group')}" if read.more_groups else ""
    of = " that hit the tag" if read.grouped is not None else ""
    st.markdown(f"**Error groups{of}**{more}: select some to see theirs")
    if read.grouped is not None:
        smaller = "; smaller ones may hit it, too" if read.unsure else ""
        st.text(f"Dead counts {tag_label(read.grouped)} alone, what stands beside it is of all tags{smaller}")
    at_first = [place for place, group in enumerate(frame["group"]) if group in chosen]
    spans = {"since_last": parts.ago, "since_first": parts.ago}
    parts.grid(frame, GROUP_COLUMNS, _key(frame), spans=spans, selected=at_first, widths={"text": 350})
    with st.container(horizontal=True, vertical_alignment="center", key="resolving"):
        for label, icon, resolved in (("Resolve", "task_alt", True), ("Reopen", "undo", False)):
            ready = frame.loc[frame["group"].isin(chosen) & (frame["resolved"] != resolved), "group"]
            verb = label.lower()
            st.button(
                f"{label} {plural(len(ready), 'group')}" if len(ready) else f"{label} selected",
                icon=f":material/{icon}:", key=f"groups-{verb}", disabled=ready.empty or not control.may(verb),
                help="Its cause is mended: a new death reopens it" if resolved else "It is not mended after all",
                on_click=_resolve, args=(read, tuple(ready), resolved),
            )  # fmt: skip


@acting.one_at_a_time
def _resolve(read: Read, chosen: tuple[str, ...], resolved: bool) -> None:
    """Callback: say so of the groups that were chosen in what was read."""
    kept: Shown | None = st.session_state.get(f"shown:{State.DEAD}")
    if kept is not None and kept.listing is read and chosen:  # else it is the second of two quick clicks
        acting.do(lambda: _resolved(chosen, resolved), _told)


def _resolved(chosen: tuple[str, ...], resolved: bool) -> tuple[bool, str]:
    """Whether all went well, and what was done."""
    done, before, wrong = 0, 0, ""
    for group in chosen:
        try:
            if control.resolve(group, resolved):
                done += 1
            else:
                before += 1
        except QueueError as error:
            wrong = error_line(error)
    word = "resolved; a new death reopens it" if resolved else "reopened"
    told = [f"{plural(done, 'error group')} {word}"] + ([f"{before:,} had been before"] if before else [])
    return not wrong, "; ".join(told + ([wrong] if wrong else []))


def _told(outcome: tuple[bool, str]) -> None:
    st.session_state["outcome:groups"] = outcome
    triage.refresh(State.DEAD)


def resolved() -> None:
    """What the last word on error groups did."""
    if "outcome:groups" in st.session_state:
        done, words = st.session_state["outcome:groups"]
        with st.container(key="resolved"):
            (st.success if done else st.warning)(words, icon=":material/task_alt:")
            st.button("Dismiss", key="dismiss-groups", on_click=st.session_state.pop, args=("outcome:groups", None))
