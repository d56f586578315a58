"""Search, select, redrive, undo: what somebody does with dead letters, on exactly the tasks that were meant."""

import re

import pytest
from looking import Server, button, rows, select, settle, visit
from playwright.sync_api import Page, expect
from waiting import until

from queue_core import Item, State

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def kill(server: Server, error: str, tag: str, n: int = 1) -> list[str]:
    ids = [task.id for task in server.queue.push_many([Item({"n": k}, tag) for k in range(n)])]
    for id in ids:
        server.queue.dead_letter(id, error)
    return ids


def test_search_select_redrive_undo(page: Page, server: Server) -> None:
    queue = server.queue
    meant = kill(server, "read timeout", "acme", 2) + kill(server, "read timeout", "bolt")
    others = kill(server, "disk full", "core", 3)
    visit(page, server, "dead")
    box = page.locator('[class*="st-key-where"] input')
    box.fill("reason:timeout -tag:bolt age:")
    box.press("Enter")
    expect(page.get_by_text("There may stand:")).to_be_visible()
    box.fill("reason:timeout")
    box.press("Enter")
    until(lambda: rows(page, "dead") == ["bolt", "acme", "acme"])
    expect(page).to_have_url(re.compile(r"where=reason(:|%3A)timeout"))
    select(page, "dead", "bolt")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+Space")
    expect(button(page, "Redrive 2 tasks")).to_be_enabled()
    new = kill(server, "read timeout", "late")
    expect(page.get_by_text("1 newer, 0 gone")).to_be_visible()
    button(page, "Redrive 2 tasks").click()
    page.get_by_role("dialog").get_by_role("button", name=re.compile("Redrive 2 tasks$")).click()
    expect(page.get_by_text("2 tasks redriven")).to_be_visible()
    assert [queue.get(id).state for id in meant] == [State.DEAD, State.PENDING, State.PENDING]
    assert {queue.get(id).state for id in (*others, *new)} == {State.DEAD}
    button(page, "Undo").click()
    expect(page.get_by_text("Undone: 2 of 2 moved")).to_be_visible()
    assert {queue.get(id).state for id in meant} == {State.DEAD}


def test_all_that_match_are_planned_run_and_given_back(page: Page, server: Server) -> None:
    queue = server.queue
    ids = kill(server, "no route to host", "route", 5)
    page.goto(f"{server.address}/dead?where=reason:route")
    settle(page)
    until(lambda: rows(page, "dead") == ["route"] * 5)
    button(page, "All that match").click()
    button(page, "Redrive all that match …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("mended")
    dialog.get_by_role("button", name="Look what it would do").click()
    expect(dialog.get_by_text("5 tasks of 1 tag")).to_be_visible()
    kill(server, "no route to host", "later")
    dialog.get_by_role("button", name=re.compile("Redrive 5 tasks$")).click()
    expect(page.get_by_text("5 of 5 moved")).to_be_visible()
    expect(dialog).to_have_count(0)
    assert {queue.get(id).state for id in ids} == {State.PENDING}
    button(page, "Refresh").click()
    until(lambda: rows(page, "dead") == ["later"])
    page.locator('[class*="st-key-plan-undo"] button').click()
    expect(page.get_by_text(re.compile("Undo of plan .* 5 of 5 moved"))).to_be_visible()
    button(page, "Refresh").click()
    until(lambda: rows(page, "dead") == ["later", *["route"] * 5])


def test_a_payload_is_edited_and_its_task_opened(page: Page, server: Server) -> None:
    (id,) = kill(server, "a typo", "typo")
    visit(page, server, "dead")
    select(page, "dead", "typo")
    button(page, "Edit payload").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Payload, as JSON").fill('{"n": "mended"}')
    dialog.get_by_role("button", name="Show what changes").click()
    expect(dialog.get_by_text("What changes", exact=True)).to_be_visible()
    dialog.get_by_role("button", name="Save this payload").click()
    expect(page.get_by_text("it was redriven")).to_be_visible()
    assert server.queue.get(id).payload == {"n": "mended"}
    page.goto(f"{server.address}/task?task={id}")
    settle(page)
    expect(page.get_by_text("A task of typo, pending")).to_be_visible()
