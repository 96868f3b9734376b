"""From evidence to advice: pure, the numbers decide, and each sentence is made from them.

A setting is changed only where another is measurably better, by the margins below; else the advice is to keep it.
- Resolution: the least candidate that misplaces at most MISPLACED_PERCENT of the leaves by rounding, where the current
  one misplaces more. Source: operators paper, section 7 (a minimum resolution by the state of the system).
- Operator, half-life, algorithm: own jobs are replayed, where the replay meets history; `comparison.verdict` decides.
- Where the held-back days contradict the first ones, nothing is changed, and the headline says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
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
)
from apps.contrib.lab.comparison.replayed_settings import aging_with_half_life
from apps.contrib.lab.comparison.sentences import compared, contradiction
from apps.contrib.lab.comparison.verdict import ReplayFacts, decide
from apps.priorities.sentences.operators import resolution_text

MISPLACED_PERCENT = 1.0  # of all leaves


def advise(evidence: Evidence) -> Advice:
    decided = _all_decided(evidence)
    choices = tuple(each.choice for each in decided.values())
    contradictions = [each.contradiction for each in decided.values() if each.contradiction]
    half_life = decided.get("half_life")
    return Advice(
        sentence=sentences.verdict(choices, evidence.sample, contradictions),
        is_change=any(choice.is_change for choice in choices),
        choices=choices,
        held_back=_held_back(evidence, decided),
        sample=evidence.sample,
        algorithm=_settings(evidence, decided.get("operator"), decided.get("resolution"), decided.get("algorithm")),
        half_life_s=None if half_life is None or not half_life.choice.is_change else float(half_life.chosen.value),
        aging=aging_with_half_life(evidence.window),
    )


def advised_operator(evidence: Evidence) -> dict[str, Any]:
    """Settings of the algorithm with the advised operator, by the replays of operators alone."""
    decision = decide(evidence.tried_operators, evidence.sample)
    return dict(evidence.algorithm if decision is None else decision.chosen.value)


@dataclass(frozen=True)
class _Decided:
    """chosen: facts of the advised candidate. contradiction: a sentence where the held-back days disagree."""

    choice: AdvisedChoice
    chosen: Any
    contradiction: str = ""


def _all_decided(evidence: Evidence) -> dict[str, _Decided]:
    """By subject, in the order of the page; without those of which nothing is measured."""
    decided = {
        "operator": _operator(evidence),
        "resolution": _resolution(evidence),
        "half_life": _half_life(evidence),
        "algorithm": _algorithm(evidence),
    }
    return {subject: each for subject, each in decided.items() if each is not None}


def _settings(
    evidence: Evidence, operator: _Decided | None, resolution: _Decided | None, algorithm: _Decided | None
) -> dict[str, Any]:
    if algorithm is not None and algorithm.choice.is_change:
        return dict(algorithm.chosen.value)
    settings = dict(evidence.algorithm)
    if resolution is not None:
        settings["resolution"] = resolution.chosen.resolution
    if operator is not None and operator.choice.is_change:
        settings = {**operator.chosen.value, "resolution": settings["resolution"]}
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
    criteria = (
        Criterion("misplaced_now", _("Misplaced leaves now"), "leaves"),
        Criterion("lost_now", _("Leaves that share a vector by rounding"), "leaves"),
        Criterion("misplaced", _("Misplaced leaves on past days"), "percent"),
        Criterion("flip_days", _("Past days with a misplaced leaf"), "percent"),
        Criterion("visible", _("Leaves that the typical job moves"), "percent"),
    )
    rows = tuple(
        Candidate(
            resolution_text(each.resolution),
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
        resolution_text(now.resolution),
        resolution_text(chosen.resolution),
        chosen is not now,
        sentences.resolution(now, chosen, least, MISPLACED_PERCENT, evidence.sample.n_days),
        criteria,
        rows,
    )
    return _Decided(choice, chosen)


def _operator(evidence: Evidence) -> _Decided | None:
    """Chosen by the replay, as half-life and algorithm are; what is measured on the tree is listed beside it."""
    facts = evidence.operators
    if not facts:
        return None
    now = next(each for each in facts if each.name == evidence.algorithm["operator"])
    tried = {each.name: each for each in evidence.tried_operators}
    decision = decide(evidence.tried_operators, evidence.sample)
    chosen = now if decision is None else next(each for each in facts if each.name == decision.chosen.name)
    criteria = (
        Criterion("boundaries", _("Fixed priorities at both ends"), "yes_no"),
        Criterion("isolation", _("Isolation of groups"), "yes_no"),
        Criterion("redistribution", _("Idle share in proportion"), "yes_no"),
        *_distances(),
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

    def distances(each: OperatorFacts) -> tuple[float | None, float | None]:
        """Of those that order alike the one that was replayed."""
        replayed = next(
            (tried[one.name] for one in facts if one.orders_like == each.orders_like and one.name in tried), None
        )
        return (None, None) if replayed is None else (_mean(replayed.training), _mean(replayed.held_back))

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
                *distances(each),
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
    sentence = sentences.operator(now, decision, alike, evidence.sample)
    choice = AdvisedChoice(
        "operator", _("Operator"), now.name, chosen.name, chosen is not now, sentence, criteria, rows
    )
    if decision is None:
        return _Decided(choice, now)
    return _Decided(choice, decision.chosen, contradiction(_("Operator"), decision, evidence.sample))


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
    decision = decide(facts, evidence.sample)
    if decision is None:
        return None
    now, chosen = decision.now, decision.chosen
    criteria = (*properties, *_distances())

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
        compared(decision, evidence.sample),
        criteria,
        tuple(map(row, facts)),
    )
    return _Decided(choice, chosen, contradiction(title, decision, evidence.sample))


def _distances() -> tuple[Criterion, Criterion]:
    return (
        Criterion("training", _("Distance from fair use on the first days"), "points"),
        Criterion("held_back", _("Distance from fair use on the held-back days"), "points"),
    )


def _recommended_facts(evidence: Evidence, decided: Mapping[str, _Decided]) -> ReplayFacts | None:
    changed = [subject for subject, each in decided.items() if each.choice.is_change]
    if not changed:
        return evidence.current
    if len(changed) > 1 or changed == ["resolution"]:
        return evidence.combined
    facts: ReplayFacts = decided[changed[0]].chosen
    return facts


def _held_back(evidence: Evidence, decided: Mapping[str, _Decided]) -> HeldBack | None:
    now, after = evidence.current, _recommended_facts(evidence, decided)
    if now is None or not now.held_back or after is None or not after.held_back:
        return None
    now_points, points = fmean(now.held_back), fmean(after.held_back)
    is_change = any(each.choice.is_change for each in decided.values())
    sentence = sentences.held_back(evidence.sample.n_held_back_days, now_points, points, is_change=is_change)
    return HeldBack(evidence.sample.n_held_back_days, now_points, points, points < now_points, sentence)


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)
