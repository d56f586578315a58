"""How long a simulation takes: events are arrivals, serves and ends."""

import time

from queue_core.simulate import poisson, simulate

TAGS, WORKERS, MEAN = 20, 4, 0.1  # mean service time in seconds


def whatif(events: int = 1_000_000) -> None:
    """One simulation by rotation and one in one line, of workers that are busy nine tenths of the time."""
    tasks = events // 3
    rate = 0.9 * WORKERS / MEAN
    work = poisson(rates={f"t{n}": rate / TAGS for n in range(TAGS)}, service=MEAN, seconds=tasks / rate)
    print(f"\n{'simulation':<12}{'events':>12}{'time':>9}  reach")
    for policy in ("rotation", "fifo"):
        start = time.perf_counter()
        result = simulate(work, workers=WORKERS, policy=policy)
        took = time.perf_counter() - start
        assert len(result.serves) == len(work)
        print(f"{policy:<12}{3 * len(work):>12,}{took:>7.1f} s  ≤ 30 s")


if __name__ == "__main__":
    whatif()
