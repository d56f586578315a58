"""The router, and what all pages share: the style, the navigation, the line on top, the filters, the pause."""

from pathlib import Path

import streamlit as st

from app import acting, code, now, parts, past, signin

ICON = Path(__file__).with_name("static") / "icon.png"

st.set_page_config(page_title="queue_core", page_icon=str(ICON), layout="wide")
parts.style()
signin.gate()
acting.settle()
shown = [
    st.Page("views/overview.py", title="Overview", icon=":material/monitor_heart:", default=True, url_path="home"),
    st.Page("views/fairness.py", title="Fairness", icon=":material/balance:"),
    st.Page("views/inflight.py", title="In flight", icon=":material/flight_takeoff:"),
    st.Page("views/dead.py", title="Dead letters", icon=":material/report:"),
    st.Page("views/tag.py", title="Tag", icon=":material/label:"),
    st.Page("views/task.py", title="Task", icon=":material/task:"),
    st.Page("views/operations.py", title="Operations", icon=":material/construction:"),
]
pages = {page.title: page for page in shown}
old = st.Page(parts.elsewhere, title="Overview ", url_path="overview", visibility="hidden")
page = st.navigation([*shown, old], position="top")
if page is old:
    st.switch_page(pages["Overview"], query_params=st.query_params.to_dict())
aim = now.aim()
parts.entering(page.title)
now.bar(page.title, parts.link(pages[aim.page].url_path, parts.address() | dict(aim.given)) if aim else None)
parts.filters(page.title, more=lambda: (past.offer(page.title), code.offer(page.title)))
page.run()
