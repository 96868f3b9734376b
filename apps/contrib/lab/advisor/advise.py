"""From evidence to advice: pure, the numbers decide, and each sentence is made from them.

A setting is changed only where another is measurably better, by the margins below; else the advice is to keep it.
- Resolution: the least candidate that misplaces at most MISPLACED_PERCENT of the leaves by rounding, where the current
  one misplaces more. Source: operators paper, section 7 (a minimum resolution by the state of the system).
- Operator: it must have the properties of section 4 (boundaries, isolation, proportional redistribution); among those,
  another one must misplace fewer leaves, or show the typical job to more leaves, by these margins.
- Half-life, algorithm: own jobs are replayed; another one must be NEARER_PERCENT nearer to fair use on the first days,
  by more than twice the standard error of the replays, and nearer on the held-back days, too. An algorithm must have
  the properties that the current one has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from django.utils.translation import gettext as _

from apps.contrib.lab.advisor import sentences
from apps.contrib.lab.advisor.records import (
    Advice,
    AdvisedChoice,
    Candidate,
    Criterion,
    Evidence,
    HeldBack,
    OperatorFacts,
    ReplayFacts,
)
from apps.engine.decay_functions import get_decay_function

MISPLACED_PERCENT = 1.0  # of all leaves
VISIBLE_PERCENT = 5.0  # of all leaves
NEARER_PERCENT = 5.0  # of the distance with the current settings
ERRORS = 2.0


def advise(evidence: Evidence) -> Advice:
    resolution, operator = _resolution(evidence), _operator(evidence)
    half_life, algorithm = _half_life(evidence), _algorithm(evidence)
    choices = tuple(each.choice for each in (operator, resolution, half_life, algorithm) if each is not None)
    changed = [choice for choice in choices if choice.is_change]
    return Advice(
        sentence=sentences.verdict(choices),
        is_change=bool(changed),
        choices=choices,
        held_back=_held_back(evidence, changed, half_life, algorithm),
        sample=evidence.sample,
        algorithm=_settings(evidence, operator, resolution, algorithm),
        half_life_s=None if half_life is None or not half_life.choice.is_change else float(half_life.chosen.value),
        aging=aging_with_half_life(evidence.window),
    )


def aging_with_half_life(window: Mapping[str, Any]) -> str:
    """The window's decay function if it has a half-life, else the exponential one."""
    aging = str(window["aging"])
    has_half_life = any(each.name == "half_life_s" for each in get_decay_function(aging).parameters)
    return aging if has_half_life else "exponential"


@dataclass(frozen=True)
class _Decided:
    choice: AdvisedChoice
    chosen: Any


def _settings(
    evidence: Evidence, operator: _Decided | None, resolution: _Decided | None, algorithm: _Decided | None
) -> dict[str, Any]:
    if algorithm is not None and algorithm.choice.is_change:
        return dict(algorithm.chosen.value)
    settings = dict(evidence.algorithm)
    if resolution is not None:
        settings["resolution"] = resolution.chosen.resolution
    if operator is not None and operator.choice.is_change:
        settings.pop("k", None)
        settings["operator"] = operator.chosen.name
        if operator.chosen.k is not None:
            settings["k"] = operator.chosen.k
    return settings


