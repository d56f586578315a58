"""The page Dead letters: groups, search, pages, the plan of all that match, editing, trash."""

import json

import pytest
from driving import MAIN, again, listed, press, select, visit, words
from streamlit.testing.v1 import AppTest

from app import control, letters, planning
from queue_core import Item, Queue, State
from queue_core.frames import letters as finding

SECRET = "Zq9_hunter2"
ODD = ["", "\0nul", "<script>alert(1)</script>", "x" * 10_000, "\u202eright to left", "👩‍🚀"]


def kill(queue: Queue, error: str, tag: str = "acme", payload: object = None, n: int = 1) -> list[str]:
    """Dead letters of that error; their ids."""
    ids = []
    for task in queue.push_many([Item(payload if payload is not None else {"n": k}, tag) for k in range(n)]):
        queue.dead_letter(task.id, error)
        ids.append(task.id)
    return ids


def filtered(where: str) -> AppTest:
    app = AppTest.from_file(str(MAIN), default_timeout=60).run()
    app.query_params["where"] = where
    return app.switch_page("views/dead.py").run()


def groups(app: AppTest) -> AppTest:
    return next(table for table in app.dataframe if (table.key or "").startswith("groups-"))


def choose_groups(app: AppTest, *rows: int) -> AppTest:
    app.session_state[groups(app).key] = {"selection": {"rows": list(rows), "columns": [], "cells": []}}
    return app.run()


# --- groups ---------------------------------------------------------------------------------------


def test_groups_are_told_and_filter_what_is_shown(queue: Queue) -> None:
    kill(queue, "read timeout after 3 s", n=3)
    (odd,) = kill(queue, "disk full", tag="bolt")
    app = visit("dead")
    assert "2 error groups; the largest, 3 dead: read timeout after <n> s" in words(app)
    assert list(groups(app).value["count"]) == [3, 1]
    choose_groups(app, 1)
    assert list(listed(app)["id"]) == [odd]
    group = groups(app).value["group"][1]
    assert app.text_input(key="where").value == f"group:{group}"
    choose_groups(app, 0, 1)
    assert len(listed(app)) == 4
    choose_groups(app)
    assert app.text_input(key="where").value == ""
    assert len(listed(app)) == 4


def test_a_filter_that_is_written_selects_no_group(queue: Queue) -> None:
    kill(queue, "a"), kill(queue, "b")
    app = choose_groups(visit("dead"), 0)
    app.text_input(key="where").set_value("error:b OR reason:b").run()
    assert list(listed(app)["reason"]) == ["b"]
    assert app.button(key="groups-resolve").disabled


def test_a_group_is_resolved_reopened_and_told(queue: Queue) -> None:
    kill(queue, "read timeout")
    app = choose_groups(visit("dead"), 0)
    press(app, "groups-resolve")
    assert [box.value for box in app.success] == ["1 error group resolved; a new death reopens it"]
    assert queue.groups()[0].resolved
    assert "1 error group, all resolved" in words(app)
    assert groups(app).value["status"][0].startswith("resolved by ")
    press(app, "groups-reopen")
    assert not queue.groups()[0].resolved
    press(app, "dismiss-groups")
    assert not app.success


def test_groups_follow_the_tag(queue: Queue) -> None:
    kill(queue, "read timeout", n=3), kill(queue, "read timeout", tag="bolt", n=2), kill(queue, "disk full", "core")
    queue.push("x", tag="calm")
    app = visit("dead")
    app.selectbox(key="tag").set_value("bolt").run()
    assert "Of bolt, 2 dead letters: 1 error group; the largest, 2 dead: read timeout" in words(app)
    assert list(groups(app).value["count"]) == [2]
    assert "Dead counts bolt alone, what stands beside it is of all tags" in words(app)
    choose_groups(app, 0)
    assert list(listed(app)["label"]) == ["bolt"] * 2
    choose_groups(app)
    app.selectbox(key="tag").set_value("calm").run()
    assert "None of calm" in words(app)
    assert not app.exception


# --- what came since ------------------------------------------------------------------------------


def test_what_came_since_is_counted_by_the_filter(queue: Queue) -> None:
    ids = kill(queue, "read timeout", n=3)
    app = filtered("reason:timeout")
    kill(queue, "disk full", n=4)
    assert "Nothing has changed since, by the filter" in words(again(app))
    kill(queue, "read timeout", tag="bolt", n=2)
    queue.redrive(ids[0])
    assert "Since then: 2 newer, 1 gone of those shown, by the filter; 8 now in all" in words(again(app))
    press(app, "refresh")
    assert "Nothing has changed since, by the filter" in words(app)


