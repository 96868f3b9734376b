"""Lines of schedulers' files: a backslash continues a line or takes the meaning of the next character, and #
begins a comment.

A line with a comment is not continued, because Slurm cuts comments first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_ESCAPED = re.compile(r"\\.", re.DOTALL)
_WITH_COMMENT = re.compile(r"((?:\\.|[^\\#])*)(?:#.*)?", re.DOTALL)
_ESCAPE = re.compile(r"\\[ \t\r]*\n|\\(.)")


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line; lines continued by a backslash are one, with the line ends in it."""
    waiting, begin = list[str](), 0
    for line, raw in enumerate(text.split("\n"), 1):
        waiting.append(raw)
        begin = begin or line
        if raw.rstrip().endswith("\\") and _is_continued(raw):
            continue
        yield begin, "\n".join(waiting)
        waiting, begin = [], 0
    if begin:
        yield begin, "\n".join(waiting)


def _is_continued(raw: str) -> bool:
    stripped = raw.rstrip()
    n_backslashes = len(stripped) - len(stripped.rstrip("\\"))
    return n_backslashes % 2 == 1 and "#" not in _ESCAPED.sub("", raw)


def plain_line(raw: str) -> str:
    """Return a logical line without its comment, escaping backslashes and line ends."""
    if "#" not in raw and "\\" not in raw:
        return raw
    match = _WITH_COMMENT.match(raw)
    return _ESCAPE.sub(lambda escape: escape[1] or "", match[1] if match else raw)
