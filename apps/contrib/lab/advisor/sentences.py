"""Sentences of the advice, made from its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.contrib.lab.advisor.records import (
    AdvisedChoice,
    Decision,
    OperatorFacts,
    ReplayFacts,
    ResolutionFacts,
    Sample,
)
from apps.contrib.lab.model_waits import explains_waits
from apps.contrib.lab.pages.numbers import wait_text
from apps.priorities.sentences.numbers import count, job_hours, number, percent
from apps.priorities.sentences.operators import resolution_text

DAY_S = 86_400


def half_life_name(seconds: float) -> str:
    """7 days, 12 hours."""
    if seconds >= DAY_S:
        days = seconds / DAY_S
        return ngettext("%(n)s day", "%(n)s days", 1 if days == 1 else 2) % {"n": f"{days:g}"}
    hours = seconds / 3600
    return ngettext("%(n)s hour", "%(n)s hours", 1 if hours == 1 else 2) % {"n": f"{hours:g}"}


def resolution_name(value: int) -> str:
    return resolution_text(value)


def verdict(choices: Sequence[AdvisedChoice], measured: Sample, contradictions: Sequence[str]) -> str:
    """The whole advice in one or two sentences, with what stays open."""
    changed = [choice for choice in choices if choice.is_change]
    if not choices and measured.meets_history:
        return _("Nothing is measured yet: there is too little usage.")
    if not measured.meets_history:
        unknown = _model_sentence(measured)
        return f"{_changes(changed)} {unknown}" if changed else unknown
    if not changed:
        kept = "; ".join(f"{choice.title}: {choice.now}" for choice in choices)
        first = _("Keep what you have. %(kept)s.") % {"kept": kept}
    else:
        first = _changes(changed)
    return " ".join([first, *contradictions])


def _changes(changed: Sequence[AdvisedChoice]) -> str:
    changes = "; ".join(
        _("%(what)s: %(after)s instead of %(now)s")
        % {"what": choice.title, "after": choice.recommended, "now": choice.now}
        for choice in changed
    )
    return _("Change: %(changes)s.") % {"changes": changes}


def _model_sentence(measured: Sample) -> str:
    """Why nothing is compared: the replay of history isn't history."""
    values = {
        "waited": wait_text(measured.wait_s),
        "waits": wait_text(measured.model_wait_s),
        "points": number(measured.model_error_points or 0.0, 1),
    }
    if not explains_waits(measured.wait_s, measured.model_wait_s):
        text = _(
            "Operator, half-life and algorithm can't be compared: jobs waited %(waited)s, and in the replay of history "
            "%(waits)s. Something else than processors held them."
        )
    else:
        text = _(
            "Operator, half-life and algorithm can't be compared: the replay of history is %(points)s points from "
            "history."
        )
    return text % values


def contradiction(title: str, decision: Decision, measured: Sample) -> str:
    """A sentence of the headline where the held-back days disagree with the first ones; else empty."""
    if decision.basis != "contradicted":
        return ""
    values = {
        "what": title,
        "nearest": decision.nearest.name,
        "now": decision.now.name,
        "first": count(measured.n_training_days),
        "last": count(measured.n_held_back_days),
        **_beside(decision.now.training, decision.nearest.training, "was", "is"),
        **_beside(decision.now.held_back, decision.nearest.held_back, "was_last", "is_last"),
    }
    text = _(
        "%(what)s stays open: the last %(last)s days differ from the first %(first)s. With %(nearest)s usage was "
        "%(is_last)s points from fair use there, with %(now)s %(was_last)s; before, %(is)s and %(was)s."
    )
    return text % values


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


def operator(
    now: OperatorFacts, decision: Decision | None, alike: Sequence[str], measured: Sample, margin: float
) -> str:
    """Why an operator is kept or changed, which properties it lacks, and which operators order alike."""
    if decision is None or not decision.now.training:
        texts = [_("Operators are compared by a replay of own jobs, which is missing here.")]
    else:
        texts = [replayed(decision, measured, margin)]
    if not now.is_compliant and (decision is None or decision.chosen is decision.now):
        lack = _("With %(now)s idle share is not divided in proportion, or the ends depend on the target.")
        texts.append(lack % {"now": now.name})
        if decision is not None and decision.basis == "keep" and decision.now.training:
            texts.append(_("The replay shows no effect of it here."))
    if alike:
        texts.append(_("Alike in order, different in rounding only: %(alike)s.") % {"alike": ", ".join(alike)})
    return " ".join(texts)


def replayed(decision: Decision, sample: Sample, margin: float) -> str:
    """Why a setting is kept or changed, by the replay."""
    now, nearest = decision.now, decision.nearest
    if not now.training:
        return _("Too few days with jobs for a replay: nothing is compared.")
    values = {
        "now": now.name,
        "nearest": nearest.name,
        "first": count(sample.n_training_days),
        "last": count(sample.n_held_back_days),
        "margin": percent(margin / 100, 0),
        "error": number(max(sample.model_error_points or 0.0, _spread(now)), 1),
        **_beside(now.training, nearest.training, "was", "is"),
        **_beside(now.held_back, nearest.held_back, "was_last", "is_last"),
    }
    if decision.basis == "keep":
        text = _(
            "On the first %(first)s days usage was %(was)s points from fair use with %(now)s, give or take %(error)s; "
            "nothing comparable was measurably nearer."
        )
    elif decision.basis == "last":
        text = _(
            "On the first %(first)s days %(nearest)s and %(now)s made no difference. On the last %(last)s days usage "
            "was %(is_last)s points from fair use with %(nearest)s, %(was_last)s with %(now)s; both halves agree."
        )
    elif decision.basis == "contradicted":
        text = _(
            "On the first %(first)s days usage was %(is)s points from fair use with %(nearest)s, %(was)s with %(now)s; "
            "but on the last %(last)s days %(is_last)s and %(was_last)s."
        )
    else:
        text = _(
            "On the first %(first)s days usage was %(is)s points from fair use with %(nearest)s, %(was)s with %(now)s; "
            "on the last %(last)s days %(is_last)s and %(was_last)s."
        )
    return text % values


def _spread(facts: ReplayFacts) -> float:
    """Twice the standard error of the replays, in points."""
    n = len(facts.training)
    return 2.0 * stdev(facts.training) / sqrt(n) if n > 1 else 0.0


def held_back(n_days: int, now_points: float, points: float, *, is_change: bool) -> str:
    """The comparison on the held-back days."""
    values = {"n": count(n_days), **_beside((now_points,), (points,), "was", "is")}
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


def _beside(before: Sequence[float], after: Sequence[float], was: str, is_now: str) -> dict[str, str]:
    """Two means with as few decimals as make them look different."""
    if not before or not after:
        return {was: "", is_now: ""}
    a, b = fmean(before), fmean(after)
    decimals = next((each for each in (1, 2) if round(a, each) != round(b, each)), 3 if a != b else 1)
    return {was: number(a, decimals), is_now: number(b, decimals)}


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
        texts.append(_("The replay of history is within %(error)s points of history."))
    if measured.n_waiting:
        texts.append(_("%(waiting)s of the jobs never started: they count as demand."))
    if measured.n_jobs and measured.one_in > 1:
        texts.append(_("Each replay has one of %(one_in)s jobs, and each another one."))
    if measured.n_left_out:
        texts.append(_("Jobs of %(left_out)s entries that used less than these %(entries)s were left out."))
    return " ".join(text % values for text in texts)