def test_what_came_into_the_trash_since_is_told(queue: Queue) -> None:
    for id in kill(queue, "x", n=2):
        queue.purge(id)
    app = visit("dead")
    app.toggle(key="trash").set_value(True).run()
    assert "Nothing has changed since (" in words(again(app))
    queue.cancel(queue.push("y").id)
    assert "Since then: 1 newer, 0 gone; 3 now" in words(again(app))


# --- search ---------------------------------------------------------------------------------------


def test_a_filter_comes_from_the_address(queue: Queue) -> None:
    kill(queue, "read timeout", payload={"user": {"id": 2**70}})
    kill(queue, "read timeout", tag="bolt", payload={"user": {"id": 1}})
    app = filtered(f"reason:TIMEOUT payload.user.id:{2**70}")
    assert list(listed(app)["label"]) == ["acme"]
    assert "1–1 of 1" in words(app)
    assert "Scans 2 dead letters" in words(app)


@pytest.mark.parametrize("where", ["age:2h", 'error:"open', "nosuch:1", "(", "attempts>=x", "\0:\0"])
def test_a_mistake_is_pointed_at(queue: Queue, where: str) -> None:
    kill(queue, "x")
    app = filtered(where)
    assert not app.exception
    assert any("^" in code.value.splitlines()[-1] for code in app.code)
    assert listed(app).empty
    app.text_input(key="where").set_value("").run()
    assert len(listed(app)) == 1


def test_what_may_stand_at_a_mistake_is_offered(queue: Queue) -> None:
    kill(queue, "x")
    assert "There may stand: age>=" in words(filtered("age:2h"))


def test_a_secret_cannot_be_searched_for(queue: Queue) -> None:
    kill(queue, f"password={SECRET}", payload={"token": SECRET})
    app = filtered(SECRET)
    assert listed(app).empty
    assert "0 of 0" in words(app)


@pytest.mark.parametrize("where", ["", "reason:x"])
def test_text_in_an_old_address_becomes_a_part_of_the_filter(queue: Queue, where: str) -> None:
    kill(queue, "x"), kill(queue, 'x needle "y"'), kill(queue, "needle")
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    app.query_params["text"] = 'Needle "'
    app.query_params["where"] = where
    app.switch_page("views/dead.py").run()
    assert list(listed(app)["reason"]) == ['x needle "y"']
    assert app.text_input(key="where").value.startswith(f"({where}) (error:" if where else "(error:")
    assert not any(box.key == "text" for box in app.text_input)
    assert "text" not in app.query_params


def test_text_of_another_page_is_taken_along_once(queue: Queue) -> None:
    kill(queue, "x"), kill(queue, "needle")
    app = visit("inflight")
    app.query_params["text"] = "needle"
    app.text_input(key="text").set_value("needle").run()
    app.switch_page("views/dead.py").run()
    assert not app.exception
    assert list(listed(app)["reason"]) == ["needle"]
    app.text_input(key="where").set_value("").run()
    assert len(listed(again(app))) == 2


def test_pages_go_on_and_back_and_keep_their_numbers(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letters, "PAGE", 4)
    ids = kill(queue, "x", n=10)[::-1]
    app = visit("dead")
    seen = [*listed(app)["id"]]
    assert "1–4 of 10" in words(app)
    press(app, "page-on")
    assert "5–8 of 10" in words(app)
    kill(queue, "later")
    seen += [*listed(again(app))["id"]]
    press(app, "page-on")
    assert "9–10 of 11" in words(app)
    assert app.button(key="page-on").disabled
    seen += [*listed(app)["id"]]
    assert seen == ids
    press(app, "page-back")
    assert [*listed(app)["id"]] == ids[4:8]


