"""Collect usage from slurmrestd: jobs of the accounting database since the cursor, and running and pending jobs."""

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
from apps.usage.sources.pieces import Clock, Piece, Progress, listing_piece, parse_listing, zone_of_source

_MOST_BYTES = 16 * 1024


def read_token(slug: str) -> str:
    """Read the token of a source from its file in FAIRSHARE_SECRETS_DIR.

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
            text = file.read(_MOST_BYTES).decode("ascii").strip()
    except OSError as error:
        raise Invalid(f"{where} can't be read: put the token there, mode 0600.", code="no_secret") from error
    except UnicodeDecodeError as error:
        raise Invalid(f"{where} contains no token: one line of ASCII.", code="no_secret") from error
    if not text or not text.isprintable() or " " in text:
        raise Invalid(f"{where} contains no token: one line of ASCII.", code="no_secret")
    return text


ACCOUNTING, QUEUE = "sacct-json", "squeue-json"


def collect_pieces(source: Source, at: datetime, clock: Clock) -> Iterator[Piece]:
    """Collect finished jobs first, then open ones: a job that ends in between is closed by the listing, and
    corrected later.
    """
    terms, token = source.collecting, read_token(source.slug)
    progress, reading = Progress(dict(source.cursor)), Reading(at, zone_of_source(source), source.billing)
    if terms["accounting"]:
        for window in windows(progress.cursor, terms, at):
            times = {"start_time": int(window.from_at.timestamp()), "end_time": int(window.to_at.timestamp())}
            path = f"/slurmdb/{terms['version']}/jobs?{urlencode(times)}"
            with _fetch(terms, token, path) as stream:
                collector = FORMATS[ACCOUNTING]
                for parsed in collector.parse(stream, reading):
                    yield progress.add(parsed, "slurmdb", collector)
            yield progress.step(to_s=int(window.to_at.timestamp()))
    if terms["queue"]:
        listed_at, collector = clock(), FORMATS[QUEUE]
        with _fetch(terms, token, f"/slurm/{terms['version']}/jobs") as stream:
            parsed = parse_listing(collector, stream, reading._replace(at=listed_at))
        yield listing_piece(collector, parsed, listed_at, progress.cursor, "slurm")


def _fetch(terms: dict[str, object], token: str, path: str) -> BinaryIO:
    """Fetch an answer of the daemon into an unnamed temporary file.

    Raises:
        Invalid: the token is rejected.
        Unavailable: the daemon does not answer with status 200.
    """
    headers = {"X-SLURM-USER-TOKEN": token, "Accept": "application/json"}
    if terms["user"]:
        headers["X-SLURM-USER-NAME"] = str(terms["user"])
    limits = Limits(n_bytes=int(settings.FAIRSHARE_UPLOAD_BYTES), total_s=float(str(terms["timeout_s"])))
    kept = cast(BinaryIO, tempfile.TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR))  # noqa: SIM115 - the caller closes it
    try:
        answer = fetch(f"{terms['address']}{path}", headers=headers, limits=limits, into=kept)
        if answer.status in (401, 403):
            raise Invalid("The daemon rejects the token: replace it in its file.", code="token_refused")
        if answer.status != 200:
            where = path.partition("?")[0]
            raise Unavailable(f"The daemon answers {where} with status {answer.status}.", code="bad_answer")
        kept.seek(0)
    except BaseException:
        kept.close()
        raise
    return kept
