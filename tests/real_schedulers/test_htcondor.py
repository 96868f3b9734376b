"""A real pool of HTCondor: jobs start by our ranks, factors are handed back, and usage is what it charges."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.actor import SYSTEM
from apps.contrib.jobs.algorithms import solve_job_case
from apps.contrib.schedulers import models, orders, services
from apps.usage.parsers.base import FINISHED, Reading
from apps.usage.parsers.htcondor import HTCondor
from tests.contrib.jobs.algorithms.userprio_ads import case_of_step, read_userprio
from tests.instants import AT
from tests.real_schedulers.conftest import Measure
from tests.real_schedulers.htcondor_site import DOMAIN, HTCondorSite, running_htcondor
from tests.real_schedulers.test_agent_follows import (
    USERS,
    RunPass,
    agent_for,  # noqa: F401 - fixture
    frozen_code,
    order_of_site,
    order_reset,
)
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

pytestmark = [pytest.mark.schedulers, pytest.mark.django_db]

FORMS = ("-json", "-jsonl", "-long", "-xml")


def change(**settings: object) -> None:
    tag = orders.tag_of(models.Scheduler.objects.get())
    services.change_scheduler(name="c1", tag=tag, settings=settings, at=AT, actor=SYSTEM)


def submitter(user: str) -> str:
    return f"{USERS[user]}.{user}@{DOMAIN}"


def submit_all(pool: HTCondorSite, users: list[str], n: int) -> None:
    for user in users:
        pool.submit(user, group=USERS[user], seconds=1, n=n)
    pool.wait(lambda: set(map(submitter, users)) <= set(pool.factors()))


def starts(pool: HTCondorSite, n_before: int = 0) -> list[str]:
    """Users in the order in which their jobs started."""
    ads = sorted(pool.history(), key=lambda ad: (ad["JobCurrentStartDate"], ad["ClusterId"]))[n_before:]
    return [str(ad["AcctGroupUser"]) for ad in ads]


def inversions(started: list[str], wanted: list[str]) -> int:
    """Pairs of starts of which the later one has the better rank."""
    ranks = [wanted.index(user) for user in started]
    return sum(later < earlier for at, earlier in enumerate(ranks) for later in ranks[at + 1 :])


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_jobs_start_in_the_order_of_our_ranks_and_factors_are_handed_back(
    computed_site: Site,
    agent_for: Callable[..., RunPass],  # noqa: F811
    tmp_path: Path,
    measure: Measure,
) -> None:
    (tmp_path / "pool").mkdir()
    users = tuple(USERS)
    settings = {"PRIORITY_HALFLIFE": "1000000000000", "START": "False"}
    with running_htcondor(tmp_path / "pool", users=users, settings=settings) as pool:
        measure.with_version("htcondor", pool.run("condor_version").split()[1])
        wanted = order_of_site()
        submit_all(pool, wanted[::-1], n=3)
        pool.run("condor_userprio", "-setfactor", submitter("bob"), "12.5")  # an administrator's
        former = pool.factors()
        assert former == {submitter("alice"): "1000.0", submitter("bob"): "12.5", submitter("carol"): "1000.0"}
        run_pass = agent_for(pool.bin, kind="htcondor", knob="priority_factor", weight=1000, mode="shadow")
        report = run_pass()
        assert frozen_code(report) == ""
        checks = {check["code"]: check["severity"] for check in report["checks"]}
        codes = ("double_counting", "real_priority", "operator_right", "version", "group_quotas", "names_unmapped")
        assert {code: checks[code] for code in codes} == dict.fromkeys(codes, "ok")
        assert (report["jobs"]["pending"], report["jobs"]["due"], report["jobs"]["sent"]) == (9, 3, 0)
        assert pool.factors() == former, "shadow mode sends nothing"

        change(mode="canary", canary_partition="biology")
        assert run_pass()["jobs"]["sent"] == 1
        changed = {name for name, factor in pool.factors().items() if factor != former[name]}
        assert changed == {submitter("carol")}

        change(mode="on")
        assert run_pass()["jobs"]["sent"] == 2
        now = pool.factors()
        assert sorted(users, key=lambda user: float(now[submitter(user)])) == wanted
        assert run_pass()["jobs"]["due"] == 0, "nothing changed"

        pool.release()
        pool.wait_for_jobs()
        started = starts(pool)
        assert (len(started), inversions(started, wanted)) == (9, 0), started
        measure("inversions of starts", inversions(started, wanted))

        pool.run("condor_userprio", "-setfactor", submitter("carol"), "77")  # changed by hand meanwhile
        order_reset()
        assert run_pass()["jobs"]["sent"] == 2
        handed_back = pool.factors()
        assert handed_back == {**former, submitter("carol"): "77.0"}
        measure("factors handed back", "2 of 2")


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_usage_is_what_htcondor_charges_through_evictions_holds_and_suspension(
    tmp_path: Path, measure: Measure
) -> None:
    (tmp_path / "pool").mkdir()
    with running_htcondor(tmp_path / "pool", cpus=8) as pool:
        measure.with_version("htcondor", pool.run("condor_version").split()[1])
        pool.submit("ann", seconds=4, cpus=2, n=2)
        evicted, held, removed, suspended = (pool.submit(user, seconds=20) for user in ("bob", "cat", "dan", "eve"))
        running = {evicted, held, removed, suspended}
        pool.wait(lambda: running <= {str(ad["ClusterId"]) for ad in pool.jobs() if ad["JobStatus"] == 2})
        pool.run("condor_suspend", suspended)
        pool.run("condor_vacate_job", "-fast", evicted)
        pool.run("condor_hold", held)
        pool.wait(lambda: all(ad["JobStatus"] == 5 for ad in pool.jobs() if str(ad["ClusterId"]) == held))
        pool.run("condor_rm", removed)
        pool.run("condor_continue", suspended)
        pool.run("condor_release", held)
        pool.wait_for_jobs()
        used: dict[str, float] = {}
        runs: dict[str, int] = {}
        for form in FORMS:
            used, runs = usage_of(pool.run("condor_history", form).encode())
            assert usage_of((pool.folder / "spool" / "history").read_bytes()) == (used, runs), form
        n_starts = {str(ad["Owner"]): 0 for ad in pool.history()}
        for ad in pool.history():
            n_starts[ad["Owner"]] += ad["NumShadowStarts"]
        assert n_starts == {"ann": 2, "bob": 2, "cat": 2, "dan": 1, "eve": 1}
        assert used == pytest.approx(slot_time_of(pool.history())), (
            "as each job says, in seconds times cores of its slot"
        )
        charged = {name: float(row["WeightedAccumulatedUsage"]) for name, row in pool.priorities().items()}
        ours, theirs = sum(used.values()), sum(charged[f"{user}@{DOMAIN}"] for user in used)
        # From each match to the end of its claim, so it depends on how fast daemons answer: measured, not compared.
        measure("core seconds of jobs", f"{ours:.0f}")
        measure("by condor_userprio, with idle claims", f"{theirs:.0f}")


STORED = 0.5e-6  # HTCondor stores real priorities with six decimals


def own(user: str) -> str:
    return f"{user}@{DOMAIN}"


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_effective_priorities_are_those_of_the_negotiator_and_jobs_start_in_that_order(
    tmp_path: Path, measure: Measure
) -> None:
    (tmp_path / "pool").mkdir()
    with running_htcondor(tmp_path / "pool", settings={"PRIORITY_HALFLIFE": "60"}) as pool:
        measure.with_version("htcondor", pool.run("condor_version").split()[1])
        running = pool.submit("ann", seconds=300)
        pool.wait(lambda: [ad["JobStatus"] for ad in pool.jobs()] == [2])
        for user, priority in (("ann", 9), ("cat", 0), ("bob", 0), ("bob", 5), ("bob", -5)):
            pool.submit(user, priority=priority)
        pool.wait(lambda: {own(user) for user in ("ann", "bob", "cat")} <= set(pool.factors()))
        for user, factor in (("ann", "4000"), ("bob", "250")):
            pool.run("condor_userprio", "-setfactor", own(user), factor)

        def wait_for_updates(seconds: int) -> str:
            began, _ = read_userprio(pool.listed_priorities())
            pool.wait(lambda: read_userprio(pool.listed_priorities())[0] >= began + seconds)
            return pool.listed_priorities()

        before = wait_for_updates(3)  # the claim's beginning is charged
        after = wait_for_updates(10)
        case = case_of_step(before, after, 60)
        waiting = [
            {"id": f"{ad['ClusterId']}.{ad['ProcId']}", "submitter": ad["User"], "job_prio": ad["JobPrio"]}
            for ad in pool.jobs()
            if ad["JobStatus"] == 1
        ]
        ours, (_, theirs) = solve_job_case({**case, "jobs": waiting}), read_userprio(after)
        assert {name: row["WeightedResourcesUsed"] for name, row in theirs.items()} == {
            own("ann"): "1.0",
            own("bob"): "0.0",
            own("cat"): "0.0",
        }
        assert float(theirs[own("ann")]["Priority"]) > 2000, "it is above its least"
        differences = [
            abs(ours["submitters"][name]["effective"] - float(row["Priority"])) / float(row["PriorityFactor"])
            for name, row in theirs.items()
        ]
        assert max(differences) <= (case["passed_s"] + 1) * STORED
        measure("largest difference of a real priority", f"{max(differences):.1e}")

        pool.run("condor_rm", running)
        pool.wait_for_jobs()
        ads = sorted(pool.history(), key=lambda ad: ad["JobCurrentStartDate"])
        assert [f"{ad['ClusterId']}.{ad['ProcId']}" for ad in ads][1:] == ours["pending_order"]


def slot_time_of(ads: list[dict[str, Any]]) -> dict[str, float]:
    """CumulativeSlotTime by user."""
    seconds: dict[str, float] = {}
    for ad in ads:
        seconds[ad["Owner"]] = seconds.get(ad["Owner"], 0.0) + ad["CumulativeSlotTime"]
    return seconds


def usage_of(data: bytes) -> tuple[dict[str, float], dict[str, int]]:
    """Core seconds by user, and records."""
    used: dict[str, float] = {}
    n_records: dict[str, int] = {}
    for piece in HTCondor().parse(io.BytesIO(data), Reading(AT)):
        assert piece.rejections == [], piece.rejections
        batch = piece.batch
        for i in range(len(batch)):
            user = batch.people[batch.who[i]].user
            if batch.state[i] == FINISHED:
                seconds = (int(batch.end_us[i]) - int(batch.start_us[i])) / 1e6
                used[user] = used.get(user, 0.0) + seconds * float(batch.cpus[i])
                n_records[user] = n_records.get(user, 0) + 1
    return used, n_records
