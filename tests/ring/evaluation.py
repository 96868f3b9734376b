"""The Grid-wide evaluation as this suite runs it: who decides what of its policy, and the jobs that each site gets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from apps.cli.demo.cluster import Cluster, Job
from tests.ring.workload import draw_jobs, load_scenario, shares_of_parents

CPUS = 100
VOS = {"VO-A": "vo-a", "VO-B": "vo-b"}  # entry at every site → the authority that describes it
PROJECT = "P-B1"


def child(policy: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The entry on a path in a nested policy."""
    found = dict(policy)
    for name in names:
        found = next(one for one in found["children"] if one["name"] == name)
    return found


class Evaluation:
    """One of the scenarios that come with the simulator, on the first `n_sites` of its sites."""

    def __init__(self, scenario: str, *, n_sites: int, hours: float, seed: int = 1) -> None:
        given = load_scenario(scenario)
        self.policy: dict[str, Any] = given["policy"]
        self.approach: dict[str, str] = {scope: given["usage"][scope] for scope in ("local", "global")}
        self.settings = {
            "algorithm": given["algorithm"],
            "window": {"length_s": None, "aging": "none"},
            "approach": self.approach,
        }
        kept = [site["name"] for site in given["sites"]][:n_sites]
        rate = len(given["sites"]) / n_sites
        lines = [_within(line, kept, rate) for line in given["workload"]]
        given |= {"sites": given["sites"][:n_sites], "workload": [line for line in lines if line]}
        self.jobs = draw_jobs(given, hours=hours, seed=seed)
        self.sites = [f"site-{number + 1}" for number in range(n_sites)]
        self.leaves = sorted({job.leaf for job in self.jobs})

    def clusters(self) -> dict[str, Cluster]:
        return {name: Cluster(CPUS, [job for job in self.jobs if job.site == n]) for n, name in enumerate(self.sites)}

    def policy_of_site(self) -> dict[str, Any]:
        """Its own shares of the VOs; what is below them they say themselves."""
        children = [{"name": name, "shares": child(self.policy, name)["shares"], "children": []} for name in VOS]
        return {"name": "root", "scope": "local", "children": children}

    def policy_of_vo(self, entry: str, *, without: str = "") -> dict[str, Any]:
        """without: an entry whose children another authority describes."""
        found = child(self.policy, entry)
        children = [{**one, "children": []} if one["name"] == without else one for one in found["children"]]
        return {"name": "root", "children": [{**found, "children": children}]}

    def policy_of_project(self) -> dict[str, Any]:
        return {"name": "root", "children": [child(self.policy, "VO-B", PROJECT)]}


def usage_of(jobs: Sequence[Job], approach: str, now_s: float) -> dict[str, float]:
    """Core-seconds of each entry by its name, counted from the jobs themselves."""
    found: dict[str, float] = defaultdict(float)
    for job in jobs:
        if not 0 <= job.start_s < now_s:
            continue
        used = job.core_s(now_s)
        if job.end_s >= now_s and approach != "active":
            used = job.cpus * job.requested_s if approach == "predictive" else 0.0
        for name in job.path.split("/")[1:]:
            found[name] += used
    return found


def shares_at(clusters: Mapping[str, Cluster], now_s: float, *, but: Sequence[str] = ()) -> dict[str, float]:
    """Percent of its parent that each entry was given since the beginning, at all sites but these."""
    return shares_of_parents([job for name, one in clusters.items() if name not in but for job in one.jobs], now_s)


def _within(line: dict[str, Any], sites: Sequence[str], rate: float) -> dict[str, Any]:
    """A line of the workload for fewer sites, with as many jobs for each; {} where none of its sites is left."""
    chosen = [name for name in line.get("sites", sites) if name in sites]
    return {**line, "sites": chosen, "every_s": line["every_s"] * rate} if chosen else {}
