"""What is kept for a while after the end of a plan, and then removed as a side effect of commits."""

from queue_core.plans import PLAN_RETENTION
from queue_core.stores.base import PIECE
from queue_core.stores.engine.records import Book, Records


def plans(tx: Records, book: Book) -> int:
    """Drop what undoing old plans would need, a piece; when to look again (0: never)."""
    waiting = []
    for plan in [plan for plan in book.plans() if plan.over and plan.kept]:
        due = plan.aged + PLAN_RETENTION + 1
        if due > tx.meta.aged:
            waiting.append(due)
        elif book.drop_parts(plan.number, PIECE):
            return tx.meta.aged
        else:
            plan.kept = False
            book.put_plan(plan)
    return min(waiting, default=0)
