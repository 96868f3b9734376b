"""The whole grid: six sites mount two VOs, one of which mounts a project, and publish their usage to each other.

project.example decides about P-B1's users; vo-b.example mounts that below VO-B and publishes it with its own projects;
each site mounts VO-A and VO-B beside each other, with shares of its own, and subscribes to the usage of both at each
other site.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.ring.evaluation import CPUS, PROJECT, VOS, Evaluation
from tests.ring.instances import Instances, Server
from tests.ring.ring import START, Ring

AUTHORITIES = ("project", "vo-a", "vo-b")
USERS = ("U-B11", "U-B12", "U-B13")
REFRESH_S = 900  # how often a site looks at what it mounted and at its peers' usage: after every third round
_MOUNTED = {
    "most_points": 100,
    "every_s": REFRESH_S,
    "max_age_s": 7 * 86_400,
}  # decisions of VOs are applied automatically
_SUBSCRIBED = {"every_s": REFRESH_S, "max_age_s": 7 * 86_400}


@contextmanager
def running_grid(evaluation: Evaluation, server: Server, *, ports: Sequence[int] = ()) -> Iterator[Ring]:
    """All processes, nothing set up; they end with the block, whatever happens in it."""
    names = (*AUTHORITIES, *evaluation.sites)
    instances = Instances(names, server, web=names, ports=ports)
    try:
        instances.start(START)
        yield Ring(evaluation, instances, others=("project", "vo-b"))
    finally:
        instances.close()


def set_up(ring: Ring, *, tells_usage: bool, address_of: dict[str, str] | None = None) -> None:
    """The chain of mounts, from its end on; then the feeds. address_of: where peers find a site's feeds, if not there.

    Each key is compared over a separate channel: from the mouth of its own instance.
    """
    keys = _govern(ring)
    _mount(ring, ["vo-b"], f"/VO-B/{PROJECT}", "project", keys)
    ring.instances["vo-b"].request("publish", entry="/VO-B", name="vo-b")
    for entry, vo in VOS.items():
        _mount(ring, ring.sites, f"/{entry}", vo, keys)
    ring.tell(ring.sites, "count_usage", lambda _: {"leaves": ring.evaluation.leaves})
    if tells_usage:
        _exchange_usage(ring, keys, address_of or {})
    ring.recompute()


def _govern(ring: Ring) -> dict[str, str]:
    """Who decides what; the fingerprint of each."""
    evaluation = ring.evaluation
    root_of = {
        "project": evaluation.policy_of_project(),
        "vo-a": evaluation.policy_of_vo("VO-A"),
        "vo-b": evaluation.policy_of_vo("VO-B", without=PROJECT),
    }
    for name in ring.sites:
        root_of[name] = evaluation.policy_of_site()
    keys = ring.tell(list(root_of), "govern", lambda name: {"root": root_of[name], "settings": evaluation.settings})
    ring.instances["project"].request("publish", entry=f"/{PROJECT}", name="project")
    ring.instances["vo-a"].request("publish", entry="/VO-A", name="vo-a")
    return keys


def _mount(ring: Ring, names: Sequence[str], entry: str, authority: str, keys: dict[str, str]) -> None:
    there = {
        "entry": entry,
        "url": publication_at(ring.instances[authority].address, authority),
        "fingerprint": keys[authority],
        "settings": _MOUNTED,
    }
    ring.tell(names, "mount", lambda _: there)
    for outcomes in ring.tell(names, "look").values():
        assert set(outcomes.values()) == {"applied"}, outcomes


def _exchange_usage(ring: Ring, keys: dict[str, str], address_of: dict[str, str]) -> None:
    for entry, vo in VOS.items():
        _tell_usage(ring, {"entry": f"/{entry}", "name": vo, "cores": CPUS})

    def peers_of(name: str) -> dict[str, Any]:
        peers = [other for other in ring.sites if other != name]
        return {
            "peers": [
                [f"/{entry}", feed_at(address_of.get(peer, ring.instances[peer].address), vo), keys[peer], CPUS]
                for peer in peers
                for entry, vo in VOS.items()
            ],
            "settings": _SUBSCRIBED,
        }

    ring.tell(ring.sites, "subscribe", peers_of)


def _tell_usage(ring: Ring, feed: dict[str, Any]) -> None:
    ring.tell(ring.sites, "publish_usage", lambda _: feed)


def publication_at(address: str, name: str) -> str:
    return f"{address}/api/v1/publications/{name}"


def feed_at(address: str, name: str) -> str:
    return f"{address}/api/v1/feeds/{name}"


def change_the_project(ring: Ring, shares: dict[str, float]) -> set[str]:
    """At its own instance; who of its users comes first at the sites one refresh later."""
    ring.instances["project"].request("change_shares", shares={f"/{PROJECT}/{name}": n for name, n in shares.items()})
    ring.refresh(REFRESH_S)
    return ring.best_of(*USERS)
