"""Small changes from a form: published directly or added to the user's draft, with a message on the next page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _

from apps.core import clock
from apps.policies.changesets import drafts
from apps.policies.models import Revision
from apps.policies.publishing.direct import publish_operations
from apps.web.shell.requests import SeeOther, actor_of

Operations = Sequence[Mapping[str, Any]]


def add_published_message(
    request: HttpRequest, *revisions: Revision, has_link: bool = True, has_undo: bool = True
) -> None:
    """Add the message that revisions of one policy were published, each after the other; its CSS class names the last.

    has_link, has_undo: false where the page that shows it leads to the change set, and undoes it, by itself.
    """
    last = revisions[-1]
    text = _published_text(revisions)
    if has_link:  # the last one's page compares ranks with those before the first, because one recompute follows all
        followed = reverse("pages:change", kwargs={"change_set": last.change_set_id})
        text = format_html('{} <a href="{}">{}</a>', text, followed, _("See who moves"))
    if has_undo:
        text = format_html("{}{}", text, _undo_form(request, revisions))
    messages.success(request, text, extra_tags=f"published-{last.number}")


def _published_text(revisions: Sequence[Revision]) -> str:
    """What is published, as one sentence."""
    first, last = revisions[0].number, revisions[-1].number
    if first == last:
        return _("Published as revision %(n)s.") % {"n": last}
    return _("Published as revisions %(first)s to %(last)s.") % {"first": first, "last": last}


def _undo_form(request: HttpRequest, revisions: Sequence[Revision]) -> str:
    return format_html(
        '<form method="post" action="{}"><input type="hidden" name="csrfmiddlewaretoken" value="{}">{}<button'
        ' class="btn sm" type="submit">{}</button></form>',
        reverse("pages:undo-publish", kwargs={"policy": revisions[-1].policy.slug}),
        get_token(request),
        format_html_join("", '<input type="hidden" name="number" value="{}">', ((each.number,) for each in revisions)),
        _("Undo"),
    )


def publish(request: HttpRequest, policy: str, operations: Operations, reason: str, back: str) -> HttpResponse:
    """Publish operations, add a message and redirect. Errors of the service are raised."""
    revision = publish_operations(
        policy_slug=policy, operations=operations, reason=reason, at=clock.now(), actor=actor_of(request)
    )
    add_published_message(request, revision)
    return SeeOther(back)


def add_to_draft(request: HttpRequest, policy: str, operations: Operations, reason: str = "") -> HttpResponse:
    """Add operations to the user's open draft, or to a new one with this reason, and redirect to it."""
    at, actor = clock.now(), actor_of(request)
    draft = drafts.find_draft_of(policy_slug=policy, at=at, actor=actor) or drafts.open_draft(
        policy_slug=policy, reason=reason, at=at, actor=actor
    )
    drafts.add_operations(id=draft.pk, version=draft.version, operations=operations, at=at, actor=actor)
    messages.success(request, _("Added to your draft. Changes take effect only when published."))
    return SeeOther(reverse("pages:draft", kwargs={"change_set": draft.pk}))
