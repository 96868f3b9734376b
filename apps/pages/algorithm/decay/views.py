"""Which past usage a policy counts: usage windows and decay functions as text, and the form to choose them."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.core import clock
from apps.core.errors import NotFound
from apps.engine.decay_functions import DECAY_FUNCTIONS, DecayFunction
from apps.pages.algorithm.comparison import PolicyAlgorithm, get_algorithm_page
from apps.pages.algorithm.decay.forms import bound, unbound
from apps.pages.algorithm.decay.presenters import hourly_error, list_decay_functions, remaining_by_age
from apps.web.changes import settings_change
from apps.web.figures import Figure
from apps.web.figures.curves import policy_decay_figure
from apps.web.shell.figure_frames import answer_figure, framed
from apps.web.shell.requests import actor_of


@require_safe
def figure(request: HttpRequest, policy: str, form: str = "json") -> HttpResponseBase:
    """The figure for the page's query."""
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
    return answer_figure(request, _decay(request, current), form)


@require_http_methods(["GET", "HEAD", "POST"])
def decay(request: HttpRequest, policy: str) -> HttpResponse:
    """`?aging=` shows a decay function that isn't active; its parameters fill in the form. POST first previews it, then
    publishes it.
    """
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
    if request.method == "POST":
        return _decide(request, current)
    own = str(current.settings.window["aging"])
    usual = own if own in DECAY_FUNCTIONS else "none"  # a package brought it to an earlier version
    function = _known(request.GET.get("aging") or usual)
    return _show(request, current, function, **_filled_in(request, current, function))


def _filled_in(request: HttpRequest, current: PolicyAlgorithm, function: DecayFunction) -> dict[str, Any]:
    """The form with the parameters of the address in place of the active ones; nothing without one."""
    start = {field.name: field.value for field in unbound(function, current.settings).fields}
    if not start.keys() & request.GET.keys():
        return {}
    return {"form": bound(function, current.settings, {**start, **request.GET.dict()})}


def _decide(request: HttpRequest, current: PolicyAlgorithm) -> HttpResponse:
    function = _known(request.POST.get("aging", ""))
    form = bound(function, current.settings, request.POST)

    def show(*, status: int = 200, **more: Any) -> HttpResponse:
        return _show(request, current, function, status=status, form=form, **more)

    back = reverse("pages:decay", kwargs={"policy": current.policy_slug})
    return settings_change.decide(request, current.policy_slug, "window", form.window, show=show, back=back)


def _show(
    request: HttpRequest, current: PolicyAlgorithm, function: DecayFunction, *, status: int = 200, **more: Any
) -> HttpResponse:
    window = current.settings.window
    form = more.pop("form", None) or unbound(function, current.settings)
    tree = reverse("pages:policy", kwargs={"policy": current.policy_slug})
    context = {
        "found": current,
        "window": window,
        "chosen": function,
        "functions": list_decay_functions(),
        "decay": framed(
            request,
            reverse("pages:decay-figure", kwargs={"policy": current.policy_slug}),
            lambda: _decay(request, current),
        ),
        "is_other": function.name != window["aging"],
        "left": remaining_by_age(window, form.window, clock.now().timestamp()),
        "hourly_error": hourly_error(form.window or window),
        "is_changed": form.window is not None and dict(form.window) != window,
        "form": form,
        "may_change": current.may_change,
        "policy": current.policy_slug,
        "crumbs": [{"label": current.policy_name, "url": tree}, {"label": _("Usage window")}],
        **more,
    }
    return render(request, "pages/algorithm/decay/decay.html", context, status=status)


def _decay(request: HttpRequest, current: PolicyAlgorithm) -> Figure:
    return policy_decay_figure(current.settings, current.policy_slug, request.GET, as_of_s=clock.now().timestamp())


def _known(name: str) -> DecayFunction:
    if name not in DECAY_FUNCTIONS:
        raise NotFound(_("Not found"))
    return DECAY_FUNCTIONS[name]
