"""Collect usage from slurmrestd: jobs of the accounting database since the cursor, and running and pending jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, BinaryIO
from urllib.parse import urlencode

from apps.core.errors import Unavailable
from apps.usage.models import Source
from apps.usage.parsers.base import Parsed, Reading, RecordBatch
from apps.usage.parsers.registry import FORMATS
from apps.usage.sources.command import Window, windows
from apps.usage.sources.pieces import (
    Clock,
    Piece,
    Progress,
    listing_piece,
    parse_listing,
    refuse_cut_output,
    zone_of_source,
)
from apps.usage.sources.reservations import charge_reservations, read_reservations
from apps.usage.sources.slurmrestd import IN_CURSOR, SLURM, SLURMDB, NoSuchPath, Slurmrestd, remembered_parsers

ACCOUNTING, QUEUE = "sacct-json", "squeue-json"
ASK_PARSERS_EVERY_S = 86400  # an update of Slurm brings a newer one; the specification has megabytes
LAST_OF_TEXT_TIMES = 39  # of the parsers v0.0.x


def collect_pieces(source: Source, at: datetime, clock: Clock) -> Iterator[Piece]:
    """Collect finished jobs first, then open ones: a job that ends in between is closed by the listing, and
    corrected later.

    An answer is stored only if it is whole, so a token that expires in between leaves the windows before it.
    """
    terms, progress = source.collecting, Progress(dict(source.cursor))
    daemon = Slurmrestd(
        address=str(terms["address"]),
        slug=source.slug,
        user=str(terms["user"]),
        timeout_s=float(terms["timeout_s"]),
        clock=clock,
    )
    jobs = _Jobs(daemon, terms, progress, at)
    jobs.choose()
    reading = Reading(at, zone_of_source(source), source.billing)
    if terms["accounting"]:
        for window in windows(progress.cursor, terms, at):
            with jobs.get(SLURMDB, window) as stream:
                collector = FORMATS[ACCOUNTING]
                refuse_cut_output(collector.parse(stream, reading), f"{daemon.address}/slurmdb")
                stream.seek(0)
                for parsed in collector.parse(stream, reading):
                    yield progress.add(parsed, "slurmdb", collector)
            yield progress.step(to_s=int(window.to_at.timestamp()))
    if terms["queue"]:
        listed_at, collector = clock(), FORMATS[QUEUE]
        with jobs.get(SLURM) as stream:
            parsed = parse_listing(collector, stream, reading._replace(at=listed_at))
        yield listing_piece(collector, parsed, listed_at, progress.cursor, "slurm")
    if terms.get("reservations"):
        yield _reservation_piece(source, jobs, progress, clock())


def _reservation_piece(source: Source, jobs: _Jobs, progress: Progress, at: datetime) -> Piece:
    """Charges of unused time, after the jobs of this pass are stored."""
    listed = read_reservations(jobs.get_document(SLURM, "reservations"))
    charges = charge_reservations(source, listed, progress.cursor.get("reservations", {}), at=at)
    progress.cursor = {**progress.cursor, "reservations": charges.remembered}
    return Piece(Parsed(RecordBatch.from_rows(charges.rows), [], n_lines=len(charges.rows)), progress.cursor, "slurm")


class _Jobs:
    """The paths of jobs, with the parser of the settings, else the newest that the daemon offers."""

    def __init__(self, daemon: Slurmrestd, terms: Mapping[str, Any], progress: Progress, at: datetime) -> None:
        self._daemon, self._progress, self._at_s = daemon, progress, int(at.timestamp())
        self._pinned = str(terms["version"])
        wanted = {SLURMDB: terms["accounting"], SLURM: terms["queue"] or terms.get("reservations")}
        self._families = [family for family, is_wanted in wanted.items() if is_wanted]
        self._parsers = dict.fromkeys(self._families, self._pinned)

    def choose(self) -> None:
        """Choose the parsers; those that the daemon was asked for are stored with the next piece.

        Raises:
            Unavailable: the daemon offers none that this release reads.
        """
        if self._pinned:
            return
        self._parsers = remembered_parsers(self._progress.cursor)
        asked_s = self._progress.cursor.get(IN_CURSOR, {}).get("asked_s", 0)
        is_recent = 0 <= self._at_s - asked_s < ASK_PARSERS_EVERY_S
        if not is_recent or not self._parsers.keys() >= set(self._families):
            self._ask()

    def get(self, family: str, window: Window | None = None) -> BinaryIO:
        """The jobs of a family, of a window in time. If the remembered parser is gone, the daemon is asked once more.

        Raises:
            Unavailable: no answer; or the parser of the settings isn't offered.
        """
        try:
            return self._daemon.get_file(self._path(family, window))
        except NoSuchPath as problem:
            if self._pinned:
                offered = self._daemon.offered(self._families)
                message = f"{problem.message} It offers {offered}: leave the version empty for the newest."
                raise Unavailable(message, code="no_known_parser") from problem
            before = self._parsers
            self._ask()
            if self._parsers == before:
                raise
        return self._daemon.get_file(self._path(family, window))

    def get_document(self, family: str, name: str) -> dict[str, Any]:
        """Another answer of the family, by the parser that its jobs were read with."""
        return self._daemon.get_document(f"/{family}/{self._parsers[family]}/{name}")

    def _ask(self) -> None:
        self._parsers = self._daemon.find_parsers(self._families).by_family
        daemon = {"parsers": self._parsers, "asked_s": self._at_s}
        self._progress.cursor = {**self._progress.cursor, IN_CURSOR: daemon}

    def _path(self, family: str, window: Window | None) -> str:
        parser = self._parsers[family]
        path = f"/{family}/{parser}/jobs"
        if window is None:
            return path
        # Up to v0.0.39 a time is a text as in sacct, where `uts` is before seconds since 1970; then it is a number.
        is_text = int(parser.rpartition(".")[2]) <= LAST_OF_TEXT_TIMES
        before = "uts" if is_text else ""
        start_s, end_s = (int(at.timestamp()) for at in (window.from_at, window.to_at))
        return f"{path}?{urlencode({'start_time': f'{before}{start_s}', 'end_time': f'{before}{end_s}'})}"
