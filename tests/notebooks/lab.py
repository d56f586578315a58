"""A JupyterLab of its own, for tests in a browser, and what a person does in it."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, Playwright, expect

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


# --- what a person does in it ---------------------------------------------------------------------

OPEN = """async path => {
    const { commands, serviceManager } = window.jupyterapp;
    await serviceManager.kernels.refreshRunning();
    const [kernel] = serviceManager.kernels.running();  // one is enough for all
    const panel = await commands.execute('docmanager:open', kernel ? {path, kernel: {id: kernel.id}} : {path});
    await panel.context.ready;
    await panel.sessionContext.ready;
    await panel.sessionContext.session.kernel.info;
}"""
HEIGHT = """node => node.scrollTop - node.getBoundingClientRect().top
    + [...node.querySelectorAll('.jp-Cell')].at(-1).getBoundingClientRect().bottom"""
TOP = """node => {  // and wait until that is drawn
    node.scrollTop = 0;
    return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""


def launched(playwright: Playwright, chromium: str) -> Browser:
    """A Chromium."""
    return playwright.chromium.launch(
        executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
    )


def command(page: Page, name: str, arguments: Mapping[str, str] | None = None) -> None:
    """Run a command of JupyterLab's own to its end, as its menus do."""
    page.evaluate(
        "([name, given]) => window.jupyterapp.commands.execute(name, given).then(() => null)", [name, arguments or {}]
    )


def notebook(page: Page, path: str) -> Locator:
    """Open a notebook, or come back to it, with a kernel that is ready: before that, cells that are run are not."""
    page.evaluate(OPEN, path)
    return page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")


def in_theme(page: Page, theme: str) -> None:
    """``Light`` or ``Dark``."""
    command(page, "apputils:change-theme", {"theme": f"JupyterLab {theme}"})
    expect(page.locator("body")).to_have_attribute("data-jp-theme-light", str(theme == "Light").lower())
    expect(page.locator("#jupyterlab-splash")).to_have_count(0)  # which lies over the page meanwhile


def pictured(page: Page, panel: Locator, file: Path) -> None:
    """A screenshot of a whole notebook, which scrolls inside the window unless that is tall enough."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    size = page.viewport_size
    assert size is not None
    scrolled = panel.locator(".jp-WindowedPanel-outer")
    page.set_viewport_size({"width": size["width"], "height": int(scrolled.evaluate(HEIGHT)) + 160})
    scrolled.evaluate(TOP)
    page.screenshot(path=file, animations="disabled")
    page.set_viewport_size(size)
    assert file.stat().st_size > 30_000
