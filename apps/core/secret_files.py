"""Tokens for other services, each in a file that its owner alone may read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from django.conf import settings

from apps.core.errors import Invalid

_MOST_TOKEN_FILE_BYTES = 16 * 1024


def read_secret(slug: str) -> str:
    """The token in a file of FAIRSHARE_SECRETS_DIR, by the name of the source or portal that it is for.

    Raises:
        Invalid: the file is missing, readable by others, or no token; with the remedy.
    """
    path = Path(settings.FAIRSHARE_SECRETS_DIR) / slug
    where = f"FAIRSHARE_SECRETS_DIR/{slug}"
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
                raise Invalid(f"{where} must be readable by its owner only: chmod 600.", code="secret_is_open")
            text = file.read(_MOST_TOKEN_FILE_BYTES).decode("ascii").strip()
    except OSError as error:
        raise Invalid(f"{where} can't be read: put the token there, mode 0600.", code="no_secret") from error
    except UnicodeDecodeError as error:
        raise Invalid(f"{where} contains no token: one line of ASCII.", code="no_secret") from error
    if not text or not text.isprintable() or " " in text:
        raise Invalid(f"{where} contains no token: one line of ASCII.", code="no_secret")
    return text
