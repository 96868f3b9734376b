"""Which past usage a policy counts, and how it fades: the law in force, those of schedulers, and the choice itself."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from apps import clock
from apps.dashboard import aging_words
from apps.dashboard.actor import actor_of
from apps.dashboard.forms import aging as forms
from apps.dashboard.forms.aging import WindowForm
from apps.dashboard.htmx import SeeOther
from apps.dashboard.views.draft_tables import put_in_draft
from apps.engine.decay import LAWS, Law
from apps.errors import Conflict, Invalid, NotFound
from apps.policies import services as policy_services
from apps.policies.conflicts import EditConflict
from apps.priorities.selectors.comparison import PolicyAlgorithm, get_algorithm_page

_MOST_REASON = 2_000


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
    reason = request.POST.get("reason", "").strip()[:_MOST_REASON]
    more: dict[str, Any] = {"form": form, "reason": reason}
    if form.window is None:
        return _show(request, current, law, status=422, **more)
    if request.POST.get("step") == "draft":
        try:
            return put_in_draft(request, current.policy_slug, {"window": dict(form.window)}, reason)
        except (Invalid, Conflict) as error:
            return _show(request, current, law, status=422, **more, refusal=_refusal(error))
    more["stated"] = _stated(form)
    if request.POST.get("step") != "publish" or request.POST.get("previewed") != more["stated"]:
        return _show(request, current, law, **more)
    if not reason:
        missing = _("Say why: the reason stands in the history, for the people it affects.")
        return _show(request, current, law, status=422, **more, reason_error=missing)
    try:
        revision = policy_services.change_settings(
            policy_slug=current.policy_slug,
            settings={"window": dict(form.window)},
            reason=reason,
            base_revision=_base(request),
            at=clock.now(),
            actor=actor_of(request),
        )
    except (Invalid, Conflict) as error:
        status = 409 if isinstance(error, Conflict) else 422
        return _show(request, current, law, status=status, **more, refusal=_refusal(error))
    messages.success(
        request,
        _("Published as revision %(n)s. Priorities follow with the next recompute, usually within a minute.")
        % {"n": revision.number},
    )
    return SeeOther(reverse("dashboard:aging", kwargs={"policy": current.policy_slug}))


def _show(request: HttpRequest, current: PolicyAlgorithm, law: Law, *, status: int = 200, **more: Any) -> HttpResponse:
    window = current.settings.window
    form = more.pop("form", None) or forms.unbound(law, current.settings)
    tree = reverse("dashboard:policy", kwargs={"policy": current.policy_slug})
    context = {
        "found": current,
        "window": window,
        "chosen": law,
        "laws": aging_words.list_laws(),
        "is_other": law.name != window["aging"],
        "left": aging_words.left_after(window, form.window, clock.now().timestamp()),
        "is_changed": form.window is not None and dict(form.window) != window,
        "form": form,
        "may_change": current.may_change,
        "policy": current.policy_slug,
        "crumbs": [{"label": current.policy_name, "url": tree}, {"label": _("Usage window")}],
        **more,
    }
    return render(request, "dashboard/aging/aging.html", context, status=status)


def _known(name: str) -> Law:
    if name not in LAWS:
        raise NotFound(_("There is no law of aging of this name here."))
    return LAWS[name]


def _stated(form: WindowForm) -> str:
    """What was previewed: publishing something else shows its effect first."""
    return urlencode(sorted((key, str(value)) for key, value in (form.window or {}).items()))


def _base(request: HttpRequest) -> int | None:
    text = request.POST.get("base_revision", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _refusal(error: Invalid | Conflict) -> str:
    if isinstance(error, EditConflict):
        return _(
            "Somebody changed these settings after you opened the page. Look at what is in force now, then decide."
        )
    return error.message
