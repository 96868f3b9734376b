"""Collect usage from files of a watched directory: complete files, each read once, or growing files, read from a cursor
on.

Accounting logs are appended to: they are read from the byte after the last complete line. A file is identified by its
inode and by the bytes at its start and before the cursor. It is therefore followed when rotation renames or copies it,
and read from its start when it was truncated or replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from apps.core.errors import DomainError
from apps.usage.models import Source
from apps.usage.parsers.base import Reading
from apps.usage.parsers.registry import format_of, parse_checked
from apps.usage.records import uploads
from apps.usage.sources.command import collect_listing
from apps.usage.sources.growing_files import (
    FolderFile,
    allowed_folder,
    collect_grown_files,
    list_files,
    matches,
    open_file_state,
    open_regular,
)
from apps.usage.sources.pieces import Clock, Piece, Progress, listing_piece, parse_listing, zone_of_source

MOST_REMEMBERED_FILES = 10_000  # digests of removed files, so that they are not read again under another name


def collect_pieces(source: Source, at: datetime, clock: Clock) -> Iterator[Piece]:
    folder, terms = allowed_folder(source.collecting["folder"]), source.collecting
    reading, cursor = Reading(at, zone_of_source(source), source.billing), dict(source.cursor)
    if terms["files"] == "grow":
        pieces = collect_grown_files(folder, terms, cursor, reading)
    else:
        pieces = _collect_whole_files(
            terms, list_files(folder, lambda name, _inode: matches(name, terms["pattern"])), cursor, reading
        )
    for piece in pieces:
        cursor = piece.cursor
        yield piece
    yield from collect_listing(source, clock, cursor)


def _collect_whole_files(
    terms: dict[str, Any], files: list[FolderFile], cursor: dict[str, Any], reading: Reading
) -> Iterator[Piece]:
    """Collect files that have not changed for `settle_s`, unless their name and state were read before."""
    progress = Progress(_drop_removed(cursor, {folder_file.path.name for folder_file in files}))
    settled_ns = (reading.at.timestamp() - terms["settle_s"]) * 1e9
    for folder_file in files:
        known = progress.cursor["files"].get(folder_file.path.name)
        if folder_file.mtime_ns > settled_ns or not folder_file.n_bytes or (known and known[:3] == folder_file.state):
            continue
        yield from _collect_whole_file(terms, folder_file, progress, reading)


def _collect_whole_file(
    terms: dict[str, Any], folder_file: FolderFile, progress: Progress, reading: Reading
) -> Iterator[Piece]:
    try:
        with open_regular(folder_file.path) as file:
            stored = uploads.store(file)
            as_read = open_file_state(file, folder_file.path)
    except FileNotFoundError:
        return  # moved since the folder was listed
    except (DomainError, OSError) as error:
        yield _failed_file(progress, folder_file, "", error)
        return
    try:
        if as_read.state == folder_file.state:  # else it changed while being read: the next collection reads it
            yield from _parse_stored_file(terms, folder_file, stored, progress, reading)
    finally:
        uploads.remove(stored.name)


def _parse_stored_file(
    terms: dict[str, Any], folder_file: FolderFile, stored: uploads.StoredFile, progress: Progress, reading: Reading
) -> Iterator[Piece]:
    name, digest = folder_file.path.name, stored.sha256
    if digest in _digests(progress.cursor):
        yield progress.step(**_done(progress, folder_file, digest))
        return
    try:
        collector = format_of(terms["format"], stored.head)
        with uploads.open_unpacked(stored.name) as stream:
            if collector.is_listing:
                as_of = datetime.fromtimestamp(folder_file.mtime_ns // 10**9, UTC)
                parsed = parse_listing(collector, stream, reading)
                yield listing_piece(collector, parsed, as_of, progress.cursor, name)
            else:
                current = progress.cursor.get("current") or {}
                resume = current.get("resume") if current.get("sha256") == digest else None
                for parsed in parse_checked(collector, stream, reading, head=stored.head, resume=resume or None):
                    at_work = {"sha256": digest, "resume": parsed.resume}
                    yield progress.add(parsed, name, collector, current=at_work)
    except DomainError as error:
        yield _failed_file(progress, folder_file, digest, error)
        return
    yield progress.step(**_done(progress, folder_file, digest))


def _done(progress: Progress, folder_file: FolderFile, digest: str) -> dict[str, Any]:
    problems = {name: why for name, why in progress.cursor["problems"].items() if name != folder_file.path.name}
    files = {**progress.cursor["files"], folder_file.path.name: [*folder_file.state, digest]}
    return {"files": files, "problems": problems, "current": None}


def _failed_file(progress: Progress, folder_file: FolderFile, digest: str, error: Exception) -> Piece:
    """Record the problem of a file that can't be read; it is retried only after it changes."""
    why = error.message if isinstance(error, DomainError) else f"it can't be opened ({type(error).__name__})"
    changes = _done(progress, folder_file, digest)
    changes["problems"] = {**changes["problems"], folder_file.path.name: why[:300]}
    return progress.step(**changes)


def _digests(cursor: dict[str, Any]) -> set[str]:
    refused = cursor["problems"]
    return {known[3] for name, known in cursor["files"].items() if name not in refused} | set(cursor["gone"])


def _drop_removed(cursor: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Drop files that no longer exist from the cursor, keeping the digests of the last ten thousand."""
    files, problems = cursor.get("files", {}), cursor.get("problems", {})
    gone = [known[3] for name, known in files.items() if name not in names | problems.keys()]
    return {
        **cursor,
        "files": {name: known for name, known in files.items() if name in names},
        "problems": {name: why for name, why in problems.items() if name in names},
        "gone": [*cursor.get("gone", []), *gone][-MOST_REMEMBERED_FILES:],
    }
