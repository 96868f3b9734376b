"""Two sites follow a VO that is nothing but a file on a web server, each with processes and a database of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.ring.evaluation import CPUS, Evaluation, usage_of
from tests.ring.grid import feed_at
from tests.ring.instances import Instances, Server
from tests.ring.peers import file_server
from tests.ring.ring import START, Ring

SITES = ("site-1", "site-2")
ROUNDS = 18  # an hour and a half: processors are full after the third, and jobs end in the eighth
pytestmark = [pytest.mark.django_db, pytest.mark.faults, pytest.mark.timeout(600)]


@dataclass
class Small:
    ring: Ring
    folder: Path

    def publish(self) -> str:
        """As a VO without a server does: the command writes files, and any web server hands them out."""
        arguments = ["federation", "publish", "--to", str(self.folder), "--policy", "grid", "--entry", "/VO-A"]
        found: str = self.ring.instances["vo-a"].request("manage", arguments=[*arguments, "--name", "vo-a", "--open"])
        return found


@pytest.fixture
def small(tmp_path: Path, server: Server) -> Iterator[Small]:
    folder = tmp_path / "web"
    folder.mkdir()
    evaluation = Evaluation("imbalanced-global-predictive", n_sites=2, hours=2)
    with file_server(folder) as port:
        instances = Instances(("vo-a", *SITES), server, web=SITES, ports=[port])
        try:
            instances.start(START)
            made = Small(Ring(evaluation, instances), folder)
            set_up(made, f"http://127.0.0.1:{port}/vo-a.fairshare")
            yield made
        finally:
            instances.close()


def set_up(small: Small, url: str) -> None:
    """VO-A is mounted, and its usage published to each other; VO-B is each site's own."""
    evaluation, instances = small.ring.evaluation, small.ring.instances
    settings = evaluation.settings
    root = evaluation.policy_of_site()
    own = evaluation.policy_of_vo("VO-B")["children"][0]
    root["children"] = [one if one["name"] == "VO-A" else own for one in root["children"]]
    key = instances["vo-a"].request("govern", root=evaluation.policy_of_vo("VO-A"), settings=settings)
    keys = instances.tell_each(SITES, "govern", lambda _: {"root": root, "settings": settings})
    assert "version 1 (new), 4 entries" in small.publish()
    there = {"entry": "/VO-A", "url": url, "fingerprint": key, "settings": {"most_points": 100}}
    instances.tell_each(SITES, "mount", lambda _: there)
    looked = instances.tell_each(SITES, "look")
    assert {name: [*found.values()] for name, found in looked.items()} == {name: ["applied"] for name in SITES}
    instances.tell_each(SITES, "count_usage", lambda _: {"leaves": evaluation.leaves})
    instances.tell_each(SITES, "publish_usage", lambda _: {"entry": "/VO-A", "name": "vo-a", "cores": CPUS})
    address = {name: feed_at(instances[name].address, "vo-a") for name in SITES}
    peer = {"site-1": "site-2", "site-2": "site-1"}
    instances.tell_each(
        SITES,
        "subscribe",
        lambda name: {
            "peers": [["/VO-A", address[peer[name]], keys[peer[name]], CPUS]],
            "settings": {"every_s": 300},
        },
    )
    small.ring.recompute()


@pytest.mark.deep
def test_a_change_of_the_vo_is_in_every_sites_ranks_within_one_refresh(small: Small) -> None:
    ring, projects = small.ring, ("P-A1", "P-A2", "P-A3")
    assert ring.best_of(*projects) == {"P-A1"}
    for version, (p_a1, p_a3, best) in enumerate([(20, 50, "P-A3"), (50, 20, "P-A1")], start=2):
        ring.instances["vo-a"].request("change_shares", shares={"/VO-A/P-A1": p_a1, "/VO-A/P-A3": p_a3})
        assert f"version {version} (new)" in small.publish()
        ring.refresh()
        assert ring.best_of(*projects) == {best}


@pytest.mark.deep
def test_each_site_compares_by_local_and_reported_usage(small: Small) -> None:
    ring, approach = small.ring, small.ring.evaluation.approach
    for _ in range(ROUNDS):
        ring.run_round()
    every_job = [job for cluster in ring.clusters.values() for job in cluster.jobs]
    for name in SITES:
        jobs = ring.clusters[name].jobs
        here, alone = (usage_of(jobs, approach[scope], ring.now_s) for scope in ("local", "global"))
        together = usage_of(every_job, approach["global"], ring.now_s)
        expected = {entry: here[entry] for entry in ("VO-A", "VO-B")}
        expected |= {job.leaf: (together if "/VO-A/" in job.path else alone)[job.leaf] for job in every_job}
        assert ring.used[name].keys() - expected.keys() == {"P-B1"}
        for entry, core_s in expected.items():
            assert ring.used[name][entry] == pytest.approx(core_s, rel=1e-5), (name, entry)
    instances = ring.instances
    assert instances.tell_each(SITES, "failed_runs") == {name: [] for name in SITES}
    looks = instances.tell_each(SITES, "timeline")
    for name in SITES:
        policy = looks[name].pop("vo-a.example, vo-a")
        assert policy.pop("applied") >= 1
        assert policy == {"same": ROUNDS}, "a look at the mount was refused"
        (found,) = looks[name].values()
        assert found.keys() == {"applied", "same"}, "a look at usage was refused"
