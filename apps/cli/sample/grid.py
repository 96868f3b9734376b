"""The sample grid: organisations, projects, users and six sites. Deterministic."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import Actor
from apps.mapping.attachments import attach_account
from apps.runs.services import claim_run, work_lease
from apps.usage.services import NewImport, start_import

POLICY_SLUG = "nordgrid"
POLICY_NAME = "Nordgrid"
NAMESPACE = "nordgrid"
MOUNTED = "neutrinos"  # this organisation publishes its projects itself; they are mounted here
SEED = 20_050_120
PART = 16  # one in PART cores of each site is available to the grid
SOURCE = "umea-slurm"
FILE_NAME = "umea-backlog.ndjson"
MONITORING = AccountKey(namespace=NAMESPACE, user_name="monitoring", group_name="robots")
ENSEMBLE = AccountKey(namespace=NAMESPACE, user_name="ensemble", group_name="robots")
GUESTS = "climate-guests"  # group whose accounts become members by a membership rule
N_GOOD = 40
_OTHERS = (("monitoring", "robots"), ("ensemble", "robots"), ("summer-school", GUESTS), ("commissioning", "umea-staff"))
_FIRST_JOB = 900_001


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster. Larger ones run more jobs; `silent_h`: hours since its accounting last reported."""

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

# Virtual organisation, shares, projects. The first ones have events to show.
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
    """A user of one project, with shares among its members and their weight in its jobs."""

    user: str
    vo: str
    project: str
    shares: int
    appetite: float


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Usage of a virtual organisation relative to its target, and the days to which the factor applies."""

    factor: float = 1.0
    first_day: int = 0
    last_day: int = 10_000
    late_factor: float | None = None  # from `late_from_day` on
    late_from_day: int = 10_000
    follows_projects: bool = True  # usage of projects is in proportion to their shares


# Day 0 is the first of 92. Other organisations follow their target, with noise.
STORY: dict[str, Behaviour] = {
    "climate": Behaviour(follows_projects=False),  # one project is below its target: its lead requests more
    "lattice-qcd": Behaviour(factor=1.0, late_factor=2.1, late_from_day=68),  # over its share for three weeks
    "radio-sky": Behaviour(last_day=-1),  # idle
    "gravity-waves": Behaviour(factor=0.5, first_day=83),  # started nine days ago
    "genomics": Behaviour(factor=0.75, follows_projects=False),
    "training": Behaviour(factor=0.2),
    MOUNTED: Behaviour(factor=0.7),  # its users also work at another site
}


@dataclass(frozen=True, slots=True)
class Grid:
    """All members of the sample grid, and its share tree."""

    members: tuple[Member, ...] = field(default_factory=lambda: tuple(_members()))

    @property
    def vo_shares(self) -> dict[str, int]:
        return {name: shares for name, shares, _ in _VOS}

    def project_shares(self, vo: str) -> dict[str, int]:
        """Shares of projects: each has ten more than the next one."""
        projects = next(projects for name, _, projects in _VOS if name == vo)
        return {project: 10 * (len(projects) - i) for i, project in enumerate(projects)}

    def root(self) -> dict[str, Any]:
        """The share tree as a nested document, without entries below `MOUNTED`, which are mounted."""
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
    wanderers = ["kimberg", "sarastrom"]  # two users in two organisations each
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


def import_backlog(*, at: datetime, admin: Actor) -> None:
    text = "".join(f"{json.dumps(line)}\n" for line in _lines(at))
    started = start_import(
        NewImport(source_slug=SOURCE, format="ndjson", file=io.BytesIO(text.encode()), file_name=FILE_NAME),
        at=at,
        actor=admin,
    )
    work_at(started.run_id, at)


def attach_robots(uid_of: Callable[[str], UUID], *, at: datetime, admin: Actor, manager: Actor) -> None:
    """Attach service accounts by hand; `commissioning` stays unmapped."""
    for account, path, reason, actor in (
        (MONITORING, "/operations/tests", "Checks the clusters every hour.", admin),
        (ENSEMBLE, "/climate/seasonal", "Runs the ensemble of the seasonal forecast.", manager),
    ):
        attach_account(
            policy_slug=POLICY_SLUG, entry_uid=uid_of(path), account=account, reason=reason, at=at, actor=actor
        )


def work_at(run_id: int, at: datetime) -> None:
    """Execute a background run in this process, at an instant of the sample."""
    lease = claim_run(at=at, run_id=run_id, clock=lambda: at)
    if lease is None:
        raise LookupError(f"run {run_id} can't be claimed")
    work_lease(lease)


def _lines(at: datetime) -> Iterator[dict[str, Any]]:
    """Lines of a log of three nights ago: jobs of VOs, jobs of accounts without project, and invalid lines."""
    begin_at = (at - timedelta(days=3)).replace(hour=1, minute=0, second=0, microsecond=0)
    members = [member for member in Grid().members if member.vo in ("climate", "fusion", "solar")]
    for number in range(N_GOOD - len(_OTHERS)):
        member = members[number % len(members)]
        account = {"user": member.user, "group": member.vo, "project": member.project}
        yield _record(number, begin_at + timedelta(minutes=3 * number), account)
    for number, (user, group) in enumerate(_OTHERS, N_GOOD - len(_OTHERS)):
        yield _record(number, begin_at, {"user": user, "group": group})
    end = (begin_at - timedelta(hours=1)).isoformat()
    mistakes: tuple[dict[str, Any], ...] = ({"end": end}, {"cpus": -8}, {"user": ""}, {"end": "tomorrow"})
    for number, wrong in enumerate(mistakes, N_GOOD):
        yield _record(number, begin_at, {"user": "siriberg", "group": "climate"}) | wrong


def _record(number: int, start_at: datetime, account: dict[str, str]) -> dict[str, Any]:
    end_at = start_at + timedelta(hours=1, minutes=number)
    return {
        "job": str(_FIRST_JOB + number),
        **account,
        "submit": start_at.isoformat(),
        "start": start_at.isoformat(),
        "end": end_at.isoformat(),
        "cpus": 4,
        "nodes": 1,
        "mem_mb": 16_000,
        "queue": "batch",
        "qos": "normal",
    }
