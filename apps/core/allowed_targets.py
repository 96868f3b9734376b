"""The operator's list of targets that may be private or plain http, as it is now.

FAIRSHARE_OUTBOUND_ALLOW is read at the start. Given as a file (FAIRSHARE_OUTBOUND_ALLOW_FILE) it is read again when the
file changes, so that a target is opened or closed without a restart.
"""

from __future__ import annotations

import logging
import os
import re
from typing import NamedTuple

from django.conf import settings

logger = logging.getLogger(__name__)

_BETWEEN = re.compile(r"[,\s]+")
_COMMENT = re.compile(r"#.*")


class _Read(NamedTuple):
    version: tuple[str, int, int, int]  # path, inode, size, time of the last change
    targets: frozenset[str]


_last: list[_Read] = []


def allowed_targets() -> frozenset[str]:
    """`host:port`, in lower case. Nothing is allowed while the file can't be read."""
    path: str = settings.FAIRSHARE_OUTBOUND_ALLOW_FILE
    if not path:
        return frozenset(entry.lower() for entry in settings.FAIRSHARE_OUTBOUND_ALLOW)
    try:
        with open(path, encoding="utf-8") as file:
            now = os.fstat(file.fileno())
            version = (path, now.st_ino, now.st_size, now.st_mtime_ns)
            if not _last or _last[0].version != version:
                _last[:] = [_Read(version, _parsed(file.read()))]
    except (OSError, UnicodeDecodeError) as error:
        logger.warning("FAIRSHARE_OUTBOUND_ALLOW_FILE=%s can't be read, so it allows nothing: %s", path, error)
        return frozenset()
    return _last[0].targets


def _parsed(text: str) -> frozenset[str]:
    """Separated by commas or white space; the rest of a line from # on is a comment."""
    lines = (_COMMENT.sub("", line) for line in text.splitlines())
    return frozenset(part.lower() for line in lines for part in _BETWEEN.split(line) if part)
