"""Charges of jobs against a slow twin; their sums against the recompute of these jobs' buckets."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.policies.settings import PolicySettings
from apps.priorities.job_charge import JobCharge, JobFacts, charge_of
from apps.priorities.metering import (
    APPROACHES,
    AccountUsage,
    RecordedUsage,
    SourceRow,
    usage_of_accounts,
    usage_of_scope,
    window_of,
)
from apps.priorities.usage_factors import JobClassRow
from apps.usage import bucket_deltas
from apps.usage.arrays import OpenRecords, UsageArrays
from tests.examples import examples
from tests.oracles import job_charge as oracle

HOUR = 3600
AS_OF = 1_795_176_000 + 1_200  # 20 minutes into its hour
USERS = ("alice", "bob")
SOURCES = (SourceRow(1, "here", ""), SourceRow(2, "also-here", ""), SourceRow(3, "peer", "elsewhere"))
SITES = ("fast", "slow", "")
CLASSES = {1: JobClassRow(1, "", "", ""), 2: JobClassRow(2, "batch", "", "debug"), 3: JobClassRow(3, "gpu", "a100", "")}
NO_AGING = {"length_s": None, "aging": "none"}

_jobs = st.builds(
    lambda job_class, source, seconds, before, **rest: oracle.Job(
        source=source.slug,
        origin=source.origin,
        queue=job_class.queue,
        partition=job_class.partition,
        qos=job_class.qos,
        start=AS_OF - before,
        end=AS_OF - before + seconds,
        **rest,
    ),
    job_class=st.sampled_from(list(CLASSES.values())),
    source=st.sampled_from(SOURCES),
    user=st.sampled_from(USERS),
    site=st.sampled_from(SITES),
    state=st.sampled_from(["pending", "running", "finished", "finished"]),
    before=st.one_of(st.sampled_from([-1, 0, 1, 1_200, 1_201, 4_800]), st.integers(-9_000, 300_000)),
    seconds=st.one_of(st.sampled_from([0, 1, 3_600, 7_200]), st.integers(0, 200_000)),
    rates=st.fixed_dictionaries(
        {
            "cpu_s": st.integers(0, 64).map(float),
            "gpu_s": st.integers(0, 4).map(float),
            "mem_gb_s": st.integers(0, 256).map(lambda n: n / 4),
            "node_s": st.integers(0, 3).map(float),
            "billing": st.integers(0, 9).map(lambda n: n / 8),
        }
    ),
    requested=st.one_of(st.none(), st.integers(0, 400_000)),
)
_factor = st.sampled_from([0, 0.5, 1, 1.25, 3])
_metrics = st.fixed_dictionaries(
    {
        "weights": st.sampled_from(
            [
                {"cpu_s": 1.0},
                {"gpu_s": 1.0, "cpu_s": 0},
                {"cpu_s": 1.0, "gpu_s": 16.0, "mem_gb_s": 0.25},
                {"billing": 2.0, "node_s": 0.5},
            ]
        ),
        "class_factors": st.lists(
            st.fixed_dictionaries(
                {
                    "queue": st.sampled_from(["", "batch", "gpu"]),
                    "partition": st.sampled_from(["", "a100"]),
                    "qos": st.sampled_from(["", "debug"]),
                    "factor": _factor,
                }
            ),
            max_size=3,
        ),
        "site_factors": st.dictionaries(st.sampled_from(["fast", "slow", "nowhere"]), _factor).map(
            lambda rules: [{"site": site, "factor": factor} for site, factor in rules.items()]
        ),
    }
)
_policies = st.builds(
    PolicySettings.from_json,
    st.fixed_dictionaries(
        {
            "metric": _metrics,
            "window": st.sampled_from(
                [
                    NO_AGING,
                    {"length_s": 90_000, "aging": "none"},
                    {"length_s": 86_400, "aging": "linear"},
                    {"length_s": 200_000, "aging": "exponential", "half_life_s": 50_000},
                    {"length_s": None, "aging": "step", "granularity_s": 7_200, "factor": 0.5},
                ]
            ),
            "approach": st.fixed_dictionaries(dict.fromkeys(("local", "global"), st.sampled_from(APPROACHES))),
        }
    ),
)


def _facts(job: oracle.Job) -> JobFacts:
    row = next(row for row in CLASSES.values() if (row.queue, row.qos) == (job.queue, job.qos))
    return JobFacts(
        state=job.state,  # type: ignore[arg-type]
        start_us=None if job.state == "pending" else job.start * 1_000_000,
        end_us=job.end * 1_000_000 if job.state == "finished" else None,
        rates=job.rates,
        mem_mb=job.rates["mem_gb_s"] * 1024,
        requested_s=job.requested,
        job_class=row,
        site=job.site,
    )


def _charge(job: oracle.Job, policy: PolicySettings, held: Any = ()) -> JobCharge:
    facts = _facts(job)
    return charge_of(facts, metric=policy.metric, window=window_of(policy.window), as_of_s=AS_OF, held=held)


def _class_id(job: oracle.Job) -> int:
    return _facts(job).job_class.id


def _accounts(jobs: list[oracle.Job], policy: PolicySettings) -> AccountUsage:
    """As the recompute counts them: finished jobs spread over buckets, open ones as they are."""
    ids = {source.slug: source.id for source in SOURCES}
    names = {"cpu_s": [], "gpu_s": [], "mem_gb_s": [], "node_s": [], "billing": []}  # type: dict[str, list[float]]
    keys: list[tuple[int, int, int, int, int]] = []
    for job in (job for job in jobs if job.state == "finished"):
        one = np.ones(1)
        rates = job.rates
        delta = bucket_deltas.compute_delta(
            bucket_deltas.FinishedRecords(
                np.ones(1, np.int64),
                np.ones(1, np.int64),
                np.zeros(1, np.int64),
                np.zeros(1, np.int64),
                np.array([b""]),
                np.array([job.start * 10**6]),
                np.array([job.end * 10**6]),
                one * rates["cpu_s"],
                one * rates["gpu_s"],
                one * rates["mem_gb_s"] * 1024,
                one * rates["node_s"],
                one * rates["billing"],
            )
        )
        for hour, amounts in zip(delta.hour.tolist(), (delta.amounts / bucket_deltas.QUANTA).tolist(), strict=True):
            place = USERS.index(job.user) + 1, ids[job.source], _class_id(job), hour * HOUR, SITES.index(job.site) + 1
            keys.append(place)
            for name, amount in zip(names, amounts, strict=False):
                names[name].append(amount)
    columns = [np.array([key[at] for key in keys], dtype=np.int64) for at in range(5)]
    chosen = [at for at, key in enumerate(keys) if key[3] < AS_OF]  # as the load leaves out
    account, source, job_class, hour_s, site = columns
    used: dict[str, Any] = {name: np.array(column, dtype=np.float64) for name, column in names.items()}
    usage = UsageArrays(account, source, job_class, hour_s, **used, site_code=site, sites=SITES)
    known = usage.selected(np.isin(np.arange(len(keys)), chosen))
    return usage_of_accounts(
        RecordedUsage(known, _opened(jobs, ids), np.array([1, 2]), SOURCES, CLASSES),
        metric=_known(policy),
        window=window_of(policy.window),
        as_of_s=AS_OF,
    )


def _known(policy: PolicySettings) -> dict[str, Any]:
    """Only sites that usage was loaded with: others have no jobs here."""
    rules = [rule for rule in policy.metric["site_factors"] if rule["site"] in SITES]
    return {**policy.metric, "site_factors": rules}


def _opened(jobs: list[oracle.Job], ids: dict[str, int]) -> OpenRecords:
    rows = [job for job in jobs if job.state != "finished"]

    def column(kind: type, values: list[Any]) -> Any:
        return np.array(values, dtype=kind)

    names = ("cpus", "gpus", "mem_gb", "nodes", "billing")
    rates = {
        name: column(np.float64, [job.rates[resource] for job in rows])
        for name, resource in zip(names, bucket_deltas.RESOURCES, strict=True)
    }
    return OpenRecords(
        account_id=column(np.int64, [USERS.index(job.user) + 1 for job in rows]),
        source_id=column(np.int64, [ids[job.source] for job in rows]),
        job_class_id=column(np.int64, [_class_id(job) for job in rows]),
        is_running=column(np.bool_, [job.state == "running" for job in rows]),
        start_epoch=column(np.float64, [job.start if job.state == "running" else math.nan for job in rows]),
        requested_s=column(np.float64, [math.nan if job.requested is None else job.requested for job in rows]),
        site_code=column(np.int64, [SITES.index(job.site) + 1 for job in rows]),
        sites=SITES,
        **rates,
    )


@examples(200)
@given(_jobs, _policies)
def test_a_charge_agrees_with_its_oracle(job: oracle.Job, policy: PolicySettings) -> None:
    charge = _charge(job, policy)
    for approach in APPROACHES:
        wanted = oracle.counted(job, policy.to_json(), AS_OF, approach)
        assert charge.usage(approach) == pytest.approx(wanted, rel=1e-12, abs=1e-9)


@examples(200)
@given(_jobs, _policies)
def test_the_shown_calculation_adds_up(job: oracle.Job, policy: PolicySettings) -> None:
    charge = _charge(job, policy)
    weighted = sum(line.weighted for line in charge.resources)
    assert all(line.amount_s * line.weight == line.weighted for line in charge.resources)
    assert charge.charged == pytest.approx(weighted * charge.class_factor * charge.site_factor, rel=1e-12, abs=1e-9)
    assert sum(hour.charged for hour in charge.hours) == pytest.approx(charge.charged, rel=1e-12, abs=1e-9)
    assert sum(hour.usage for hour in charge.hours) == pytest.approx(charge.active, rel=1e-12, abs=1e-9)
    assert math.prod([rule["factor"] for rule in charge.class_rules]) == pytest.approx(charge.class_factor)
    assert charge.requested_left_s >= 0
    assert charge.predictive == pytest.approx(charge.active + charge.predicted)
    assert all((hour.usage > 0) <= (hour.why == "counts") for hour in charge.hours)


@examples(150)
@given(
    st.lists(_jobs, max_size=8),
    _policies,
    st.sampled_from(["local", "global"]),
    st.sampled_from([(), ("here",), ("peer", "also-here")]),
)
def test_usage_of_accounts_is_the_sum_of_their_charges(
    jobs: list[oracle.Job], policy: PolicySettings, scope: str, narrowed: tuple[str, ...]
) -> None:
    accounts = _accounts(jobs, policy)
    approach = policy.approach[scope]
    used = usage_of_scope(accounts, scope=scope, narrowed=narrowed, sources=SOURCES, approach=approach)
    for at, user in enumerate(USERS):
        wanted = oracle.of_user(jobs, user, policy.to_json(), AS_OF, scope, narrowed)
        assert used[at] == pytest.approx(wanted, rel=1e-11, abs=1e-9)
        mine = [job for job in jobs if job.user == user and (scope == "global" or not job.origin)]
        mine = [job for job in mine if not narrowed or job.source in narrowed]
        assert used[at] == pytest.approx(sum(_charge(job, policy).usage(approach) for job in mine), rel=1e-11, abs=1e-9)
        assert accounts.demand_core_s[at] == oracle.demand_core_s(jobs, user)
        assert accounts.has_demand[at] == any(job.user == user and job.state != "finished" for job in jobs)


def _job(**more: Any) -> oracle.Job:
    plain = oracle.Job(
        "alice",
        "here",
        "",
        "",
        "",
        "",
        "",
        "finished",
        AS_OF - 7_200,
        AS_OF - 3_600,
        dict.fromkeys(bucket_deltas.RESOURCES, 0.0) | {"cpu_s": 1.0},
        None,
    )
    return replace(plain, **more)


def _plain(**more: Any) -> PolicySettings:
    return PolicySettings.from_json({"window": NO_AGING, **more})


def test_an_hour_counts_completely_once_it_has_begun() -> None:
    this_hour = AS_OF - 1_200
    spanning = _charge(_job(start=this_hour - HOUR, end=this_hour + 2 * HOUR), _plain())
    assert [(hour.why, hour.usage) for hour in spanning.hours] == [("counts", 3600), ("counts", 3600), ("after", 0)]
    assert spanning.historical == 7_200  # the hour that contains the instant, whole; nothing of the next one
    assert _charge(_job(start=AS_OF + 10_000, end=AS_OF + 20_000), _plain()).active == 0
    edge = AS_OF - 1_200 + HOUR  # as if the instant were on the hour
    facts = _facts(_job(start=edge, end=edge + HOUR))
    charged = charge_of(facts, metric=_plain().metric, window=window_of(_plain().window), as_of_s=edge)
    assert (charged.active, charged.hours[0].why) == (0, "after")


def test_an_hour_exactly_at_the_windows_edge_is_out() -> None:
    two_hours = PolicySettings.from_json({"window": {"length_s": 7_200, "aging": "none"}})
    on_the_hour = AS_OF - 1_200
    job = _facts(_job(start=on_the_hour - 3 * HOUR, end=on_the_hour - HOUR))
    charge = charge_of(job, metric=two_hours.metric, window=window_of(two_hours.window), as_of_s=on_the_hour)
    assert [(hour.age_s, hour.why) for hour in charge.hours] == [(7_200, "old"), (3_600, "counts")]
    assert (charge.charged, charge.historical) == (7_200, 3_600)


def test_running_jobs_count_to_the_second_and_never_negatively() -> None:
    running = _job(state="running", start=AS_OF - 5_000, requested=4_000)
    charge = _charge(running, _plain())
    assert (charge.run_s, charge.active, charge.historical) == (5_000, 5_000, 0)
    assert (charge.requested_left_s, charge.predictive) == (0, 5_000)
    more = _charge(replace(running, requested=9_000), _plain())
    assert (more.requested_left_s, more.predicted, more.predictive) == (4_000, 4_000, 9_000)
    assert _charge(replace(running, start=AS_OF), _plain()).predictive == 0  # it hasn't begun
    assert _charge(replace(running, state="pending"), _plain()).predictive == 0


def test_zero_factors_and_weights_count_nothing_with_a_reason() -> None:
    free = _charge(_job(qos="debug", queue="batch"), _plain(metric={"class_factors": [{"qos": "debug", "factor": 0}]}))
    assert (free.charged, free.class_factor, len(free.class_rules)) == (0, 0, 1)
    assert free.resources[0].weighted == 3_600
    gpu = _charge(_job(), _plain(metric={"weights": {"gpu_s": 1}}))
    assert (gpu.active, [line.resource for line in gpu.resources]) == (0, ["cpu_s", "gpu_s"])


def test_all_matching_factors_of_a_job_are_multiplied() -> None:
    rules = [{"queue": "batch", "factor": 2}, {"qos": "debug", "factor": 0.25}, {"queue": "gpu", "factor": 9}]
    policy = _plain(metric={"class_factors": rules, "site_factors": [{"site": "fast", "factor": 1.5}]})
    charge = _charge(_job(queue="batch", qos="debug", site="fast"), policy)
    assert (charge.class_factor, charge.site_factor, charge.charged) == (0.5, 1.5, 2_700)


def test_hours_that_are_held_do_not_count() -> None:
    job = _job(start=AS_OF - 1_200 - 2 * HOUR, end=AS_OF - 1_200)
    charge = _charge(job, _plain(), held=[(AS_OF - 1_200 - HOUR, AS_OF - 1_200)])
    assert [hour.why for hour in charge.hours] == ["counts", "held"]
    assert (charge.charged, charge.historical) == (7_200, 3_600)
