"""Write the file from which a submit script gives a new job its first value: one line an account, and one more for
each partition in which the account has another value.

The first line is `# ` and the second since 1970 at which it was written, so that a script can ignore an old file.
"""

import os
import tempfile
from collections import Counter
from typing import Dict, Iterator

from agent.records import Account, Asked

MOST_ACCOUNTS = 100_000


class FirstValues:
    """The values by account; accounts stay after their last pending job, because they will submit again."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._values: Dict[Asked, int] = {}

    def update(self, values: Dict[Asked, int], now: float) -> None:
        """Update the file. Raises: OSError, and the file is unchanged."""
        self._values.update(values)
        if len(self._values) > MOST_ACCOUNTS:
            self._values = dict(values)
        write(self.path, self._values, now)


def write(path: str, values: Dict[Asked, int], now: float) -> None:
    """Replace the file atomically; it is readable by everyone."""
    lines = [f"# {now:.0f}\n", *_lines(values)]
    handle, name = tempfile.mkstemp(prefix=".first-values.", dir=os.path.dirname(os.path.abspath(path)))
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.writelines(lines)
            os.fchmod(file.fileno(), 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _lines(values: Dict[Asked, int]) -> Iterator[str]:
    by_account: Dict[Account, Dict[str, int]] = {}
    for (user, group, partition), value in sorted(values.items()):
        by_account.setdefault((user, group), {})[partition] = value
    for (user, group), of_partitions in by_account.items():
        n_alike = Counter(of_partitions.values())
        usual = max(n_alike, key=lambda value: (n_alike[value], value))
        yield f"{user}|{group}|{usual:d}\n"
        for partition, value in of_partitions.items():
            if value != usual:
                yield f"{user}|{group}|{partition}|{value:d}\n"
