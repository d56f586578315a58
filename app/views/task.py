"""One task by its id: what it is, why it is not running, its whole story, and what can be done about it."""

import streamlit as st

from app import data, detail, parts, triage
from app.verbs import Target, Verb
from queue_core import InvalidArgument, State, TaskNotFound
from queue_core.frames import Level, TaskStory, Verdict, duration, error_line, task_story

PLACE = "task"
ELSE = "Of what the record does not keep, only the newest entries of journal and audit tell."
ELSE_NOTHING = "This store keeps neither journal nor audit: what the record does not keep is not known."
VERBS = {
    State.PENDING: (Verb.MOVE, Verb.DEAD_LETTER, Verb.CANCEL),
    State.SCHEDULED: (Verb.REQUEUE, Verb.MOVE, Verb.DEAD_LETTER, Verb.CANCEL),
    State.INFLIGHT: (Verb.REQUEUE, Verb.EXTEND, Verb.DEAD_LETTER),
    State.DEAD: (Verb.REDRIVE, Verb.MOVE, Verb.PURGE),
    State.TRASH: (Verb.RESTORE,),
}
LEVEL = {State.DEAD: Level.ATTENTION, State.TRASH: Level.IDLE}
STORY = {"at": "When", "after": "Later by", "what": "What", "who": "Who", "detail": "Detail"}


def body() -> None:
    id = str(st.session_state.get("task") or "").strip()
    if not id:
        parts.answer(Verdict(Level.IDLE, "No task is chosen"), None)
        st.text("Write the id of one: it is in the column Task of every table, and in what push returns.")
        return
    try:
        shown = read(id)
    except (TaskNotFound, InvalidArgument) as error:
        parts.answer(Verdict(Level.UNKNOWN, "There is no such task", (error_line(error),)), None)
        triage.outcome(PLACE)
        st.text("Nothing is kept of a task that is done, but what the journal and the audit say.")
        return
    task = shown.task
    parts.answer(Verdict(LEVEL.get(task.state, Level.HEALTHY), shown.sentence), shown.at)
    triage.outcome(PLACE)
    with st.container(horizontal=True, vertical_alignment="center", key="news"):
        st.button("Refresh", icon=":material/refresh:", key="refresh", on_click=st.session_state.pop,
                  args=(f"shown:{PLACE}", None))  # fmt: skip
        st.fragment(parts.guarded(lambda: changed(shown)), run_every=parts.pace())()
    with st.container(horizontal=True, vertical_alignment="center", key="actions"):
        triage.buttons(PLACE, VERBS[task.state], [Target(task.id, task.version, task.tag)])
        detail.editor(task)
    detail.facts(task)
    left, right = st.columns(2)
    with left.container(border=True):
        detail.story(task, shown.masked, shown.at)
    with right.container(border=True):
        st.markdown("**Story**")
        parts.grid(shown.story, STORY, key=f"story-{task.id}-{task.version}", spans={"after": duration})
        st.text(ELSE if data.keeps().journal else ELSE_NOTHING)
    detail.editing()


def read(id: str) -> TaskStory:
    """The task as it was when it was opened, or refreshed last."""
    kept: tuple[str, TaskStory] | None = st.session_state.get(f"shown:{PLACE}")
    if kept is None or kept[0] != id:
        kept = st.session_state[f"shown:{PLACE}"] = (id, data.read(lambda view: task_story(view, id)))
    return kept[1]


def changed(shown: TaskStory) -> None:
    """Whether it is still what is shown, looked at every two seconds."""
    try:
        (now, _), at = data.task(shown.task.id)
    except TaskNotFound:
        st.text("It is gone since: it was acknowledged or expunged")
        return
    if now.version == shown.task.version:
        st.text(f"Nothing has changed since ({at:%H:%M:%S} UTC)")
    else:
        st.text(f"It has changed since: it is {now.state} now, version {now.version} ({at:%H:%M:%S} UTC)")


parts.frozen(body)
