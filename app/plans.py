"""Plans: how far each has come, one of them in full, and what can be done to it: run, stop, undo.

Which rows are shown is frozen, so that a click hits what was seen; their numbers are renewed every two seconds.
"""

from collections.abc import Callable

import pandas as pd
import streamlit as st

from app import acting, control, data, parts
from queue_core import Conflict, frames
from queue_core.frames import Level, PlanSeen, PlansSeen, Verdict, error_line, plural

PIECE = 200  # tasks of a plan
NUMBERS, ASKED, TOLD = "shown:plans", "shown:plan:asked", "outcome:plans"
COLUMNS = {
    "plan": "Plan", "name": "Action", "standing": "State", "progress": "Dealt with", "selected": "Selected",
    "moved": "Moved", "skipped": "Skipped", "failed": "Failed", "left": "Not reached", "age": "Made", "actor": "By",
    "where": "Where", "runner": "Run by", "note": "Note",
}  # fmt: skip
RESULTS = {"number": "Number", "id": "Task", "verdict": "Outcome", "why": "Why"}
REASONS = {"count": "Tasks", "what": "What", "why": "Why"}
OUTCOMES = ("moved", "skipped", "failed")
NO_PLANS = (
    "This store keeps neither plans nor an audit. What people do to several tasks is done to one after the other, and "
    "told in the log queue_core.audit; it cannot be undone at once. An lmdb store keeps both."
)
NONE_YET = (
    "None yet. A plan is made of every action on several tasks at once: select rows on Dead letters or In flight, or "
    "act on all that match a filter there."
)


def section() -> None:
    """The table, the plan that is chosen in it, and what can be done to it."""
    if not data.keeps().plans:
        st.text(NO_PLANS)
        return
    parts.part(_body)


def _body() -> None:
    seen = data.plans()
    number = _chosen(_table(seen))
    if number is not None:
        _one(number)


# --- the table ------------------------------------------------------------------------------------


def _table(seen: PlansSeen) -> int | None:
    """The rows that were there when the page was opened; the number of the one that is selected."""
    frame = seen.frame
    if frame.empty:
        st.text(NONE_YET)
        return None
    numbers: list[int] = st.session_state.setdefault(NUMBERS, frame["plan"].tolist())
    shown = frame[frame["plan"].isin(numbers)].reset_index(drop=True)
    with st.container(horizontal=True, vertical_alignment="center", key="plans-bar"):
        st.button("Refresh", icon=":material/refresh:", key="plans-refresh", on_click=_refresh)
        newer = int((~frame["plan"].isin(numbers)).sum())
        st.text(f"{newer:,} newer" if newer else f"{plural(len(shown), 'plan')}, the newest on top")
    key = f"plans-{max(numbers)}-{len(shown)}"
    chosen = _asked_for()
    at = shown.index[shown["plan"] == chosen].tolist()
    parts.grid(
        shown, COLUMNS, key, spans={"age": parts.ago}, selected=at, mode="single-row",
        shares={"progress": "Dealt with"},
    )  # fmt: skip
    rows = st.session_state[key]["selection"]["rows"]
    if rows:
        return int(shown["plan"].iloc[rows[0]])
    return chosen if not at else None


def _refresh() -> None:
    """Callback: show those that have come meanwhile as well."""
    st.session_state.pop(NUMBERS, None)


