"""A change of one part of a policy's settings from its page: previewed, published, or added to a draft."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from apps.core import clock
from apps.core.errors import Conflict, Invalid, status_of
from apps.core.typed_numbers import read_whole
from apps.policies.changesets import drafts
from apps.policies.changesets.conflicts import EditConflict
from apps.policies.operations.apply import Operation
from apps.policies.services import change_settings
from apps.web.links.addresses import draft_url
from apps.web.shell.forms import read_action
from apps.web.shell.publishing import add_published_message
from apps.web.shell.requests import SeeOther, actor_of

_MAX_REASON = 2_000


def add_to_draft(request: HttpRequest, policy: str, changed: Mapping[str, Any], reason: str) -> HttpResponse:
    """Add a change of settings to the actor's draft of the policy, which is created if there is none."""
    actor, at = actor_of(request), clock.now()
    existing = drafts.find_draft_of(policy_slug=policy, at=at, actor=actor)
    draft = existing or drafts.open_draft(policy_slug=policy, reason=reason, at=at, actor=actor)
    operation: Operation = {"op": "set_policy", "settings": dict(changed)}
    drafts.add_operations(id=draft.pk, version=draft.version, operations=[operation], at=at, actor=actor)
    messages.success(request, _("Added to the draft."))
    return SeeOther(draft_url(draft.pk))


def stated_text(values: Mapping[str, Any]) -> str:
    """Values whose effect was shown, as a form sends them back when it publishes."""
    return urlencode(sorted((key, str(value)) for key, value in values.items()))


class Show(Protocol):
    """Function that renders the page with extra context: reason, stated, refusal, refusal_code, reason_error."""

    def __call__(self, *, status: int = 200, **more: Any) -> HttpResponse: ...


def decide(
    request: HttpRequest, policy: str, part: str, values: Mapping[str, Any] | None, *, show: Show, back: str
) -> HttpResponse:
    """Preview, publish or draft a change of one part of a policy's settings, as the button `step` says.

    values: the part's new values; None if the typed ones are invalid. back: URL to redirect to after publishing.
    """
    action = read_action(request)
    reason, step = action.reason.strip()[:_MAX_REASON], action.step
    if values is None:
        return show(status=422, reason=reason)
    settings = {part: dict(values)}
    if step == "draft":
        try:
            return add_to_draft(request, policy, settings, reason)
        except (Invalid, Conflict) as error:
            return show(status=422, reason=reason, refusal=_refusal(error), refusal_code=error.code)
    stated = stated_text(values)
    if step != "publish" or request.POST.get("previewed") != stated:  # changed values are previewed first
        return show(reason=reason, stated=stated)
    if not reason:
        missing = _("Enter a reason.")
        return show(status=422, reason=reason, stated=stated, reason_error=missing)
    try:
        revision = change_settings(
            policy_slug=policy,
            settings=settings,
            reason=reason,
            base_revision=read_whole(request.POST.get("base_revision", ""), 9),
            at=clock.now(),
            actor=actor_of(request),
        )
    except (Invalid, Conflict) as error:
        status = status_of(error)
        return show(status=status, reason=reason, stated=stated, refusal=_refusal(error), refusal_code=error.code)
    add_published_message(request, revision)
    return SeeOther(back)


def _refusal(error: Invalid | Conflict) -> str:
    if isinstance(error, EditConflict):
        return _(
            "Another person changed these settings after you opened the page. Check the current ones, then decide."
        )
    return error.message
