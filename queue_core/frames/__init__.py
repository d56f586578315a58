"""The queue as pandas DataFrames, and as sentences: what dashboard and notebooks show comes from here."""

from queue_core.frames.tables import dead_frame, leases_frame, serves_frame, tags_frame, tasks_frame

# isort: split
# without pandas, the one above says what to install
from queue_core.frames.series import OTHERS, quantile_text, series_frame, series_totals_frame, times_frame
from queue_core.frames.text import (
    duration,
    error_preview,
    one_line,
    payload_preview,
    plural,
    safe_text,
    share_text,
    tag_label,
)
from queue_core.frames.turns import ring_frame, shares_frame, upcoming
from queue_core.frames.words import (
    SLOW_WAIT,
    Level,
    Verdict,
    dead_sentence,
    error_line,
    fairness_sentence,
    inflight_sentence,
    lagging,
    verdict,
)

__all__ = [
    "OTHERS",
    "SLOW_WAIT",
    "Level",
    "Verdict",
    "dead_frame",
    "dead_sentence",
    "duration",
    "error_line",
    "error_preview",
    "fairness_sentence",
    "inflight_sentence",
    "lagging",
    "leases_frame",
    "one_line",
    "payload_preview",
    "plural",
    "quantile_text",
    "ring_frame",
    "safe_text",
    "series_frame",
    "series_totals_frame",
    "serves_frame",
    "share_text",
    "shares_frame",
    "tag_label",
    "tags_frame",
    "tasks_frame",
    "times_frame",
    "upcoming",
    "verdict",
]
