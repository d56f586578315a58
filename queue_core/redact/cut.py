"""The beginning of a JSON text, made whole. Pure."""

import re

_TOKEN = re.compile(r'"(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*+(?P<closed>")?|[\[\]{},:]|[^\s\[\]{},:"]++')


def completed(text: str) -> str:
    """A JSON text that was cut off anywhere, with what is open closed; a number or a word that was cut off is gone."""
    closers: list[str] = []
    good, is_name = 0, False
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign in "{[":
            closers.append("}" if sign == "{" else "]")
            good, is_name = token.end(), sign == "{"
        elif sign in "]}":
            closers = closers[:-1]
            good, is_name = token.end(), False
        elif sign in ",:":
            is_name = sign == "," and closers[-1:] == ["}"]
        elif sign[0] == '"' and not token["closed"]:
            good = token.end()
            closers.append('": null' if is_name else '"')
        elif not is_name and token.end() < len(text):
            good = token.end()
    return text[:good] + "".join(reversed(closers))
