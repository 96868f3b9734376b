"""Sentences of the advice, made from its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.contrib.lab.advisor.records import (
    AdvisedChoice,
    OperatorFacts,
    ResolutionFacts,
    Sample,
)
from apps.contrib.lab.comparison.replayed_settings import FEWEST_DAYS, FEWEST_JOBS
from apps.contrib.lab.comparison.sentences import beside, compared, unlike_history
from apps.contrib.lab.comparison.verdict import Decision
from apps.core.counts import counted
from apps.priorities.sentences.numbers import count, job_hours, number, percent
from apps.priorities.sentences.operators import resolution_text
from apps.priorities.sentences.wait_text import wait_text

HARDLY_S = 60.0  # mean wait below which nobody waits


def verdict(choices: Sequence[AdvisedChoice], measured: Sample, contradictions: Sequence[str]) -> str:
    """The whole advice in one or two sentences, with what stays open."""
    changed = [choice for choice in choices if choice.is_change]
    if not choices and measured.meets_history:
        nothing = _("Nothing is measured yet: there is too little usage.")
        return f"{nothing} {_not_replayed(measured)}" if measured.n_own_jobs else nothing
    if not measured.meets_history:
        unknown = unlike_history(measured)
        return f"{_changes(changed)} {unknown}" if changed else unknown
    if not changed:
        kept = "; ".join(f"{choice.title}: {choice.now}" for choice in choices)
        first = _("Keep what you have. %(kept)s.") % {"kept": kept}
    else:
        first = _changes(changed)
    if not measured.n_jobs and measured.n_own_jobs is not None:
        return f"{first} {_not_replayed(measured)}"
    if measured.wait_s is not None and measured.wait_s < HARDLY_S:
        unsaid = _("Jobs waited %(time)s on average: hardly any order of them makes a difference.")
        contradictions = [*contradictions, unsaid % {"time": wait_text(measured.wait_s)}]
    return " ".join([first, *contradictions])


def _not_replayed(measured: Sample) -> str:
    """Why operator, half-life and algorithm aren't compared."""
    if not measured.n_own_jobs:
        return _("Operator, half-life and algorithm aren't compared: no job of these days has an entry in this policy.")
    text = _(
        "Operator, half-life and algorithm aren't compared: %(jobs)s on %(days)s. A comparison takes %(least)s jobs of "
        "two entries or more, on %(least_days)s days."
    )
    return text % {
        "jobs": counted(measured.n_own_jobs or 0, "job"),
        "days": counted(measured.n_own_days, "day"),
        "least": count(FEWEST_JOBS),
        "least_days": count(FEWEST_DAYS),
    }


def _changes(changed: Sequence[AdvisedChoice]) -> str:
    changes = "; ".join(
        _("%(what)s: %(after)s instead of %(now)s")
        % {"what": choice.title, "after": choice.recommended, "now": choice.now}
        for choice in changed
    )
    return _("Change: %(changes)s.") % {"changes": changes}


def resolution(now: ResolutionFacts, chosen: ResolutionFacts, least: int, margin: float, n_days: int) -> str:
    """Why a resolution is kept or changed. least: the least candidate that misplaces no more than the current one."""
    values = {
        "now": resolution_text(now.resolution),
        "part": percent(now.misplaced / 100),
        "margin": percent(margin / 100, 0),
        "days": count(n_days),
        "chosen": resolution_text(chosen.resolution),
        "after": percent(chosen.misplaced / 100),
        "least": resolution_text(least),
    }
    if chosen is not now:
        text = _(
            "On an average day %(now)s misplaces %(part)s of the leaves by rounding, and %(chosen)s %(after)s. It is "
            "the least of these resolutions with at most %(margin)s."
        )
        return text % values
    if now.misplaced > margin:
        return _("On an average day %(now)s misplaces %(part)s of the leaves, and a finer one is no better.") % values
    if now.misplaced > 0:
        text = _("On an average day %(now)s misplaces %(part)s of the leaves by rounding: at most %(margin)s.") % values
    else:
        text = (
            ngettext(
                "On the last day %(now)s gave every leaf its exact rank.",
                "On the last %(days)s days %(now)s gave every leaf its exact rank.",
                n_days,
            )
            % values
        )
    return text if least == now.resolution else f"{text} {_('%(least)s would be enough.') % values}"


