"""The page that changes the settings of the policy as an edit of a draft."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from apps.core import clock
from apps.core.errors import Conflict, Invalid, Stale, status_of
from apps.pages.changes.drafts import pages, settings_form
from apps.pages.changes.drafts.edit_views import unconditional, version_of
from apps.policies.changesets import drafts
from apps.policies.settings import RESOURCES
from apps.priorities.selectors.class_factors import factor_name, unmatched_class_factors
from apps.priorities.selectors.draft import DraftView
from apps.priorities.selectors.kinds_in_use import kinds_by_default, kinds_in_use
from apps.web.changes.factor_lines import KIND_WEIGHTS
from apps.web.links.addresses import draft_url
from apps.web.shell.requests import SeeOther, actor_of


@require_http_methods(["GET", "HEAD", "POST"])
def settings(request: HttpRequest, change_set: int) -> HttpResponse:
    """Change the settings of the policy as an edit of the draft."""
    view = pages.open_view(request, change_set)
    if request.method != "POST":
        return _show_settings(request, view, settings_form.typed(view.outcome.settings))
    version = version_of(request)
    if version is None:
        return unconditional(request)
    try:
        changed = settings_form.read_settings(request.POST, view.outcome.settings)
        if not changed:
            raise Invalid(_("The draft has these settings already."))
        drafts.add_operations(
            id=change_set,
            version=version,
            operations=[{"op": "set_policy", "settings": changed}],
            at=clock.now(),
            actor=actor_of(request),
        )
    except (Invalid, Stale, Conflict) as error:
        status = status_of(error)
        return _show_settings(request, view, request.POST, status=status, error=error)
    messages.success(request, _("Added to the draft."))
    return SeeOther(draft_url(change_set))


def _show_settings(
    request: HttpRequest,
    view: DraftView,
    typed: Mapping[str, Any],
    *,
    status: int = 200,
    error: Invalid | Stale | Conflict | None = None,
) -> HttpResponse:
    errors = {_field_of(each.where): each.message for each in reversed(error.fields)} if error else {}
    labels = {
        "cpu_s": _("Core-seconds"),
        "gpu_s": _("GPU-seconds"),
        "mem_gb_s": _("GB-seconds"),
        "node_s": _("Node-seconds"),
        "billing": _("Billing units"),
    }
    slug, kinds = view.policy.slug, kinds_in_use()
    context = {
        **pages.subpage_context(view, _("Settings")),
        "typed": typed,
        "error": error,
        "errors": errors,
        "weights": [
            {
                "name": f"weight_{name}",
                "label": labels[name],
                "value": typed.get(f"weight_{name}", ""),
                "error": errors.get(f"weight_{name}", ""),
            }
            for name in RESOURCES
        ],
        "kinds": kinds,
        "by_default": kinds_by_default(view.outcome.settings.metric["weights"], kinds),
        "approaches": settings_form.approaches(),
        "unmatched": [factor_name(factor) for factor in unmatched_class_factors(view.outcome.settings.metric)],
        "algorithm_url": reverse("pages:algorithm", kwargs={"policy": slug}),
        "decay_url": reverse("pages:decay", kwargs={"policy": slug}),
    }
    return render(request, "pages/changes/drafts/settings.html", context, status=status)


def _field_of(where: str) -> str:
    """Form field of a settings path, such as class_factors for settings.metric.class_factors[3].factor."""
    name = where.removeprefix("settings.").removeprefix("metric.")
    for field in ("class_factors", "site_factors"):
        if name.startswith(field):
            return field
    if name.startswith("weights.") and name.removeprefix("weights.") not in RESOURCES:
        return KIND_WEIGHTS
    return name.replace("weights.", "weight_")