def _asked_for() -> int | None:
    """The plan in the address."""
    text = st.query_params.get("plan", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _chosen(number: int | None) -> int | None:
    """The plan that is looked at; the address follows."""
    if number != _asked_for():
        st.session_state.pop(ASKED, None)
        if number is None:
            del st.query_params["plan"]
        else:
            st.query_params["plan"] = str(number)
    return number


# --- one plan -------------------------------------------------------------------------------------


def _one(number: int) -> None:
    """A plan in full."""
    came = st.session_state.get(f"came-{number}")
    after: list[int] = st.session_state.setdefault(f"shown:after-{number}-{came}", [0])
    try:
        plan = data.read(lambda view: frames.plan_seen(view, number, verdict=came, after=after[-1], limit=PIECE))
    except Conflict as error:
        st.text(error_line(error))
        return
    with st.container(border=True, key="plan"):
        parts.answer(_with_trouble(plan), plan.at, of="-plan")
        st.progress(plan.progress)
        _buttons(plan)
        parts.facts(plan.facts)
        if not plan.reasons.empty:
            st.markdown("**Why tasks were left out**")
            parts.grid(plan.reasons, REASONS, key=f"reasons-{number}")
        _results(plan, after)


def _with_trouble(plan: PlanSeen) -> Verdict:
    """The sentence, and why the last run from this server ended early."""
    trouble = control.trouble(plan.number)
    if not trouble or not plan.left:
        return plan.verdict
    return Verdict(Level.ATTENTION, plan.verdict.text, (*plan.verdict.reasons, f"Its last run ended early: {trouble}"))


def _results(plan: PlanSeen, after: list[int]) -> None:
    st.markdown("**What came of each task**")
    key = f"shown:after-{plan.number}-{st.session_state.get(f'came-{plan.number}')}"
    with st.container(horizontal=True, vertical_alignment="center", key="plan-results"):
        st.segmented_control(
            "Outcome", OUTCOMES, key=f"came-{plan.number}", label_visibility="collapsed", format_func=str.capitalize
        )
        st.button(
            "First", key=f"first-{plan.number}", icon=":material/first_page:", disabled=len(after) == 1,
            on_click=_turn, args=(key, [0]),
        )  # fmt: skip
        st.button(
            "Next", key=f"next-{plan.number}", icon=":material/chevron_right:", disabled=len(plan.results) < PIECE,
            on_click=_turn, args=(key, [*after, _last(plan.results)]),
        )  # fmt: skip
    if plan.results.empty:
        st.text("None so far." if plan.left else "None.")
    else:
        parts.grid(plan.results, RESULTS, key=f"results-{plan.number}-{after[-1]}")


def _last(results: pd.DataFrame) -> int:
    return int(results["number"].iloc[-1]) if len(results) else 0


def _turn(key: str, after: list[int]) -> None:
    """Callback: another page of results."""
    st.session_state[key] = after


# --- doing ----------------------------------------------------------------------------------------


def _buttons(plan: PlanSeen) -> None:
    """What can be done to it now; what moves tasks is asked first, beside the button."""
    allowed = control.may("run") and control.may(plan.action)
    fresh = plan.moved == 0 and plan.left == plan.selected
    verbs: list[tuple[str, str, str, bool, bool, Callable[[int], None]]] = [
        ("run", "Run" if fresh else "Resume", ":material/play_arrow:", plan.runnable, allowed, _run),
        ("stop", "Stop", ":material/stop:", plan.stoppable, control.may("stop"), _stop),
        ("undo", "Undo", ":material/undo:", plan.undoable, control.may("undo") and allowed, _undo),
    ]
    with st.container(horizontal=True, vertical_alignment="center", key="plan-actions"):
        for verb, label, icon, possible, may, act in verbs:
            if not possible:
                continue
            asks = verb != "stop"
            st.button(
                label, icon=icon, key=f"plan-{verb}-{plan.number}", disabled=not may,
                on_click=_ask if asks else act, args=(verb, plan.number) if asks else (plan.number,),
            )  # fmt: skip
    asked = st.session_state.get(ASKED)
    if asked is not None and asked[1] == plan.number:
        _question(plan, asked[0])
    _told()


def _ask(verb: str, number: int) -> None:
    """Callback: ask before tasks are moved."""
    st.session_state[ASKED] = (verb, number)
    st.session_state.pop(TOLD, None)


def _question(plan: PlanSeen, verb: str) -> None:
    undoing = verb == "undo"
    if undoing:
        text = (
            f"Give back {plural(plan.moved, 'task')} that plan {plan.number} has moved? Those that have moved on since "
            "are left alone. It is a plan of its own."
        )
    else:
        text = (
            f"{plan.name.capitalize()} {plural(plan.left, 'task')}? What has changed since it was frozen is left alone."
        )
        if plan.drops:
            text += (
                " They are given up; the plan can be undone for 7 days."
                if plan.action != "expunge"
                else (" They are gone for good: this cannot be undone.")
            )
    with st.container(border=True, key="plan-question"):
        st.text(text)
        with st.container(horizontal=True):
            count = plural(plan.moved if undoing else plan.left, "task")
            st.button(
                f"{'Undo' if undoing else 'Run'} plan {plan.number}: {count}",
                type="secondary" if plan.drops else "primary", key=f"plan-do-{verb}-{plan.number}",
                on_click=_undo if undoing else _run, args=(plan.number,),
            )  # fmt: skip
            st.button("Cancel", key="plan-cancel", on_click=st.session_state.pop, args=(ASKED, None))


@acting.one_at_a_time
def _run(number: int) -> None:
    """Callback: run it, or go on with it."""
    if ASKED in st.session_state:  # else it is the second of two quick clicks
        acting.do(lambda: (number, acting.tried(lambda: control.start(number))), _tell)


@acting.one_at_a_time
def _stop(number: int) -> None:
    """Callback: what was moved stays moved."""
    acting.do(lambda: (number, acting.tried(lambda: control.stop(number))), _tell)


@acting.one_at_a_time
def _undo(number: int) -> None:
    """Callback: make the plan that undoes it, run that, and look at it."""
    if ASKED in st.session_state:  # else it is the second of two quick clicks
        acting.do(lambda: control.start_undo(number), _tell)


def _tell(done: tuple[int, str]) -> None:
    """The plan to look at, and what went wrong."""
    number, wrong = done
    st.session_state.pop(ASKED, None)
    if number != _asked_for():
        st.session_state.pop(NUMBERS, None)
        st.query_params["plan"] = str(number)
    if wrong:
        st.session_state[TOLD] = wrong
    else:
        st.session_state.pop(TOLD, None)


def _told() -> None:
    """Why the last action was refused."""
    if TOLD in st.session_state:
        st.warning("That was not done", icon=":material/info:")
        st.text(st.session_state[TOLD])
