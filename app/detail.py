"""One task to read: its error, payload, attempts and edits, as of now; and its payload to edit."""

from datetime import datetime

import streamlit as st

from app import acting, control, data, parts
from app.chart import chart
from app.verbs import Target, Verb
from queue_core import QueueError, State, Task, TaskNotFound, Undecodable, figures
from queue_core.frames import (
    duration,
    edits_frame,
    error_line,
    one_line,
    payload_tree,
    plural,
    safe_text,
    tag_label,
    task_json,
    task_python,
    timeline_frame,
)

PAYLOAD = 4_000  # characters shown; the download has all
EDITED = 100_000  # characters that can be edited in a page
TALL = 300  # pixels of an error
Edited = tuple[bool, str, tuple[str, ...], tuple[str, int, int | None] | None]  # all went well, words, why, how to undo
ATTEMPTS = {
    "number": "Lease", "cycle": "Cycle", "outcome": "Outcome", "took": "Took", "owner": "Owner",
    "started_at": "Started", "error": "Error",
}  # fmt: skip


# --- reading --------------------------------------------------------------------------------------


def panel(target: Target) -> None:
    """A task that was chosen, read now, with what has changed since."""
    try:
        (task, masked), at = data.task(target.id)
    except TaskNotFound as error:
        st.text(error_line(error))
        return
    with st.container(border=True, key="detail"):
        changed = "" if task.version == target.version else f"; it has changed since: it is {task.state} now"
        st.text(f"Task {task.id} of {tag_label(task.tag)}, {parts.clock(at)}{changed}")
        facts(task)
        with st.container(horizontal=True, key="detail-do"):
            editor(task)
            st.page_link("views/task.py", label="Open task", icon=":material/task:", query_params={"task": task.id})
        story(task, masked, at)


def facts(task: Task) -> None:
    """What there is to say in a line or two."""
    told = [
        f"{task.attempts} of {plural(task.max_attempts, 'attempt')} used in cycle {task.cycle}",
        f"{plural(task.leases, 'lease')} in all",
        f"pushed {task.created_at:%Y-%m-%d %H:%M:%S} UTC",
    ]
    if task.entered_at is not None:
        told.append(f"{task.state} since {task.entered_at:%Y-%m-%d %H:%M:%S} UTC")
    if task.owner:
        held = "held" if task.state is State.INFLIGHT else "last held"
        told.append(f"{held} by {one_line(task.owner, 80)}")
    if task.dedupe_key is not None:
        told.append(f"dedupe key {one_line(task.dedupe_key, 80)}")
    if task.record.group:
        told.append(f"error group {task.record.group.hex()}")
    st.text("; ".join(told))


def story(task: Task, masked: tuple[str, ...], at: datetime) -> None:
    """Why it died, what it is, what was tried, as of ``at``; ``masked`` names what is hidden."""
    if task.reason:
        st.markdown("**Reason**")
        st.code(safe_text(task.reason), language=None, wrap_lines=True)
    if task.error and task.error != task.reason:
        st.markdown("**Last error**")
        tall = task.error.count("\n") > 12 or len(task.error) > 1_000
        lines = task.error.count("\n") > 0  # wrapped, the carets of a traceback would stand elsewhere
        st.code(safe_text(task.error), language=None, wrap_lines=not lines, height=TALL if tall else "content")
    if masked:
        st.text(f"{plural(len(masked), 'field is', 'fields are')} masked: {one_line(', '.join(masked))}")
    payload(task)
    tried = timeline_frame(task, at)
    if not tried.empty:
        st.markdown("**Attempts**; dotted is the wait between two")
        chart(figures.attempts(tried), f"attempts-{task.id}", "Each attempt from its lease to its end, on a time axis")
        parts.grid(tried, ATTEMPTS, key=f"history-{task.id}", spans={"took": duration})
    before = edits_frame(task)
    if not before.empty:
        st.markdown("**Payloads before it was edited**")
        columns = {"at": "Edited away", "version": "Version", "payload": "Payload"}
        parts.grid(before, columns, key=f"edits-{task.id}")


def payload(task: Task) -> None:
    """As a tree, as it is stored, and to be copied; what is big is cut, and can be downloaded."""
    stored = task.record.payload
    text = stored.decode("utf-8", "replace")
    st.markdown("**Payload**")
    if isinstance(task.payload, Undecodable):
        st.text(f"It does not decode: {one_line(task.payload.error)}")
    if len(text) > PAYLOAD:
        st.code(safe_text(text, PAYLOAD), language=None, wrap_lines=True)
        st.download_button(
            f"Download {len(stored):,} bytes", stored, f"{task.id}.json", "application/json",
            icon=":material/download:", key=f"download-{task.id}", on_click="ignore",
        )  # fmt: skip
        return
    tree, plain, python, whole = st.tabs(["Tree", "Copy as JSON", "Copy as Python", "Whole task"])
    with tree:
        shown = payload_tree(task.payload)
        if isinstance(shown, dict | list):
            st.json(shown, expanded=3)
        else:
            st.code(safe_text(text), language=None, wrap_lines=True)
    plain.code(safe_text(text), language="json", wrap_lines=True)
    python.code(task_python(task), language="python", wrap_lines=True)
    whole.code(safe_text(task_json(task)), language="json", wrap_lines=True, height=TALL)


# --- editing --------------------------------------------------------------------------------------


def editor(task: Task) -> None:
    """The button that opens the payload to be edited."""
    if task.state is not State.TRASH:
        st.button(
            "Edit payload", icon=":material/edit:", key=f"edit-{task.id}", disabled=not control.may("edit"),
            on_click=st.session_state.__setitem__, args=("shown:edit", (task.id, task.version)),
        )  # fmt: skip


