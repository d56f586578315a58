"""The router, and what all pages share: the style, the navigation, the filters, the pause."""

from pathlib import Path

import streamlit as st

from app import parts

ICON = Path(__file__).with_name("static") / "icon.png"

st.set_page_config(page_title="queue_core", page_icon=str(ICON), layout="wide")
parts.style()
page = st.navigation(
    [
        st.Page("views/overview.py", title="Overview", icon=":material/monitor_heart:", default=True),
        st.Page("views/fairness.py", title="Fairness", icon=":material/balance:"),
        st.Page("views/inflight.py", title="In flight", icon=":material/flight_takeoff:"),
        st.Page("views/dead.py", title="Dead letters", icon=":material/report:"),
    ],
    position="top",
)
parts.entering(page.title)
parts.filters(page.title)
page.run()
