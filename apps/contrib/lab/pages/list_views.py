"""The page of the lab: the classic questions, each with its estimate and one button, and the list of experiments."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.contrib.lab.experiments import selectors, services
from apps.contrib.lab.experiments.list_headlines import list_headlines
from apps.contrib.lab.experiments.permissions import may_manage, policy_to_manage, policy_to_read
from apps.contrib.lab.pages import presenters
from apps.contrib.lab.pages.numbers import estimate_text
from apps.contrib.lab.pages.questions import QUESTIONS, Question, entry_choices, usual_workload
from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotFound, status_of
from apps.policies.models import Policy
from apps.web.shell.requests import SeeOther, actor_of, fragment, is_htmx

SHOWN = 20


def lab_url(policy: str, **_kwargs: Any) -> str:
    return reverse("dashboard:lab", kwargs={"policy": policy})


@require_safe
def lab(request: HttpRequest, policy: str) -> HttpResponse:
    """`?question=`: whose estimate is shown without scripts, `?entry=` with its entry; `?all`: all rows."""
    actor, at = actor_of(request), clock.now()
    viewed = policy_to_read(slug=policy, at=at, actor=actor)
    opened = request.GET.get("question", "")
    may = may_manage(viewed, at=at, actor=actor)
    context = {
        **_list_context(request, viewed),
        "may_manage": may,
        "questions": [
            _question_context(request, viewed, each, is_opened=each.key == opened) for each in QUESTIONS.values()
        ]
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
    """The estimate of a question with the button that starts it."""
    viewed = policy_to_manage(slug=policy, at=clock.now(), actor=actor_of(request))
    context = _question_context(request, viewed, _named(question), is_opened=True)
    return render(request, "contrib/lab/_question.html", {"each": context, "policy": policy})


@require_http_methods(["GET", "HEAD", "POST"])
def ask(request: HttpRequest, policy: str, question: str) -> HttpResponse:
    """Make and start the experiment of a question."""
    if request.method != "POST":
        return SeeOther(question_url(policy, question))
    actor, at = actor_of(request), clock.now()
    viewed = policy_to_manage(slug=policy, at=at, actor=actor)
    asked = _named(question)
    try:
        workload = usual_workload(viewed, at=at, actor=actor)
        spec = asked.spec(viewed, request.POST.get("entry", ""), workload)
        name = asked.experiment_name(viewed, request.POST.get("entry", ""))
        made = services.create_experiment(policy_slug=policy, name=name, spec=spec, at=at, actor=actor)
    except (Invalid, Conflict) as error:
        context = _list_context(request, viewed) | {
            "may_manage": True,
            "questions": [_question_context(request, viewed, each, is_opened=False) for each in QUESTIONS.values()],
            "refusal": error.message,
            "refusal_code": error.code,
        }
        return render(request, "contrib/lab/lab.html", context, status=status_of(error))
    messages.success(request, _("Started. You may close this page."))
    return SeeOther(presenters.experiment_url(policy, made.pk))


def _named(question: str) -> Question:
    if question not in QUESTIONS:
        raise NotFound(_("There is no such question."))
    return QUESTIONS[question]


def _question_context(request: HttpRequest, policy: Policy, asked: Question, *, is_opened: bool) -> dict[str, Any]:
    """is_opened: with its estimate; without, the page asks for it after it has come."""
    entry = request.GET.get("entry", "") if is_opened else ""
    context: dict[str, Any] = {
        "key": asked.key,
        "title": str(asked.title),
        "text": str(asked.text),
        "url": reverse("dashboard:lab-question", kwargs={"policy": policy.slug, "question": asked.key}),
        "action": reverse("dashboard:lab-ask", kwargs={"policy": policy.slug, "question": asked.key}),
        "is_estimated": is_opened,
    }
    if not is_opened:
        return context
    if asked.has_entry:
        choices = entry_choices(policy)
        context["entries"] = choices
        entry = entry or (choices[0].uid if choices else "")
        context["entry"] = entry
    try:
        actor, at = actor_of(request), clock.now()
        spec = asked.spec(policy, entry, usual_workload(policy, at=at, actor=actor))
        context["spec_sentence"] = asked.sentence(policy, spec)
        estimate = selectors.estimate_experiment(policy_slug=policy.slug, spec=spec, at=at, actor=actor)
    except (Invalid, Conflict) as error:
        return context | {"problem": error.message, "code": error.code}
    return context | {"estimate": estimate_text(estimate)}


def _list_context(request: HttpRequest, policy: Policy) -> dict[str, Any]:
    actor, at = actor_of(request), clock.now()
    experiments = selectors.list_experiments(policy_slug=policy.slug, at=at, actor=actor)
    shown = experiments if "all" in request.GET else experiments[:SHOWN]
    headlines = list_headlines(policy_slug=policy.slug, experiment_ids=[each.id for each in shown], at=at, actor=actor)
    lines = [presenters.list_row(each) for each in shown]
    for line in lines:
        if headline := headlines.get(line["row"].id):
            line["finding"] = presenters.finding_of(headline.title, headline.headline, headline.headline_was)
    return {
        "policy": policy.slug,
        "policy_name": policy.name,
        "revision": policy.head_number,
        "rows": lines,
        "n_more": len(experiments) - len(shown),
        "is_open": any(line["is_open"] for line in lines),
        "is_fragment": is_htmx(request),
        "crumbs": [
            {"label": policy.name, "url": reverse("dashboard:policy", kwargs={"policy": policy.slug})},
            {"label": _("Lab")},
        ],
    }
