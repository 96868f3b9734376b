"""The agent's table of values that it set: one file, replaced atomically, so that kill -9 leaves the old or the new.

Before a pass sends, values are written as intended; afterwards, those that were set are confirmed. An intended value
counts as unknown in the next pass, so it is compared with the scheduler or sent again; it is reset, too.
"""

import errno
import fcntl
import json
import os
from typing import Any, Dict, Iterable, List, Optional, Tuple

from agent.files import replace_file
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
        self._wanted: Dict[str, int] = {}  # where it isn't the value that was set
        self._stays: Dict[str, float] = {}
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

    def wanted(self, job: str) -> Optional[int]:
        """The value that the site last wanted; the job may have another one, because its place is right with it."""
        return self._wanted.get(job, self.value(job))

    def note_wanted(self, values: Dict[str, int]) -> None:
        for job, value in values.items():
            if job in self._rows and self._rows[job][_VALUE] != value:
                self._wanted[job] = value
            else:
                self._wanted.pop(job, None)

    def stays_since(self, job: str, now: float) -> float:
        """Since when a value that moved isn't sent; never after `now`, if the clock went back."""
        return min(self._stays.get(job, now), now)

    def note_stays(self, jobs: Iterable[str], now: float) -> None:
        """Note all values that moved and are not sent."""
        self._stays = {job: self.stays_since(job, now) for job in jobs}

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
            self._wanted.pop(job, None)
            self._stays.pop(job, None)

    def compare(self, current: Dict[str, int], is_restarted: bool = False) -> int:
        """Confirm intended values that the scheduler lists; return how many confirmed values it lists differently.

        If it lost some, or restarted, it may also have lost values that it doesn't list (held jobs): they are no
        longer confirmed.
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
        if differ or is_restarted:
            for job in self._rows.keys() - current.keys():
                self._rows[job][_CONFIRMED] = 0
        return differ

    def seen(self, known: "frozenset[str]") -> None:
        """Forget jobs that several successive complete listings have omitted."""
        for row_job, row in self._rows.items():
            row[_MISSED] = 0 if row_job in known else row[_MISSED] + 1
        self.forget([job for job, row in self._rows.items() if row[_MISSED] >= MISSES])

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
            self._take(content)
            self._written = content
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            self.was_broken = True
            os.replace(path, path + ".broken")

    def peek(self) -> None:
        """Load the table for commands that change nothing; it stays empty if it can't be read."""
        try:
            with open(os.path.join(self.folder, FILE), "rb") as file:
                self._take(file.read())
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
            pass

    def _take(self, content: bytes) -> None:
        document = json.loads(content.decode())
        facts, rows = _read(document)
        wanted = {str(job): int(value) for job, value in document.get("wanted", {}).items()}
        stays = {str(job): float(since) for job, since in document.get("stays", {}).items()}
        self.facts, self._rows, self._wanted, self._stays = facts, rows, wanted, stays

    def save(self) -> None:
        """Write the table if it changed. Raises: OSError, and the file is unchanged."""
        document = {"format": _FORMAT, "facts": self.facts, "rows": self._rows}
        document.update(wanted=self._wanted, stays=self._stays)
        content = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        if content == self._written:
            return
        replace_file(os.path.join(self.folder, FILE), content)
        self._written = content


def _read(document: Any) -> Tuple[Dict[str, Any], Dict[str, List[int]]]:
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
    table.peek()
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
