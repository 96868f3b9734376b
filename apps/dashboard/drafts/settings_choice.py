"""The way of a choice of settings: into a draft, or shown with what it does and then published with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from apps.core import clock
from apps.core.error_status import status_of
from apps.core.errors import Conflict, Invalid
from apps.dashboard.drafts.table_views import put_in_draft
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.htmx import SeeOther
from apps.policies.changesets.conflicts import EditConflict
from apps.policies.services import change_settings

_MOST_REASON = 2_000


class Show(Protocol):
    """The page again, with what is to be said on it: reason, stated, refusal, refusal_code, reason_error."""

    def __call__(self, *, status: int = 200, **more: Any) -> HttpResponse: ...


def decide(
    request: HttpRequest, policy: str, part: str, values: Mapping[str, Any] | None, *, show: Show, back: str
) -> HttpResponse:
    """values: of this part of the settings; None where what was typed can't be used."""
    reason, step = request.POST.get("reason", "").strip()[:_MOST_REASON], request.POST.get("step")
    if values is None:
        return show(status=422, reason=reason)
    settings = {part: dict(values)}
    if step == "draft":
        try:
            return put_in_draft(request, policy, settings, reason)
        except (Invalid, Conflict) as error:
            return show(status=422, reason=reason, refusal=_refusal(error), refusal_code=error.code)
    stated = urlencode(sorted((key, str(value)) for key, value in values.items()))
    if step != "publish" or request.POST.get("previewed") != stated:  # something else shows its effect first
        return show(reason=reason, stated=stated)
    if not reason:
        missing = _("Enter a reason: it is shown in the history to those affected.")
        return show(status=422, reason=reason, stated=stated, reason_error=missing)
    try:
        revision = change_settings(
            policy_slug=policy,
            settings=settings,
            reason=reason,
            base_revision=_base(request),
            at=clock.now(),
            actor=actor_of(request),
        )
    except (Invalid, Conflict) as error:
        status = status_of(error)
        return show(status=status, reason=reason, stated=stated, refusal=_refusal(error), refusal_code=error.code)
    messages.success(
        request,
        _("Published as revision %(n)s. Priorities follow with the next recompute, usually within a minute.")
        % {"n": revision.number},
    )
    return SeeOther(back)


def _base(request: HttpRequest) -> int | None:
    text = request.POST.get("base_revision", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _refusal(error: Invalid | Conflict) -> str:
    if isinstance(error, EditConflict):
        return _(
            "Another person changed these settings after you opened the page. Check the current ones, then decide."
        )
    return error.message
