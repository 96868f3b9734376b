"""Write the file from which a submit script gives a new job its first value: one line an account.

The first line is `# ` and the second since 1970 at which it was written, so that a script can ignore an old file.
"""

import os
import tempfile
from typing import Dict

from agent.records import Account

MOST_ACCOUNTS = 100_000


class FirstValues:
    """The values by account; accounts stay after their last pending job, because they will submit again."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._values: Dict[Account, int] = {}

    def update(self, values: Dict[Account, int], now: float) -> None:
        """Update the file. Raises: OSError, and the file is unchanged."""
        self._values.update(values)
        if len(self._values) > MOST_ACCOUNTS:
            self._values = dict(values)
        write(self.path, self._values, now)


def write(path: str, values: Dict[Account, int], now: float) -> None:
    """Replace the file atomically; it is readable by everyone."""
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
