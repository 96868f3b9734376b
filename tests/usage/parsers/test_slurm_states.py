"""States of Slurm's jobs in every release, as its source prints them (tests/golden/slurm/states.json)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps.usage.parsers.base import FINISHED, PENDING, RUNNING, WITHDRAWN
from apps.usage.parsers.sacct_json import SacctJson
from apps.usage.parsers.slurm_queue import SlurmQueue
from tests.each_case import each_case
from tests.usage.parsers.slurm_files import READING, read, sacct, states

T0 = 1_767_225_600
OPEN, OVER, NEVER = "open", "over", "never"
UNSET = {"set": False, "infinite": False, "number": 0}


def outcome(found: Any) -> str:
    """Of a file with one job: whether it is over with usage, over without, or still there."""
    assert found.rejections == []
    waiting, running, finished, withdrawn = states(found.batch)
    return {(1, 0, 0, 0): OPEN, (0, 1, 0, 0): OPEN, (0, 0, 1, 0): OVER, (0, 0, 0, 1): NEVER}[
        (waiting, running, finished, withdrawn)
    ]


def accounted_in_text(state: str, *, ended: bool) -> Any:
    given = {"State": state} | ({} if ended else {"End": "Unknown"})
    return read(sacct(given))


def accounted_in_json(*given: Any, ended: bool) -> Any:
    """A document with one job for each state."""
    jobs = [_accounted(number, state, ended=ended) for number, state in enumerate(given, start=5001)]
    return read(json.dumps({"jobs": jobs, "errors": []}), READING, SacctJson())


def _accounted(number: int, state: Any, *, ended: bool) -> dict[str, Any]:
    return {
        "job_id": number,
        "cluster": "fram",
        "user": "ada",
        "account": "physics",
        "state": {"current": state, "reason": "None"},
        "time": {"submission": T0, "start": T0 + 60, "end": T0 + 3660 if ended else 0, "elapsed": 3600},
        "tres": {
            "allocated": [{"type": "cpu", "name": "", "count": 8}, {"type": "node", "name": "", "count": 1}],
            "requested": [],
        },
    }


def listed(*given: Any, ended: bool) -> Any:
    """A listing with one job for each state."""
    jobs = [_listed(number, state, ended=ended) for number, state in enumerate(given, start=5001)]
    return read(json.dumps({"jobs": jobs, "errors": []}), READING, SlurmQueue())


def _listed(number: int, state: Any, *, ended: bool) -> dict[str, Any]:
    return {
        "job_id": number,
        "cluster": "fram",
        "user_name": "ada",
        "account": "physics",
        "job_state": state,
        "submit_time": T0,
        "start_time": T0 + 60,
        "end_time": T0 + 3660 if ended else 0,
        "tres_alloc_str": "cpu=8,node=1",
        "tres_req_str": "cpu=8,node=1",
    }


def test_every_state_of_every_release_means_what_its_source_says(golden_dir: Path) -> None:
    rows = json.loads((golden_dir / "slurm/states.json").read_text(encoding="utf-8"))["rows"]
    readers: dict[str, Callable[..., Any]] = {
        "sacct-text": accounted_in_text,
        "sacct-json": accounted_in_json,
        "squeue-json": listed,
    }
    wrong = []
    for row in rows:
        expected = OPEN if not row["ended"] else OVER if row["usage_counts"] else NEVER
        found = readers[row["source"]](row["printed"], ended=row["ended"])
        if outcome(found) != expected or "state_unknown" in found.notes:
            wrong.append((row["source"], row["printed"], outcome(found), expected))
    assert wrong == []
    assert len(rows) == 116


def test_waiting_and_running_jobs_are_distinguished(golden_dir: Path) -> None:
    rows = json.loads((golden_dir / "slurm/states.json").read_text(encoding="utf-8"))["rows"]
    for row in rows:
        if row["source"] != "squeue-json" or row["ended"]:
            continue
        expected = [0, 1, 0, 0] if row["usage_counts"] else [1, 0, 0, 0]
        assert states(listed(row["printed"], ended=False).batch) == expected, row


BASES = (
    *("PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED"),
    *("BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"),
)
FLAGS = (
    *("LAUNCH_FAILED", "UPDATE_DB", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESIZING", "CONFIGURING"),
    *("COMPLETING", "STOPPED", "RECONFIG_FAIL", "POWER_UP_NODE", "REVOKED", "REQUEUE_FED", "RESV_DEL_HOLD"),
    *("SIGNALING", "STAGE_OUT", "EXPEDITING"),
)


@pytest.mark.parametrize("base", BASES)
def test_every_base_with_any_two_flags_in_any_order_is_read(base: str) -> None:
    """With an end a row of accounting is over, except of a job that runs: REST gives it the time of the request."""
    orders, accounted, queued = [], [], []
    for flags in itertools.combinations(FLAGS, 2):
        is_over = base not in ("RUNNING", "SUSPENDED") or bool({"REQUEUED", "RESIZING"} & set(flags))
        for order in itertools.permutations([base, *flags]):
            orders.append(list(order))
            accounted.append(WITHDRAWN if "REVOKED" in flags else FINISHED if is_over else RUNNING)
            live = FINISHED if base in BASES[3:] else PENDING if base == "PENDING" else RUNNING
            queued.append(WITHDRAWN if "REVOKED" in flags else live)
    assert accounted_in_json(*orders, ended=True).batch.state.tolist() == accounted
    assert listed(*orders, ended=True).batch.state.tolist() == queued


@each_case("flag", FLAGS)
def test_a_single_word_hides_the_base(flag: str) -> None:
    """As text and data parsers before v0.0.40 print it."""
    expected = NEVER if flag == "REVOKED" else OVER
    assert outcome(accounted_in_text(flag, ended=True)) == expected
    assert outcome(accounted_in_json(flag, ended=True)) == expected
    live = accounted_in_json(flag, ended=False)
    if flag not in ("REQUEUED", "REVOKED"):
        assert outcome(live) == OPEN


@pytest.mark.parametrize("state", ["OUT_OF_ME+", "CANCELLED+", "REQUEUE_F+", "completed", "COMPLETED,COMPLETING"])
def test_cut_words_other_cases_and_joined_words_are_read(state: str) -> None:
    found = accounted_in_text(state, ended=True)
    assert (outcome(found), found.notes) == (OVER, {})
