"""No page gets a secret to see: not in a table, a chart, a hover text, the detail of a task, or a download."""

from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from driving import PAGES, select, visit, words
from streamlit.testing.v1 import AppTest

from app import data, listings
from queue_core import Queue, State
from queue_core.redact import UNMASKED

SECRET = "Zq9_hunter2"
SAID = (
    f"Traceback (most recent call last):\n  login(password='{SECRET}')\nError: no answer from https://bob:{SECRET}@host"
)
PAYLOAD = {"user": "bob", "token": SECRET, "otp": [7], "pad": "x" * 9_000, "secret": SECRET}


@pytest.fixture
def secretive(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """A secret in payload, error, reason, attempts and dedupe key of tasks that are dead and in flight."""
    monkeypatch.delenv("QUEUE_REDACT", raising=False)
    for n in range(3):
        queue.push(PAYLOAD, tag="acme", dedupe_key=f"token={SECRET}{n}", max_attempts=1 + n)
    queue.nack(queue.lease(owner="w"), SAID)
    queue.dead_letter(queue.lease(owner="w"), f"Authorization: Token {SECRET}")
    queue.nack(queue.lease(owner="w"), SAID, retry_in=0)
    queue.lease(owner="w", ttl=600)
    assert (queue.counts().dead, queue.counts().inflight) == (2, 1)
    return queue


def sent(app: AppTest) -> bytes:
    """All that is sent to the browser, tables and charts included, as bytes that hold their texts."""
    assert not app.exception
    elements = [element for element in [*app.main, *app.sidebar] if getattr(element, "proto", None) is not None]
    return b"\n".join(element.proto.SerializeToString() for element in elements)


@pytest.mark.parametrize("name", PAGES)
def test_no_page_shows_a_secret(secretive: Queue, name: str) -> None:
    assert SECRET.encode() not in sent(visit(name))


@pytest.mark.parametrize(("name", "rows"), [("dead", 2), ("inflight", 1)])
def test_no_detail_and_no_download_shows_a_secret(
    secretive: Queue, monkeypatch: pytest.MonkeyPatch, name: str, rows: int
) -> None:
    downloads: list[Any] = []
    monkeypatch.setattr(st, "download_button", lambda label, data, *args, **more: downloads.append(data))
    for row in range(rows):
        app = visit(name)
        table = sent(app)
        assert "•••• (8–15 characters)".encode() in table
        shown = sent(select(app, row))
        assert len(shown) > len(table)
        assert SECRET.encode() not in shown
        assert "payload.token, payload.secret, payload.otp[0]" in words(app)
        assert '"otp":[0]' in "".join(code.value for code in app.code)
    stored = [given() if callable(given) else given for given in downloads]  # of a task, and of all that match
    assert len([given for given in downloads if isinstance(given, bytes)]) == rows
    assert all(b"bob" in given and SECRET.encode() not in given for given in stored)


def test_a_search_finds_what_is_shown_and_not_what_is_masked(secretive: Queue) -> None:
    assert listings.listing(State.DEAD, None, "no answer from").matched == 1
    assert listings.listing(State.DEAD, None, SECRET).matched == 0


def test_mistaken_rules_show_no_task_and_say_what_is_wrong(
    secretive: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = tmp_path / "redact.toml"
    rules.write_text("maks = false\n")
    monkeypatch.setenv("QUEUE_REDACT", str(rules))
    app = visit("dead")
    assert not app.dataframe
    assert "redact.toml: unknown key 'maks'" in words(app)
    assert SECRET.encode() not in sent(app)
    rules.write_text("mask = false\n")
    assert SECRET.encode() in sent(visit("dead"))


def test_a_task_can_be_read_unmasked_by_whoever_may(secretive: Queue) -> None:
    id = secretive.tasks("inflight").items[0].id
    (seen, masked), _ = data.task(id)
    assert SECRET not in repr(seen.payload)
    assert masked[0] == "payload.token"
    (seen, masked), _ = data.task(id, UNMASKED)
    assert (seen.payload, masked) == (PAYLOAD, ())
