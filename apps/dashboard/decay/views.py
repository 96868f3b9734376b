"""Which past usage a policy counts, and how it fades: the law in force, those of schedulers, and the choice itself."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.analytics.comparison import PolicyAlgorithm, get_algorithm_page
from apps.core import clock
from apps.core.errors import NotFound
from apps.dashboard.decay import forms
from apps.dashboard.decay import words as aging_words
from apps.dashboard.drafts import settings_choice
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.figure_frames import answer_figure, framed
from apps.engine.decay import DECAY_FUNCTIONS, DecayFunction
from apps.figures import Figure
from apps.figures.decay import decay_of


@require_safe
def decay(request: HttpRequest, policy: str, form: str = "json") -> HttpResponseBase:
    """The figure of the page, for the page's own query."""
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
    return answer_figure(request, _decay(request, current), form)


@require_http_methods(["GET", "HEAD", "POST"])
def aging(request: HttpRequest, policy: str) -> HttpResponse:
    """`?aging=` shows a law that isn't in force; POST first shows what it leaves, then publishes it."""
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
    if request.method == "POST":
        return _decide(request, current)
    return _show(request, current, _known(request.GET.get("aging") or str(current.settings.window["aging"])))


def _decide(request: HttpRequest, current: PolicyAlgorithm) -> HttpResponse:
    law = _known(request.POST.get("aging", ""))
    form = forms.bound(law, current.settings, request.POST)

    def show(*, status: int = 200, **more: Any) -> HttpResponse:
        return _show(request, current, law, status=status, form=form, **more)

    back = reverse("dashboard:aging", kwargs={"policy": current.policy_slug})
    return settings_choice.decide(request, current.policy_slug, "window", form.window, show=show, back=back)


def _show(
    request: HttpRequest, current: PolicyAlgorithm, law: DecayFunction, *, status: int = 200, **more: Any
) -> HttpResponse:
    window = current.settings.window
    form = more.pop("form", None) or forms.unbound(law, current.settings)
    tree = reverse("dashboard:policy", kwargs={"policy": current.policy_slug})
    context = {
        "found": current,
        "window": window,
        "chosen": law,
        "laws": aging_words.list_laws(),
        "decay": framed(
            request,
            reverse("dashboard:aging-decay", kwargs={"policy": current.policy_slug}),
            lambda: _decay(request, current),
        ),
        "is_other": law.name != window["aging"],
        "left": aging_words.left_after(window, form.window, clock.now().timestamp()),
        "is_changed": form.window is not None and dict(form.window) != window,
        "form": form,
        "may_change": current.may_change,
        "policy": current.policy_slug,
        "crumbs": [{"label": current.policy_name, "url": tree}, {"label": _("Usage window")}],
        **more,
    }
    return render(request, "dashboard/decay/aging.html", context, status=status)


def _decay(request: HttpRequest, current: PolicyAlgorithm) -> Figure:
    return decay_of(current.settings, current.policy_slug, request.GET, as_of_s=clock.now().timestamp())


def _known(name: str) -> DecayFunction:
    if name not in DECAY_FUNCTIONS:
        raise NotFound(_("Unknown decay function."))
    return DECAY_FUNCTIONS[name]
