"""The sample grid's people: 28 virtual organisations, their projects and users, six sites, and who behaves how."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

POLICY_SLUG = "nordgrid"
POLICY_NAME = "Nordgrid"
NAMESPACE = "nordgrid"
MOUNTED = "neutrinos"  # this organisation maintains its projects itself, in a policy of its own
SEED = 20_050_120


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster: bigger ones run more of the work; `silent_h` is how long its accounting has been stuck."""

    slug: str
    name: str
    cores: int
    silent_h: int = 0


SITES = (
    Site("umea", "Umeå", 2688),
    Site("linkoping", "Linköping", 2016),
    Site("uppsala", "Uppsala", 1344),
    Site("lund", "Lund", 960),
    Site("goteborg", "Göteborg", 768),
    Site("lulea", "Luleå", 512, silent_h=20),
)

# Virtual organisation, shares, projects. The first ones are those the story is about.
_VOS: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    ("climate", 120, ("seasonal", "sea-ice", "storm-tracks")),
    ("lattice-qcd", 100, ("heavy-quarks", "gluons", "spectra")),
    ("genomics", 90, ("assembly", "variants", "pathogens")),
    ("radio-sky", 80, ("imaging", "transients")),
    ("materials", 80, ("batteries", "alloys", "surfaces")),
    ("gravity-waves", 40, ("burst-search", "templates")),
    ("fusion", 60, ("edge-plasma", "transport")),
    ("protein-folding", 60, ("dynamics", "docking")),
    ("neutrinos", 50, ("reconstruction", "simulation")),
    ("ocean", 50, ("currents", "plankton")),
    ("turbulence", 40, ("wind-farms", "combustion")),
    ("brain", 40, ("connectome", "signals")),
    ("cryo-imaging", 40, ("particles", "maps")),
    ("seismology", 30, ("inversion", "hazard")),
    ("solar", 30, ("flares",)),
    ("exoplanets", 30, ("transits",)),
    ("quantum-chemistry", 30, ("catalysis", "spectroscopy")),
    ("polymers", 20, ("membranes",)),
    ("hydrology", 20, ("floods",)),
    ("languages", 20, ("speech", "archives")),
    ("traffic", 15, ("cities",)),
    ("epidemics", 15, ("spread",)),
    ("accelerators", 15, ("beams",)),
    ("dark-matter", 15, ("direct",)),
    ("glaciers", 10, ("flow",)),
    ("astro-chemistry", 10, ("ices",)),
    ("training", 10, ("courses",)),
    ("operations", 10, ("tests",)),
)
_FIRST = (
    "anna",
    "erik",
    "sara",
    "johan",
    "lena",
    "karl",
    "maja",
    "oskar",
    "elin",
    "nils",
    "ida",
    "hugo",
    "kim",
    "tove",
    "axel",
    "siri",
    "love",
    "alva",
    "otto",
    "vera",
)
_LAST = (
    "berg",
    "lind",
    "holm",
    "strom",
    "dahl",
    "nyman",
    "sjo",
    "falk",
    "ek",
    "lund",
    "ask",
    "hed",
    "rask",
    "vik",
    "moe",
    "ruud",
)


@dataclass(frozen=True, slots=True)
class Member:
    """A user of one project: the share among its fellows, and how much of the project's work is theirs."""

    user: str
    vo: str
    project: str
    shares: int
    appetite: float


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a virtual organisation's use follows its target: a factor, and the days of the story it applies to."""

    factor: float = 1.0
    first_day: int = 0
    last_day: int = 10_000
    late_factor: float | None = None  # from `late_from_day` on
    late_from_day: int = 10_000
    follows_projects: bool = True  # its projects keep to their shares


# Day 0 is the first of 92. Everybody else follows the target, with noise.
STORY: dict[str, Behaviour] = {
    "climate": Behaviour(follows_projects=False),  # the seasonal forecast is behind: its lead asks for more
    "lattice-qcd": Behaviour(factor=1.0, late_factor=2.1, late_from_day=68),  # over its share for three weeks
    "radio-sky": Behaviour(last_day=-1),  # idle: its telescope is being repaired
    "gravity-waves": Behaviour(factor=0.5, first_day=83),  # the newcomer: started nine days ago
    "genomics": Behaviour(factor=0.75, follows_projects=False),
    "training": Behaviour(factor=0.2),
    MOUNTED: Behaviour(factor=0.7),  # its people work at another site, too
}


@dataclass(frozen=True, slots=True)
class Grid:
    """The whole sample, the same at every call."""

    members: tuple[Member, ...] = field(default_factory=lambda: tuple(_members()))

    @property
    def vo_shares(self) -> dict[str, int]:
        return {name: shares for name, shares, _ in _VOS}

    def project_shares(self, vo: str) -> dict[str, int]:
        """Each project has ten shares more than the next one."""
        projects = next(projects for name, _, projects in _VOS if name == vo)
        return {project: 10 * (len(projects) - i) for i, project in enumerate(projects)}

    def root(self) -> dict[str, Any]:
        """The share tree as a nested document; what is below `MOUNTED` comes from its own authority."""
        return {
            "name": POLICY_NAME,
            "kind": "grid",
            "shares": 1,
            "children": [self._vo(name, shares) for name, shares, _ in _VOS],
        }

    def _vo(self, name: str, shares: int) -> dict[str, Any]:
        own = {} if name == MOUNTED else self.project_shares(name)
        children = [self._project(name, project, n) for project, n in own.items()]
        return {"name": name, "kind": "vo", "shares": shares, "children": children}

    def _project(self, vo: str, project: str, shares: int) -> dict[str, Any]:
        users = [
            {"name": member.user, "kind": "user", "shares": member.shares}
            for member in self.members
            if (member.vo, member.project) == (vo, project)
        ]
        return {"name": project, "kind": "project", "shares": shares, "children": users}


def _members() -> Iterator[Member]:
    rng = random.Random(SEED)
    names = [first + last for first in _FIRST for last in _LAST]
    rng.shuffle(names)
    fresh = iter(names)
    wanderers = ["kimberg", "sarastrom"]  # two people who work for two organisations each
    reserved = set(wanderers)
    for vo, _, projects in _VOS:
        for project in projects:
            size = rng.choice((2, 3, 3, 4, 5))
            for _ in range(size):
                user = next(name for name in fresh if name not in reserved)
                yield Member(user, vo, project, rng.choice((1, 1, 1, 2)), rng.lognormvariate(0.0, 0.7))
            if (vo, project) in {("climate", "seasonal"), ("ocean", "currents")}:
                yield Member("kimberg", vo, project, 1, 1.6)
            if (vo, project) in {("materials", "batteries"), ("quantum-chemistry", "catalysis")}:
                yield Member("sarastrom", vo, project, 1, 0.8)
