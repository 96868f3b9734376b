"""Advice on the page of a policy's algorithm: the sentence, what was measured of each choice, and a draft of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.actor import Actor
from apps.contrib.lab.advisor import sentences
from apps.contrib.lab.advisor.change_set_of_advice import make_change_set_of_advice
from apps.contrib.lab.advisor.records import AdvisedChoice
from apps.contrib.lab.advisor.runs import StoredAdvice, get_advice, month_of, request_advice
from apps.contrib.lab.experiments.permissions import may_manage
from apps.core import clock
from apps.core.errors import Conflict
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.priorities.sentences.numbers import UNKNOWN, count, job_hours, number, percent
from apps.web.shell.requests import SeeOther, actor_of, fragment

TEMPLATE = "contrib/lab/_advice.html"


def page_url(policy: str) -> str:
    return reverse("pages:algorithm", kwargs={"policy": policy})


@require_http_methods(["GET", "HEAD", "POST"])
def advice(request: HttpRequest, policy: str) -> HttpResponse:
    """POST has the policy measured; then, and for old addresses, the page of the algorithm."""
    if request.method == "POST":
        request_advice(policy_slug=policy, at=clock.now(), actor=actor_of(request))
    return SeeOther(page_url(policy))


@require_safe
@fragment(page_url)
def part(request: HttpRequest, policy: str) -> HttpResponse:
    """Fragment with the newest advice."""
    actor, now = actor_of(request), clock.now()
    stored = get_advice(policy_slug=policy, at=now, actor=actor)
    return render(request, TEMPLATE, {"shown": advice_context(stored, at=now, actor=actor)})


@require_POST
def draft(request: HttpRequest, policy: str) -> HttpResponse:
    """Make a draft of the advice, and open its review."""
    try:
        change_set = make_change_set_of_advice(policy_slug=policy, at=clock.now(), actor=actor_of(request))
    except Conflict as problem:
        messages.error(request, problem.message)
        return SeeOther(page_url(policy))
    return SeeOther(reverse("pages:change", kwargs={"change_set": change_set.pk}))


def advice_context(stored: StoredAdvice, *, at: datetime, actor: Actor) -> dict[str, Any]:
    """Of TEMPLATE, as `shown`."""
    policy = get_policy(slug=stored.policy, actor=actor)
    advice = stored.advice
    return {
        "stored": stored,
        "advice": advice,
        "choices": [] if advice is None else [_choice(each) for each in advice.choices],
        "sample": "" if advice is None else sentences.sample(advice.sample),
        "may_compute": may_manage(policy, at=at, actor=actor),
        "policy": stored.policy,
        "why_stale": _why_stale(stored, policy, at) if stored.state == "stale" else "",
    }


def _why_stale(stored: StoredAdvice, policy: Policy, at: datetime) -> str:
    """What has changed since it was measured: the month, else the policy, else the usage of its days."""
    if stored.computed_at is not None and month_of(stored.computed_at) != month_of(at):
        return _("It is of %(month)s. Measure again.") % {"month": date_format(stored.computed_at, "F Y")}
    if stored.revision != policy.head_number:
        words = {"n": stored.revision, "head": policy.head_number}
        return _("It is of revision %(n)s, and %(head)s is published. Measure again.") % words
    return _("The usage of its days, or where it counts, has changed since. Measure again.")


def _choice(choice: AdvisedChoice) -> dict[str, Any]:
    units = [criterion.unit for criterion in choice.criteria]
    return {
        "choice": choice,
        "rows": [
            {
                "candidate": candidate,
                "cells": [
                    (criterion.title, _text(value, unit))
                    for criterion, value, unit in zip(choice.criteria, candidate.values, units, strict=True)
                ],
            }
            for candidate in choice.candidates
        ],
    }


def _text(value: float | None, unit: str) -> str:
    if value is None:
        return UNKNOWN
    if unit == "yes_no":
        return _("yes") if value else _("no")
    if unit == "percent":
        return percent(value / 100)
    if unit == "points":
        return number(value, 2 if value >= 0.1 else 4)
    if unit == "hours":
        return job_hours(value)
    return count(int(value))
