"""The one filter grammar of address bar, dashboard, notebook and command line: parsed, matched, searched, completed."""

from queue_core.query.expression import EVERYTHING, Expression, both
from queue_core.query.facts import UNMASKED, Facts, Masking
from queue_core.query.fields import FIELDS, OPERATORS, SYNTAX, Field, Kind
from queue_core.query.grammar import parse
from queue_core.query.searching import Search, search
from queue_core.query.suggesting import Suggestion, suggest
from queue_core.query.words import quote

__all__ = [
    "EVERYTHING",
    "FIELDS",
    "OPERATORS",
    "SYNTAX",
    "UNMASKED",
    "Expression",
    "Facts",
    "Field",
    "Kind",
    "Masking",
    "Search",
    "Suggestion",
    "both",
    "parse",
    "quote",
    "search",
    "suggest",
]
