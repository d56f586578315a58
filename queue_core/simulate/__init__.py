"""What if: recorded or invented work played again, with other weights, limits and workers."""

from queue_core.simulate.result import Result, compare
from queue_core.simulate.run import Limit
from queue_core.simulate.whatif import limits_of, simulate
from queue_core.simulate.workload import Workload, poisson

__all__ = ["Limit", "Result", "Workload", "compare", "limits_of", "poisson", "simulate"]
