"""The rules that hold: the default ones, or those of the TOML file that ``QUEUE_REDACT`` names."""

import os
import tomllib
from functools import lru_cache
from typing import Any

from queue_core.errors import InvalidArgument
from queue_core.redact.keys import KEYS, words
from queue_core.redact.redactor import RULES, UNMASKED, Redactor
from queue_core.redact.shapes import SHAPES

VARIABLE = "QUEUE_REDACT"
LISTS = ("add_keys", "remove_keys")
ALLOWED = ("mask", *LISTS, *SHAPES, "patterns")

_DEFAULT = Redactor()


def configured() -> Redactor:
    """The redactor that holds now; a file that has changed holds from the next call on.

    Raises InvalidArgument for a file that cannot be read or understood: nothing is shown by other rules than meant.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return _DEFAULT
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    return _kept(path, (status.st_ino, status.st_mtime_ns, status.st_size))


def masking(mask: Redactor | None) -> Redactor:
    """The given redactor, or the one that is configured. Raises InvalidArgument when that cannot be read."""
    return configured() if mask is None else mask


@lru_cache(maxsize=8)
def _kept(path: str, stamp: tuple[int, ...]) -> Redactor:
    return load(path)


def load(path: str | os.PathLike[str]) -> Redactor:
    """The redactor of a TOML file; all of it may be left out.

    ``mask = false`` shows everything. ``add_keys`` and ``remove_keys`` are lists of names of fields, besides or
    instead of the default ones. Each shape has a switch: ``email = true``, ``card = false``. ``[patterns]`` has further
    ones, a name and a regular expression each. Raises InvalidArgument with the file and the key that is wrong.
    """
    try:
        with open(path, "rb") as file:
            given = tomllib.load(file)
    except OSError as error:
        raise _unreadable(path, error) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{path}: not TOML: {error}") from None
    try:
        return _made(given)
    except InvalidArgument as error:
        raise InvalidArgument(f"{path}: {error}") from None


def _unreadable(path: str | os.PathLike[str], error: Exception) -> InvalidArgument:
    return InvalidArgument(
        f"the redaction rules {path!r} cannot be read: {error}; "
        f"let {VARIABLE} name a file that can be, or unset it for the default rules"
    )


def _made(given: dict[str, Any]) -> Redactor:
    for key, value in given.items():
        if key not in ALLOWED:
            raise InvalidArgument(f"unknown key {key!r:.60}: allowed are {', '.join(ALLOWED)}")
        if key in LISTS:
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise InvalidArgument(f'{key} is {value!r:.60}: write a list of names, such as ["ssn", "*pin"]')
        elif key == "patterns":
            if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
                raise InvalidArgument(f"patterns is {value!r:.60}: write [patterns], then lines such as iban = '…'")
        elif not isinstance(value, bool):
            raise InvalidArgument(f"{key} is {value!r:.60}: write true or false")
    rules = {name for name in SHAPES if given.get(name, name in RULES)}
    redactor = Redactor(_keys(given), frozenset(rules), tuple(given.get("patterns", {}).items()))
    return redactor if given.get("mask", True) else UNMASKED


def _keys(given: dict[str, Any]) -> tuple[str, ...]:
    kept = list(KEYS)
    for name in given.get("remove_keys", []):
        alike = [key for key in kept if words(key) == words(name)]
        if not alike:
            raise InvalidArgument(f"remove_keys has {name!r:.60}, which is none of the keys: {', '.join(KEYS)}")
        kept.remove(alike[0])
    return tuple(dict.fromkeys([*kept, *given.get("add_keys", [])]))
