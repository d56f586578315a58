"""A notebook as a report: run from a clean kernel on a queue that is there, and written as one HTML file."""

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

from queue_core.errors import InvalidArgument, MissingDriver
from queue_core.notebook.period import Period
from queue_core.redact import masking

try:
    import ipykernel  # noqa: F401 - the kernel is a process of its own
    import nbformat
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError
except ModuleNotFoundError as error:
    raise MissingDriver(f"reports need {error.name}: pip install 'queue_core[notebook]'") from error

PACKAGED = Path(__file__).with_name("articles")  # where a wheel has them
CHECKOUT = Path(__file__).parents[2] / "notebooks"
LOOKED = re.compile(r"^PERIOD = Period\(.*\)$", re.MULTILINE)  # how a notebook says what it looks back at
FILES = ("QUEUE_REDACT", "QUEUE_RULES")  # variables that name a file, maybe from where the program was started

Progress = Callable[[int, int], None]


class ReportFailed(Exception):
    """A cell of the notebook, or its kernel, failed; the text says which, and how."""


def articles() -> dict[str, Path]:
    """The notebooks that come with queue_core, by their names."""
    folder = PACKAGED if PACKAGED.is_dir() else CHECKOUT
    return {path.stem: path for path in sorted(folder.glob("*.ipynb"))}


def question(path: Path) -> str:
    """What a notebook asks: its first heading."""
    return str(_read(path).cells[0].source.partition("\n")[0].lstrip("# "))


def _read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def executed(
    path: Path, url: str, progress: Progress = lambda done, of: None, *, period: Period | None = None
) -> Any:  # fmt: skip
    """The notebook with what its cells showed, run from top to bottom in a kernel of its own, on the queue at ``url``.

    ``progress`` is told before each cell how many are done, of how many. ``period`` takes the place of the one that is
    written in the notebook. Whatever ends this ends the kernel too. Raises ReportFailed, and InvalidArgument for a
    notebook that looks back at no period.
    """
    notebook = _read(path)
    if period is not None:
        _look_back(notebook, path.stem, period)
    with TemporaryDirectory(prefix="nb") as home, open(f"{home}/log", "w+") as log:  # a socket's path has to be short
        try:
            asyncio.run(_run(notebook, url, home, log, progress))
        except CellExecutionError as error:
            raise ReportFailed(masking(None).text(f"{error.ename}: {error.evalue}")) from error
        except RuntimeError as error:  # it died, or did not come up
            log.seek(0)
            said = log.read().strip().rpartition("\n")[2]
            raise ReportFailed(f"its kernel ended: {said or error}") from error
    return notebook


def _look_back(notebook: Any, name: str, period: Period) -> None:
    for cell in notebook.cells:
        if cell.cell_type == "code" and LOOKED.search(cell.source):
            cell.source = LOOKED.sub(lambda _: f"PERIOD = {period!r}", cell.source)
            return
    raise InvalidArgument(f"{name} looks back at no period: leave --last, --from and --to out")


async def _run(notebook: Any, url: str, home: str, log: TextIO, progress: Progress) -> None:
    """``NotebookClient.execute`` without its signal handlers, which would leave the program without its own."""
    specs = KernelSpecManager(kernel_dirs=[])  # none that somebody has installed: the kernel of this Python
    manager = AsyncKernelManager(transport="ipc", ip=f"{home}/kernel", kernel_spec_manager=specs)
    client = NotebookClient(notebook, km=manager, timeout=None)
    await client.async_start_new_kernel(env=_environment(url, home), cwd=home, stdout=log, stderr=log)
    try:
        await client.async_start_new_kernel_client()
        for place, cell in enumerate(notebook.cells):
            progress(place, len(notebook.cells))
            await client.async_execute_cell(cell, place)
    except DeadKernelError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # NotebookClient takes that for the death of the kernel
            raise asyncio.CancelledError from None
        raise
    finally:
        if client.kc is not None:
            client.kc.stop_channels()
        await manager.shutdown_kernel(now=True)


def _environment(url: str, home: str) -> dict[str, str]:
    """That of this process; a person's IPython profile is left out, and files are named from anywhere."""
    files = {name: os.path.abspath(path) for name in FILES if (path := os.environ.get(name))}
    own = {"QUEUE_URL": url, "IPYTHONDIR": f"{home}/ipython", "PLOTLY_RENDERER": "plotly_mimetype"}
    return {**os.environ, **files, **own}