def test_a_long_search_is_bounded_and_says_so(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MOST", 1_000)
    monkeypatch.setattr(finding.newest, "__kwdefaults__", {**finding.newest.__kwdefaults__, "most": 1_000})
    (old,) = kill(queue, "needle")
    kill(queue, "hay", n=2_100)
    app = filtered("reason:needle")
    assert listed(app).empty
    assert "1,000 tasks of 2,101 were looked at for this page: the older ones come with the next page" in words(app)
    press(app, "page-on"), press(app, "page-on")
    assert list(listed(app)["id"]) == [old]
    assert app.button(key="page-on").disabled


# --- all that match -------------------------------------------------------------------------------


def plan_all(app: AppTest, verb: str, **given: object) -> AppTest:
    press(app, f"all-{verb}")
    for key, value in given.items():
        field = f"plan-{key}"
        box = app.number_input(key=field) if isinstance(value, int | float) else app.text_input(key=field)
        box.set_value(value)
    return press(app, "plan-look")


def test_all_that_match_are_redriven_and_given_back(queue: Queue) -> None:
    kill(queue, "read timeout", n=3)
    (other,) = kill(queue, "disk full", tag="bolt")
    app = plan_all(filtered("reason:timeout"), "redrive", reason="mended", rate=1_000.0)
    assert "3 tasks of 1 tag" in words(app)
    assert "Reason: mended" in words(app)
    assert queue.counts().dead == 4
    press(app, "plan-run")
    assert queue.counts().pending == 3
    assert queue.get(other).state is State.DEAD
    (plan,) = queue.plans()
    assert (plan.where, plan.reason, plan.rate) == ("state:dead reason:timeout", "mended", 1_000.0)
    assert [box.value for box in app.success] == ["Plan 1, redrive: finished, 3 of 3 moved"]
    queue.ack(queue.lease())
    press(app, "plan-undo")
    assert [box.value for box in app.warning] == ["Undo of plan 1, redrive: finished, 2 of 3 moved, 1 skipped"]
    assert queue.counts().dead == 3
    press(app, "plan-dismiss")
    assert not app.warning


def test_all_that_match_are_purged_with_a_reason_and_restored(queue: Queue) -> None:
    kill(queue, "x", n=3)
    app = plan_all(visit("dead"), "purge")
    assert any("purge needs a reason" in code.value for code in app.code)
    app.text_input(key="plan-reason").set_value("rubbish")
    press(app, "plan-look")
    press(app, "plan-run")
    assert queue.counts().trash == 3
    press(app, "plan-dismiss")
    app.toggle(key="trash").set_value(True).run()
    assert "3 tasks in the trash" in words(app)
    select(app, 1)
    press(app, "trash-restore")
    press(app, "confirm-do")
    assert (queue.counts().dead, queue.counts().trash) == (1, 2)


def test_all_that_match_are_moved_to_another_tag(queue: Queue) -> None:
    kill(queue, "x", n=2)
    kill(queue, "x", tag="bolt")
    app = plan_all(visit("dead"), "move_tag", tag="bolt")
    assert "1 task cannot be: it is in that tag already" in words(app)
    press(app, "plan-run")
    assert {task.tag for task in queue.tasks("dead")} == {"bolt"}


def test_the_plan_is_for_what_matched_when_it_was_looked_at(queue: Queue) -> None:
    ids = kill(queue, "x", n=2)
    app = plan_all(visit("dead"), "redrive")
    (later,) = kill(queue, "x")
    queue.redrive(ids[0])
    press(app, "plan-run")
    assert [box.value for box in app.warning] == ["Plan 1, redrive: finished, 1 of 2 moved, 1 skipped"]
    assert queue.get(later).state is State.DEAD


def test_back_and_cancel_do_nothing(queue: Queue) -> None:
    kill(queue, "x")
    app = plan_all(visit("dead"), "redrive")
    press(app, "plan-back")
    press(app, "plan-cancel")
    assert planning.ASKED not in app.session_state
    assert queue.counts().dead == 1


def test_a_canary_that_fails_stops_the_plan(queue: Queue) -> None:
    kill(queue, "x", n=5)
    app = plan_all(visit("dead"), "redrive", canary=1)
    assert "A canary of 1 first" in words(app)
    press(app, "plan-run")
    assert queue.counts().pending == 1
    press(app, "plan-stop")
    assert "1 of 5 moved, 4 not reached" in words(app)
    assert app.button(key="plan-resume").label == "Resume"
    assert control.trouble(1) == ""


def test_what_matches_can_be_downloaded(queue: Queue) -> None:
    kill(queue, "a", payload={"token": SECRET, "n": 1})
    kill(queue, "b")
    got = control.export("state:dead reason:a", "ndjson", 10)
    (line,) = got.decode().splitlines()
    assert json.loads(line)["payload"]["n"] == 1
    assert SECRET.encode() not in got
    assert len(control.export("state:dead", "csv", 1).decode().splitlines()) == 2


# --- editing --------------------------------------------------------------------------------------


def edit(app: AppTest, queue: Queue, id: str, text: str) -> AppTest:
    select(app, list(listed(app)["id"]).index(id))
    press(app, f"edit-{id}")
    app.text_area(key=f"payload-{id}-{queue.get(id).version}").set_value(text)
    return press(app, "edit-look")


def test_a_payload_is_edited_and_redriven_and_masks_keep_what_they_hide(queue: Queue) -> None:
    (id,) = kill(queue, "x", payload={"url": "htp://x", "token": SECRET})
    app = visit("dead")
    select(app, 0)
    press(app, f"edit-{id}")
    area = app.text_area(key=f"payload-{id}-{queue.get(id).version}")
    assert SECRET not in area.value
    app = edit(app, queue, id, area.value.replace("htp", "http"))
    assert any('+  "url": "http://x"' in code.value and SECRET not in code.value for code in app.code)
    press(app, "edit-save")
    task = queue.get(id)
    assert (task.payload, task.state) == ({"url": "http://x", "token": SECRET}, State.PENDING)
    assert "the payload of" in words(app).lower()
    assert "it was redriven" in words(app)


def test_an_edit_is_taken_back_and_what_was_redriven_is_dead_again(queue: Queue) -> None:
    (id,) = kill(queue, "x", payload={"token": SECRET, "n": "\ud800"})
    app = edit(visit("dead"), queue, id, "1")
    press(app, "edit-save")
    assert (queue.get(id).payload, queue.get(id).state) == (1, State.PENDING)
    press(app, "undo-edit")
    task = queue.get(id)
    assert (task.payload, task.state) == ({"token": SECRET, "n": "\ud800"}, State.DEAD)
    assert [box.value for box in app.success] == ["Undone: it has the payload of before again, and is a dead letter"]
    assert len(task.record.edits) == 2  # both are kept
    press(app, "dismiss-edit")
    assert not app.success


def test_an_edit_that_was_not_redriven_is_taken_back_while_nothing_else_has_changed(queue: Queue) -> None:
    (id,) = kill(queue, "x")
    app = edit(visit("dead"), queue, id, "1")
    app.checkbox(key="edit-redrive").set_value(False)
    press(app, "edit-save")
    press(app, "undo-edit")
    assert (queue.get(id).payload, queue.get(id).state) == ({"n": 0}, State.DEAD)
    app = edit(app, queue, id, "2")
    app.checkbox(key="edit-redrive").set_value(False)
    press(app, "edit-save")
    queue.redrive(id)
    press(app, "undo-edit")
    assert [box.value for box in app.warning] == ["The edit was not undone"]
    assert "Conflict: it has changed since: it is pending at version" in words(app)
    assert queue.get(id).payload == 2


def test_an_edit_is_not_taken_back_from_a_worker(queue: Queue) -> None:
    (id,) = kill(queue, "x")
    app = edit(visit("dead"), queue, id, "1")
    press(app, "edit-save")
    assert queue.lease().id == id
    press(app, "undo-edit")
    assert [box.value for box in app.warning] == ["The edit was not undone: the task was redriven since"]
    assert "1 × it has changed: it is inflight now" in words(app)
    assert queue.get(id).payload == 1


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{", "not JSON: Expecting property name"),
        ("NaN", "payload is nan"),
        ('{"n": 0}', "the payload is the same"),
        ('{"n": "•••• (8–15 characters)"}', "a mask where it is not known"),
    ],
)
def test_what_cannot_be_saved_says_why(queue: Queue, text: str, wrong: str) -> None:
    (id,) = kill(queue, "x")
    app = edit(visit("dead"), queue, id, text)
    assert not app.exception
    assert any(wrong in code.value for code in app.code), [code.value for code in app.code]
    assert app.button(key="edit-save").disabled
    press(app, "edit-cancel")
    assert queue.get(id).payload == {"n": 0}


