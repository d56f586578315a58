"""Queues in a notebook: ``%load_ext queue_core.notebook`` lets them show themselves, and brings two views.

``opened()`` is the queue of ``QUEUE_URL``, or a recorded sample; ``about(queue)`` says which. A ``Period`` is the time
that is looked back at. ``monitor(queue)`` is a live view, ``triage(queue)`` finds dead letters and acts on them.
``lease_for(queue)`` leases a task for the length of a ``with``. ``url(thing)`` is where the dashboard shows a thing.
"""

from typing import Any

try:
    import IPython  # noqa: F401 - all of this package is for notebooks
except ModuleNotFoundError as error:
    from queue_core.errors import MissingDriver

    raise MissingDriver("notebooks need IPython: pip install 'queue_core[notebook]'") from error

from queue_core.notebook import display
from queue_core.notebook.handling import Planned
from queue_core.notebook.leasing import lease_for
from queue_core.notebook.links import dashboard_url, url
from queue_core.notebook.monitor import Monitor, monitor
from queue_core.notebook.period import Period
from queue_core.notebook.sample import about, opened, sample
from queue_core.notebook.triage import Triage, triage

__all__ = [
    "Monitor",
    "Period",
    "Planned",
    "Triage",
    "about",
    "dashboard_url",
    "lease_for",
    "monitor",
    "opened",
    "sample",
    "triage",
    "url",
]

NAMES = {"monitor": monitor, "triage": triage}


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext queue_core.notebook``. A name that is taken stays what it is."""
    display.register(ipython.display_formatter)
    free = {name: view for name, view in NAMES.items() if name not in ipython.user_ns}
    ipython.push(free, interactive=False)


def unload_ipython_extension(ipython: Any) -> None:
    """``%unload_ext queue_core.notebook``; a live view goes on until it is stopped."""
    display.unregister(ipython.display_formatter)
    ipython.drop_by_id(NAMES)
