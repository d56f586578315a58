"""A kernel that tests type into: one cell after the other, with what it shows by then."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from tempfile import TemporaryDirectory
from typing import Any

from jupyter_client import BlockingKernelClient, KernelManager
from nbformat import NotebookNode
from nbformat.v4 import output_from_msg

SHOWN = ("stream", "display_data", "execute_result", "error")
PATIENCE = 60.0  # seconds for a cell, and for a kernel to start


class Kernel:
    """``outputs`` are those that were shown with a display id, as they are by now; ``told`` is what was printed.
    ``shown`` are all, as a notebook has them."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager, self.client = manager, client
        self.outputs: dict[str, dict[str, Any]] = {}
        self.places = 0  # outputs that were made, and not just updated
        self.told = ""
        self.shown: list[NotebookNode] = []

    def fresh(self, **environment: str | None) -> None:
        """Forget what cells have made, and what was shown. None takes a variable out of the environment."""
        self.run("%reset -f")
        for name, value in environment.items():
            act = f"pop({name!r}, None)" if value is None else f"update({name}={value!r})"
            self.run(f"__import__('os').environ.{act}")  # which leaves no name behind
        self.shown = []

    def run(self, code: str) -> str:
        """Run a cell to its end; what it printed. A cell that fails fails the test."""
        self.told = ""
        errors = self.wait_for(self.begin(code))
        assert errors == [], (code, errors)
        return self.told

    def begin(self, code: str) -> str:
        """Begin a cell; its name."""
        return str(self.client.execute(code))

    def wait_for(self, cell: str) -> list[str]:
        """Read on until a cell has ended; the names of the errors that it showed."""
        errors: list[str] = []
        while True:
            message = self.client.get_iopub_msg(timeout=PATIENCE)
            self.take(message)
            mine = message["parent_header"].get("msg_id") == cell
            if message["msg_type"] == "error":
                errors.append(message["content"]["ename"])
            if mine and message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return errors

    def take(self, message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] in SHOWN:
            self.shown.append(output_from_msg(message))
        match message["msg_type"]:
            case "stream":
                self.told += content["text"]
            case "display_data" | "update_display_data" as kind:
                id = content.get("transient", {}).get("display_id")
                if id:
                    self.outputs[id] = content["data"]
                self.places += kind == "display_data"

    def listen(self, until: Any, seconds: float = PATIENCE) -> None:
        """Read what is shown while no cell runs, until a condition holds."""
        end = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < end, f"it was not shown: {self.text()}"
            try:
                self.take(self.client.get_iopub_msg(timeout=0.2))
            except Empty:  # nothing was said for a moment
                continue

    def text(self) -> str:
        """The plain text of all that is shown."""
        return "\n".join(str(data.get("text/plain", "")) for data in self.outputs.values())


@contextmanager
def kernel(home: Path, log: Path, **environment: str) -> Iterator[Kernel]:
    """While inside, a kernel that runs in ``home`` and writes what else it has to say into ``log``."""
    with TemporaryDirectory(prefix="nb") as sockets, log.open("w") as said:
        manager = KernelManager(transport="ipc", ip=f"{sockets}/kernel")
        variables = {**os.environ, "IPYTHONDIR": str(home / ".ipython"), **environment}
        manager.start_kernel(env=variables, cwd=str(home), stdout=said, stderr=said)
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=PATIENCE)
            yield Kernel(manager, client)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=False)
