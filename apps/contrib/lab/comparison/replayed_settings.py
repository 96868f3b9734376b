"""Settings compared by replays: each a few times with other moments of submission, so that chance shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import orjson

from apps.contrib.lab.comparison.recorded_order import ModelError, model_error
from apps.contrib.lab.comparison.replay import MOST_REPLAYED_JOBS, Jobs, Replay, Variant
from apps.contrib.lab.comparison.sentences import half_life_name
from apps.contrib.lab.comparison.verdict import ReplayFacts
from apps.contrib.lab.simulation.scenario import PastUsage
from apps.core.errors import Invalid
from apps.engine.algorithms import all_algorithms, get_algorithm, read_algorithm
from apps.engine.analysis.properties import compare_orders
from apps.engine.arrays import FloatArray
from apps.engine.decay_functions import get_decay_function
from apps.engine.errors import EngineError
from apps.engine.operators import get_operator
from apps.engine.tree import FairshareTree
from apps.priorities.metering import APPROACHES, window_of

N_REPLAYS = 5
LATEST_S = 3600.0  # by which submissions are moved
FEWEST_DAYS, FEWEST_JOBS = 8, 100
HALF_LIVES_S = tuple(days * 86_400 for days in (1, 2, 4, 7, 14, 30))
_HELD_BACK = 1 / 3  # of the days
_MOST_WARM_UP_DAYS = 7
_REPRESENTATIVES = ("relative", "absolute", "combined")


def most_replays(n_operators: int) -> int:
    """The most replays that advice takes: of operators, half-lives, algorithms, and what is advised together."""
    n_settings = n_operators + len(HALF_LIVES_S) + 1 + len(all_algorithms()) + 2
    return N_REPLAYS * n_settings


def aging_with_half_life(window: Mapping[str, Any]) -> str:
    """The window's decay function if it has a half-life, else the exponential one."""
    aging = str(window["aging"])
    has_half_life = any(each.name == "half_life_s" for each in get_decay_function(aging).parameters)
    return aging if has_half_life else "exponential"


def half_life_window(window: Mapping[str, Any], half_life_s: int) -> dict[str, Any]:
    """A window with this half-life, by its decay function, or an exponential one where it has no half-life."""
    return {**window, "aging": aging_with_half_life(window), "half_life_s": half_life_s}


class Means(NamedTuple):
    """Mean distances from fair use, in points."""

    training: float
    held_back: float
    late: float
    latest: float


