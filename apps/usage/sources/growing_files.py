"""Files that grow: what was read of each, and whether it is still the same file."""

from __future__ import annotations

import fnmatch
import hashlib
import io
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, cast

from django.conf import settings

from apps.core.errors import DomainError, Invalid
from apps.core.packing import packing_of
from apps.usage.parsers.base import Reading
from apps.usage.parsers.registry import FORMATS, format_of, parse_checked
from apps.usage.sources.pieces import Piece, Progress

MOST_FILES = 10_000
_UNFINISHED = (".tmp", ".part", ".partial", ".filepart", ".swp", "~")
MOST_GONE = 50  # disappeared files whose last lines may still appear in a copy
_MARK = 4096
_HEAD = 64 * 1024
Followed = dict[str, Any]  # name, inode, offset, resume, format, n_head, head, n_tail, tail
_FINGERPRINT = ("n_head", "head", "n_tail", "tail")


class FolderFile(NamedTuple):
    """A regular file of a folder with its current inode, size and time of modification."""

    path: Path
    inode: int
    n_bytes: int
    mtime_ns: int

    @property
    def state(self) -> list[int]:
        return [self.inode, self.n_bytes, self.mtime_ns]


def allowed_folder(name: str) -> Path:
    """Resolve a folder that is below one of FAIRSHARE_COLLECT_FOLDERS.

    Raises:
        Invalid: it is not below an allowed folder, or does not exist.
    """
    roots = [Path(root).resolve() for root in settings.FAIRSHARE_COLLECT_FOLDERS]
    path = Path(name)
    if not path.is_absolute():
        raise Invalid("Enter the absolute path of the folder, beginning with /.", code="folder_not_allowed")
    real = path.resolve()
    if not any(real == root or root in real.parents for root in roots):
        where = ", ".join(settings.FAIRSHARE_COLLECT_FOLDERS) or "none so far"
        message = f"Folders must be below those in FAIRSHARE_COLLECT_FOLDERS ({where})."
        raise Invalid(message, code="folder_not_allowed")
    if not os.path.isdir(real):
        raise Invalid(f"There is no folder {name}, or it can't be read.", code="no_folder")
    return real


def list_files(folder: Path, wanted: Callable[[str, int], bool]) -> list[FolderFile]:
    """List matching regular files, oldest first.

    Raises:
        Invalid: the folder has too many entries.
    """
    files = []
    with os.scandir(folder) as entries:
        for n, entry in enumerate(entries):
            if n >= MOST_FILES:
                raise Invalid(f"The folder has over {MOST_FILES} files: move old ones away.", code="too_many_files")
            if not entry.is_file(follow_symlinks=False) or not wanted(entry.name, entry.inode()):
                continue
            status = entry.stat(follow_symlinks=False)
            files.append(FolderFile(folder / entry.name, status.st_ino, status.st_size, status.st_mtime_ns))
    return sorted(files, key=lambda file: (file.mtime_ns, file.path.name))


def matches(name: str, pattern: str) -> bool:
    is_hidden = name.startswith(".") or name.endswith(_UNFINISHED)
    return not is_hidden and fnmatch.fnmatchcase(name, pattern)


def open_regular(path: Path) -> IO[bytes]:
    """Open a regular file.

    Raises:
        OSError: it does not exist, or is a link or another special file.
    """
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path.name} is not a regular file")
    return file


def open_file_state(file: IO[bytes], path: Path) -> FolderFile:
    status = os.fstat(file.fileno())
    return FolderFile(path, status.st_ino, status.st_size, status.st_mtime_ns)


def collect_grown_files(
    folder: Path, terms: dict[str, Any], cursor: dict[str, Any], reading: Reading
) -> Iterator[Piece]:
    """Collect complete lines that were appended since. Packed files are skipped: they are rotated ones, already
    read.
    """
    followed: list[Followed] = list(cursor.get("followed", []))
    inodes = {followed_file["inode"] for followed_file in followed}
    files = list_files(folder, lambda name, inode: matches(name, terms["pattern"]) or inode in inodes)
    pairs = _match_followed(files, followed)
    matched = [known for _one, known in pairs if known is not None]
    gone = [
        old
        for old in followed
        if all(
            old["offset"] != matched_file["offset"] or old["tail"] != matched_file["tail"] for matched_file in matched
        )
    ]
    progress = Progress({**cursor, "followed": [*gone[-MOST_GONE:], *matched], "problems": {}})
    for folder_file, known in pairs:
        try:
            with open_regular(folder_file.path) as file:
                yield from _collect_grown_file(
                    file, open_file_state(file, folder_file.path), known, terms, progress, reading
                )
        except FileNotFoundError:
            continue
        except (DomainError, OSError) as error:
            why = error.message if isinstance(error, DomainError) else f"it can't be opened ({type(error).__name__})"
            yield progress.step(problems={**progress.cursor["problems"], folder_file.path.name: why[:300]})
    if progress.cursor["problems"] != cursor.get("problems", {}):
        yield progress.step()


