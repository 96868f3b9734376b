"""Shares of a policy arrive in real schedulers line by line, and a share changed there by hand is noticed."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.commands import Commands
from agent.loop import Agent
from agent.state import open_table
from apps.accounts.actor import SYSTEM
from apps.contrib.schedulers import services, share_orders
from apps.contrib.schedulers.management.commands.agent import Services
from apps.contrib.schedulers.selectors import get_share_difference
from apps.contrib.schedulers.share_difference import ShareDifference
from apps.policies.formats import gridengine
from apps.policies.services import publish_document
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import load_tree
from apps.priorities.serving import store
from tests.agent.steps import Passes
from tests.instants import AT
from tests.real_schedulers.conftest import Measure
from tests.real_schedulers.gridengine_site import GridEngineSite, running_gridengine
from tests.real_schedulers.slurm_site import CLUSTER, SlurmSite, running_slurm
from tests.small_site import TREE, Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

pytestmark = [pytest.mark.schedulers, pytest.mark.django_db, pytest.mark.deep, pytest.mark.timeout(600)]
USERS = ("alice", "bob", "carol")
RunPass = Callable[[], dict[str, Any]]
WHO: dict[str, Any] = {"name": "c1", "at": AT, "actor": SYSTEM}


@pytest.fixture
def agent_for(computed_site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunPass]:
    """Each pass is that of an agent that has just started."""
    store.poll()

    def make(commands: Path, **given: Any) -> RunPass:
        given = {"mode": "on", "carries": "shares", "namespace": "a", **given}
        services.connect_scheduler(policy_slug="grid", name="c1", settings=given, at=AT, actor=SYSTEM)

        def run_pass() -> dict[str, Any]:
            table = open_table(str(tmp_path / "state"))
            agent = Agent(Services("c1"), Commands(), table, "head1", print, clock=AT.timestamp)
            with monkeypatch.context() as during:
                during.setenv("PATH", f"{commands}:{os.environ['PATH']}")
                document = agent.run_pass()
            assert (document["frozen"], agent.was_reported) == (None, True)
            return document

        return run_pass

    return make


def publish(shares: int) -> None:
    tree = copy.deepcopy(TREE)
    tree["children"][1]["shares"] = shares
    publish_document(policy_slug="grid", document={"root": tree}, reason="x", at=AT, actor=SYSTEM)


def difference() -> ShareDifference:
    found = get_share_difference(**WHO)
    assert found is not None
    return found


def outcomes(report: dict[str, Any]) -> list[str]:
    return [each["code"] for each in report["share_order"]["outcomes"]]


def changed_lines(before: str, after: str) -> list[tuple[str, str]]:
    pairs = zip(before.splitlines(), after.splitlines(), strict=True)
    return [(one, other) for one, other in pairs if one != other]


def prepared(slurm: SlurmSite) -> None:
    """With what a sync has to leave alone: limits, QOS, a coordinator, a default account, one partition's shares."""
    slurm.add_tree({"physics": (60, {"alice": 2, "bob": 1}), "biology": (40, {"carol": 1, "alice": 3})})
    slurm.sacctmgr("modify", "account", "physics", "set", "GrpTRES=cpu=600", "MaxJobs=50")
    slurm.sacctmgr("add", "coordinator", "account=physics", "name=bob")
    slurm.sacctmgr("add", "qos", "quick")
    slurm.sacctmgr("modify", "user", "alice", "account=physics", "set", "qos=normal,quick", "defaultqos=normal")
    slurm.sacctmgr("add", "user", "bob", "account=physics", "partition=other", "fairshare=9", f"cluster={CLUSTER}")


