"""Sentences of the advice, made from its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.contrib.lab.advisor.records import AdvisedChoice, OperatorFacts, ReplayFacts, ResolutionFacts, Sample
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


def verdict(choices: Sequence[AdvisedChoice]) -> str:
    """The whole advice in one sentence."""
    changed = [choice for choice in choices if choice.is_change]
    if not choices:
        return _("Nothing is measured yet: there is too little usage.")
    if not changed:
        kept = "; ".join(f"{choice.title}: {choice.now}" for choice in choices)
        return _("Keep what you have. %(kept)s.") % {"kept": kept}
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


def operator(now: OperatorFacts, chosen: OperatorFacts, alike: Sequence[str], margins: tuple[float, float]) -> str:
    """Why an operator is kept or changed, and which operators order alike."""
    misplaced, visible = margins
    values = {
        "now": now.name,
        "chosen": chosen.name,
        "part": percent(now.misplaced / 100),
        "after": percent(chosen.misplaced / 100),
        "seen": percent(now.visible / 100),
        "seen_after": percent(chosen.visible / 100),
        "misplaced": percent(misplaced / 100, 0),
        "visible": percent(visible / 100, 0),
        "alike": ", ".join(alike),
    }
    if chosen is now:
        text = _(
            "No operator is measurably better here: by %(misplaced)s fewer misplaced leaves, or %(visible)s more that "
            "the typical job moves."
        )
    elif not now.is_compliant:
        text = _(
            "With %(now)s idle share is not divided in proportion, or the ends depend on the target; %(chosen)s has "
            "these properties and misplaces %(after)s of the leaves."
        )
    elif now.misplaced - chosen.misplaced > misplaced:
        text = _("On an average day %(now)s misplaces %(part)s of the leaves by rounding, and %(chosen)s %(after)s.")
    else:
        text = _("The typical job moves %(seen)s of the leaves with %(now)s, and %(seen_after)s with %(chosen)s.")
    if not alike:
        return text % values
    return f"{text % values} {_('Alike in order, different in rounding only: %(alike)s.') % values}"


def replayed(now: ReplayFacts, nearest: ReplayFacts, chosen: ReplayFacts, sample: Sample, margin: float) -> str:
    """Why a half-life or an algorithm is kept or changed, by the replay."""
    if not now.training:
        return _("Too few days with jobs for a replay: nothing is compared.")
    values = {
        "now": now.name,
        "nearest": nearest.name,
        "first": count(sample.n_training_days),
        "last": count(sample.n_held_back_days),
        "margin": percent(margin / 100, 0),
        **_beside(now.training, nearest.training, "was", "is"),
        **_beside(now.held_back, nearest.held_back, "was_last", "is_last"),
    }
    if nearest is now:
        text = _(
            "On the first %(first)s days usage was %(was)s points from fair use with %(now)s; nothing comparable was "
            "measurably nearer, by %(margin)s."
        )
    elif chosen is now:
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
        "typical": job_hours(measured.typical_job_h),
        "unit": measured.unit,
    }
    texts = []
    if measured.n_days:
        texts.append(_("Ranks of %(leaves)s leaves were compared now and on %(days)s past days."))
    if measured.typical_job_h is not None:
        texts.append(_("The typical job is the median one, %(typical)s %(unit)s."))
    if measured.n_jobs:
        texts.append(
            _(
                "%(jobs)s jobs of %(replay_days)s days were replayed %(replays)s times with each setting, on "
                "%(cpus)s processors that they just fill."
            )
        )
    if measured.n_jobs and measured.one_in > 1:
        texts.append(_("They are one of %(one_in)s."))
    if measured.n_left_out:
        texts.append(_("Jobs of %(left_out)s entries that used less than these %(entries)s were left out."))
    return " ".join(text % values for text in texts)
