"""Write the file from which a submit script gives a new job its first value: one line an account, and one more for
each partition in which the account has another value.

The first line is `# ` and the second since 1970 at which it was written; the second line is `# until ` and the second
up to which it may be used: a script leaves an older file alone.
"""

from collections import Counter
from typing import Dict, Iterator, Optional

from agent.files import replace_file
from agent.records import Account, Asked


def write(path: str, values: Dict[Asked, int], now: float, until: Optional[float] = None) -> None:
    """Replace the file atomically; it is readable by everyone. Raises: OSError, and the file is unchanged."""
    limit = [] if until is None else [f"# until {until:.0f}\n"]
    lines = [f"# {now:.0f}\n", *limit, *_lines(values)]
    replace_file(path, "".join(lines).encode("ascii"), 0o644)


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
