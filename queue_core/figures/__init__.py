"""Frames as Plotly figures. Pure: a frame goes in, a figure comes out, with "no data" in words when it is empty.

Figures fit a light page as they are; the dashboard repaints text, grid and background from its theme. Colours of
tags and marks have the same luminance, so that they stand out (4:1) from a white as from a near-black page.
"""

from queue_core.figures.attempts import attempts
from queue_core.figures.base import ACCENT, AMBER, GREY, RED, luminance, no_data, plain, span_ticks, tag_colour
from queue_core.figures.errors import errors_by_tag
from queue_core.figures.leases import lease_ages
from queue_core.figures.rotation import LINE, RING, ring, serves, shares
from queue_core.figures.series import backlog_over_time, throughput, times_by_tag
from queue_core.figures.tag import times_histogram
from queue_core.figures.tags import count_by_tag, errors, oldest_wait_by_tag
from queue_core.figures.waits import waits, waits_compared

__all__ = [
    "ACCENT",
    "AMBER",
    "GREY",
    "LINE",
    "RED",
    "RING",
    "attempts",
    "backlog_over_time",
    "count_by_tag",
    "errors",
    "errors_by_tag",
    "lease_ages",
    "luminance",
    "no_data",
    "oldest_wait_by_tag",
    "plain",
    "ring",
    "serves",
    "shares",
    "span_ticks",
    "tag_colour",
    "throughput",
    "times_by_tag",
    "times_histogram",
    "waits",
    "waits_compared",
]
