"""The settings of one tag, and how they are changed: asked for, compared with what was seen, told, undone."""

from dataclasses import asdict
from functools import partial
from typing import Any

import streamlit as st

from app import acting, control, data
from queue_core import QueueError, Settings, TagStats
from queue_core.frames import changed_words, error_line, plural, settings_words, tag_label

OUTCOME = "outcome:settings"
Outcome = tuple[str, str, tuple[Any, ...] | None]  # level, words, what undoes it
MOST = 2**40  # of a limit
TELL = {
    "success": lambda: st.success("Settings changed", icon=":material/tune:"),
    "info": lambda: st.info("Nothing was changed", icon=":material/info:"),
    "warning": lambda: st.warning("Nothing was changed", icon=":material/info:"),
    "error": lambda: st.error("Nothing was changed", icon=":material/error:"),
}
BOXES = ("weight", "max_inflight", "min_interval", "max_pending")


def controls(name: str) -> None:
    """The settings in words, and what can be done to them. Nothing for a tag that there is not."""
    outcome()
    tag = _tag(name)
    if tag is None:
        return
    off = not control.may("configure")
    with st.container(horizontal=True, vertical_alignment="center", key="controls"):
        if tag.settings.paused:
            pressed = st.button("Resume", icon=":material/play_arrow:", key=f"resume-{tag.number}", disabled=off)
        else:
            pressed = st.button("Pause", icon=":material/pause:", key=f"pause-{tag.number}", disabled=off)
        if pressed:
            _pause(name, tag.number, tag.settings, tag.backlog, control.question())
        if st.button("Change settings", icon=":material/tune:", key=f"settings-{tag.number}", disabled=off):
            _change(name, tag.number, tag.settings, control.question())
        st.text(settings_words(tag.settings))


def _tag(name: str) -> TagStats | None:
    """The tag as it is now."""
    return data.read(lambda view: next((tag for tag in view.snapshot().tags if tag.name == name), None))


# --- asking ---------------------------------------------------------------------------------------


@st.dialog("Please confirm", width="medium")
def _pause(name: str, number: int, seen: Settings, waiting: int, question: int) -> None:
    pausing = not seen.paused
    st.text(f"{'Pause' if pausing else 'Resume'} {tag_label(name)}?")
    if pausing:
        st.text(
            f"{plural(waiting, 'task waits', 'tasks wait')} in it. No task of it is leased until it is resumed; what "
            "is in flight goes on, and pushes are taken."
        )
    else:
        st.text(f"{plural(waiting, 'task waits', 'tasks wait')} in it, and will be leased in turn.")
    with st.form(f"pause-form-{number}", border=False, enter_to_submit=False):
        _reason(number)
        _submit("Pause" if pausing else "Resume", name, number, seen, {"paused": pausing}, question)


@st.dialog("Change settings", width="medium")
def _change(name: str, number: int, seen: Settings, question: int) -> None:
    st.text(f"Of {tag_label(name)}. They hold from the next serve on, in every process.")
    with st.form(f"settings-form-{number}", border=False, enter_to_submit=False):
        boxes = (
            ("weight", "Weight: tasks in one turn", 1, 1_000_000, 1),
            ("max_inflight", "Most in flight at one time", 1, MOST, 1),
            ("min_interval", "Seconds between two serves, at least", 0.0, None, 0.1),
            ("max_pending", "Most waiting, above which pushes are refused", 0, MOST, 1),
        )
        for field, label, least, most, step in boxes:
            st.number_input(
                label, least, most, getattr(seen, field), step=step, key=f"{field}-{number}", placeholder="no limit"
            )
        _reason(number)
        _submit("Save", name, number, seen, None, question)


def _reason(number: int) -> None:
    st.text_input("Reason", key=f"why-{number}", placeholder="Why (if you like): it goes to the audit", max_chars=500)


def _submit(label: str, name: str, number: int, seen: Settings, wanted: dict[str, Any] | None, question: int) -> None:
    with st.container(horizontal=True):
        done = st.form_submit_button(
            label,
            type="primary",
            key=f"settings-do-{number}",
            on_click=_save,
            args=(name, number, seen, wanted, question),
        )
        cancelled = st.form_submit_button("Cancel", key=f"settings-cancel-{number}")
    if done or cancelled:
        st.rerun()


# --- doing ----------------------------------------------------------------------------------------


@acting.one_at_a_time
def _save(name: str, number: int, seen: Settings, wanted: dict[str, Any] | None, question: int) -> None:
    """Callback: set what was asked for. ``wanted`` None: what the boxes say."""
    if control.answered(question):  # the second of two quick clicks
        return
    if wanted is None:
        wanted = {box: st.session_state[f"{box}-{number}"] for box in BOXES}
    before = asdict(seen)
    changes = {field: value for field, value in wanted.items() if value != before[field]}
    reason = str(st.session_state.get(f"why-{number}") or "").strip()
    acting.do(lambda: _set(name, number, before, changes, reason), partial(_told, question))


def _told(question: int, outcome: Outcome) -> None:
    control.answer(question)
    st.session_state[OUTCOME] = outcome


def _set(name: str, number: int, before: dict[str, Any], changes: dict[str, Any], reason: str) -> Outcome:
    """Only a tag that is still the one that was seen, as it was seen, is changed."""
    if not changes:
        return "info", "The settings are as they were.", None
    try:
        tag = _tag(name)
        if tag is None or tag.number != number:
            return "warning", "The tag has vanished meanwhile.", None
        now = asdict(tag.settings)
        if any(now[field] != before[field] for field in changes):
            return "warning", f"Somebody else changed them meanwhile: {settings_words(tag.settings)}", None
        control.configure(name, reason, **changes)
    except QueueError as error:
        return "error", error_line(error), None
    old = {field: before[field] for field in changes}
    return "success", f"{tag_label(name)}: {changed_words(old, changes)}", (name, number, changes, old)


def outcome() -> None:
    """What the last change did, with a way back."""
    if OUTCOME not in st.session_state:
        return
    level, words, back = st.session_state[OUTCOME]
    with st.container(key="settings-outcome"):
        TELL[level]()
        st.text(words)
        with st.container(horizontal=True):
            if level == "success":  # its place is kept when it is used: a second click must not hit what comes there
                st.button(
                    "Undo",
                    icon=":material/undo:",
                    key="settings-undo",
                    on_click=_undo,
                    args=back,
                    disabled=back is None,
                )
            st.button("Dismiss", key="settings-dismiss", on_click=st.session_state.pop, args=(OUTCOME, None))


@acting.one_at_a_time
def _undo(name: str, number: int, present: dict[str, Any], old: dict[str, Any]) -> None:
    """Callback: set back what has not been changed again since."""
    if st.session_state.get(OUTCOME, ("", "", None))[2] == (name, number, present, old):  # else clicked twice
        acting.do(lambda: _set(name, number, present, old, "undo"), _told_undone)


def _told_undone(outcome: Outcome) -> None:
    level, words, _ = outcome
    st.session_state[OUTCOME] = (level, words, None)
