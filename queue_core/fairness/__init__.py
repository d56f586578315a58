"""Formulas over what was served: the rotation's guarantee, shares, gaps, worker time. Pure.

They take journal entries and what is known of the tags after them. What is undefined is None.
"""

from queue_core.fairness.effort import noisy, worker_time
from queue_core.fairness.guarantee import Guarantee, Violation, violations
from queue_core.fairness.past import Then, as_of
from queue_core.fairness.report import Fairness, Standing, TagFairness, assess, got, latest, standing
from queue_core.fairness.shares import Gaps, Spell, Waiting, entitled, gaps, index, jain, spells
from queue_core.fairness.windows import Window, over_time

__all__ = [
    "Fairness",
    "Gaps",
    "Guarantee",
    "Spell",
    "Standing",
    "TagFairness",
    "Then",
    "Violation",
    "Waiting",
    "Window",
    "as_of",
    "assess",
    "entitled",
    "gaps",
    "got",
    "index",
    "jain",
    "latest",
    "noisy",
    "over_time",
    "spells",
    "standing",
    "violations",
    "worker_time",
]
