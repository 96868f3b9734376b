"""Numbers and times as Slurm prints them."""

import re
from typing import Optional

from agent.names import shown

MOST_COUNT = 10**9  # of processors or nodes; more is no count
UNIT = re.compile(r"(\d{1,9}(?:\.\d{1,2})?)([KMGTP])", re.ASCII)
INTEGER = re.compile(r" *-?[0-9]{1,19} *")
SECONDS = re.compile(r"[0-9]{1,11}")


def integer(text: str) -> int:
    """Raises: ValueError for anything that Slurm doesn't print as a number."""
    if not INTEGER.fullmatch(text):
        raise ValueError(f"no number: {shown(text)}")
    return int(text)


def count(text: str) -> int:
    """A number of squeue, with a unit letter from 1,024 on: 1K is 1024, 1.50K is 1536.

    Raises: ValueError for anything else, and for more than MOST_COUNT.
    """
    match = UNIT.fullmatch(text)
    if match is None:
        number = integer(text)
    else:
        number = int(float(match.group(1)) * 1024 ** ("KMGTP".index(match.group(2)) + 1))
    if number > MOST_COUNT:
        raise ValueError(f"more than {MOST_COUNT}: {shown(text)}")
    return number


def number_or_none(text: str) -> Optional[int]:
    """A number from 0 on; None for anything else."""
    try:
        number = count(text)
    except ValueError:
        return None
    return number if number >= 0 else None


def instant(text: str) -> Optional[float]:
    return float(text) if SECONDS.fullmatch(text) else None