def _resolution(evidence: Evidence) -> _Decided | None:
    facts = evidence.resolutions
    if not facts:
        return None
    now = next(each for each in facts if each.resolution == evidence.algorithm["resolution"])
    finer = [each for each in facts if each.resolution > now.resolution and each.misplaced <= MISPLACED_PERCENT]
    chosen = now if now.misplaced <= MISPLACED_PERCENT or not finer else min(finer, key=lambda each: each.resolution)
    least = next(
        (each.resolution for each in facts if each.misplaced <= now.misplaced and each.resolution <= now.resolution),
        now.resolution,
    )
    name = sentences.resolution_name
    criteria = (
        Criterion("misplaced_now", _("Misplaced leaves now"), "leaves"),
        Criterion("lost_now", _("Leaves that share a vector by rounding"), "leaves"),
        Criterion("misplaced", _("Misplaced leaves on past days"), "percent"),
        Criterion("flip_days", _("Past days with a misplaced leaf"), "percent"),
        Criterion("visible", _("Leaves that the typical job moves"), "percent"),
    )
    rows = tuple(
        Candidate(
            name(each.resolution),
            each is now,
            each is chosen,
            "",
            (float(each.n_misplaced), float(each.n_lost), each.misplaced, each.flip_days, each.visible),
        )
        for each in facts
    )
    choice = AdvisedChoice(
        "resolution",
        _("Resolution"),
        name(now.resolution),
        name(chosen.resolution),
        chosen is not now,
        sentences.resolution(now, chosen, least, MISPLACED_PERCENT, evidence.sample.n_days),
        criteria,
        rows,
    )
    return _Decided(choice, chosen)


def _operator(evidence: Evidence) -> _Decided | None:
    facts = evidence.operators
    if not facts:
        return None
    now = next(each for each in facts if each.name == evidence.algorithm["operator"])
    resolution = _resolution(evidence)
    chosen = _best_operator(now, facts, keeps=resolution is not None and resolution.choice.is_change)
    criteria = (
        Criterion("boundaries", _("Fixed priorities at both ends"), "yes_no"),
        Criterion("isolation", _("Isolation of groups"), "yes_no"),
        Criterion("redistribution", _("Idle share in proportion"), "yes_no"),
        Criterion("density", _("Width of a component here"), "points"),
        Criterion("misplaced_now", _("Misplaced leaves now"), "leaves"),
        Criterion("misplaced", _("Misplaced leaves on past days"), "percent"),
        Criterion("flip_days", _("Past days with a misplaced leaf"), "percent"),
        Criterion("distinct_bits", _("Bits that keep all leaves distinct"), "bits"),
        Criterion("same_ranks_bits", _("Bits that keep all ranks"), "bits"),
        Criterion("job_bits", _("Bits that show the typical job on every level"), "bits"),
        Criterion("median_job_h", _("Smallest job that half of the leaves show"), "hours"),
        Criterion("visible", _("Leaves that the typical job moves"), "percent"),
    )
    rows = tuple(
        Candidate(
            each.name,
            each is now,
            each is chosen,
            "" if each.orders_like == each.name else each.orders_like,
            (
                float(each.has_boundaries),
                float(each.is_isolated),
                float(each.is_proportional),
                each.density,
                float(each.n_misplaced),
                each.misplaced,
                each.flip_days,
                _float(each.distinct_bits),
                _float(each.same_ranks_bits),
                _float(each.job_bits),
                each.median_job_h,
                each.visible,
            ),
        )
        for each in facts
    )
    alike = [each.name for each in facts if each.orders_like == now.orders_like and each is not now]
    choice = AdvisedChoice(
        "operator",
        _("Operator"),
        now.name,
        chosen.name,
        chosen is not now,
        sentences.operator(now, chosen, alike, (MISPLACED_PERCENT, VISIBLE_PERCENT)),
        criteria,
        rows,
    )
    return _Decided(choice, chosen)


def _best_operator(now: OperatorFacts, facts: Sequence[OperatorFacts], *, keeps: bool) -> OperatorFacts:
    """keeps: a finer resolution is advised, which mends what rounding loses, so the order of entries may stay."""
    compliant = [each for each in facts if each.is_compliant]
    if not compliant or (keeps and now.is_compliant):
        return now
    best = min(compliant, key=lambda each: (each.misplaced, -each.visible, each is not now))
    if not now.is_compliant:
        return best
    if now.misplaced - best.misplaced > MISPLACED_PERCENT:
        return best
    fine = [each for each in compliant if each.misplaced <= now.misplaced]
    seen = max(fine, key=lambda each: (each.visible, -each.misplaced, each is now))
    return seen if seen.visible - now.visible > VISIBLE_PERCENT else now


