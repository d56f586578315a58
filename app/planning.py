"""All that a filter finds, as a plan: looked at before it is run, followed while it runs, undone after."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import streamlit as st

from app import acting, control, data, parts
from app.triage import DO, ICON, MEANS
from app.verbs import NEEDS_REASON, Verb
from queue_core import InvalidFilter, QueueError, State
from queue_core.frames import error_line, plan_words, planned_frame, planned_words, plans_frame, plural, safe_text

ASKED = "shown:planning"  # what the dialog is about: verb, filter, state
DRAFT = "shown:planning:draft"  # the number of the plan that was made of it
MISTAKE = "shown:planning:mistake"
OPENED = "shown:planning:opened"
RUNS = "outcome:plan"  # the number of the plan that was started
CANARY = (Verb.REDRIVE, Verb.RESTORE, Verb.MOVE)  # workers then take the tasks
NAMED = 8  # tags named before saying yes
EXPORTED = 10_000
AGAIN = "outcome:plan:again"
SLOW = "outcome:plan:slow"
ERROR = "outcome:plan:error"  # why the plan was not started or stopped; nothing when it was


# --- asking ---------------------------------------------------------------------------------------


def buttons(state: State, where: str, verbs: tuple[Verb, ...], many: bool) -> None:
    """One for each verb, for all that the filter finds; and the same to be downloaded."""
    key = f"all-that-match-{st.session_state.get(OPENED, 0)}"  # a new one is closed
    with st.popover("All that match", icon=":material/select_all:", disabled=not many, key=key):
        for verb in verbs:
            st.button(
                f"{DO[verb]} all that match …", icon=ICON[verb], key=f"all-{verb}", disabled=not control.may(verb),
                on_click=_ask, args=(state, verb, where), width="stretch",
            )  # fmt: skip
        for kind in ("csv", "ndjson"):
            st.download_button(
                f"Download as {kind.upper()}, masked", partial(control.export, where, kind, EXPORTED),
                f"{state}.{kind}", icon=":material/download:", key=f"download-{kind}", on_click="ignore",
                help=f"At most {EXPORTED:,} tasks, those that came in first", width="stretch",
            )  # fmt: skip


def _ask(state: State, verb: Verb, where: str) -> None:
    _close()
    st.session_state[ASKED] = (verb, where, state)
    st.session_state[OPENED] = st.session_state.get(OPENED, 0) + 1


def _close() -> None:
    for key in (ASKED, DRAFT, MISTAKE):
        st.session_state.pop(key, None)


def asking() -> None:
    """The dialog, while a plan is being made."""
    if ASKED in st.session_state:
        _dialog()


@st.dialog("All that match", width="large", on_dismiss=_close)
def _dialog() -> None:
    if ASKED not in st.session_state:
        st.rerun()
    verb, where, state = st.session_state[ASKED]
    if DRAFT in st.session_state:
        _decide(verb, state, st.session_state[DRAFT])
        return
    st.text(f"{DO[verb]} every task that matches now:")
    st.code(safe_text(where), language=None, wrap_lines=True)
    st.text(MEANS[verb])
    _form(verb)
    if MISTAKE in st.session_state:
        st.code(st.session_state[MISTAKE], language=None, wrap_lines=True)
    with st.container(horizontal=True):
        st.button("Look what it would do", type="primary", key="plan-look", on_click=_draft, args=(verb, where))
        st.button("Cancel", key="plan-cancel", on_click=_close)


def _form(verb: Verb) -> None:
    if verb is Verb.MOVE:
        st.text_input("To the tag", key="plan-tag", placeholder="Its exact name; a new one is made known")
    why = "Why: it is kept with the tasks" if verb in NEEDS_REASON else "Why (if you like): it goes to the audit"
    st.text_input("Reason", key="plan-reason", placeholder=why, max_chars=500)
    left, middle, right = st.columns(3)
    left.number_input(
        "Tasks a second", min_value=0.1, max_value=1e6, value=None, key="plan-rate", placeholder="As fast as it goes"
    )
    if verb in CANARY:
        middle.number_input(
            "Canary", min_value=1, max_value=10_000, value=None, key="plan-canary", placeholder="None",
            help="So many first; the others follow when enough of them were acknowledged",
        )  # fmt: skip
        right.number_input(
            "Share that must succeed", min_value=0.0, max_value=1.0, value=0.9, step=0.05, key="plan-success",
            help="Of the canary; below it, the plan stops by itself",
        )  # fmt: skip


@acting.one_at_a_time
def _draft(verb: Verb, where: str) -> None:
    """Callback: freeze what matches now."""
    if DRAFT in st.session_state:  # the second of two quick clicks
        return
    given = st.session_state
    tag = str(given.get("plan-tag", "")) if verb is Verb.MOVE else None
    if tag == "":
        given[MISTAKE] = "Name the tag first."
        return
    wanted = {
        "reason": str(given.get("plan-reason", "")).strip(), "rate": given.get("plan-rate"), "tag": tag,
        "canary": given.get("plan-canary"), "success": given.get("plan-success", 0.9),
    }  # fmt: skip
    acting.do(lambda: _drafted(verb, where, wanted), _told_draft)


def _drafted(verb: Verb, where: str, wanted: dict[str, Any]) -> int | str:
    """The number of the plan, or what is mistaken."""
    try:
        return control.draft(verb, where, **wanted).number
    except QueueError as error:
        return safe_text(str(error)) if isinstance(error, InvalidFilter) else error_line(error)


def _told_draft(made: int | str) -> None:
    st.session_state.pop(MISTAKE, None)
    st.session_state[MISTAKE if isinstance(made, str) else DRAFT] = made


def _decide(verb: Verb, state: State, number: int) -> None:
    plan = data.read(lambda view: view.plan(number))
    st.text("\n".join(planned_words(plan)))
    tags = planned_frame(plan).head(NAMED)
    if len(tags):
        parts.grid(tags, {"label": "Tag", "count": "Tasks"}, key=f"planned-{number}")
    st.text(f"{MEANS[verb]} A task that has changed since is left alone.")
    kind: Literal["primary", "secondary"] = "secondary" if verb in NEEDS_REASON else "primary"
    with st.container(horizontal=True, horizontal_alignment="right"):  # not where "Look what it would do" was clicked
        st.button("Back", key="plan-back", on_click=st.session_state.pop, args=(DRAFT, None))
        st.button("Cancel", key="plan-cancel", on_click=_close)
        st.button(
            f"{DO[verb]} {plural(plan.selected, 'task')}", icon=ICON[verb], type=kind, key="plan-run",
            disabled=not plan.selected or not control.may("run"), on_click=_run, args=(state, number),
        )  # fmt: skip


@acting.one_at_a_time
def _run(state: State, number: int) -> None:
    """Callback: run it beside the pages, and show how it goes on."""
    if ASKED in st.session_state:  # else it is the second of two quick clicks
        acting.do(lambda: acting.tried(lambda: control.start(number)), partial(_started, state, number))


def _started(state: State, number: int, wrong: str) -> None:
    _close()
    st.session_state.pop(SLOW, None)
    st.session_state[ERROR] = wrong
    st.session_state[RUNS] = number
    st.session_state.pop(f"shown:{state}", None)


# --- following ------------------------------------------------------------------------------------


def following(state: State) -> None:
    """The plan that was started here: how far it is while it runs, and what came of it."""
    if RUNS in st.session_state:
        with st.container(border=True, key="plan"):
            st.fragment(parts.guarded(lambda: _progress(state)), run_every=parts.pace())()


def _progress(state: State) -> None:
    number = st.session_state.get(RUNS)
    if number is None or st.session_state.pop(AGAIN, False):  # the table above is another now
        st.rerun()
    plan = data.read(lambda view: view.plan(number))
    frame = plans_frame([plan], plan.epoch)
    share, running = frame["progress"].fillna(1.0).iloc[0], control.goes_on(plan)
    first, *more = plan_words(plan)
    if running:
        st.session_state[SLOW] = True
        st.progress(share, f"Plan {number} goes on; it does so when this page is left")
        st.text(first)
    else:
        whole = plan.over and plan.moved == plan.selected
        (st.success if whole else st.warning)(first, icon=":material/info:")
        if st.session_state.get(SLOW):
            more.append("It ended after the table was read: refresh the table to see what is there now")
    if more:
        st.text("\n".join(more))
    for wrong in (control.trouble(number), st.session_state.get(ERROR, "")):
        if wrong:
            st.text(wrong)
    given_back = plan.undo_of or plan.undone_by
    verbs: tuple[tuple[str, str, object, Callable[..., None], tuple[object, ...]], ...] = (
        ("Stop", "stop", running and control.may("stop"), _stop, (number,)),
        (
            "Resume", "play_arrow", not running and plan.left and not plan.undone_by and control.may("run"), _resume,
            (state, number, plan.run),
        ),
        ("Undo", "undo", not running and plan.moved and not given_back and control.may("undo"), _undo, (state, number)),
    )  # fmt: skip
    with st.container(horizontal=True):  # each keeps its place: a second click must not hit another one
        for label, icon, possible, act, args in verbs:
            st.button(
                label, icon=f":material/{icon}:", key=f"plan-{label.lower()}", on_click=act, args=args,
                disabled=not possible,
            )  # fmt: skip
        st.button("Dismiss", key="plan-dismiss", on_click=_dismiss, disabled=running)


@acting.one_at_a_time
def _stop(number: int) -> None:
    """Callback: what was moved stays moved."""
    acting.do(lambda: acting.tried(lambda: control.stop(number)), partial(st.session_state.__setitem__, ERROR))


@acting.one_at_a_time
def _resume(state: State, number: int, run: int) -> None:
    """Callback: go on where its last ``run`` was stopped."""

    def start() -> None:
        if data.read(lambda view: view.plan(number)).run == run:  # else it is the second of two quick clicks
            control.start(number)

    acting.do(lambda: acting.tried(start), partial(_again, state, number))


@acting.one_at_a_time
def _undo(state: State, number: int) -> None:
    """Callback: give back what has not moved on since."""
    if st.session_state.get(RUNS) == number:  # else it is the second of two quick clicks
        acting.do(lambda: control.start_undo(number), lambda done: _again(state, *done))


def _again(state: State, number: int, wrong: str) -> None:
    """The plan runs once more, or the one that undoes it does."""
    _started(state, number, wrong)
    st.session_state[AGAIN] = True


def _dismiss() -> None:
    for key in (RUNS, SLOW, ERROR):
        st.session_state.pop(key, None)
