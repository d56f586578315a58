"""The guarantee, checked on every serve that the journal keeps, when somebody asks for it."""

import streamlit as st

from app import data, parts
from queue_core import frames
from queue_core.frames import Checked, JournalCheck

KEY = "shown:whole"  # forgotten when the page is left
PROOF = {
    "serve": "Serve", "at": "At", "label": "Tag", "weight": "Weight", "since": "Eligible since serve", "id": "Task",
    "owner": "Owner",
}  # fmt: skip


def check() -> None:
    """The button, and what the last check found."""
    with st.container(border=True):
        st.markdown("**The guarantee, over all that is kept**; what is said on top is of the newest serves")
        if st.button("Check the whole journal", icon=":material/verified:", key="check-whole"):
            with st.spinner("Checking every serve that the journal keeps"):
                st.session_state[KEY] = _checked()
        found: Checked | None = st.session_state.get(KEY)
        if found is not None:
            _tell(found)


def _checked() -> Checked:
    """Piece by piece: between two of them others read and write."""
    run = JournalCheck()
    while (found := data.read(run.feed)) is None:
        pass
    return found


def _tell(found: Checked) -> None:
    with st.container(horizontal=True, key="answer-whole", vertical_alignment="top", wrap=False):
        icon = ":red[:material/error:]" if found.broken else ":green[:material/check_circle:]"
        st.markdown(icon if found.serves else ":gray[:material/inbox:]", width="content")
        with st.container(gap=None):
            st.text(found.sentence)
            st.text(f"Checked at {found.at:%Y-%m-%d %H:%M:%S} UTC")
    if found.broken:
        st.text(frames.words.violation_sentence(found.violations))
        parts.grid(found.proof, PROOF, key="whole-proof")
