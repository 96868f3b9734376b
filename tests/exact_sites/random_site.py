"""A random policy with jobs, as its document and as a case for the slow twins: a seed decides everything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Any

from tests.oracles.algorithms import Case
from tests.oracles.hourly_usage import Job, usage_at

DAY_S = 86_400
WINDOWS: tuple[dict[str, Any], ...] = (
    {"length_s": None, "aging": "none"},
    {"length_s": 90_000, "aging": "none"},
    {"length_s": None, "aging": "exponential", "half_life_s": DAY_S},
    {"length_s": 90 * DAY_S, "aging": "exponential", "half_life_s": 7 * DAY_S},
    {"length_s": 5 * DAY_S, "aging": "linear"},
    {"length_s": 200_000, "aging": "step", "granularity_s": 40_000, "factor": 0.7},
    {"length_s": None, "aging": "none", "reset": "daily", "reset_zone": "Asia/Kolkata"},
    {
        "length_s": None,
        "aging": "exponential",
        "half_life_s": DAY_S,
        "reset": "weekly",
        "reset_zone": "America/New_York",
    },
    {"length_s": 20 * DAY_S, "aging": "none", "reset": "monthly", "reset_zone": "UTC"},
)
ALGORITHMS = ("aequus", "gridwide", "slurm-fair-tree", "slurm-classic", "slurm-depth-oblivious", "flux")
OPERATORS = ("absolute", "relative", "relative-2", "sigmoid", "sigmoid-2", "slurm", "combined")
NAMES = ("phys", "é", "ﬁsh", "雪", "Ωmega", "a b", "naïve", "x-y", "🦉", "straße")
AGES_S = (0, 1, 1800, 3600, 7201, DAY_S, 3 * DAY_S, 30 * DAY_S)
DURATIONS_S = (1, 59, 3600, 7300, 100_000)
CPUS = (1, 2, 3, 0.5, 0.1, 128)
DEEPEST = 20
_MOST_ENTRIES = 60


@dataclass
class RandomSite:
    """`jobs` by the path of the entry that is charged."""

    name: str  # of its algorithm
    seed: int
    as_of_s: int
    algorithm: dict[str, Any] = field(init=False)
    window: dict[str, Any] = field(init=False)
    children: list[dict[str, Any]] = field(init=False)
    jobs: dict[str, list[Job]] = field(init=False)

    def __post_init__(self) -> None:
        self._draw = Random(f"{self.name} {self.seed}")
        self._n_entries = 0
        self.algorithm = _algorithm(self._draw, self.name)
        self.window = self._draw.choice(WINDOWS)
        self.children = self._group(0, self._draw.choice((2, 3, 3, 4, 5, DEEPEST)))
        charged = [path for path, entry in walk(self.children) if entry["kind"] != "reserve"]
        self.jobs = {
            path: [self._job() for _ in range(self._draw.choice((1, 1, 2, 3)))]
            for path in charged
            if self._draw.random() < 0.7
        }

    def case(self, *, blur: float = 0.0) -> Case:
        """With exact usage, or each entry's changed by a random part of itself up to `blur`."""
        usage = {
            path: sum((usage_at(job, self.window, self.as_of_s) for job in jobs), Fraction(0))
            * Fraction(1 + blur * self._draw.uniform(-1, 1))
            for path, jobs in self.jobs.items()
        }
        policy = {"name": "root", "shares": 1, "children": self.children}
        return {"algorithm": self.algorithm, "policy": policy, "usage": usage}

    @property
    def has_exact_sums(self) -> bool:
        """Whether doubles hold the sums of usage: quanta that all count whole."""
        return bool(self.window["aging"] == "none")

    def _group(self, level: int, deepest: int) -> list[dict[str, Any]]:
        draw = self._draw
        n = draw.choice((1, 2, 3, 3, 4, 5)) if level else draw.choice((3, 5, 8))
        names = [f"{name}{draw.choice(('', 1, 'A'))}" for name in draw.sample(NAMES, n)]
        largest = draw.choice((1, 3, 9, 10**6, 10**15))
        return [
            self._entry(name, largest, level + 1, deepest, is_first=not number) for number, name in enumerate(names)
        ]

    def _entry(self, name: str, largest: int, level: int, deepest: int, *, is_first: bool) -> dict[str, Any]:
        draw = self._draw
        self._n_entries += 1
        entry: dict[str, Any] = {"name": name, "kind": "user", "shares": draw.randint(0, largest)}
        if largest < 9 and self.algorithm["name"] != "slurm-fair-tree" and draw.random() < 0.3:
            entry["shares"] = draw.choice((0.1, 1e-15, 2.5))
        if self.algorithm["name"] != "flux" and draw.random() < 0.08:
            entry["shares"] = "parent"
        goes_on = deepest == DEEPEST and is_first
        if level < deepest and (goes_on or (self._n_entries < _MOST_ENTRIES and draw.random() < 0.5)):
            return entry | {"kind": "group", "children": self._group(level, deepest)}
        if draw.random() < 0.05:
            return entry | {"kind": "group", "children": []}
        if entry["shares"] != "parent":
            entry["kind"] = draw.choice(("user", "user", "user", "user", "project", "reserve"))
        return entry

    def _job(self) -> Job:
        draw = self._draw
        end_s = self.as_of_s - draw.choice(AGES_S) - draw.randint(0, 3000)
        return Job(end_s - draw.choice(DURATIONS_S), end_s, draw.choice(CPUS))


def walk(children: list[dict[str, Any]], above: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every entry with its path."""
    for child in children:
        path = f"{above}/{child['name']}"
        yield path, child
        yield from walk(child.get("children", []), path)


def _algorithm(draw: Random, name: str) -> dict[str, Any]:
    match name:
        case "aequus":
            settings = {"operator": draw.choice(OPERATORS), "resolution": draw.choice((4, 9, 100, 10_000, 2**31))}
            return {"name": name, **settings, "factor_from": draw.choice(("rank", "key"))}
        case "slurm-fair-tree":
            return {"name": name, "ties": draw.choice(("as-slurm", "as-documented"))}
        case "slurm-classic" | "slurm-depth-oblivious":
            return {"name": name, "damping_factor": draw.choice((1, 3))}
    return {"name": name}
