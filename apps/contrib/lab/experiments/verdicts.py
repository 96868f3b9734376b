"""What a replay says about its variants, by the rule of advice, in sentences; from what is stored of each variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.contrib.lab.comparison.replayed_settings import ReplaySample
from apps.contrib.lab.comparison.sentences import compared, unlike_history
from apps.contrib.lab.comparison.verdict import Decision, ReplayFacts, decide, read_facts
from apps.contrib.lab.experiments.records import Compared, Verdict

SUBJECTS = ("algorithm", "half_life", "settings")
WHY_NOT: dict[str, str | Promise] = {
    "machine": gettext_lazy("No verdict: its processors aren't those of history."),
    "base": gettext_lazy("No verdict: the base changes more than settings of the policy."),
    "draft": gettext_lazy("No verdict: it has another tree, whose fair use is another one."),
    "data": gettext_lazy("No verdict: it changes more than settings, such as jobs, shares or data."),
    "few": gettext_lazy("No verdict: fewer than 8 days or 100 jobs, or jobs of one entry alone."),
}
Stored = Mapping[int, Mapping[str, Any]]


def sample_of(stored: Stored) -> ReplaySample | None:
    """What was replayed; None where nothing is compared, or not yet."""
    sample = stored.get(0, {}).get("sample")
    return None if sample is None else ReplaySample(**sample)


def happened_of(stored: Stored) -> Compared | None:
    """What happened in fact, of a replay that is compared."""
    points = stored.get(0, {}).get("happened")
    return None if points is None else Compared(points[0], points[1], "")


def compared_of(stored: Mapping[str, Any] | None) -> Compared | None:
    """None where there is nothing to compare, or not yet."""
    if not stored:
        return None
    if stored["reason"]:
        return Compared(None, None, str(WHY_NOT[stored["reason"]]))
    facts = read_facts(stored["facts"])
    if not facts.training:
        return Compared(None, None, facts.refused)
    return Compared(fmean(facts.training), fmean(facts.held_back), "")


def verdicts_of(stored: Stored, titles: Mapping[int, str]) -> tuple[Verdict, ...]:
    """One for each kind of setting that variants change, once the base and all variants of that kind have ended.

    stored: of each variant that has ended. titles: of all variants.
    """
    sample = sample_of(stored)
    if sample is None:
        return ()
    if not sample.meets_history:
        return (Verdict("history", unlike_history(sample), "", None, None, "unlike_history"),)
    verdicts = []
    for subject in SUBJECTS:
        verdict = _verdict(subject, stored, titles, sample)
        if verdict is not None:
            verdicts.append(verdict)
    return tuple(verdicts)


def _verdict(subject: str, stored: Stored, titles: Mapping[int, str], sample: ReplaySample) -> Verdict | None:
    rows = [index for index, each in stored.items() if each["reason"] == "" and each["subject"] == subject]
    if not rows:
        return None
    candidates = [(0, _("the base")), *((index, titles[index]) for index in rows)]
    facts = {index: _named(stored[index], subject, name) for index, name in candidates}
    decision = decide(list(facts.values()), sample)
    if decision is None:
        return None
    index_of = {id(each): index for index, each in facts.items()}
    return Verdict(
        subject=subject,
        headline=_headline(decision),
        sentence=compared(decision, sample),
        chosen=index_of[id(decision.chosen)],
        nearest=index_of[id(decision.nearest)],
        basis=decision.basis,
    )


def _headline(decision: Decision) -> str:
    if decision.is_change:
        return _("%(name)s is nearer to fair use than the base.") % {"name": decision.chosen.name}
    if decision.basis == "contradicted":
        return _("%(name)s stays open: the last days differ from the first.") % {"name": decision.nearest.name}
    return _("Nothing to advise here.")


def _named(stored: Mapping[str, Any], subject: str, name: str) -> ReplayFacts:
    facts = read_facts(stored["facts"])
    return replace(facts, name=name, value=stored["half_life_s"] if subject == "half_life" else facts.value)