def _match_followed(files: list[FolderFile], followed: list[Followed]) -> list[tuple[FolderFile, Followed | None]]:
    """Pair each file with its cursor entry: by inode first, then copies of truncated or removed files."""
    known: dict[Path, Followed] = {}
    left = list(followed)
    for is_same in (lambda folder_file, old: folder_file.inode == old["inode"], lambda folder_file, old: True):
        for folder_file in files:
            if folder_file.path in known:
                continue
            for old in left:
                if is_same(folder_file, old) and _continues(folder_file, old):
                    known[folder_file.path] = {**old, "name": folder_file.path.name, "inode": folder_file.inode}
                    left.remove(old)
                    break
    return [(folder_file, known.get(folder_file.path)) for folder_file in files]


def _continues(folder_file: FolderFile, old: Followed) -> bool:
    if folder_file.n_bytes < old["offset"]:
        return False
    try:
        with open_regular(folder_file.path) as file:
            return _fingerprint(file, old["offset"], old["n_head"]) == {key: old[key] for key in _FINGERPRINT}
    except OSError:
        return False


def _fingerprint(file: IO[bytes], offset: int, n_head: int | None = None) -> dict[str, Any]:
    n_head = min(offset, _MARK) if n_head is None else n_head
    n_tail = min(offset, _MARK)
    file.seek(0)
    head = file.read(n_head)
    file.seek(offset - n_tail)
    tail = file.read(n_tail)
    return {"n_head": n_head, "head": _digest(head), "n_tail": n_tail, "tail": _digest(tail)}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _collect_grown_file(
    file: IO[bytes],
    folder_file: FolderFile,
    known: Followed | None,
    terms: dict[str, Any],
    progress: Progress,
    reading: Reading,
) -> Iterator[Piece]:
    begin = known["offset"] if known else 0
    end = _whole_lines_end(file, begin, folder_file.n_bytes)
    if end <= begin:
        if not begin:
            file.seek(0)
            if b"\r" in file.read(_HEAD)[:-1]:  # the last may be half a line end
                raise Invalid("Its lines end by carriage returns alone: write them with line feeds.", code="line_ends")
        return
    file.seek(0)
    head = file.read(min(_HEAD, end))
    if packing_of(head) is not None:
        return
    collector = FORMATS.get(known["format"]) if known else None
    collector = collector or format_of(terms["format"], head)
    stream = cast(BinaryIO, io.BufferedReader(_TruncatedFile(file, end)))
    resume = known["resume"] if known else None
    for parsed in parse_checked(collector, stream, reading, head=head, resume=resume):
        now: Followed = {
            "name": folder_file.path.name,
            "inode": folder_file.inode,
            "offset": parsed.offset,
            "resume": parsed.resume,
        }
        now |= {"format": collector.name, **_fingerprint(file, parsed.offset)}
        others = [old for old in progress.cursor["followed"] if old is not known and old["inode"] != folder_file.inode]
        known = now
        yield progress.add(parsed, folder_file.path.name, collector, followed=[*others, now])


def _whole_lines_end(file: IO[bytes], begin: int, size: int) -> int:
    """Position behind the last line end in [begin, size): later bytes are still being written."""
    end = size
    while end > begin:
        start = max(begin, end - _HEAD)
        file.seek(start)
        line_end = file.read(end - start).rfind(b"\n")
        if line_end >= 0:
            return start + line_end + 1
        end = start
    return begin


class _TruncatedFile(io.RawIOBase):
    """A view of the first `end` bytes of a file."""

    def __init__(self, file: IO[bytes], end: int) -> None:
        self._file, self._end = file, end
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._end}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        self._file.seek(self._position)
        data = self._file.read(max(0, min(len(buffer), self._end - self._position)))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
