"""Two tags that are called alike: who acts sees two, and acts on the one that is meant."""

from alike import twins
from driving import MAIN, listed, press, select, visit, words
from streamlit.testing.v1 import AppTest

from app import data, parts
from queue_core import Queue, State
from queue_core.frames import tag_label


def kill(queue: Queue) -> list[str]:
    """A dead letter of each; their ids."""
    ids = [queue.push(tag, tag=tag).id for tag in twins()]
    for id in ids:
        queue.dead_letter(id, "down")
    return ids


def test_the_table_and_the_question_name_both(queue: Queue) -> None:
    kill(queue)
    app = visit("dead")
    assert list(listed(app)["label"]) == list(twins()[::-1])
    select(app, 0, 1)
    press(app, "dead-redrive")
    told = words(app)
    assert "Redrive 2 tasks of 2 tags?" in told
    for tag in twins():
        assert f"{tag}: 1" in told


def test_one_is_chosen_by_its_name(queue: Queue) -> None:
    one, other = kill(queue)
    data.forget()
    app = AppTest.from_file(str(MAIN), default_timeout=60).run()
    assert set(twins()) <= set(app.selectbox(key="tag").options)
    app.selectbox(key="tag").set_value(twins()[1]).run()
    app.switch_page("views/dead.py").run()
    assert list(listed(app)["id"]) == [other]
    select(app, 0)
    press(app, "dead-redrive")
    press(app, "confirm-do")
    assert (queue.get(one).state, queue.get(other).state) == (State.DEAD, State.PENDING)
    assert parts.tags_called(tag_label(twins()[0])) == list(twins())
