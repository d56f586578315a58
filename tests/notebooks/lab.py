"""A JupyterLab of its own, for a test in a browser."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page

DEADLINE = 60.0  # seconds for the server, on a busy machine


@contextmanager
def jupyterlab(home: Path, **environment: str) -> Iterator[str]:
    """While inside, a server whose notebooks are in ``home``; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {f"JUPYTER_{name}_DIR": str(home / ".own" / name.lower()) for name in ("CONFIG", "RUNTIME", "DATA")}
    settings = home / ".own" / "config" / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0", "--IdentityProvider.token=", f"--ServerApp.root_dir={home}",
        "--expose-app-in-browser",
    ]  # fmt: skip
    variables = {**os.environ, **own, "IPYTHONDIR": str(home / ".own" / "ipython"), **environment}
    with (home / "server.log").open("w") as told:
        process = subprocess.Popen(command, cwd=home, env=variables, stdout=told, stderr=subprocess.STDOUT)
        try:
            address = f"http://127.0.0.1:{port}"
            _wait(process, address)
            yield address
        finally:
            process.terminate()
            process.wait(20)


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    end = time.monotonic() + DEADLINE
    while True:
        assert process.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(f"{address}/api/status", timeout=5):
                return
        except OSError:
            assert time.monotonic() < end, "the server did not answer"
            time.sleep(0.1)


def command(page: Page, name: str, arguments: str = "{}") -> None:
    """Run a command of JupyterLab's own, as its menus do."""
    page.evaluate(f"window.jupyterapp.commands.execute('{name}', {arguments})")
