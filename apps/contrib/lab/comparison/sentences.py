"""Sentences of the verdict of advice and lab, made from its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.contrib.lab.comparison.recorded_order import explains_waits
from apps.contrib.lab.comparison.replay import DAY_S
from apps.contrib.lab.comparison.verdict import NEARER_PERCENT, Decision, Replayed, ReplayFacts
from apps.priorities.sentences.numbers import count, number, percent
from apps.priorities.sentences.wait_text import wait_text


def half_life_name(seconds: float) -> str:
    """7 days, 12 hours."""
    if seconds >= DAY_S:
        days = seconds / DAY_S
        return ngettext("%(n)s day", "%(n)s days", 1 if days == 1 else 2) % {"n": f"{days:g}"}
    hours = seconds / 3600
    return ngettext("%(n)s hour", "%(n)s hours", 1 if hours == 1 else 2) % {"n": f"{hours:g}"}


def unlike_history(measured: Replayed) -> str:
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


def contradiction(title: str, decision: Decision, measured: Replayed) -> str:
    """A sentence of the headline where the held-back days disagree with the first ones; else empty."""
    if decision.basis != "contradicted":
        return ""
    values = {
        "what": title,
        "nearest": decision.nearest.name,
        "now": decision.now.name,
        "first": count(measured.n_training_days),
        "last": count(measured.n_held_back_days),
        **beside(decision.now.training, decision.nearest.training, "was", "is"),
        **beside(decision.now.held_back, decision.nearest.held_back, "was_last", "is_last"),
    }
    text = _(
        "%(what)s stays open: the last %(last)s days differ from the first %(first)s. With %(nearest)s usage was "
        "%(is_last)s points from fair use there, with %(now)s %(was_last)s; before, %(is)s and %(was)s."
    )
    return text % values


def compared(decision: Decision, measured: Replayed) -> str:
    """Why a setting is kept or changed, by the replay."""
    now, nearest = decision.now, decision.nearest
    if not now.training:
        return _("Too few days with jobs for a replay: nothing is compared.")
    values = {
        "now": now.name,
        "nearest": nearest.name,
        "first": count(measured.n_training_days),
        "last": count(measured.n_held_back_days),
        "margin": percent(NEARER_PERCENT / 100, 0),
        "error": number(max(measured.model_error_points or 0.0, measured.job_points, spread(now)), 1),
        **beside(now.training, nearest.training, "was", "is"),
        **beside(now.held_back, nearest.held_back, "was_last", "is_last"),
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


def spread(facts: ReplayFacts) -> float:
    """Twice the standard error of the replays, in points."""
    n = len(facts.training)
    return 2.0 * stdev(facts.training) / sqrt(n) if n > 1 else 0.0


def beside(before: Sequence[float], after: Sequence[float], was: str, is_now: str) -> dict[str, str]:
    """Two means with as few decimals as make them look different."""
    if not before or not after:
        return {was: "", is_now: ""}
    a, b = fmean(before), fmean(after)
    decimals = next((each for each in (1, 2) if round(a, each) != round(b, each)), 3 if a != b else 1)
    return {was: number(a, decimals), is_now: number(b, decimals)}
