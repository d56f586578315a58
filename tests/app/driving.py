"""What a person does on a page, without a browser."""

from pathlib import Path

import pandas as pd
from streamlit.testing.v1 import AppTest

from app import data

MAIN = Path(__file__).resolve().parents[2] / "app" / "main.py"
PAGES = ["overview", "fairness", "inflight", "dead"]


def visit(name: str) -> AppTest:
    """Open a page by name, on fresh data."""
    data.forget()
    app = AppTest.from_file(str(MAIN), default_timeout=60).run()
    return app if name == "overview" else app.switch_page(f"views/{name}.py").run()


def again(app: AppTest) -> AppTest:
    """Run once more, on fresh data."""
    data.forget()
    return app.run()


def words(app: AppTest) -> str:
    """All plain text of a page, and what it says in boxes."""
    return "\n".join(element.value for kind in (app.text, app.success, app.warning, app.error) for element in kind)


def table_key(app: AppTest) -> str:
    """The key of the table that rows can be selected in; it has the generation in it."""
    state = "dead" if app.session_state["page"] == "Dead letters" else "inflight"
    state = "trash" if state == "dead" and app.toggle(key="trash").value else state
    return f"{state}-{app.session_state['generation']}"


def listed(app: AppTest) -> pd.DataFrame:
    """The table that rows can be selected in; empty when there is none."""
    return next((table.value for table in app.dataframe if table.key == table_key(app)), pd.DataFrame())


def select(app: AppTest, *rows: int) -> AppTest:
    """Select rows of the page's table by position, as a click does."""
    app.session_state[table_key(app)] = {"selection": {"rows": list(rows), "columns": [], "cells": []}}
    return app.run()


def press(app: AppTest, key: str) -> AppTest:
    return app.button(key=key).click().run()