@dataclass(frozen=True)
class Split:
    """Days of a replay: warm-up without a verdict, days to choose by, and days to check the choice."""

    n_days: int

    @property
    def n_held_back(self) -> int:
        return round(self.n_days * _HELD_BACK)

    @property
    def n_warm_up(self) -> int:
        return min(_MOST_WARM_UP_DAYS, self.n_days // 4)

    @property
    def n_training(self) -> int:
        return self.n_days - self.n_held_back - self.n_warm_up

    def means(self, deviations: FloatArray) -> Means:
        """Of the days to choose by, of the held-back ones, and of the first and second half of these."""
        end = self.n_days - self.n_held_back
        middle = end + self.n_held_back // 2
        parts = (slice(self.n_warm_up, end), slice(end, None), slice(end, middle), slice(middle, None))
        return Means(*(_mean(deviations[part]) for part in parts))


def _mean(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else 0.0


@dataclass(frozen=True, slots=True)
class ReplaySample:
    """What was replayed, as `advisor.records.Sample` describes it."""

    n_jobs: int
    one_in: int
    n_replay_days: int
    n_training_days: int
    n_held_back_days: int
    n_replays: int
    n_entries: int
    n_left_out: int
    n_waiting: int
    cpus: int
    model_error_points: float
    wait_s: float
    model_wait_s: float
    meets_history: bool
    n_unrequested: int
    least_cpus: int
    job_points: float


@dataclass(frozen=True, eq=False)
class Replays:
    """Replays of one policy's jobs. past: usage before them. done: called with the number of finished replays."""

    tree: FairshareTree
    jobs: Jobs
    settings: Mapping[str, Any]  # of the policy: algorithm, window and approach
    past: PastUsage | None = None
    origin_s: float = 0.0  # begin of the first day, in seconds since 1970
    done: Callable[[int], object] = lambda n: None
    progress: Callable[[float], None] | None = None  # called with the completed part of each replay
    _known: dict[tuple[bytes, int], Means] = field(default_factory=dict)

    @cached_property
    def split(self) -> Split:
        return Split(self.jobs.n_days)

    @cached_property
    def whole(self) -> Replay | None:
        """The jobs as recorded; None if there are too few to compare anything."""
        if self.jobs.n_days < FEWEST_DAYS or len(self.jobs) < FEWEST_JOBS:
            return None
        return Replay.of(self.tree, self.jobs, self.past, origin_s=self.origin_s)

    @cached_property
    def error(self) -> ModelError | None:
        """How far the replay of history is from history; None where nothing is replayed."""
        return None if self.whole is None else model_error(self.whole, self.split.n_warm_up)

    def happened(self) -> tuple[float, float] | None:
        """Mean distances of history itself, on the first days and on the held-back ones; None as `whole`."""
        if self.whole is None:
            return None
        means = self.split.means(self.whole.distances(self.whole.jobs.started_s))
        return means.training, means.held_back

    @cached_property
    def one_in(self) -> int:
        """Of so many jobs each replay has one, and each replay others."""
        return 1 if self.whole is None else max(1, -(-len(self.whole.jobs) // MOST_REPLAYED_JOBS))

    @cached_property
    def _replays(self) -> list[Replay]:
        """None where the replay doesn't meet history."""
        if self.whole is None or self.error is None or not self.error.is_met:
            return []
        samples = [self.whole.sampled(self.one_in, number) for number in range(N_REPLAYS)]
        return [samples[0], *(replace(each, jobs=_moved(each.jobs, n)) for n, each in enumerate(samples[1:], start=1))]

    def sample(self, *, one_in: int = 1) -> ReplaySample | None:
        """What was replayed; None where nothing is. one_in: of so many jobs the given ones are one."""
        whole, error = self.whole, self.error
        if whole is None or error is None:
            return None
        return ReplaySample(
            n_jobs=len(whole.jobs),
            one_in=one_in * self.one_in,
            n_replay_days=self.jobs.n_days,
            n_training_days=self.split.n_training,
            n_held_back_days=self.split.n_held_back,
            n_replays=len(self._replays),
            n_entries=len(np.unique(whole.jobs.entry)),
            n_left_out=whole.n_left_out,
            n_waiting=int(np.isnan(whole.jobs.started_s).sum()),
            cpus=int(whole.cpus.sum(axis=0).max()) * one_in,
            model_error_points=error.distance_points,
            wait_s=error.wait_s,
            model_wait_s=error.model_wait_s,
            meets_history=error.is_met,
            n_unrequested=int((whole.jobs.requested_s <= 0).sum()),
            least_cpus=int(whole.cpus.sum(axis=0).min()) * one_in,
            job_points=whole.job_points * self.one_in,
        )

    def half_lives(self, algorithm: Mapping[str, Any]) -> tuple[ReplayFacts, ...]:
        """Half-lives of the policy's decay function, or of an exponential one where it has none, with an algorithm."""
        window = dict(self.settings["window"])
        aging = aging_with_half_life(window)
        own = float(window["half_life_s"]) if aging == window["aging"] else None
        now = self._facts(half_life_name(own) if own else window["aging"], own, is_now=True, algorithm=algorithm)
        rows = [(own or 0.0, now)]
        for each in HALF_LIVES_S:
            if each != own:
                other = half_life_window(window, each)
                rows.append((each, self._facts(half_life_name(each), each, algorithm=algorithm, window=other)))
        return tuple(facts for _length, facts in sorted(rows, key=lambda row: row[0]))

    def operators(self, settings: Sequence[Mapping[str, Any]]) -> tuple[ReplayFacts, ...]:
        """Operators by their complete settings, the policy's own among them; of those that order alike the one that the
        others are named after.
        """
        own = self.settings["algorithm"]
        rows = [self._algorithm_facts(own, name=own["operator"], is_now=True)]
        tried = {orders_like(own["operator"], own.get("k"))}
        ordered = [(each, orders_like(each["operator"], each.get("k"))) for each in settings]
        for each, order in sorted(ordered, key=lambda pair: pair[0]["operator"] != pair[1]):
            if order not in tried:
                tried.add(order)
                rows.append(self._algorithm_facts(each, name=each["operator"]))
        return tuple(rows)

    def algorithms(self, own: Mapping[str, Any]) -> tuple[ReplayFacts, ...]:
        """All algorithms with their defaults, beside one by its complete settings."""
        now = self._algorithm_facts(own, is_now=True)
        others = [self._algorithm_facts(read_algorithm(name)) for name in all_algorithms() if name != own["name"]]
        return (now, *others)

    def of_settings(self, name: str, algorithm: Mapping[str, Any], half_life_s: float | None) -> ReplayFacts:
        """With this algorithm and half-life; None: the policy's own window."""
        window = dict(self.settings["window"])
        if half_life_s is not None:
            window = half_life_window(window, int(half_life_s))
        return self._facts(name, None, algorithm=algorithm, window=window)

    def of_variant(self, name: str, settings: Mapping[str, Any], *, is_now: bool) -> ReplayFacts:
        """With this algorithm, window and approach. Nothing is replayed where the replay doesn't meet history."""
        algorithm = read_algorithm(settings["algorithm"])
        facts = self._facts(
            name,
            algorithm,
            is_now=is_now,
            algorithm=algorithm,
            window=settings["window"],
            approach=settings["approach"]["local"],
        )
        return _with_properties(facts, algorithm)

    def _algorithm_facts(self, settings: Mapping[str, Any], *, name: str = "", is_now: bool = False) -> ReplayFacts:
        facts = self._facts(name or settings["name"], dict(settings), is_now=is_now, algorithm=settings)
        return _with_properties(facts, settings)

    def _facts(
        self,
        name: str,
        value: Any,
        *,
        is_now: bool = False,
        algorithm: Mapping[str, Any] | None = None,
        window: Mapping[str, Any] | None = None,
        approach: str | None = None,
    ) -> ReplayFacts:
        algorithm = dict(algorithm or self.settings["algorithm"])
        window = dict(window or self.settings["window"])
        approach = approach or self.settings["approach"]["local"]
        try:
            if self.tree.inherits.any() and not get_algorithm(algorithm["name"]).takes_inherit:
                return ReplayFacts(name, value, is_now, (), (), (), (), refused="inherit")
            means = [self._means(algorithm, window, approach, number) for number in range(len(self._replays))]
        except (EngineError, Invalid) as error:  # a package's algorithm may fail on these trees
            return ReplayFacts(name, value, is_now, (), (), (), (), refused=str(error)[:200])
        training, held_back, late, latest = (tuple(each[part] for each in means) for part in range(len(Means._fields)))
        return ReplayFacts(name, value, is_now, training, held_back, late, latest)

    def _means(self, algorithm: Mapping[str, Any], window: Mapping[str, Any], approach: str, number: int) -> Means:
        key = orjson.dumps([algorithm, window, approach], option=orjson.OPT_SORT_KEYS), number
        if key not in self._known:
            variant = Variant(algorithm, window_of(window), APPROACHES.index(approach))
            self._known[key] = self.split.means(self._replays[number].deviations(variant, self._part_of(number)))
            self.done(len(self._known))
        return self._known[key]

    def _part_of(self, number: int) -> Callable[[float], None] | None:
        """Progress of one replay of several of a setting."""
        progress = self.progress
        return None if progress is None else lambda part: progress((number + part) / len(self._replays))


def _with_properties(facts: ReplayFacts, algorithm: Mapping[str, Any]) -> ReplayFacts:
    properties = get_algorithm(algorithm["name"]).properties(algorithm)
    return replace(
        facts,
        is_isolated=properties.isolation,
        is_proportional=properties.proportional_redistribution,
        has_boundaries=properties.boundaries,
    )


def _moved(jobs: Jobs, seed: int) -> Jobs:
    """The jobs, each submitted up to LATEST_S later; those that ran at the beginning stay."""
    later_s = np.random.default_rng(seed).random(len(jobs)) * LATEST_S
    moved = jobs.submit_s + np.where((jobs.submit_s > 0) | ~np.isfinite(jobs.started_s), later_s, 0.0)
    return replace(jobs, submit_s=moved).chosen(np.argsort(moved, kind="stable"))


@lru_cache(maxsize=64)
def orders_like(name: str, k: float | None) -> str:
    """The built-in operator that orders every pair alike, else its own name."""
    operator = get_operator(name) if k is None else get_operator(name, k=k)
    if name in _REPRESENTATIVES:
        return name
    for each in _REPRESENTATIVES:
        if compare_orders(operator, get_operator(each)).is_full:
            return each
    return name
