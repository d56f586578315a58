"""Two tabs show the same, and act on it one after the other: the second one is told, and changes nothing."""

from driving import press, select, visit

from queue_core import Queue


def kill(queue: Queue) -> str:
    id = queue.push({"a": 0}, tag="acme").id
    queue.dead_letter(id, "down")
    return id


def test_an_edit(queue: Queue) -> None:
    id = kill(queue)
    tabs = [press(select(visit("dead"), 0), f"edit-{id}") for _ in range(2)]
    box = f"payload-{id}-{queue.get(id).version}"
    for a, tab in enumerate(tabs, 1):
        tab.text_area(key=box).set_value(f'{{"a": {a}}}')
        press(tab, "edit-look")
    for tab in tabs:
        press(tab, "edit-save")
    assert "it was redriven" in tabs[0].success[0].value
    assert tabs[1].warning[0].value == "Nothing was saved"
    assert (queue.get(id).payload, len(queue.get(id).record.edits)) == ({"a": 1}, 1)
    assert [entry.action for entry in queue.audit()] == ["edit", "plan", "run", "run"]


def test_an_error_group(queue: Queue) -> None:
    kill(queue)
    tabs = [visit("dead") for _ in range(2)]
    for tab in tabs:
        table = next(table.key for table in tab.dataframe if table.key.startswith("groups-"))
        tab.session_state[table] = {"selection": {"rows": [0], "columns": [], "cells": []}}
        tab.run()
    for tab in tabs:
        press(tab, "groups-resolve")
    assert tabs[0].success[0].value == "1 error group resolved; a new death reopens it"
    assert tabs[1].success[0].value.startswith("0 error groups resolved")
    assert [entry.action for entry in queue.audit()] == ["resolve"]
