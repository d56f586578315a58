"""What is kept for a while after the end of a plan, and then removed as a side effect of commits."""

from msgspec.structs import replace

from queue_core.plans import PlanState
from queue_core.stores.base import PIECE
from queue_core.stores.engine.records import Book, Records


def plans(tx: Records, book: Book) -> int:
    """Drop the selections of plans that ended, or were left, long ago, a piece; when to look again (0: never)."""
    waiting = []
    idle = (PlanState.READY, PlanState.STOPPED, PlanState.FINISHED)
    for plan in [plan for plan in book.plans() if plan.kept and plan.state in idle]:
        if plan.kept_until > tx.meta.aged:
            waiting.append(plan.kept_until)
        elif book.drop_parts(plan.number, PIECE):
            return tx.meta.aged
        else:
            plan.kept, plan.options = False, replace(plan.options, payload=None)
            book.put_plan(plan)
    return min(waiting, default=0)
