"""A small change from a form: published at once, or as an edit of one's draft; and what a page says afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _

from apps.core import clock
from apps.dashboard.shell.requests import SeeOther, actor_of
from apps.policies.changesets import drafts
from apps.policies.models import Revision
from apps.policies.publishing.direct import publish_operations


def say_published(request: HttpRequest, revision: Revision, *, has_link: bool = True) -> None:
    """Its class names the revision. has_link: no on the page of the change set itself."""
    text = _("Published as revision %(n)s.") % {"n": revision.number}
    if has_link:
        followed = reverse("dashboard:change", kwargs={"change_set": revision.change_set_id})
        text = format_html('{} <a href="{}">{}</a>', text, followed, _("See who moves"))
    messages.success(request, text, extra_tags=f"published-{revision.number}")


# --- A small change ---------------------------------------------------------------------------------------------------
Operations = Sequence[Mapping[str, Any]]


def publish(request: HttpRequest, policy: str, operations: Operations, reason: str, back: str) -> HttpResponse:
    """Publish, say so, and lead back. Raises what the services refuse."""
    revision = publish_operations(
        policy_slug=policy, operations=operations, reason=reason, at=clock.now(), actor=actor_of(request)
    )
    say_published(request, revision)
    return SeeOther(back)


def add_to_draft(request: HttpRequest, policy: str, operations: Operations, reason: str = "") -> HttpResponse:
    """Write it into the draft that is open, or into a new one for this reason, and lead there."""
    at, actor = clock.now(), actor_of(request)
    draft = drafts.find_draft_of(policy_slug=policy, at=at, actor=actor) or drafts.open_draft(
        policy_slug=policy, reason=reason, at=at, actor=actor
    )
    drafts.add_operations(id=draft.pk, version=draft.version, operations=operations, at=at, actor=actor)
    messages.success(request, _("Added to your draft. Changes take effect only when published."))
    return SeeOther(reverse("dashboard:draft", kwargs={"change_set": draft.pk}))
