"""The dashboard on a store that keeps neither history nor journal: it works, and says what it cannot show."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from driving import PAGES, press, select, visit, words

from app import data
from queue_core import Queue, open_queue


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    url = f"files://{tmp_path / 'queue'}"
    monkeypatch.setenv("QUEUE_URL", url)
    with open_queue(url, durability="none") as queue:
        queue.push_many([({"n": n}, tag) for n in range(4) for tag in ("acme", "bolt")])
        queue.ack_many(queue.lease_many(2))
        queue.lease_many(2, owner="worker")
        queue.dead_letter(queue.push("broken", tag="core").id, "no")
        yield queue
        assert queue.check() == []
    data.handle(url).close()


@pytest.mark.parametrize("name", PAGES)
def test_every_page_works(queue: Queue, name: str) -> None:
    app = visit(name)
    assert not app.exception
    assert len(app.dataframe) == (2 if name == "dead" else 1)
    if name == "fairness":
        assert "keeps no journal" in words(app)
        assert "nothing has been served yet" not in words(app)
    if name == "overview":
        assert "keeps no history" in words(app)


def test_a_dead_letter_is_redriven(queue: Queue) -> None:
    app = visit("dead")
    select(app, 0)
    press(app, "dead-redrive")
    press(app, "confirm-do")
    assert queue.counts().dead == 0
    assert queue.counts().pending == 5