def operator(now: OperatorFacts, decision: Decision | None, alike: Sequence[str], measured: Sample) -> str:
    """Why an operator is kept or changed, which properties it lacks, and which operators order alike."""
    if decision is None or not decision.now.training:
        texts = [_("Operators are compared by a replay of own jobs, which is missing here.")]
    else:
        texts = [compared(decision, measured)]
    if not now.is_compliant and (decision is None or decision.chosen is decision.now):
        lack = _("With %(now)s idle share is not divided in proportion, or the ends depend on the target.")
        texts.append(lack % {"now": now.name})
        if decision is not None and decision.basis == "keep" and decision.now.training:
            texts.append(_("The replay shows no effect of it here."))
    if alike:
        texts.append(_("Alike in order, different in rounding only: %(alike)s.") % {"alike": ", ".join(alike)})
    return " ".join(texts)


def held_back(n_days: int, now_points: float, points: float, *, is_change: bool) -> str:
    """The comparison on the held-back days."""
    values = {"n": count(n_days), **beside((now_points,), (points,), "was", "is")}
    if not is_change:
        text = _("On the last %(n)s held-back days the current settings were %(was)s points from fair use.")
    elif points < now_points:
        text = _(
            "On the last %(n)s held-back days the recommended settings were %(is)s points from fair use, the current "
            "ones %(was)s."
        )
    else:
        text = _(
            "On the last %(n)s held-back days the recommended settings were no nearer to fair use: %(is)s points, the "
            "current ones %(was)s."
        )
    return text % values


def sample(measured: Sample) -> str:
    """What the advice was measured on."""
    values = {
        "leaves": count(measured.n_leaves),
        "days": count(measured.n_days),
        "jobs": count(measured.n_jobs),
        "one_in": count(measured.one_in),
        "replay_days": count(measured.n_replay_days),
        "replays": count(measured.n_replays),
        "entries": count(measured.n_entries),
        "left_out": count(measured.n_left_out),
        "cpus": count(measured.cpus),
        "least_cpus": count(measured.least_cpus),
        "unknown": count(measured.n_unknown),
        "unrequested": count(measured.n_unrequested),
        "waiting": count(measured.n_waiting),
        "error": number(measured.model_error_points or 0.0, 1),
        "typical": job_hours(measured.typical_job_h),
        "unit": measured.unit,
    }
    texts = []
    if measured.n_days:
        texts.append(_("Ranks of %(leaves)s leaves were compared now and on %(days)s past days."))
    if measured.typical_job_h is not None:
        texts.append(_("Half of all work was in jobs of up to %(typical)s %(unit)s: the typical job."))
    if measured.n_jobs and measured.meets_history:
        texts.append(
            _(
                "%(jobs)s jobs of %(replay_days)s days were replayed %(replays)s times with each setting, each day on "
                "the processors that were busy at once, %(cpus)s at most."
            )
        )
        if measured.least_cpus <= measured.cpus / 2:
            texts.append(_("On the day with the fewest there were %(least_cpus)s: other days had another machine."))
        texts.append(_("The replay of history is within %(error)s points of history."))
    if measured.n_waiting:
        texts.append(_("%(waiting)s of the jobs never started: they count as demand."))
    if measured.n_unknown:
        texts.append(
            _("Of %(unknown)s jobs that wait no requested time is known: nothing can be said about their demand.")
        )
    if measured.n_unrequested:
        texts.append(_("%(unrequested)s of the jobs have no requested time: the replay knew when they would end."))
    if measured.n_jobs and measured.one_in > 1:
        texts.append(_("Each replay has one of %(one_in)s jobs, and each another one."))
    if measured.n_left_out:
        texts.append(_("Jobs of %(left_out)s entries that used less than these %(entries)s were left out."))
    return " ".join(text % values for text in texts)
