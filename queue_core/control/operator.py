"""Operator: everything that a person does to a queue, checked by role and written into the audit."""

from queue_core.control.acting import Acting
from queue_core.control.planning import Planning
from queue_core.control.transfer import Moving


class Operator(Acting, Planning, Moving):
    """One person at one place, in a role. ``origin`` is from where: dashboard, notebook, cli, library.

    Methods that change something raise NotPermitted when the role does not allow them; they ask for a reason where data
    is dropped, and write one entry into the audit, in the transaction of what they do. What is refused because the
    task has changed is written as well. Where a store keeps no audit, entries go to the log ``queue_core.audit``.
    """
