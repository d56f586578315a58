"""Masking: secrets in payloads, errors and reasons are hidden wherever tasks are seen.

What is handed to a worker, and what is stored, stays as it is.
"""

from queue_core.redact.masks import MARK, MASKED
from queue_core.redact.redactor import UNMASKED, Redactor, Seen
from queue_core.redact.settings import configured, load, masking

__all__ = ["MARK", "MASKED", "UNMASKED", "Redactor", "Seen", "configured", "load", "masking"]