def test_an_edit_of_a_task_that_has_changed_is_refused(queue: Queue) -> None:
    (id,) = kill(queue, "x")
    app = edit(visit("dead"), queue, id, "1")
    queue.redrive(id)
    press(app, "edit-save")
    assert [box.value for box in app.warning] == ["Nothing was saved"]
    assert "Conflict: it has changed since: it is pending" in words(app)
    assert queue.get(id).payload == {"n": 0}


# --- anything -------------------------------------------------------------------------------------


def test_odd_text_is_shown_as_text(queue: Queue) -> None:
    for tag in ODD:
        kill(
            queue,
            f"<b>error</b> \0 \ud800 **bold** {tag} " + "y" * 2_000,
            tag,
            {"n": 2**70, "\ud800": ["\0", tag[:50]]},
        )
    app = visit("dead")
    for row in range(len(ODD)):
        select(app, row)
        assert not app.exception
        assert str(2**70) in app.json[0].value
    marked = "\n".join(str(one.value) for kind in (app.markdown, app.caption) for one in kind)
    assert "<b>" not in marked
    assert "**bold**" not in marked
    choose_groups(app, 0)
    assert not app.exception


def test_an_empty_trash_says_what_it_is_for(queue: Queue) -> None:
    kill(queue, "x")
    app = visit("dead")
    app.toggle(key="trash").set_value(True).run()
    assert "can be restored from here for 7 days" in words(app)


def test_a_viewer_looks_and_changes_nothing(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    kill(queue, "x")
    monkeypatch.setenv("QUEUE_ROLE", "viewer")
    app = choose_groups(visit("dead"), 0)
    select(app, 0)
    off = ("all-redrive", "all-purge", "all-move_tag", "dead-redrive", "dead-purge", "groups-resolve")
    assert all(app.button(key=key).disabled for key in off)
    assert next(button for button in app.button if (button.key or "").startswith("edit-")).disabled
