"""Replays of the site's own jobs: a history that the simulator made is replayed to the second, beside drafts of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.lab.experiments.asked import ask
from apps.contrib.lab.experiments.headline import headline_of
from apps.contrib.lab.experiments.inputs import NO_PAST, WAS_RUNNING, WAS_WAITING, Inputs
from apps.contrib.lab.experiments.outcome import Outcome
from apps.contrib.lab.experiments.records import ExperimentDetail
from apps.contrib.lab.experiments.selectors import get_experiment, get_history_report, get_variant_report
from apps.contrib.lab.experiments.services import create_experiment
from apps.contrib.lab.experiments.simulate_variant import simulate_variant
from apps.contrib.lab.models import Experiment, ExperimentInputs, VariantResult
from apps.contrib.lab.simulation.log_jobs import Trace
from apps.contrib.lab.simulation.run import run_jobs
from apps.contrib.lab.simulation.scenario import Scenario, read_scenario
from apps.contrib.lab.simulation.workload import draw
from apps.core.errors import Invalid
from apps.policies.models import Policy
from apps.runs.services import work_due_runs
from apps.usage.parsers.base import RecordRow
from tests.priority_site import AS_OF, PROJECTS, Site, children, finished, new_site

pytestmark = pytest.mark.django_db
DAYS = 3
TO_AT = AS_OF.replace(hour=0)
FROM_AT = TO_AT - timedelta(days=DAYS)
USERS = [("physics", "alice"), ("physics", "bob"), ("biology", "carol"), ("biology", "dan")]
SETTINGS: dict[str, Any] = {
    "window": {"length_s": None, "aging": "none"},
    "approach": {"local": "active", "global": "active"},
}
AGED: dict[str, Any] = SETTINGS | {"window": {"length_s": None, "aging": "exponential", "half_life_s": 86_400}}
N_CPUS = 20


def _policy() -> dict[str, Any]:
    """PROJECTS as the tree of a scenario."""

    def entry(child: dict[str, Any]) -> dict[str, Any]:
        below = {"children": [entry(each) for each in child["children"]]} if child.get("children") else {}
        return {"name": child["name"], "shares": child["shares"], **below}

    return {"name": "grid", "scope": "global", "children": [entry(child) for child in PROJECTS]}


def _scenario(window: dict[str, Any], n_jobs: int, seed: int) -> Scenario:
    """Jobs of whole seconds, more than the processors can do."""
    case = {
        "hours": 24 * DAYS,
        "sites": [{"name": "c", "cpus": N_CPUS}],
        "policy": _policy(),
        "algorithm": {"name": "aequus", "operator": "relative", "resolution": 10_000},
        "usage": {"local": "active", "global": "active", "global_refresh_s": 60, "window": window},
        "workload": [],
    }
    read = read_scenario(case, seed=seed, traces={})
    random = np.random.default_rng(seed)
    entries = np.array([read.policy.entry_at[f"/{group}/{user}"] for group, user in USERS])
    at_s = np.sort(random.integers(0, 24 * 3600 * DAYS, n_jobs)).astype(np.float64)
    trace = Trace(
        name="",
        at_s=np.unique(at_s),
        run_s=random.integers(600, 5_000, len(np.unique(at_s))).astype(np.float64),
        requested_s=np.full(len(np.unique(at_s)), 6_000.0),
        cpus=np.ones(len(np.unique(at_s)), dtype=np.int64),
        entry=entries[random.integers(0, 4, len(np.unique(at_s)))],
    )
    stream = read_scenario(
        case | {"workload": [{"entry": "/physics", "every_s": 1e9, "run_h": 1}]}, seed=seed, traces={}
    ).streams[0]
    return replace(read, streams=(replace(stream, entry=-1, trace=trace, interval_s=float("inf")),))


def _history(scenario: Scenario) -> list[RecordRow]:
    """The jobs as records, with the instants at which the simulation started them."""
    workload = draw(scenario)
    ran = run_jobs(scenario, workload)
    at_s = np.empty(len(ran.started_s))
    at_s[workload.arrivals.job] = workload.arrivals.at_s
    entry = workload.entries[workload.jobs.site_queue % len(workload.entries)]
    rows = []
    for number in range(len(at_s)):
        _, group, user = scenario.policy.paths[entry[number]].split("/")
        start_s, run_s = float(ran.started_s[number]), float(workload.jobs.run_s[number])
        state = "pending" if start_s < 0 else "running" if start_s + run_s > scenario.end_s else "finished"
        rows.append(
            RecordRow(
                job=str(number),
                user=user,
                group=group,
                state=state,
                submit_at=_instant(at_s[number]),
                start_at=None if state == "pending" else _instant(start_s),
                end_at=_instant(start_s + run_s) if state == "finished" else None,
                cpus=1,
                requested_s=6_000,
            )
        )
    return rows


def history_of_a_simulation(window: dict[str, Any], n_jobs: int = 2_000, seed: int = 1) -> list[RecordRow]:
    return _history(_scenario(window, n_jobs, seed))


def _instant(at_s: float) -> datetime:
    return datetime.fromtimestamp(FROM_AT.timestamp() + at_s, UTC)


@pytest.fixture
def replayable(make_site: Callable[..., Site]) -> Callable[..., Any]:
    def make(settings: dict[str, Any] = SETTINGS, *, n_jobs: int = 2_000, seed: int = 1) -> Any:
        site: Any = make_site(at=FROM_AT - timedelta(days=2))
        site.publish(PROJECTS, settings, at=FROM_AT - timedelta(days=1))
        site.map(at=FROM_AT - timedelta(days=1))
        window = settings["window"]
        site.jobs_of = history_of_a_simulation({k: v for k, v in window.items() if v is not None}, n_jobs, seed)
        site.jobs(site.jobs_of)
        return site

    return make


def replay(site: Site, **more: Any) -> Experiment:
    spec = {"workload": {"kind": "replay", "days": DAYS}, **more}
    made = create_experiment(policy_slug=site.slug, name="replay", spec=spec, at=AS_OF, actor=COMMAND)
    work_due_runs(clock=lambda: AS_OF)
    return made


def detail(site: Site, experiment: Experiment) -> ExperimentDetail:
    return get_experiment(policy_slug=site.slug, experiment_id=experiment.pk, at=AS_OF, actor=COMMAND)


def outcome(experiment: Experiment, index: int = 0) -> Outcome:
    row = VariantResult.objects.get(experiment=experiment, index=index)
    assert row.data is not None
    return Outcome.unpack(bytes(row.data), row.digest)


def history(experiment: Experiment) -> Outcome:
    stored = ExperimentInputs.objects.get(experiment=experiment)
    assert stored.history is not None
    return Outcome.unpack(bytes(stored.history), stored.history_digest)


@pytest.mark.parametrize("settings", [SETTINGS, AGED], ids=["no aging", "half-life"])
def test_a_history_made_by_the_policy_is_replayed_to_the_second(
    replayable: Callable[..., Site], settings: dict[str, Any]
) -> None:
    site = replayable(settings)
    experiment = replay(site)
    shown = detail(site, experiment)
    assert (shown.row.state, shown.problem, [row.problem for row in shown.variants]) == ("done", "", [""])
    assert shown.sites == {"grid-c1": N_CPUS}
    assert shown.history is not None
    base = shown.variants[0].headline
    assert base is not None
    assert base.n_jobs == shown.history.n_jobs > 1_900
    assert base.wait_mean_s is not None
    assert base.wait_mean_s > 600
    assert base == shown.history
    assert shown.model_error is not None
    assert (shown.model_error.wait_median_s, shown.model_error.wait_p90_s) == (0.0, 0.0)
    assert shown.model_error.core_hours_points == 0.0
    happened = history(experiment)
    for name in ("wait_mean_s", "wait_median_s", "wait_p90_s", "core_h", "day_core_h", "share"):
        np.testing.assert_array_equal(getattr(outcome(experiment), name), getattr(happened, name), name)


def test_more_shares_shorten_waits_beside_what_happened(replayable: Callable[..., Site]) -> None:
    site = replayable()
    experiment = replay(site, variants=[{"entries": [{"entry": "/biology", "shares_times": 4}]}])
    report = get_variant_report(policy_slug=site.slug, experiment_id=experiment.pk, index=1, at=AS_OF, actor=COMMAND)
    assert {each.path for each in report.gains} == {"/biology/carol", "/biology/dan"}
    assert {each.path for each in report.losses} == {"/physics/alice", "/physics/bob"}
    assert len(report.days) == DAYS
    assert report.days[0] == FROM_AT.date()
    by_path = {each.path: each for each in report.entries}
    total = sum(each.core_h for each in (by_path["/biology"], by_path["/physics"]))
    assert by_path["/biology"].core_h / total > by_path["/biology"].core_h_was / total + 0.02
    for curve in report.curves:
        assert sum(curve.core_h) == pytest.approx(by_path[curve.path].core_h)
        assert sum(curve.core_h_was) == pytest.approx(by_path[curve.path].core_h_was)


def test_the_base_beside_what_happened_has_its_own_report(replayable: Callable[..., Site]) -> None:
    site = replayable()
    experiment = replay(site)
    report = get_history_report(policy_slug=site.slug, experiment_id=experiment.pk, at=AS_OF, actor=COMMAND)
    assert (report.n_gain, report.n_lose) == (0, 0)
    assert all(each.wait_p90_s == each.wait_p90_was_s for each in report.entries)


def test_jobs_that_run_or_wait_at_the_start_are_taken_over(replayable: Callable[..., Site]) -> None:
    """The last two of three days: usage of the first one is that of its hourly sums, so waits are nearly the same."""
    site = replayable(AGED)
    experiment = replay(site, workload={"kind": "replay", "days": 2})
    stored = ExperimentInputs.objects.get(experiment=experiment)
    inputs = Inputs.unpack(bytes(stored.data), stored.digest)
    assert inputs.jobs is not None
    runs, waits = (inputs.jobs.marks == mark for mark in (WAS_RUNNING, WAS_WAITING))
    assert runs.sum() == N_CPUS
    assert waits.sum() > 20
    assert not inputs.jobs.at_s[runs | waits].any()
    used_before = float(inputs.variant(0).past.amount.sum())
    assert used_before == pytest.approx(N_CPUS * 24 * 3600, rel=0.05)
    shown = detail(site, experiment)
    assert shown.history is not None
    assert shown.model_error is not None
    assert shown.history.wait_median_s is not None
    assert abs(shown.model_error.wait_median_s or 0) < 0.05 * shown.history.wait_median_s
    assert (shown.model_error.core_hours_points or 0) < 1.0
    assert [each.n_jobs for each in shown.left_out] == []


def test_usage_before_the_start_decides_who_is_first(replayable: Callable[..., Site]) -> None:
    """Without it the waits are others."""
    site = replayable(AGED)
    experiment = replay(site, workload={"kind": "replay", "days": 1})
    stored = ExperimentInputs.objects.get(experiment=experiment)
    inputs = Inputs.unpack(bytes(stored.data), stored.digest)
    forgetful = replace(inputs, variants=[replace(inputs.variant(0), past=NO_PAST)])
    without = simulate_variant(forgetful, 0, lambda part: None)
    happened = history(experiment)
    with_it = outcome(experiment)
    apart = [float(np.nanmax(np.abs(each.wait_mean_s - happened.wait_mean_s))) for each in (with_it, without)]
    assert apart[0] < apart[1]


def test_what_is_left_out_is_counted_with_its_reason(replayable: Callable[..., Any]) -> None:
    site = replayable()
    site.job("eva", "chemistry", 2, ago_h=30)
    site.job("alice", "physics", 1, ago_h=40, cpus=0, job="no cpus")
    site.jobs([site.jobs_of[0], site.jobs_of[0]._replace(job="gone", state="withdrawn")])
    waiting: dict[str, Any] = {"state": "pending", "start_at": None, "end_at": None, "requested_s": None}
    site.jobs([site.jobs_of[0], site.jobs_of[1]._replace(job="open", **waiting)])
    shown = detail(site, replay(site))
    assert {each.reason: each.n_jobs for each in shown.left_out} == {
        "withdrawn": 1,
        "unmapped": 1,
        "no_cpus": 1,
        "unknown_length": 1,
    }
    assert {each.reason: each.core_h for each in shown.left_out}["unmapped"] == pytest.approx(2)
    assert all(each.text for each in shown.left_out)


def test_sources_without_submit_times_are_refused_before_the_start(make_site: Callable[..., Site]) -> None:
    site = make_site(at=FROM_AT - timedelta(days=2))
    site.publish(PROJECTS, SETTINGS, at=FROM_AT - timedelta(days=1))
    site.map(at=FROM_AT - timedelta(days=1))
    site.job("alice", "physics", 1, ago_h=20)
    with pytest.raises(Invalid) as refusal:
        replay(site)
    assert refusal.value.code == "no_submit_times"


def test_days_without_jobs_are_refused_before_the_start(replayable: Callable[..., Site]) -> None:
    site = replayable()
    with pytest.raises(Invalid) as refusal:
        replay(site, workload={"kind": "replay", "days": 1, "until_on": "2026-11-10"})
    assert refusal.value.code == "no_jobs"
    with pytest.raises(Invalid, match="must be a day that has ended"):
        replay(site, workload={"kind": "replay", "days": 1, "until_on": "2026-11-20"})


def test_fewer_processors_lengthen_all_waits(replayable: Callable[..., Site]) -> None:
    site = replayable()
    experiment = replay(site, workload={"kind": "replay", "days": DAYS, "cpus": {"grid-c1": N_CPUS // 2}})
    shown = detail(site, experiment)
    assert shown.sites == {"grid-c1": N_CPUS // 2}
    assert shown.model_error is not None
    assert (shown.model_error.wait_median_s or 0) > 600


NOT_STARTED: dict[str, Any] = {"state": "pending", "start_at": None, "end_at": None}


def test_a_question_counts_exactly_the_jobs_that_it_replays(replayable: Callable[..., Any]) -> None:
    """Beside those of another policy, and each job that is left out."""
    site = replayable(AGED)
    other = new_site("other", at=FROM_AT - timedelta(days=2), namespace="c2")
    other.publish(children(chemistry={"eva": 1}), AGED, at=FROM_AT - timedelta(days=1))
    other.map(at=FROM_AT - timedelta(days=1))
    other.jobs([finished("eva", "chemistry", 1, ago_h=13, job=str(number)) for number in range(700)])
    spec = {"workload": {"kind": "replay", "days": 2}, "variants": [{"jobs_times": 2.0}]}
    site.job("eva", "chemistry", 2, ago_h=30)
    site.job("alice", "physics", 1, ago_h=40, cpus=0, job="no cpus")
    open_job = site.jobs_of[-1]._replace(submit_at=_instant(70 * 3600.0), user="alice", group="physics")
    site.jobs(
        [
            *site.jobs_of,
            open_job._replace(job="gone", state="withdrawn"),
            open_job._replace(job="no length", **NOT_STARTED, requested_s=None),
            open_job._replace(job="waits", **NOT_STARTED, requested_s=60.0),
            open_job._replace(job="at once", state="finished", start_at=TO_AT, end_at=TO_AT),
            open_job._replace(job="no limit", state="running", start_at=TO_AT, end_at=None, requested_s=None),
            open_job._replace(job="later", state="running", start_at=TO_AT, end_at=None, requested_s=600.0),
        ]
    )
    asked = ask(Policy.objects.get(slug=site.slug), spec, at=AS_OF)
    experiment = replay(site, **spec)
    stored = ExperimentInputs.objects.get(experiment=experiment)
    inputs = Inputs.unpack(bytes(stored.data), stored.digest)
    assert inputs.jobs is not None
    left_out = {each.reason: each.n_jobs for each in detail(site, experiment).left_out}
    assert left_out == {"withdrawn": 1, "unmapped": 701, "no_cpus": 1, "unknown_length": 1, "no_run_time": 2}
    assert (asked.estimate.n_jobs, asked.estimate.n_sites) == (2 * len(inputs.jobs), len(inputs.sites))


def test_jobs_that_ran_at_the_start_are_not_among_those_that_started(replayable: Callable[..., Site]) -> None:
    site = replayable(AGED)
    shown = detail(site, replay(site, workload={"kind": "replay", "days": 2}))
    for headline in (shown.history, shown.variants[0].headline):
        assert headline is not None
        assert headline.n_started + headline.n_waiting == headline.n_jobs
        assert headline.n_started > 1_000


def test_a_stored_headline_of_a_release_before_counts_the_same_jobs() -> None:
    stored = {**dict.fromkeys(("wait_mean_s", "wait_median_s", "wait_p90_s", "rms_points", "settled_h", "is_settled"))}
    before = {**stored, "n_jobs": 32_988, "n_started": 33_012, "n_waiting": 0, "core_hours": 1.0, "busy": 0.2}
    headline = headline_of(before)
    assert headline is not None
    assert headline.n_started == 32_988


def test_jobs_that_wait_have_no_core_hours_and_no_share_of_use(replayable: Callable[..., Any]) -> None:
    """Neither among what is left out, nor in what happened, nor in the replay: 107 million were once told for 1.5."""
    site = replayable()
    without = replay(site)
    waits = site.jobs_of[-1]._replace(
        **NOT_STARTED, cpus=10_000, submit_at=TO_AT - timedelta(seconds=1), requested_s=9e6
    )
    own = waits._replace(cpus=1, user="carol", group="biology")
    site.jobs([site.jobs_of[0], own._replace(job="own")])
    site.jobs([site.jobs_of[0], waits._replace(job="unmapped", user="eva", group="chemistry")])
    site.jobs([site.jobs_of[0], waits._replace(job="no length", requested_s=None)])
    with_waiting = replay(site)
    left_out = {each.reason: (each.n_jobs, each.core_h) for each in detail(site, with_waiting).left_out}
    assert left_out == {"unmapped": (1, 0.0), "unknown_length": (1, 0.0)}
    for outcome_of in (history, outcome):
        before, after = outcome_of(without), outcome_of(with_waiting)
        assert int(after.n_waiting[0]) == int(before.n_waiting[0]) + 1
        for name in ("core_h", "share", "day_core_h", "busy"):
            np.testing.assert_array_equal(getattr(after, name), getattr(before, name), name)
