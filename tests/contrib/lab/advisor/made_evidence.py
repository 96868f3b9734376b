"""Evidence made up for tests: each number chosen."""

from __future__ import annotations

from dataclasses import replace

from apps.contrib.lab.advisor.records import (
    Evidence,
    OperatorFacts,
    ResolutionFacts,
    Sample,
)
from apps.contrib.lab.comparison.verdict import ReplayFacts

SAMPLE = Sample(
    as_of=None,
    n_leaves=100,
    n_days=28,
    n_jobs=1_000,
    one_in=1,
    n_replay_days=50,
    n_training_days=26,
    n_held_back_days=17,
    n_replays=5,
    n_entries=100,
    n_left_out=0,
    n_waiting=0,
    cpus=10,
    typical_job_h=2.0,
    unit="core-hours",
)
AEQUUS = {"name": "aequus", "operator": "relative", "resolution": 256, "factor_from": "rank"}
WINDOW = {"aging": "exponential", "half_life_s": 604_800, "length_s": None}


def operator(name: str, *, misplaced: float = 0.0, visible: float = 90.0, **fields: object) -> OperatorFacts:
    is_relative = name not in ("absolute", "combined")
    facts = OperatorFacts(
        name=name,
        k=None,
        has_boundaries=is_relative,
        is_proportional=is_relative,
        is_isolated=True,
        orders_like="relative" if is_relative else name,
        density=0.01,
        n_misplaced=0,
        n_lost=0,
        misplaced=misplaced,
        flip_days=0.0,
        distinct_bits=8,
        same_ranks_bits=9,
        job_bits=7,
        median_job_h=1.0,
        visible=visible,
    )
    return replace(facts, **fields)  # type: ignore[arg-type]


def resolution(value: int, misplaced: float) -> ResolutionFacts:
    return ResolutionFacts(value, 0, 0, misplaced, 0.0, 90.0)


def replay(name: str, training: float, held_back: float, *, is_now: bool = False, value: object = None) -> ReplayFacts:
    spread = (-0.01, 0.0, 0.01)
    first, last = (tuple(mean + each for each in spread) for mean in (training, held_back))
    return ReplayFacts(name, value, is_now, first, last, last, last)


def evidence(**fields: object) -> Evidence:
    return replace(
        Evidence(
            AEQUUS,
            WINDOW,
            SAMPLE,
            operators=(operator("relative"), operator("sigmoid-2"), operator("absolute")),
            resolutions=(resolution(256, 0.0), resolution(4096, 0.0)),
            current=replay("current", 4.0, 5.0, is_now=True),
            half_lives=(replay("7 days", 4.0, 5.0, is_now=True),),
            algorithms=(replay("aequus", 4.0, 5.0, is_now=True),),
        ),
        **fields,  # type: ignore[arg-type]
    )
