"""The journal as a frame: declared, masked, exact, and true to the events."""

from injected import Clock

from queue_core import Queue, frames
from queue_core.frames.journal import JOURNAL

SECRET = "Zq9_hunter2"


def test_a_row_tells_what_an_event_does(queue: Queue, clock: Clock) -> None:
    queue.configure("acme", weight=3)
    queue.push({"n": 1}, tag="acme")
    clock.advance(1.5)
    lease = queue.lease(owner="w\0 1")
    assert lease is not None
    queue.dead_letter(lease, f"token={SECRET}\nand more")
    queue.configure(paused=True)
    journal = queue.journal()
    frame = frames.journal_frame(journal)
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == dict(JOURNAL)
    assert frame["event"].tolist() == [event.number for event in journal]
    assert frame["at"].tolist() == [event.at for event in journal]
    assert frame["kind"].tolist() == ["configure", "push", "lease", "dead_letter", "configure"]
    assert frame["label"].fillna("—").tolist() == ["acme"] * 4 + ["—"]
    assert frame["number"].isna().tolist() == [False] * 4 + [True]
    assert frame["id"].fillna("—").tolist() == ["—", *[lease.id] * 3, "—"]
    served = frame.iloc[2]
    assert served[["owner", "serve", "since", "wait", "weight"]].tolist() == ["w� 1", 1, 0, 1.5, 3]
    others = frame.drop(index=2)
    assert others[["serve", "since", "wait", "weight"]].isna().all(axis=None)
    assert frame["detail"].iloc[0] == "weight=3"
    assert SECRET not in frame.to_csv()


def test_without_events_it_has_its_columns() -> None:
    frame = frames.journal_frame([])
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == dict(JOURNAL)
    assert frame.empty
    assert frame.groupby("kind")["wait"].max().empty
