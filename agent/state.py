"""The agent's table of values that it set: one file, replaced atomically, so that kill -9 leaves the old or the new.

Before a pass sends, values are written as intended; afterwards, those that were set are confirmed. An intended value
counts as unknown in the next pass, so it is compared with the scheduler or sent again; it is reset, too.
"""

import errno
import fcntl
import json
import os
import tempfile
from typing import Any, Dict, Iterable, List, Optional, Tuple

from agent.records import Refused

FILE, LOCK = "table.json", "lock"
# A listing may omit a job while it is requeued; after this many listings without it a job counts as gone.
MISSES = 3
_FORMAT = 1
_VALUE, _CONFIRMED, _MISSED = range(3)


class Table:
    """Values by job. `facts`: scheduler, kind, knob, and the last pass."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.facts: Dict[str, Any] = {}
        self.was_broken = False
        self._rows: Dict[str, List[int]] = {}
        self._written = b""

    # --- Rows
    def __contains__(self, job: str) -> bool:
        return job in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def jobs(self) -> List[str]:
        return list(self._rows)

    def value(self, job: str) -> Optional[int]:
        row = self._rows.get(job)
        return None if row is None else row[_VALUE]

    def confirmed(self, job: str) -> Optional[int]:
        row = self._rows.get(job)
        return row[_VALUE] if row is not None and row[_CONFIRMED] else None

    def intend(self, values: Iterable[Tuple[str, int]]) -> None:
        for job, value in values:
            self._rows[job] = [value, 0, 0]

    def confirm(self, jobs: Iterable[str]) -> None:
        for job in jobs:
            if job in self._rows:
                self._rows[job][_CONFIRMED] = 1

    def forget(self, jobs: Iterable[str]) -> None:
        for job in jobs:
            self._rows.pop(job, None)

    def compare(self, current: Dict[str, int]) -> int:
        """Confirm intended values that the scheduler lists; return how many confirmed values it lists differently.

        If it lost some, it may also have lost values that it doesn't list (held jobs): they are no longer confirmed.
        """
        differ = 0
        for job, value in current.items():
            row = self._rows.get(job)
            if row is None:
                continue
            if row[_VALUE] == value:
                row[_CONFIRMED] = 1
            else:
                differ += row[_CONFIRMED]
        if differ:
            for job in self._rows.keys() - current.keys():
                self._rows[job][_CONFIRMED] = 0
        return differ

    def seen(self, known: "frozenset[str]") -> None:
        """Forget jobs that several successive complete listings have omitted."""
        for job, row in list(self._rows.items()):
            row[_MISSED] = 0 if job in known else row[_MISSED] + 1
            if row[_MISSED] >= MISSES:
                del self._rows[job]

    # --- File
    def load(self) -> None:
        """Load the table; a damaged file is renamed, and values are compared with the scheduler and set again."""
        path = os.path.join(self.folder, FILE)
        try:
            with open(path, "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return
        except OSError as error:
            raise Refused(f"{path} can't be read: {error.strerror}.")
        try:
            self.facts, self._rows = _read(content)
            self._written = content
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            self.was_broken = True
            os.replace(path, path + ".broken")

    def save(self) -> None:
        """Write the table if it changed. Raises: OSError, and the file is unchanged."""
        content = json.dumps(
            {"format": _FORMAT, "facts": self.facts, "rows": self._rows}, sort_keys=True, separators=(",", ":")
        ).encode()
        if content == self._written:
            return
        handle, name = tempfile.mkstemp(prefix=FILE + ".", dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, os.path.join(self.folder, FILE))
        except BaseException:
            os.unlink(name)
            raise
        _sync_folder(self.folder)
        self._written = content


def _read(content: bytes) -> Tuple[Dict[str, Any], Dict[str, List[int]]]:
    document = json.loads(content.decode())
    if document["format"] != _FORMAT or not isinstance(document["facts"], dict):
        raise ValueError("another format")
    rows = {}
    for job, row in document["rows"].items():
        value, confirmed, missed = row
        rows[str(job)] = [int(value), int(bool(confirmed)), int(missed)]
    return document["facts"], rows


def peek(folder: str) -> Table:
    """The table as it is, for commands that change nothing; empty if it is absent, damaged, or another user's."""
    table = Table(folder)
    try:
        with open(os.path.join(folder, FILE), "rb") as file:
            table.facts, table._rows = _read(file.read())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        pass
    return table


def open_table(folder: str) -> Table:
    """Open the table, and create its folder. Raises: Refused if that fails, or if others may write to it."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        state = os.stat(folder)
    except OSError as error:
        raise Refused(f"{folder} can't be made: {error.strerror}. Give another folder with --state.")
    if state.st_mode & 0o022 or state.st_uid not in (os.geteuid(), 0):
        raise Refused(f"Others may write in {folder}: it has to be the agent's alone (chmod 700).")
    _remove_left_over(folder)
    table = Table(folder)
    table.load()
    return table


def _remove_left_over(folder: str) -> None:
    """Remove temporary files of an agent that was killed while writing."""
    for name in os.listdir(folder):
        if name.startswith(FILE + ".") and not name.endswith(".broken"):
            try:
                os.unlink(os.path.join(folder, name))
            except OSError as error:
                if error.errno != errno.ENOENT:
                    raise Refused(f"{os.path.join(folder, name)} can't be removed: {error.strerror}.")


def lock(folder: str) -> int:
    """Lock the table for one agent; the system releases the lock when the process ends."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    handle = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise Refused(f"Another agent works with {folder}. Stop it first: systemctl stop fairshare-agent")
    return handle


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
