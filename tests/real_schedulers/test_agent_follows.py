"""A site of Fairshare, the agent and real schedulers: the queue follows the site's priorities."""

from __future__ import annotations

import copy
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent import commands
from agent.commands import Commands
from agent.loop import Agent
from agent.rest import Rest
from agent.state import open_table
from apps.accounts.actor import SYSTEM
from apps.contrib.schedulers import models, orders, services
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.policies.services import change_settings, publish_document
from apps.priorities.serving import store
from apps.priorities.serving.leaf_lines import every_leaf
from tests.instants import AT
from tests.real_schedulers import gridengine_site, slurm_site
from tests.real_schedulers.conftest import Measure
from tests.small_site import TREE, Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

pytestmark = [pytest.mark.schedulers, pytest.mark.django_db]

USERS = {"alice": "physics", "bob": "physics", "carol": "biology"}
EVERY_S = 30  # the agent's interval
MOST_S = 120.0  # from publishing to the scheduler's order


class RunPass:
    """One pass, or passes in the agent's interval, with the commands of one folder."""

    def __init__(self, agent: Agent, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._agent, self._path, self._monkeypatch = agent, f"{folder}:{os.environ['PATH']}", monkeypatch

    def __call__(self) -> dict[str, Any]:
        with self._monkeypatch.context() as during:  # the site's own commands are found without it
            during.setenv("PATH", self._path)
            return self._agent.run_pass()

    @contextmanager
    def running(self) -> Iterator[None]:
        ends = threading.Event()
        variables = {**commands.environment(), "PATH": self._path}
        with self._monkeypatch.context() as during:
            during.setattr(commands, "environment", lambda: variables)  # the site's own ones are asked meanwhile
            thread = threading.Thread(target=self._agent.run, args=(ends,))
            thread.start()
            try:
                yield
            finally:
                ends.set()
                thread.join(60)


OPERATORS = ("absolute", "sigmoid-2", "combined", "relative")


@pytest.fixture
def agent_for(
    computed_site: Site, live_server: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., RunPass]:
    """`agent_for(bin, settings)` runs a pass of an agent that is connected to the site, with that folder's commands."""
    store.poll()

    def make(folder: Path, **given: Any) -> RunPass:
        given = {"mode": "on", "namespace": "a", "step": 1, "limits": {"unmapped_percent": 50}, **given}
        services.connect_scheduler(policy_slug="grid", name="c1", settings=given, at=AT, actor=SYSTEM)
        token = computed_site.token("schedulers", "priorities:read", policy_slug="grid")
        table = open_table(str(tmp_path / "state"))
        agent = Agent(Rest(str(live_server), "c1", token), Commands(), table, "head1", print, clock=AT.timestamp)
        return RunPass(agent, folder, monkeypatch)

    return make


def order_of_site() -> list[str]:
    leaves = [line for line in every_leaf(store.newest("grid")) if line["rank"] is not None]
    assert len({line["factor"] for line in leaves}) == len(leaves), "an order without ties"
    return [line["entry"].rpartition("/")[2] for line in sorted(leaves, key=lambda line: -line["factor"])]


def use_operator(site: Site, operator: str) -> None:
    settings = {"algorithm": {"name": "aequus", "operator": operator}}
    change_settings(policy_slug="grid", settings=settings, reason="x", at=AT, actor=SYSTEM)
    site.recompute()


def share_of_biology(site: Site, shares: int) -> None:
    tree = copy.deepcopy(TREE)
    tree["children"][1]["shares"] = shares
    publish_document(policy_slug="grid", document={"root": tree}, reason="x", at=AT, actor=SYSTEM)
    site.recompute()


def map_projects(site: Site) -> None:
    """qstat has no group, and the users of these jobs are not those of this host."""
    rules = [
        Rule(kind="glob", target_uid=site.uid("/"), group_pattern="?*", suffix="/{group}/{user}"),
        Rule(kind="glob", target_uid=site.uid("/"), user_pattern="*", suffix="/{project}/{user}"),
    ]
    set_rules(policy_slug="grid", rules=rules, at=AT, actor=SYSTEM)


def order_reset() -> None:
    tag = orders.tag_of(models.Scheduler.objects.get())
    services.change_scheduler(name="c1", tag=tag, settings={"reset_values": True}, at=AT, actor=SYSTEM)


def frozen_code(report: dict[str, Any]) -> str:
    return "" if report["frozen"] is None else str(report["frozen"]["code"])


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_the_slurm_queue_follows_the_policy_through_a_killed_controller_and_is_reset(
    release: str, computed_site: Site, agent_for: Callable[..., RunPass], tmp_path: Path, measure: Measure
) -> None:
    (tmp_path / "slurm").mkdir()
    settings = {"PriorityWeightFairshare": "0"}
    with slurm_site.running_slurm(tmp_path / "slurm", users=tuple(USERS), settings=settings, release=release) as slurm:
        slurm.add_tree({"physics": (60, {"alice": 2, "bob": 1}), "biology": (40, {"carol": 1})})
        slurm.submit("alice", "physics", seconds=3_000, cpus=64)  # nothing else starts
        wait_until(lambda: ["RUNNING"] in slurm.queue("%T"))
        jobs = {user: slurm.submit(user, group, seconds=60) for user, group in USERS.items()}
        array = slurm.submit("bob", "physics", "--array=0-99%2", seconds=60)
        held = slurm.submit("carol", "biology", "--hold", seconds=60)
        submitted_at = time.time()
        run_pass = agent_for(slurm.bin, every_s=EVERY_S)

        def order() -> list[str]:
            priorities = listed(slurm, [*jobs.values(), array])
            if priorities[array] != priorities[jobs["bob"]]:
                return []  # no order: only while a pass sets one job after the other
            return sorted(jobs, key=lambda user: -priorities[jobs[user]])

        for operator in OPERATORS:
            use_operator(computed_site, operator)
            assert frozen_code(run_pass()) == ""
            assert order() == order_of_site()
        last = order()
        with run_pass.running():
            wait_until(lambda: models.AgentPass.objects.count() > len(OPERATORS))  # the worst case: just after a pass
            published_at = time.monotonic()
            share_of_biology(computed_site, 1)
            wait_until(lambda: order() == order_of_site() != last, MOST_S)
            obeyed_s = time.monotonic() - published_at
            print(f"\nfrom publishing to sprio: {obeyed_s:.1f} s, one pass every {EVERY_S} s")
        measure("seconds until obeyed", obeyed_s)
        assert run_pass()["jobs"]["due"] == 0, "nothing changed"

        wait_until(lambda: (slurm.folder / "state" / "job_state").stat().st_mtime > submitted_at)  # every few seconds
        slurm.kill("slurmctld")
        assert frozen_code(run_pass()) == "scheduler_unreadable"
        slurm.start("slurmctld")
        listed(slurm, [*jobs.values(), array])
        assert frozen_code(run_pass()) == ""
        assert order() == order_of_site()

        slurm.run("scontrol", "release", held)
        priorities = listed(slurm, [held, *jobs.values()])
        low, high = sorted((priorities[held], priorities[jobs["carol"]]))
        between = [user for user, job in jobs.items() if low < priorities[job] < high]
        assert between == [], "a held job has its place when it is released"
        assert priorities[held] == priorities[jobs["carol"]], "a held job has its value when it is released"
        assert run_pass()["jobs"]["due"] == 0, "the next pass leaves it there"
        order_reset()
        assert run_pass()["jobs"]["sent"] == 5
        assert len(set(listed(slurm, [*jobs.values(), array, held]).values())) == 1


@pytest.mark.deep
def test_the_grid_engine_queue_follows_the_policy_and_is_reset(
    computed_site: Site, agent_for: Callable[..., RunPass], tmp_path: Path, measure: Measure
) -> None:
    (tmp_path / "gridengine").mkdir()
    with gridengine_site.running_gridengine(tmp_path / "gridengine", users=tuple(USERS)) as site:
        measure.with_version("gridengine", site.version())
        site.configure(weight_urgency=0, weight_ticket=1, weight_tickets_functional=0, weight_tickets_share=0)
        for group in sorted(set(USERS.values())):
            site._load("-Aprj", f"name {group}\noticket 0\nfshare 0\nacl NONE\nxacl NONE\n")
        for number, (user, group) in enumerate(USERS.items()):
            site.submit(user, "-P", group, seconds=60, hold_queue=not number)
        map_projects(computed_site)
        run_pass = agent_for(site.bin, kind="gridengine", knob="override_tickets")
        for operator in OPERATORS:
            use_operator(computed_site, operator)
            assert frozen_code(run_pass()) == ""
            wanted = order_of_site()
            wait_until(lambda wanted=wanted: [job["JB_owner"] for job in site.jobs()] == wanted)  # type: ignore[misc]
        assert run_pass()["jobs"]["due"] == 0
        order_reset()
        run_pass()
        assert {job["JB_override_tickets"] for job in site.jobs()} == {"0"}


def listed(slurm: Any, jobs: Sequence[str]) -> dict[str, int]:
    """Priority by job, once Slurm lists all of these: a new or changed job is missing for a moment."""
    ends = time.monotonic() + 20
    while not set(jobs) <= set(found := sprio(slurm)):
        assert time.monotonic() < ends, (jobs, found, slurm.queue("%i", "%A", "%T", "%Q", "%r"))
        time.sleep(0.1)
    return found


def sprio(slurm: Any) -> dict[str, int]:
    rows = slurm.attempt("sprio", "--noheader", "--format=%i|%Y").stdout.splitlines()
    return {job.strip(): int(priority) for job, _, priority in (row.partition("|") for row in rows)}


def wait_until(holds: Callable[[], bool], within_s: float = 60) -> None:
    ends = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.1)
