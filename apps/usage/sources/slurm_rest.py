"""Slurm's REST daemon: jobs of its accounting database since the cursor, and the jobs that run or wait now."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import urlencode

from django.conf import settings

from apps.core.errors import Invalid, Unavailable
from apps.core.outbound import Limits, fetch
from apps.usage.models import Source
from apps.usage.parsers.base import Reading
from apps.usage.parsers.registry import FORMATS
from apps.usage.sources.command import windows
from apps.usage.sources.pieces import Clock, Piece, Progress, listed, whole_listing, zone_of_source

_MOST_BYTES = 16 * 1024


def secret_of(slug: str) -> str:
    """
    Raises:
        Invalid: there is no such file, or others may read it; with what to do.
    """
    path = Path(settings.FAIRSHARE_SECRETS_DIR) / slug
    where = f"FAIRSHARE_SECRETS_DIR/{slug}"
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
                raise Invalid(f"{where} must be a file that only its owner reads: chmod 600.", code="secret_is_open")
            text = file.read(_MOST_BYTES).decode("ascii").strip()
    except OSError as error:
        raise Invalid(f"{where} can't be read: put the token there, mode 0600.", code="no_secret") from error
    except UnicodeDecodeError as error:
        raise Invalid(f"{where} holds no token: one line of ASCII.", code="no_secret") from error
    if not text or not text.isprintable() or " " in text:
        raise Invalid(f"{where} holds no token: one line of ASCII.", code="no_secret")
    return text


ACCOUNTING, QUEUE = "sacct-json", "squeue-json"


def pieces_of(source: Source, at: datetime, clock: Clock) -> Iterator[Piece]:
    """First what has ended, then what is open: a job that ends in between is closed by the listing, and corrected."""
    terms, token = source.collecting, secret_of(source.slug)
    progress, reading = Progress(dict(source.cursor)), Reading(at, zone_of_source(source))
    if terms["accounting"]:
        for window in windows(progress.cursor, terms, at):
            times = {"start_time": int(window.from_at.timestamp()), "end_time": int(window.to_at.timestamp())}
            path = f"/slurmdb/{terms['version']}/jobs?{urlencode(times)}"
            with _asked(terms, token, path) as stream:
                collector = FORMATS[ACCOUNTING]
                for parsed in collector.parse(stream, reading):
                    yield progress.after(parsed, "slurmdb", collector)
            yield progress.mark(to_s=int(window.to_at.timestamp()))
    if terms["queue"]:
        listed_at, collector = clock(), FORMATS[QUEUE]
        with _asked(terms, token, f"/slurm/{terms['version']}/jobs") as stream:
            parsed = whole_listing(collector, stream, Reading(listed_at, reading.zone))
        yield listed(collector, parsed, listed_at, progress.cursor, "slurm")


def _asked(terms: dict[str, object], token: str, path: str) -> BinaryIO:
    """The answer, in a file without a name.

    Raises:
        Invalid: the token is rejected.
        Unavailable: the daemon has no answer.
    """
    headers = {"X-SLURM-USER-TOKEN": token, "Accept": "application/json"}
    if terms["user"]:
        headers["X-SLURM-USER-NAME"] = str(terms["user"])
    limits = Limits(n_bytes=int(settings.FAIRSHARE_UPLOAD_BYTES), total_s=float(str(terms["timeout_s"])))
    kept = cast(BinaryIO, tempfile.TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR))  # noqa: SIM115 - the caller's
    try:
        answer = fetch(f"{terms['address']}{path}", headers=headers, limits=limits, into=kept)
        if answer.status in (401, 403):
            raise Invalid("The daemon doesn't take the token: put a newer one into its file.", code="token_refused")
        if answer.status != 200:
            where = path.partition("?")[0]
            raise Unavailable(f"The daemon answers {where} with status {answer.status}.", code="bad_answer")
        kept.seek(0)
    except BaseException:
        kept.close()
        raise
    return kept
