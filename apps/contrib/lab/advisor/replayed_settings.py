"""Settings compared by replays: each a few times with other moments of submission, so that chance shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import orjson

from apps.contrib.lab.advisor.advise import aging_with_half_life
from apps.contrib.lab.advisor.records import ReplayFacts
from apps.contrib.lab.advisor.replay import Jobs, Replay, Variant
from apps.contrib.lab.advisor.sentences import half_life_name
from apps.core.errors import Invalid
from apps.engine.algorithms import all_algorithms, get_algorithm, read_algorithm
from apps.engine.arrays import FloatArray
from apps.engine.errors import EngineError
from apps.engine.tree import FairshareTree
from apps.priorities.metering import APPROACHES, window_of

N_REPLAYS = 5
LATEST_S = 3600.0  # by which submissions are moved
FEWEST_DAYS, FEWEST_JOBS = 8, 100
HALF_LIVES_S = tuple(days * 86_400 for days in (1, 2, 4, 7, 14, 30))
_HELD_BACK = 1 / 3  # of the days
_MOST_WARM_UP_DAYS = 7


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

    def means(self, deviations: FloatArray) -> tuple[float, float]:
        """(of the days to choose by, of the held-back ones), in points."""
        end = self.n_days - self.n_held_back
        return _mean(deviations[self.n_warm_up : end]), _mean(deviations[end:])


def _mean(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else 0.0


@dataclass(frozen=True, eq=False)
class Replays:
    """Replays of one policy's jobs. done: called with the number of finished replays."""

    tree: FairshareTree
    jobs: Jobs
    settings: Mapping[str, Any]  # of the policy: algorithm, window and approach
    done: Callable[[int], object] = lambda n: None
    _known: dict[tuple[bytes, int], tuple[float, float]] = field(default_factory=dict)

    @cached_property
    def split(self) -> Split:
        return Split(self.jobs.n_days)

    @cached_property
    def whole(self) -> Replay | None:
        """The jobs as recorded; None if there are too few to compare anything."""
        if self.jobs.n_days < FEWEST_DAYS or len(self.jobs) < FEWEST_JOBS:
            return None
        return Replay.of(self.tree, self.jobs)

    @cached_property
    def _replays(self) -> list[Replay]:
        if self.whole is None:
            return []
        return [self.whole, *(replace(self.whole, jobs=_moved(self.whole.jobs, n)) for n in range(1, N_REPLAYS))]

    @property
    def n_replays(self) -> int:
        return len(self._replays)

    def half_lives(self) -> tuple[ReplayFacts, ...]:
        """Half-lives of the policy's decay function, or of an exponential one where it has none."""
        window = dict(self.settings["window"])
        aging = aging_with_half_life(window)
        own = float(window["half_life_s"]) if aging == window["aging"] else None
        now = self._facts(half_life_name(own) if own else window["aging"], None, is_now=True)
        rows = [(own or 0.0, now)]
        for each in HALF_LIVES_S:
            if each != own:
                other = {**window, "aging": aging, "half_life_s": each}
                rows.append((each, self._facts(half_life_name(each), each, window=other)))
        return tuple(facts for _length, facts in sorted(rows, key=lambda row: row[0]))

    def algorithms(self) -> tuple[ReplayFacts, ...]:
        own = self.settings["algorithm"]
        now = self._algorithm_facts(own, is_now=True)
        others = [self._algorithm_facts(read_algorithm(name)) for name in all_algorithms() if name != own["name"]]
        return (now, *others)

    def combined(self, algorithm: Mapping[str, Any], half_life_s: float | None) -> ReplayFacts:
        window = dict(self.settings["window"])
        if half_life_s is not None:
            window |= {"aging": aging_with_half_life(window), "half_life_s": int(half_life_s)}
        return self._facts("combined", None, algorithm=algorithm, window=window)

    def _algorithm_facts(self, settings: Mapping[str, Any], *, is_now: bool = False) -> ReplayFacts:
        facts = self._facts(settings["name"], dict(settings), is_now=is_now, algorithm=settings)
        properties = get_algorithm(settings["name"]).properties(settings)
        return replace(
            facts,
            is_isolated=properties.isolation,
            is_proportional=properties.proportional_redistribution,
            has_boundaries=properties.boundaries,
        )

    def _facts(
        self,
        name: str,
        value: Any,
        *,
        is_now: bool = False,
        algorithm: Mapping[str, Any] | None = None,
        window: Mapping[str, Any] | None = None,
    ) -> ReplayFacts:
        algorithm = dict(algorithm or self.settings["algorithm"])
        window = dict(window or self.settings["window"])
        try:
            if self.tree.inherits.any() and not get_algorithm(algorithm["name"]).takes_inherit:
                return ReplayFacts(name, value, is_now, (), (), refused="inherit")
            pairs = [self._means(algorithm, window, number) for number in range(len(self._replays))]
        except (EngineError, Invalid) as error:  # a package's algorithm may fail on these trees
            return ReplayFacts(name, value, is_now, (), (), refused=str(error)[:200])
        training, held_back = ([pair[side] for pair in pairs] for side in (0, 1))
        return ReplayFacts(name, value, is_now, tuple(training), tuple(held_back))

    def _means(self, algorithm: Mapping[str, Any], window: Mapping[str, Any], number: int) -> tuple[float, float]:
        key = orjson.dumps([algorithm, window], option=orjson.OPT_SORT_KEYS), number
        if key not in self._known:
            approach = APPROACHES.index(self.settings["approach"]["local"])
            variant = Variant(algorithm, window_of(window), approach)
            self._known[key] = self.split.means(self._replays[number].deviations(variant))
            self.done(len(self._known))
        return self._known[key]


def _moved(jobs: Jobs, seed: int) -> Jobs:
    """The jobs, each submitted up to LATEST_S later."""
    moved = jobs.submit_s + np.random.default_rng(seed).random(len(jobs)) * LATEST_S
    return replace(jobs, submit_s=moved).chosen(np.argsort(moved, kind="stable"))
