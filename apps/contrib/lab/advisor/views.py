"""The page of advice: what to change and why, with the table of each choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from apps.contrib.lab.advisor import sentences
from apps.contrib.lab.advisor.records import Advice, AdvisedChoice
from apps.contrib.lab.advisor.runs import get_advice, request_advice
from apps.contrib.lab.experiments.permissions import may_manage
from apps.core import clock
from apps.policies.selectors import get_policy
from apps.priorities.sentences.numbers import UNKNOWN, count, job_hours, number, percent
from apps.web.shell.requests import SeeOther, actor_of


@require_http_methods(["GET", "HEAD", "POST"])
def advice(request: HttpRequest, policy: str) -> HttpResponse:
    """The newest advice; POST has it computed again."""
    actor, now = actor_of(request), clock.now()
    if request.method == "POST":
        request_advice(policy_slug=policy, at=now, actor=actor)
        return SeeOther(reverse("dashboard:advice", kwargs={"policy": policy}))
    stored = get_advice(policy_slug=policy, at=now, actor=actor)
    own_policy = get_policy(slug=policy, actor=actor)
    context = {
        "stored": stored,
        "advice": stored.advice,
        **({} if stored.advice is None else _shown(policy, stored.advice)),
        "may_compute": may_manage(own_policy, at=now, actor=actor),
        "policy_name": own_policy.name,
        "rest_url": reverse("api:policy-advice", kwargs={"policy": policy}),
        "crumbs": [
            {"label": own_policy.name, "url": reverse("dashboard:policy", kwargs={"policy": policy})},
            {"label": _("Advice")},
        ],
        "policy": policy,
    }
    return render(request, "contrib/lab/advice.html", context)


def _shown(policy: str, advice: Advice) -> dict[str, Any]:
    return {
        "choices": [_choice(policy, advice, each) for each in advice.choices],
        "sample": sentences.sample(advice.sample),
    }


def _choice(policy: str, advice: Advice, choice: AdvisedChoice) -> dict[str, Any]:
    units = [criterion.unit for criterion in choice.criteria]
    return {
        "choice": choice,
        "url": _settings_url(policy, advice, choice),
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


def _settings_url(policy: str, advice: Advice, choice: AdvisedChoice) -> str:
    """The page on which this setting is chosen, with the recommended values filled in."""
    names = {"policy": policy}
    if choice.subject == "half_life":
        filled = (
            {"aging": advice.aging, "half_life_s": f"{(advice.half_life_s or 0) / 86_400:g} d"}
            if choice.is_change
            else {}
        )
        return _with(reverse("dashboard:decay", kwargs=names), filled)
    settings = {name: value for name, value in advice.algorithm.items() if name != "name" and value is not None}
    filled = {"algorithm": advice.algorithm.get("name", "")} | settings if choice.is_change else {}
    return _with(reverse("dashboard:algorithm", kwargs=names), filled)


def _with(url: str, query: Mapping[str, Any]) -> str:
    return f"{url}?{urlencode(query)}#choose" if query else url


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
