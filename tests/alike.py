"""Two tags that are called alike on the pages, as happens by chance."""

from functools import cache

from queue_core.frames import tag_label


@cache
def twins() -> tuple[str, str]:
    """Two names with one label: of some thousand long names that begin alike, two have the same 24 bits of a hash."""
    seen: dict[str, str] = {}
    for number in range(100_000):
        name = f"a tenant whose name is too long for a table, number {number}"
        other = seen.setdefault(tag_label(name), name)
        if other != name:
            return other, name
    raise AssertionError("no two labels are the same")
