"""Serves as no rotation would give them, for tests of the formulas over journal entries."""

from hypothesis import strategies as st

from queue_core.fairness import Waiting
from queue_core.history import Entry, Kind


def leases(tags: str, *, since: dict[str, int] | None = None, weight: dict[str, int] | None = None) -> list[Entry]:
    """One entry for each letter; ``since`` is the serve since which its tag was eligible."""
    return [
        Entry(Kind.LEASE, i, ord(tag), serve=i, since=(since or {}).get(tag, 0), weight=(weight or {}).get(tag, 1))
        for i, tag in enumerate(tags, 1)
    ]


@st.composite
def journals(draw: st.DrawFn) -> tuple[list[Entry], dict[int, Waiting]]:
    """Leases as no rotation would give them, from any serve on, and what waits after them."""
    first = draw(st.integers(1, 50))
    last = first - 1 + draw(st.integers(0, 30))
    steady = draw(st.booleans())
    weights = {tag: draw(st.integers(1, 3)) for tag in range(1, 5)}
    entries = []
    for serve in range(first, last + 1):
        tag = draw(st.integers(1, 4))
        weight = weights[tag] if steady else draw(st.integers(1, 3))
        since = draw(st.one_of(st.just(0), st.integers(max(serve - 8, 0), serve - 1)))
        entries.append(Entry(Kind.LEASE, serve, tag, serve=serve, since=since, weight=weight))
    waiting = draw(
        st.dictionaries(st.integers(1, 5), st.builds(Waiting, st.integers(0, last), st.integers(1, 3)), max_size=3)
    )
    if steady:
        waiting = {tag: Waiting(one.since, weights.get(tag, 1)) for tag, one in waiting.items()}
    return entries, waiting
