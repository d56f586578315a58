"""What is kept for a while after the end of a plan, and then removed as a side effect of commits."""

from msgspec.structs import replace

from queue_core.plans import PlanState
from queue_core.stores.base import PIECE
from queue_core.stores.engine.records import Book, Records
from queue_core.task import SECOND

LOOKED = 200  # plans that one commit looks at
AGAIN = 60 * SECOND  # on the retention clock: when there are more than that, between two looks


def plans(tx: Records, book: Book) -> int:
    """Drop the selections of plans that ended, or were left, long ago, a piece; when to look again (0: never).

    Plans before ``meta.plans_kept`` are known to have none. Of very many, the older ones are looked at first.
    """
    meta, idle = tx.meta, (PlanState.READY, PlanState.STOPPED, PlanState.FINISHED)
    found = list(book.plans_from(meta.plans_kept, LOOKED))
    waiting = []
    for plan in found:
        if not plan.kept or plan.state not in idle:
            continue
        if plan.kept_until > meta.aged:
            waiting.append(plan.kept_until)
        elif book.drop_parts(plan.number, PIECE):
            return meta.aged
        else:
            plan.kept, plan.options = False, replace(plan.options, payload=None)
            book.put_plan(plan)
    meta.plans_kept = next((plan.number for plan in found if plan.kept), found[-1].number + 1 if found else 0)
    if len(found) == LOOKED:
        return max(min(waiting, default=0), meta.aged + AGAIN)
    return min(waiting, default=0)
