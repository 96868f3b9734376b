"""A watched directory: files that appear whole, each read once; or files that grow, each read on from its cursor."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from apps.core.errors import DomainError
from apps.usage.models import Source
from apps.usage.parsers.base import Reading
from apps.usage.parsers.registry import format_of
from apps.usage.records import uploads
from apps.usage.sources.appended_files import Found, allowed_folder, files_of, found_as, grown_pieces, matches, opened
from apps.usage.sources.command import listing_of
from apps.usage.sources.pieces import Clock, Piece, Progress, listed, whole_listing, zone_of_source

MOST_REMEMBERED = 10_000  # digests of files that are gone: the same one under another name is not read again


def pieces_of(source: Source, at: datetime, clock: Clock) -> Iterator[Piece]:
    folder, terms = allowed_folder(source.collecting["folder"]), source.collecting
    reading, cursor = Reading(at, zone_of_source(source)), dict(source.cursor)
    if terms["files"] == "grow":
        pieces = grown_pieces(folder, terms, cursor, reading)
    else:
        pieces = _whole_files(terms, files_of(folder, _wanted(terms)), cursor, reading)
    for piece in pieces:
        cursor = piece.cursor
        yield piece
    yield from listing_of(source, clock, cursor)


def _wanted(terms: dict[str, Any]) -> Any:
    return lambda name, _inode: matches(name, terms["pattern"])


def _whole_files(
    terms: dict[str, Any], found: list[Found], cursor: dict[str, Any], reading: Reading
) -> Iterator[Piece]:
    """Files whose size and time of writing have stopped changing. A name's former content is remembered."""
    progress = Progress(_without_gone(cursor, {one.path.name for one in found}))
    settled_ns = (reading.at.timestamp() - terms["settle_s"]) * 1e9
    for one in found:
        known = progress.cursor["files"].get(one.path.name)
        if one.mtime_ns > settled_ns or not one.n_bytes or (known and known[:3] == one.state):
            continue
        yield from _one_file(terms, one, progress, reading)


def _one_file(terms: dict[str, Any], one: Found, progress: Progress, reading: Reading) -> Iterator[Piece]:
    try:
        with opened(one.path) as file:
            stored = uploads.store(file)
            as_read = found_as(file, one.path)
    except FileNotFoundError:
        return  # moved away since the last check
    except (DomainError, OSError) as error:
        yield _refused(progress, one, "", error)
        return
    try:
        if as_read.state == one.state:  # else it was written while it was read: the next check reads it
            yield from _stored_file(terms, one, stored, progress, reading)
    finally:
        uploads.remove(stored.name)


def _stored_file(
    terms: dict[str, Any], one: Found, stored: uploads.Stored, progress: Progress, reading: Reading
) -> Iterator[Piece]:
    name, digest = one.path.name, stored.sha256
    if digest in _digests(progress.cursor):
        yield progress.mark(**_done(progress, one, digest))
        return
    try:
        collector = format_of(terms["format"], stored.head)
        with uploads.open_unpacked(stored.name) as stream:
            if collector.is_listing:
                as_of = datetime.fromtimestamp(one.mtime_ns // 10**9, UTC)
                parsed = whole_listing(collector, stream, reading)
                yield listed(collector, parsed, as_of, progress.cursor, name)
            else:
                current = progress.cursor.get("current") or {}
                resume = current.get("resume") if current.get("sha256") == digest else None
                for parsed in collector.parse(stream, reading, resume=resume or None):
                    at_work = {"sha256": digest, "resume": parsed.resume}
                    yield progress.after(parsed, name, collector, current=at_work)
    except DomainError as error:
        yield _refused(progress, one, digest, error)
        return
    yield progress.mark(**_done(progress, one, digest))


def _done(progress: Progress, one: Found, digest: str) -> dict[str, Any]:
    problems = {name: why for name, why in progress.cursor["problems"].items() if name != one.path.name}
    files = {**progress.cursor["files"], one.path.name: [*one.state, digest]}
    return {"files": files, "problems": problems, "current": None}


def _refused(progress: Progress, one: Found, digest: str, error: Exception) -> Piece:
    """Not tried again until it is another file; others are not kept waiting."""
    why = error.message if isinstance(error, DomainError) else f"it can't be opened ({type(error).__name__})"
    changes = _done(progress, one, digest)
    changes["problems"] = {**changes["problems"], one.path.name: why[:300]}
    return progress.mark(**changes)


def _digests(cursor: dict[str, Any]) -> set[str]:
    refused = cursor["problems"]
    return {known[3] for name, known in cursor["files"].items() if name not in refused} | set(cursor["gone"])


def _without_gone(cursor: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Files that are no longer there leave their digest behind, the newest ten thousand."""
    files, problems = cursor.get("files", {}), cursor.get("problems", {})
    gone = [known[3] for name, known in files.items() if name not in names | problems.keys()]
    return {
        **cursor,
        "files": {name: known for name, known in files.items() if name in names},
        "problems": {name: why for name, why in problems.items() if name in names},
        "gone": [*cursor.get("gone", []), *gone][-MOST_REMEMBERED:],
    }