def test_a_share_is_set_in_slurm_and_drift_is_detected_and_corrected(
    release: str, agent_for: Callable[..., RunPass], tmp_path: Path
) -> None:
    (tmp_path / "slurm").mkdir()
    with running_slurm(tmp_path / "slurm", users=USERS, release=release) as slurm:
        prepared(slurm)
        run_pass = agent_for(slurm.bin)
        run_pass()
        assert difference().changes == []
        only_there = [(key.group, key.user) for key in difference().only_there]
        assert only_there == [("biology", "alice"), ("physics", "bob:other")], "and bob's partition has its own shares"
        publish(41)
        before = slurm.dump()
        share_orders.order_shares(tag=difference().tag, **WHO)
        assert outcomes(run_pass()) == ["done"]
        after = slurm.dump()
        ((old, new),) = changed_lines(before, after)
        assert old.replace("Fairshare=40", "Fairshare=41") == new
        assert difference().changes == []
        assert "share_order" not in run_pass(), "nothing is set when nothing changed"

        slurm.sacctmgr("modify", "user", "bob", "account=physics", "partition=''", "set", "fairshare=8")
        run_pass()
        (by_hand,) = difference().by_hand
        assert (by_hand.key, by_hand.before, by_hand.after) == (("physics", "bob"), "8", "1")
        share_orders.order_shares(tag=difference().tag, put_back=[by_hand.key], **WHO)
        assert outcomes(run_pass()) == ["done"]
        assert changed_lines(after, slurm.dump()) == [], "the shares of bob in one partition, too"

        services.request_reset(name="c1", at=AT, actor=SYSTEM)
        restored = run_pass()["restored_shares"]
        assert {(each["group"], each["before"], each["after"], each["code"]) for each in restored} == {
            ("biology", "41", "40", "done"),
            ("physics", "1", "1", "already"),
        }
        assert slurm.dump() == before, "as it was before the first order"

        killed_at_steps(slurm, tmp_path)


def killed_at_steps(slurm: SlurmSite, folder: Path) -> None:
    """Two steps against the real one; the others are in tests/agent/test_steps.py."""
    line = {"line": 0, "group": "physics", "user": "alice", "before": "2", "after": "5"}
    order = {"id": 1, "cluster": CLUSTER, "lines": [line]}
    (folder / "killed").mkdir()
    passes = Passes(folder / "killed", slurm.bin, {"alice physics": 0.5}, carries="shares", share_order=order)
    for step, code in (("set shares", "done"), ("report", "already")):
        assert passes.run(step) == -9
        assert passes.run() == 0
        assert outcomes(passes.report()) == [code]
    shares = [row["RawShares"] for row in slurm.shares() if row["Path"] == "/physics/alice"]
    assert shares == ["5"]


def test_grid_engine_share_tree_nodes_are_set_and_usage_stays(
    computed_site: Site, agent_for: Callable[..., RunPass], tmp_path: Path, measure: Measure
) -> None:
    (tmp_path / "gridengine").mkdir()
    with running_gridengine(tmp_path / "gridengine", users=USERS) as site:
        measure.with_version("gridengine", site.version())
        for user in USERS:
            site.add_user(user)
        for group in ("physics", "biology"):
            site._load("-Aprj", f"name {group}\noticket 0\nfshare 0\nacl NONE\nxacl NONE\n")
        tree = load_tree(computed_site.policy)
        site.set_share_tree(exported := "".join(gridengine.write(gridengine.fit(tree), PolicySettings())))
        assert site.run("qconf", "-sstree").strip() == exported.strip(), "it is read as it was written"
        site.configure(weight_tickets_share=1000, halftime=0)
        site.submit("alice", "-P", "physics", seconds=2)
        site.wait_for_jobs()
        usage = wait_for_usage(site)
        run_pass = agent_for(site.bin, kind="gridengine", knob="override_tickets")
        run_pass()
        assert difference().changes == []
        publish(41)
        before = site.run("qconf", "-sstree")
        share_orders.order_shares(tag=difference().tag, **WHO)
        assert outcomes(run_pass()) == ["done"]
        assert changed_lines(before, site.run("qconf", "-sstree")) == [("shares=40", "shares=41")]
        assert usage_of(site) == usage

        site.run("qconf", "-mstnode", "/physics/bob=7")
        run_pass()
        (by_hand,) = difference().by_hand
        assert (by_hand.key.group, by_hand.before, by_hand.after) == ("/physics/bob", "7", "1")
        share_orders.order_shares(tag=difference().tag, put_back=[by_hand.key], **WHO)
        assert outcomes(run_pass()) == ["done"]
        assert difference().changes == []


def usage_of(site: GridEngineSite) -> dict[str, str]:
    """CPU seconds by node that has some."""
    asked = ("-c", "1", "-x", "-f", "node_name,cpu")
    rows = [line.split() for line in site.run("/usr/lib/gridengine/sge_share_mon", *asked).splitlines()]
    return {row[0]: row[1] for row in rows if len(row) == 2 and float(row[1]) > 0}


def wait_for_usage(site: GridEngineSite) -> dict[str, str]:
    ends = time.monotonic() + 60
    while not (found := usage_of(site)):
        assert time.monotonic() < ends
        time.sleep(0.5)
    return found
