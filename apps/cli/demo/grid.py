"""The grid of the demo: a project, the VO that mounts it, and two sites that mount the VO beside a group of their own.

project.example divides the shares of its members; vo.example mounts that and divides its own among projects; each site
gives the VO 60 of 100 shares, and subscribes to the usage of its members at the other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.cli.demo.instances import Instance

PROJECT, VO, SITES = "project", "vo", ("site-a", "site-b")
NAMES = (PROJECT, VO, *SITES)
VO_ENTRY, PROJECT_ENTRY, OTHER_ENTRY = "northlight", "aurora", "ionosphere"
CORES = 40  # of each site
HALF_LIFE_S = 3600
EVERY_S = 60  # between two fetches
TOKEN_SCOPES = ("usage:write", "priorities:read", "policies:read")

PROJECT_MEMBERS = {"anna": 50, "ben": 30, "cara": 20}
_OTHER_MEMBERS = {"dora": 50, "emil": 50}
LOCAL_MEMBERS = {"site-a": ("hanna", "ivar"), "site-b": ("jens", "kaja")}
#: Who submits jobs where, and how many of ten jobs while none has a priority.
DEMAND: Mapping[str, Mapping[str, int]] = {
    "site-a": {"anna": 1, "ben": 4, "dora": 1, "emil": 1, "hanna": 2, "ivar": 1},
    "site-b": {"anna": 1, "cara": 5, "emil": 2, "jens": 1, "kaja": 1},
}
# Counting what running jobs will use keeps shares from swinging around their targets by the length of a job.
_SETTINGS = {
    "window": {"half_life_s": HALF_LIFE_S},
    "approach": {"local": "predictive", "global": "predictive"},
}
_MOUNTED = {"most_points": 100, "every_s": EVERY_S}
_TITLES = {PROJECT: "Aurora", VO: "Northlight", "site-a": "Site A", "site-b": "Site B"}


def _entry(name: str, shares: int, members: Mapping[str, int], kind: str = "project") -> dict[str, Any]:
    users = [{"name": user, "kind": "user", "shares": n} for user, n in members.items()]
    return {"name": name, "kind": kind, "shares": shares, "children": users}


def _trees() -> dict[str, dict[str, Any]]:
    """What each authority decides itself, as nested documents."""
    vo = {"name": VO_ENTRY, "kind": "vo", "shares": 60}
    own = [_entry(PROJECT_ENTRY, 60, {}), _entry(OTHER_ENTRY, 40, _OTHER_MEMBERS)]
    trees: dict[str, dict[str, Any]] = {
        PROJECT: {"name": "root", "children": [_entry(PROJECT_ENTRY, 1, PROJECT_MEMBERS)]},
        VO: {"name": "root", "children": [{**vo, "children": own}]},
    }
    for site in SITES:
        local = _entry("local", 40, dict.fromkeys(LOCAL_MEMBERS[site], 1), kind="group")
        trees[site] = {"name": "root", "scope": "local", "children": [{**vo, "scope": "global", "children": []}, local]}
    return trees


def set_up(instances: Mapping[str, Instance], password: str) -> dict[str, str]:
    """Policies, mounts and feeds, from the project on; returns a token of each instance's administrator."""
    tokens = {
        name: one.request("make_admin", username="admin", password=password, scopes=TOKEN_SCOPES)
        for name, one in instances.items()
    }
    keys = {
        name: instances[name].request("govern", root=root, settings=_SETTINGS, title=_TITLES[name])
        for name, root in _trees().items()
    }
    instances[PROJECT].request("publish", entry=f"/{PROJECT_ENTRY}", name=PROJECT_ENTRY)
    _mount(instances, VO, f"/{VO_ENTRY}/{PROJECT_ENTRY}", PROJECT, PROJECT_ENTRY, keys)
    instances[VO].request("publish", entry=f"/{VO_ENTRY}", name=VO_ENTRY)
    for site in SITES:
        _mount(instances, site, f"/{VO_ENTRY}", VO, VO_ENTRY, keys)
        instances[site].request("count_usage", leaves=sorted(DEMAND[site]))
        instances[site].request("publish_usage", entry=f"/{VO_ENTRY}", name=VO_ENTRY, cores=CORES)
    for site, peer in zip(SITES, reversed(SITES), strict=True):
        url = f"{instances[peer].address}/api/v1/feeds/{VO_ENTRY}"
        peers = [(f"/{VO_ENTRY}", url, keys[peer], CORES)]
        instances[site].request("subscribe", peers=peers, settings={"every_s": EVERY_S})
    return tokens


def _mount(
    instances: Mapping[str, Instance], name: str, entry: str, of: str, publication: str, keys: Mapping[str, str]
) -> None:
    url = f"{instances[of].address}/api/v1/publications/{publication}"
    instances[name].request("mount", entry=entry, url=url, fingerprint=keys[of], settings=_MOUNTED)
    instances[name].request("keep_schedule")  # fetches it
