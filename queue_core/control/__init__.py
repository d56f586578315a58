"""Control: what people do to a queue, planned first, done to exactly what was planned, and written down."""

from queue_core.control.editing import payload_lines, rewritten
from queue_core.control.operator import Operator
from queue_core.control.planning import Seen
from queue_core.control.roles import Role

__all__ = ["Operator", "Role", "Seen", "payload_lines", "rewritten"]
