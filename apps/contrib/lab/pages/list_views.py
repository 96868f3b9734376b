"""The page of the lab: the classic questions, each with its estimate and one button, and the list of experiments."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.accounts.actor import Actor
from apps.contrib.lab.experiments import selectors, services
from apps.contrib.lab.experiments.list_headlines import list_headlines
from apps.contrib.lab.experiments.permissions import may_manage, policy_to_manage, policy_to_read
from apps.contrib.lab.experiments.presets import Preset
from apps.contrib.lab.pages import presenters
from apps.contrib.lab.pages.numbers import estimate_text
from apps.contrib.lab.pages.questions import OF_AN_ENTRY, entry_choices, estimated, questions_of
from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotFound, status_of
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.web.shell.requests import SeeOther, actor_of, fragment, is_htmx

SHOWN = 20


def lab_url(policy: str, **_kwargs: Any) -> str:
    return reverse("pages:lab", kwargs={"policy": policy})


@require_safe
def lab(request: HttpRequest, policy: str) -> HttpResponse:
    """`?question=`: whose estimate is shown without scripts, `?entry=` with its entry; `?all`: all rows."""
    actor, at = actor_of(request), clock.now()
    viewed = policy_to_read(slug=policy, at=at, actor=actor)
    may = may_manage(viewed, at=at, actor=actor)
    opened = request.GET.get("question", "")
    context = _list_context(request, viewed) | {
        "may_manage": may,
        "questions": _questions(viewed, opened=opened, entry=request.GET.get("entry", ""), at=at, actor=actor)
        if may
        else [],
    }
    return render(request, "contrib/lab/lab.html", context)


@require_safe
@fragment(lab_url)
def rows(request: HttpRequest, policy: str) -> HttpResponse:
    """The list alone, which the page asks for again while something runs."""
    viewed = policy_to_read(slug=policy, at=clock.now(), actor=actor_of(request))
    return render(request, "contrib/lab/_rows.html", _list_context(request, viewed))


def question_url(policy: str, question: str) -> str:
    return f"{lab_url(policy)}?question={question}#question-{question}"


@require_safe
@fragment(question_url)
def question(request: HttpRequest, policy: str, question: str) -> HttpResponse:
    """The estimate of a question with the button that starts it. `?entry=`: of one that is about an entry."""
    actor, at = actor_of(request), clock.now()
    viewed = policy_to_manage(slug=policy, at=at, actor=actor)
    entry = request.GET.get("entry", "")
    preset = _named(questions_of(viewed, entry, at=at, actor=actor), question)
    context = _question_context(viewed, preset, entry=entry, is_opened=True, at=at, actor=actor)
    return render(request, "contrib/lab/_question.html", {"each": context, "policy": policy})


@require_http_methods(["GET", "HEAD", "POST"])
def ask(request: HttpRequest, policy: str, question: str) -> HttpResponse:
    """Make and start the experiment of a question."""
    if request.method != "POST":
        return SeeOther(question_url(policy, question))
    actor, at = actor_of(request), clock.now()
    viewed = policy_to_manage(slug=policy, at=at, actor=actor)
    try:
        preset = _named(questions_of(viewed, request.POST.get("entry", ""), at=at, actor=actor), question)
        spec = estimated(viewed, preset, at=at, actor=actor).spec
        made = services.create_experiment(policy_slug=policy, name=preset.title, spec=spec, at=at, actor=actor)
    except (Invalid, Conflict) as error:
        context = _list_context(request, viewed) | {
            "may_manage": True,
            "questions": _questions(viewed, opened="", entry="", at=at, actor=actor),
            "refusal": error.message,
            "refusal_code": error.code,
        }
        return render(request, "contrib/lab/lab.html", context, status=status_of(error))
    messages.success(request, _("Started. You may close this page."))
    return SeeOther(presenters.experiment_url(policy, made.pk))


def _named(presets: dict[str, Preset], question: str) -> Preset:
    if question not in presets:
        raise NotFound(_("There is no such question."))
    return presets[question]


def _questions(policy: Policy, *, opened: str, entry: str, at: datetime, actor: Actor) -> list[dict[str, Any]]:
    """All questions; the opened one with its estimate, which the page asks for of the others once it is shown."""
    chosen = entry if opened == OF_AN_ENTRY else ""
    try:
        presets = questions_of(policy, chosen, at=at, actor=actor)
    except Invalid:  # an address with an entry that is gone
        chosen, presets = "", questions_of(policy, "", at=at, actor=actor)
    return [
        _question_context(policy, preset, entry=chosen, is_opened=name == opened, at=at, actor=actor)
        for name, preset in presets.items()
    ]


def _question_context(
    policy: Policy, preset: Preset, *, entry: str, is_opened: bool, at: datetime, actor: Actor
) -> dict[str, Any]:
    is_of_entry = preset.name == OF_AN_ENTRY
    context: dict[str, Any] = {
        "key": preset.name,
        "title": _("What if a project doubles?") if is_of_entry else preset.title,
        "text": preset.text,
        "url": reverse("pages:lab-question", kwargs={"policy": policy.slug, "question": preset.name}),
        "action": reverse("pages:lab-ask", kwargs={"policy": policy.slug, "question": preset.name}),
        "is_estimated": is_opened,
    }
    if not is_opened:
        return context
    if is_of_entry:
        choices = entry_choices(load_tree(policy))
        context |= {"entries": choices, "entry": entry or choices[0].uid}
    try:
        needed = estimated(policy, preset, at=at, actor=actor)
    except (Invalid, Conflict) as error:
        return context | {"problem": error.message, "code": error.code}
    return context | {"estimate": estimate_text(needed.estimate), "is_drawn": needed.is_drawn}


def _list_context(request: HttpRequest, policy: Policy) -> dict[str, Any]:
    actor, at = actor_of(request), clock.now()
    experiments = selectors.list_experiments(policy_slug=policy.slug, at=at, actor=actor)
    shown = experiments if "all" in request.GET else experiments[:SHOWN]
    headlines = list_headlines(policy_slug=policy.slug, experiment_ids=[each.id for each in shown], at=at, actor=actor)
    lines = [presenters.list_row(each) for each in shown]
    for line in lines:
        if headline := headlines.get(line["row"].id):
            line["finding"] = headline.verdict or presenters.finding_of(
                headline.title, headline.headline, headline.headline_was
            )
    return {
        "policy": policy.slug,
        "policy_name": policy.name,
        "revision": policy.head_number,
        "rows": lines,
        "n_more": len(experiments) - len(shown),
        "is_open": any(line["is_open"] for line in lines),
        "is_fragment": is_htmx(request),
        "crumbs": [
            {"label": policy.name, "url": reverse("pages:policy", kwargs={"policy": policy.slug})},
            {"label": _("Lab")},
        ],
    }
