"""The file from which a submit script gives a new job its first value, until the next pass: one line an account.

The first line is `# ` and the second of 1970 at which it was written, so that a script can leave an old file alone.
"""

import os
import tempfile
from typing import Dict

from agent.records import Account

MOST_ACCOUNTS = 100_000


class FirstValues:
    """Accounts stay in it after their last pending job, for they submit again."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._values: Dict[Account, int] = {}

    def update(self, values: Dict[Account, int], now: float) -> None:
        """Raises: OSError, and the file is as it was."""
        self._values.update(values)
        if len(self._values) > MOST_ACCOUNTS:
            self._values = dict(values)
        write(self.path, self._values, now)


def write(path: str, values: Dict[Account, int], now: float) -> None:
    """Replaced as a whole; everybody may read it."""
    lines = [f"# {now:.0f}\n", *(f"{user}|{group}|{value:d}\n" for (user, group), value in sorted(values.items()))]
    handle, name = tempfile.mkstemp(prefix=".first-values.", dir=os.path.dirname(os.path.abspath(path)))
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.writelines(lines)
            os.fchmod(file.fileno(), 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
