"""A viewer without a browser: it speaks the protocol of Streamlit's own frontend, so that what a page costs the server
can be measured without the cost of drawing it, and requests can be sent that no button would send.

It asks for a page, then for each part that renews itself again and again, as the frontend does.
"""

import heapq
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self
from urllib.parse import urlencode

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

PATIENCE = 60.0  # seconds for a run of a page


class Viewer:
    """One session with a dashboard at ``address`` (http://…). ``received`` counts bytes of the protocol, ``runs`` the
    runs of the page and of its parts; ``slowest`` is the longest, in seconds."""

    def __init__(self, address: str, page: str = "", **query: str) -> None:
        self._connection = connect(
            address.replace("http", "ws", 1) + "/_stcore/stream",
            subprotocols=[Subprotocol("streamlit")],
            max_size=None,
            origin=Origin(address),
        )
        self._page, self._query, self._hash = page, urlencode(query), ""
        self._due: list[tuple[float, float, str]] = []  # when a part is to be renewed, how often, and which
        self._renewed: set[str] = set()
        self.received = self.runs = 0
        self.slowest = 0.0

    def __enter__(self) -> Self:
        self._socket = self._connection.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.__exit__(kind, error, traceback)

    def load(self, widgets: Iterable[WidgetState] = ()) -> float:
        """Run the whole page, with these widgets as they are said to be; the seconds that it took."""
        return self._run("", widgets)

    def watch(self, seconds: float) -> None:
        """Look for so long: each part of the page is renewed when it is due."""
        end = time.monotonic() + seconds
        while self._due and self._due[0][0] < end:
            at, interval, part = heapq.heappop(self._due)
            if part not in self._renewed:
                continue
            time.sleep(max(at - time.monotonic(), 0.0))
            heapq.heappush(self._due, (time.monotonic() + interval, interval, part))
            self._run(part)
        time.sleep(max(end - time.monotonic(), 0.0))

    def _run(self, part: str, widgets: Iterable[WidgetState] = ()) -> float:
        ask = BackMsg()
        state = ask.rerun_script
        state.query_string, state.page_script_hash, state.page_name = self._query, self._hash, self._page
        state.widget_states.widgets.extend(widgets)
        state.context_info.timezone = "UTC"
        if part:
            state.fragment_id, state.is_auto_rerun = part, True
        else:
            self._due, self._renewed = [], set()
        begun = time.monotonic()
        self._socket.send(ask.SerializeToString())
        while not self._take(self._receive()):
            pass
        took = time.monotonic() - begun
        self.runs += 1
        self.slowest = max(self.slowest, took)
        return took

    def _receive(self) -> ForwardMsg:
        got = self._socket.recv(timeout=PATIENCE)
        assert isinstance(got, bytes)
        self.received += len(got)
        told = ForwardMsg()
        told.ParseFromString(got)
        return told

    def _take(self, told: ForwardMsg) -> bool:
        """Whether the run has ended."""
        match told.WhichOneof("type"):
            case "navigation":
                self._hash = told.navigation.page_script_hash
            case "delta":
                assert not told.delta.new_element.HasField("exception"), told.delta
            case "auto_rerun" if told.auto_rerun.fragment_id not in self._renewed:
                again = told.auto_rerun
                self._renewed.add(again.fragment_id)
                heapq.heappush(self._due, (time.monotonic() + again.interval, again.interval, again.fragment_id))
            case "stop_auto_rerun":
                self._renewed -= set(told.stop_auto_rerun.fragment_ids)
            case "script_finished":
                return bool(told.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN)
        return False
