"""Meaning of Slurm's job states: a base such as COMPLETED, and flags such as REQUEUED.

Text names one word, in which a flag hides the base. Data parsers from v0.0.40 on list the base and all flags; a base
that isn't stored reads PENDING. Source: slurm/slurm.h; job_state_string in common/slurm_protocol_defs.c; the flags of
data_parser.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

# BY_TIMES: the job's times decide. PART: like BY_TIMES; with an end it is a part of a resized job, which goes on in
# another row. NEVER_RAN: it is over, and ran elsewhere or not at all.
ENDED, RUNNING_NOW, WAITING, BY_TIMES, PART, NEVER_RAN = range(6)

_ENDED_BASES = frozenset(
    (
        *("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE"),
        "OUT_OF_MEMORY",
    )
)
_RUNNING_BASES = frozenset(("RUNNING", "SUSPENDED"))
_BASES = _ENDED_BASES | _RUNNING_BASES | {"PENDING"}
_LEAVING = frozenset(("COMPLETING", "STAGE_OUT"))  # of a job whose base isn't known, and that may wait for a new run
_OF_RUNNING_JOBS = frozenset(("CONFIGURING", "RESIZING", "STOPPED", "SIGNALING", "POWER_UP_NODE"))
_OF_WAITING_JOBS = frozenset(
    (
        *("REQUEUED", "REQUEUED_CRON", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"),
        *("LAUNCH_FAILED", "RECONFIG_FAIL", "EXPEDITING", "UPDATE_DB"),
    )
)
_WORDS = _BASES | _LEAVING | _OF_RUNNING_JOBS | _OF_WAITING_JOBS | {"REVOKED"}
_SEPARATOR = re.compile(r"[,\s]+")


def accounted_meaning(state: Any) -> int | None:
    """Meaning of a state of the accounting database, given as a word or a list; None if no word of it is known.

    slurmdbd stores a flag only when a run ends, and then one of RESIZING, REQUEUED and REVOKED without a base.
    """
    return _accounted(words_of(state))


def listed_meaning(state: Any) -> int | None:
    """Meaning of a state of a live job, given as a word or a list; None if no word of it is known.

    The base decides: an earlier run of a requeued job may still be completing while the job waits.
    """
    return _listed(words_of(state))


def words_of(state: Any) -> frozenset[str]:
    """The words of a state in any order: `CANCELLED by 1000` is CANCELLED, and `OUT_OF_ME+` is written out."""
    texts = state if isinstance(state, list) else [state]
    return frozenset(word for text in texts if isinstance(text, str) for word in _words(text))


@lru_cache(maxsize=4096)
def _words(text: str) -> tuple[str, ...]:
    head = text.partition(" by ")[0]
    return tuple(_written_out(word) for word in _SEPARATOR.split(head.strip().upper()) if word)


def _written_out(word: str) -> str:
    """A word that a narrow column cut is completed if only one state begins like it."""
    if not word.endswith("+"):
        return word
    begin = word.rstrip("+")
    possible = [known for known in _WORDS if known.startswith(begin)]
    return possible[0] if len(possible) == 1 else begin


@lru_cache(maxsize=4096)
def _accounted(words: frozenset[str]) -> int | None:
    known, bases = words & _WORDS, words & _BASES
    if not known:
        return None
    if "REVOKED" in words:
        return NEVER_RAN
    if "RESIZING" in words:
        return PART
    if bases & _ENDED_BASES or "REQUEUED" in words:
        return ENDED
    if bases & _RUNNING_BASES:
        return RUNNING_NOW
    return WAITING if words == {"PENDING"} else BY_TIMES


@lru_cache(maxsize=4096)
def _listed(words: frozenset[str]) -> int | None:
    known, bases = words & _WORDS, words & _BASES
    if not known:
        return None
    if "REVOKED" in words:
        return NEVER_RAN
    if bases & _ENDED_BASES:
        return ENDED
    if bases & _RUNNING_BASES:
        return RUNNING_NOW
    if bases:
        return WAITING
    if words & _LEAVING:
        return BY_TIMES
    return RUNNING_NOW if words & _OF_RUNNING_JOBS else WAITING