def editing() -> None:
    """The dialog, while a payload is being edited."""
    if "shown:edit" in st.session_state:
        _edit(*st.session_state["shown:edit"])


def edited() -> None:
    """What the last edit did."""
    if "outcome:edit" in st.session_state:
        done, words, why, undo = st.session_state["outcome:edit"]
        with st.container(key="edited"):
            (st.success if done else st.warning)(words, icon=":material/edit:")
            if why:
                st.text("\n".join(why))
            with st.container(horizontal=True):
                st.button(  # its place is kept when it is used: a second click must not hit what comes there
                    "Undo the edit", icon=":material/undo:", key="undo-edit", on_click=_undo, args=undo,
                    disabled=undo is None or not control.may("edit"),
                )  # fmt: skip
                st.button("Dismiss", key="dismiss-edit", on_click=st.session_state.pop, args=("outcome:edit", None))


def _close() -> None:
    for key in ("shown:edit", "shown:edit:looked"):
        st.session_state.pop(key, None)


@st.dialog("Edit the payload", width="large", on_dismiss=_close)
def _edit(id: str, version: int) -> None:
    if "shown:edit" not in st.session_state:
        st.rerun()
    try:
        (task, masked), _ = data.task(id)
    except QueueError as error:
        st.text(error_line(error))
        return
    before = control.payload_text(task)
    st.text(f"Task {id} of {tag_label(task.tag)}, {task.state}, version {version}")
    if len(before) > EDITED:
        st.text(f"It is too large for a page ({len(before):,} characters). From a shell:")
        st.code(f"queue-core dead edit {id}", language="bash")
        return
    if masked:
        st.text("What is masked keeps its value where its mask is left as it is.")
    if task.state is State.INFLIGHT:
        st.text("A worker holds it: it keeps its copy. Later deliveries get the new payload.")
    text = st.text_area("Payload, as JSON", before, height=260, key=f"payload-{id}-{version}") or ""
    st.text_input("Reason", key="edit-reason", placeholder="Why (if you like): it goes to the audit", max_chars=500)
    if task.state is State.DEAD:
        st.checkbox("Redrive it then", value=True, key="edit-redrive")
    looked = st.session_state.get("shown:edit:looked")
    if looked is not None and looked[0] == text:
        st.markdown("**What changes**" if looked[1] else "**It cannot be saved so**")
        st.code("\n".join(map(safe_text, looked[2])), language="diff" if looked[1] else None, wrap_lines=True)
    ready = looked is not None and looked[0] == text and looked[1]
    with st.container(horizontal=True):
        st.button("Show what changes", key="edit-look", on_click=_look, args=(id, version))
        st.button(
            "Save this payload", icon=":material/save:", type="primary", key="edit-save", disabled=not ready,
            on_click=_save, args=(id, version, task.tag),
        )  # fmt: skip
        st.button("Cancel", key="edit-cancel", on_click=_close)


def _look(id: str, version: int) -> None:
    """Callback: what would change, or why it cannot."""
    text = str(st.session_state.get(f"payload-{id}-{version}", ""))
    try:
        looked = (text, True, control.changes(id, version, text))
    except QueueError as error:
        looked = (text, False, [str(error)])
    st.session_state["shown:edit:looked"] = looked


@acting.one_at_a_time
def _save(id: str, version: int, tag: str) -> None:
    """Callback: save what was looked at, and redrive it when that is wanted."""
    if "shown:edit" not in st.session_state:  # the second of two quick clicks
        return
    text = str(st.session_state.get(f"payload-{id}-{version}", ""))
    looked = st.session_state.get("shown:edit:looked")
    if looked is None or looked[0] != text:  # it was written on since: what is saved has been looked at
        _look(id, version)
        return
    reason = str(st.session_state.get("edit-reason", "")).strip()
    redrive = bool(st.session_state.get("edit-redrive", False))
    acting.do(lambda: _saved(id, version, tag, text, reason, redrive), _told)


def _saved(id: str, version: int, tag: str, text: str, reason: str, redrive: bool) -> Edited:
    try:
        saved = control.edit(id, version, text, reason)
    except QueueError as error:
        return False, "Nothing was saved", (error_line(error),), None
    words = f"The payload of {id} was saved; that of before is kept with the task"
    if not redrive:
        return True, words, (), (id, saved, None)
    redriven = control.act(Verb.REDRIVE, [Target(id, saved, tag)], reason)
    (result,) = redriven.results
    if result.outcome != "done":
        return False, f"{words}; it was not redriven", (one_line(result.detail),), (id, saved, None)
    undo = (id, saved, redriven.plan) if redriven.plan is not None else None
    return True, f"{words}; it was redriven", (), undo


@acting.one_at_a_time
def _undo(id: str, version: int, redrive: int | None) -> None:
    """Callback: the payload of before again."""
    if st.session_state.get("outcome:edit", (None,))[-1] == (id, version, redrive):  # else clicked twice
        acting.do(lambda: _taken_back(id, version, redrive), _told)


def _taken_back(id: str, version: int, redrive: int | None) -> Edited:
    undone = control.take_back_edit(id, version, redrive)
    return undone.whole, undone.words, undone.why, None


def _told(outcome: Edited) -> None:
    """What came of an edit, or of its undo; all that is shown is read anew."""
    _close()
    st.session_state["outcome:edit"] = outcome
    _read_again()


def _read_again() -> None:
    for place in (State.DEAD, State.TRASH, "task"):
        st.session_state.pop(f"shown:{place}", None)
