"""How Slurm says states, durations, limits and trackable resources (TRES), in text and in JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

# What a state says of a job. BY_TIMES: it doesn't, but the job's times do.
ENDED, RUNNING_NOW, WAITING, BY_TIMES = range(4)

_ENDED = (
    *("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE"),
    *("OUT_OF_MEMORY", "REQUEUED", "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL"),
)
_RUNNING = ("RUNNING", "SUSPENDED", "RESIZING", "CONFIGURING", "SIGNALING", "STOPPED", "POWER_UP_NODE")
_WAITING = ("PENDING", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
_BY_TIMES = ("COMPLETING", "STAGE_OUT")  # over when it has an end
_MEANINGS = {
    **dict.fromkeys(_ENDED, ENDED),
    **dict.fromkeys(_RUNNING, RUNNING_NOW),
    **dict.fromkeys(_WAITING, WAITING),
    **dict.fromkeys(_BY_TIMES, BY_TIMES),
}

_DURATION = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,6}):(\d{1,2})(?:\.\d{1,6})?")
_AMOUNT = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)([KMGTPE]?)")
_SCALE = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}  # powers of 1024
_NO_LIMIT = frozenset(("", "UNLIMITED", "Partition_Limit", "INVALID", "Invalid", "None", "Unknown"))


class Tres(NamedTuple):
    """Resources of a job; NaN where the text doesn't name one."""

    cpus: float = math.nan
    gpus: float = math.nan
    mem_mb: float = math.nan
    nodes: float = math.nan
    billing: float = math.nan


def meaning_of(state: str) -> int | None:
    """What a state like `CANCELLED by 1000` says; None when it is not one of Slurm's."""
    words = state.split()
    return _MEANINGS.get(words[0].rstrip("+").upper()) if words else None


def meaning_of_states(value: Any) -> int | None:
    """States and flags of JSON, in which newer versions give a list."""
    states = value if isinstance(value, list) else [value]
    meanings = [meaning_of(state) for state in states if isinstance(state, str)]
    if BY_TIMES in meanings:
        return ENDED if ENDED in meanings else BY_TIMES
    return meanings[0] if meanings else None


def read_duration_s(text: str) -> float:
    """Seconds of `[days-][hours:]minutes:seconds[.fraction]`, or of a plain number of seconds; whole ones.

    Raises:
        ValueError: it is neither.
    """
    if text.isascii() and text.isdigit() and len(text) <= 12:
        return float(text)
    found = _DURATION.fullmatch(text)
    if not found:
        raise ValueError(text)
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def read_limit_s(text: str) -> float:
    """Seconds of a time limit; NaN for none.

    Raises:
        ValueError: it is no limit.
    """
    return math.nan if text in _NO_LIMIT else read_duration_s(text)


def read_tres(text: str) -> Tres:
    """Of `billing=2,cpu=2,gres/gpu:a100=1,mem=4000M,node=1`. Typed devices count where their sum isn't given.

    Raises:
        ValueError: a part is no `name=amount`.
    """
    given: list[tuple[str, float]] = []
    for part in text.split(",") if text else ():
        name, equals, amount = part.partition("=")
        if not equals:
            raise ValueError(part)
        if name in _COUNTED or name.startswith(_TYPED_GPU):
            given.append((name, _amount(name, amount)))
    return sum_tres(given)


def sum_tres(given: Iterable[tuple[str, float]]) -> Tres:
    """Names as in text (`gres/gpu`, `gres/gpu:a100`), memory in MB."""
    amounts: dict[str, float] = {}
    typed = math.nan
    for name, amount in given:
        if name.startswith(_TYPED_GPU):
            typed = amount if math.isnan(typed) else typed + amount
        elif name in _COUNTED:
            amounts[name] = amount
    cpus, mem_mb, nodes, billing = (amounts.get(name, math.nan) for name in ("cpu", "mem", "node", "billing"))
    return Tres(cpus, amounts.get("gres/gpu", typed), mem_mb, nodes, billing)


def number_of(value: Any) -> float | None:
    """A number of Slurm's JSON: plain, or as {set, infinite, number}. None: unset, infinite or no number."""
    if isinstance(value, dict):
        if value.get("set") is False or value.get("infinite") is True:
            return None
        value = value.get("number")
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        return float(value)
    if type(value) not in (int, float) or not math.isfinite(value) or value in _NO_VALUES:
        return None
    return float(value)


def count_tasks(text: Any) -> int:
    """Tasks in `[0-3,7%2]`, `1-7:2` or, as bits, `0xF`; 1 for anything else."""
    if not isinstance(text, str) or not text or len(text) > _MOST_TASK_TEXT:
        return 1
    if _BITS.fullmatch(text):
        return max(int(text, 16).bit_count(), 1)
    n = 0
    for found in _TASKS.finditer(text.partition("%")[0]):
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        n += max((last - first) // max(step, 1) + 1, 0)
    return min(max(n, 1), _MOST_TASKS)


_MOST_TASK_TEXT = 64 * 1024
_MOST_TASKS = 10_000_000  # Slurm accepts 4 million in an array
_BITS = re.compile(r"0x[0-9A-Fa-f]{1,65000}")
_TASKS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?(?::(\d{1,9}))?")
_NO_VALUES = frozenset((0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF))  # unset, infinite
_COUNTED = frozenset(("cpu", "mem", "node", "billing", "gres/gpu"))
_TYPED_GPU = "gres/gpu:"


def _amount(name: str, text: str) -> float:
    found = _AMOUNT.fullmatch(text)
    if not found:
        raise ValueError(f"{name}={text}")
    number, suffix = float(found[1]), found[2]
    if name == "mem":  # megabytes where nothing else is said
        return number if not suffix else number * 1024.0 ** (_SCALE[suffix] - 2)
    return number * 1024.0 ** _SCALE[suffix]