def _half_life(evidence: Evidence) -> _Decided | None:
    return _replayed(evidence, evidence.half_lives, "half_life", _("Half-life"), ())


def _algorithm(evidence: Evidence) -> _Decided | None:
    properties = (
        Criterion("boundaries", _("Fixed priorities at both ends"), "yes_no"),
        Criterion("isolation", _("Isolation of groups"), "yes_no"),
        Criterion("redistribution", _("Idle share in proportion"), "yes_no"),
    )
    return _replayed(evidence, evidence.algorithms, "algorithm", _("Algorithm"), properties)


def _replayed(
    evidence: Evidence, facts: Sequence[ReplayFacts], subject: str, title: str, properties: tuple[Criterion, ...]
) -> _Decided | None:
    now = next((each for each in facts if each.is_now), None)
    if now is None:
        return None
    nearest = _nearest(now, facts)
    chosen = nearest if nearest is not now and fmean(nearest.held_back) < fmean(now.held_back) else now
    criteria = (
        *properties,
        Criterion("training", _("Distance from fair use on the first days"), "points"),
        Criterion("held_back", _("Distance from fair use on the held-back days"), "points"),
    )

    def row(each: ReplayFacts) -> Candidate:
        flags = (float(each.has_boundaries), float(each.is_isolated), float(each.is_proportional))
        distances = (_mean(each.training), _mean(each.held_back))
        values = (*(flags if properties else ()), *distances)
        return Candidate(each.name, each is now, each is chosen, "", values, each.refused)

    choice = AdvisedChoice(
        subject,
        title,
        now.name,
        chosen.name,
        chosen is not now,
        sentences.replayed(now, nearest, chosen, evidence.sample, NEARER_PERCENT),
        criteria,
        tuple(map(row, facts)),
    )
    return _Decided(choice, chosen)


def _nearest(now: ReplayFacts, facts: Sequence[ReplayFacts]) -> ReplayFacts:
    """The nearest on the first days that is measurably nearer than the current one, and has its properties."""
    if not now.training:
        return now
    better = [each for each in facts if each.training and _keeps_properties(now, each) and is_nearer(now, each)]
    return min(better, key=lambda each: fmean(each.training), default=now)


def _keeps_properties(now: ReplayFacts, other: ReplayFacts) -> bool:
    return (
        other.is_isolated >= now.is_isolated
        and other.is_proportional >= now.is_proportional
        and other.has_boundaries >= now.has_boundaries
    )


def is_nearer(now: ReplayFacts, other: ReplayFacts) -> bool:
    """By the margin, and by more than twice the standard error of the paired replays."""
    gains = [before - after for before, after in zip(now.training, other.training, strict=True)]
    gain = fmean(gains)
    error = stdev(gains) / sqrt(len(gains)) if len(gains) > 1 else 0.0
    return gain * 100 >= NEARER_PERCENT * fmean(now.training) and gain > ERRORS * error


def _held_back(
    evidence: Evidence, changed: Sequence[AdvisedChoice], half_life: _Decided | None, algorithm: _Decided | None
) -> HeldBack | None:
    """With one change of a replayed setting these are its own numbers; with more, those of all together."""
    now = next((each for each in evidence.half_lives if each.is_now), None)
    if now is None or not now.held_back:
        return None
    after: ReplayFacts | None = now
    if changed:
        single = {"half_life": half_life, "algorithm": algorithm}.get(changed[0].subject) if len(changed) == 1 else None
        after = evidence.combined if single is None else single.chosen
    if after is None or not after.held_back:
        return None
    now_points, points = fmean(now.held_back), fmean(after.held_back)
    is_better = points < now_points
    sentence = sentences.held_back(evidence.sample.n_held_back_days, now_points, points, is_change=bool(changed))
    return HeldBack(evidence.sample.n_held_back_days, now_points, points, is_better, sentence)


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)
