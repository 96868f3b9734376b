"""Billing as Slurm charges it: exactly from TRESBillingWeights, where its records are cut to whole numbers."""

from __future__ import annotations

import io
import json
import math
from datetime import UTC, datetime

import numpy as np
import pytest

from apps.usage.parsers.base import Parsed, Reading
from apps.usage.parsers.registry import FORMATS
from apps.usage.parsers.slurm_billing import BillingWeights, fits_recorded, read_weights

AT = datetime(2026, 11, 26, tzinfo=UTC)
SUM = BillingWeights({"cpu": "CPU=1.0,Mem=0.25G", "gpu": "CPU=0.5,Mem=0.125G,GRES/gpu=8.5"})
HEADER = "JobIDRaw|User|Account|Partition|Submit|Start|End|State|AllocCPUS|AllocTRES\n"
ROW = "{job}|ann|a|{partition}|1767225600|1767225660|1767225720|COMPLETED|1|{tres}\n"


def parse(rows: str, weights: BillingWeights, format: str = "sacct") -> Parsed:
    (found,) = FORMATS[format].parse(io.BytesIO(rows.encode()), Reading(AT, billing=weights))
    return found


def rows(*given: tuple[str, str]) -> str:
    return HEADER + "".join(
        ROW.format(job=job, partition=partition, tres=tres) for job, (partition, tres) in enumerate(given, 1)
    )


def test_each_job_is_billed_by_its_partition() -> None:
    found = parse(
        rows(
            ("cpu", "billing=1,cpu=1,mem=2000M,node=1"),
            ("gpu", "billing=9,cpu=1,gres/gpu:a100=1,gres/gpu=1,mem=2000M,node=1"),
            ("other", "billing=1,cpu=1,mem=2000M,node=1"),  # without weights: CPUs
            ("cpu", "cpu=1,mem=1.50G,node=1"),  # recorded without billing
        ),
        SUM,
    )
    assert found.batch.billing.tolist() == [1 + 0.25 * 2000 / 1024, 0.5 + 0.125 * 2000 / 1024 + 8.5, 1.0, 1.375]
    assert not found.notes


def test_weights_that_do_not_give_what_slurm_recorded_leave_the_record() -> None:
    found = parse(rows(("cpu", "billing=3,cpu=1,mem=2000M,node=1"), ("cpu", "billing=0,cpu=1,mem=2000M,node=1")), SUM)
    assert found.batch.billing.tolist() == [3.0, 0.0]
    assert found.notes == {"billing_differs": 2}


def test_without_weights_the_loss_is_noted() -> None:
    given = rows(("cpu", "billing=0,cpu=1,mem=2000M"), ("cpu", "billing=1,cpu=1,mem=20M"), ("gpu", "cpu=1,mem=2000M"))
    found = parse(given, BillingWeights())
    assert (found.batch.billing.tolist(), found.notes) == ([0.0, 1.0, 0.0], {"billing_whole": 2})


def test_json_of_accounting_and_of_the_queue_has_exact_billing() -> None:
    tres = [("cpu", "", 1), ("mem", "", 2000), ("node", "", 1), ("billing", "", 1), ("gres", "gpu", 0)]
    job = {
        "job_id": 1,
        "user": "ann",
        "partition": "cpu",
        "state": {"current": ["COMPLETED"]},
        "time": {"submission": 1767225600, "start": 1767225660, "end": 1767225720},
        "tres": {"allocated": [{"type": kind, "name": name, "count": n} for kind, name, n in tres]},
    }
    found = parse(json.dumps({"jobs": [job]}), SUM, "sacct-json")
    assert found.batch.billing.tolist() == [1.48828125]
    running = {
        **{"job_id": 2, "user_name": "ann", "partition": "cpu", "job_state": "RUNNING", "submit_time": 1767225600},
        **{"start_time": 1767225660, "cpus": 1, "tres_alloc_str": "cpu=1,mem=2000M,node=1,billing=1"},
    }
    listed = json.dumps({"jobs": [{**running, "billable_tres": 1.48828125}, {**running, "job_id": 3}]})
    found = parse(listed, BillingWeights(), "squeue-json")
    assert found.batch.billing.tolist() == [1.48828125, 1.0]


@pytest.mark.parametrize(
    ("flag", "billing"),
    [("", 4 + 2 + 2 * 2 + 5), ("MAX_TRES", max(4, 2, 4) + 5), ("MAX_TRES_GRES", max(4, 2) + 4 + 5)],
)
def test_flags_charge_the_largest_resource_of_the_node(flag: str, billing: float) -> None:
    weights = BillingWeights({"p": "CPU=1.0,Mem=0.25G,GRES/gpu=2.0,License/x=5"}, flag)
    amounts = [("cpu", 4.0), ("mem", 8192.0), ("node", 1.0), ("gres/gpu", 2.0), ("license/x", 1.0), ("billing", 9.0)]
    assert weights.billing_of("p", amounts) == pytest.approx(billing)


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("CPU=1.0,Mem=0.25G", {"cpu": 1.0, "mem": 0.25 / 1024}),
        ("mem=1M,cpu=1", {"mem": 1.0, "cpu": 1.0}),
        ("Mem=1K", {"mem": 1.0}),  # below the base
        ("Mem=2T", {"mem": 2 / 1024**2}),
        ("BB/cray=1G,Node=2K", {"bb/cray": 1 / 1024, "node": 2 / 1024}),
        ("GRES/gpu:A100=4,GRES/gpu=.5,energy=1e-3", {"gres/gpu:a100": 4.0, "gres/gpu": 0.5, "energy": 0.001}),
        ("", {}),
    ],
)
def test_weights_are_read_with_their_units(text: str, weights: dict[str, float]) -> None:
    assert read_weights(text) == pytest.approx(weights)


@pytest.mark.parametrize("text", ["CPU", "CPU=", "CPU=one", "CPU=1X", "=1", "CPU=1;Mem=2"])
def test_other_texts_are_no_weights(text: str) -> None:
    with pytest.raises(ValueError, match="is not a weight"):
        read_weights(text)


@pytest.mark.parametrize("text", ["CPU=1e999", "Mem=1e16", "CPU=-1e999,Mem=1e999", "Mem=" + "1" * 400])
def test_a_weight_with_which_sums_may_be_infinite_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is a weight beyond 1e"):
        read_weights(text)
    assert read_weights("CPU=1e15,Mem=-1e15") == {"cpu": 1e15, "mem": -1e15}


@pytest.mark.parametrize("data", [[], {"partition": {}}, {"partitions": {"a": 1}}, {"flag": "MAX"}, {"flag": 1}])
def test_stored_weights_are_checked(data: object) -> None:
    with pytest.raises(ValueError, match=r"partitions|flag"):
        BillingWeights.from_json(data)


def test_sums_of_doubles_fit_what_slurm_recorded() -> None:
    exact = BillingWeights({"p": "CPU=0.3,Mem=0.1G"}).billing_of("p", [("cpu", 3.0), ("mem", 1024.0)])
    recorded = np.array([0.0, 1.0, math.nan, 2.0])
    assert fits_recorded(np.full(4, exact), recorded).tolist() == [True, True, True, False]
