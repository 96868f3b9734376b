"""The quick way back: what I have just published is undone by a revision of its own."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound
from apps.dashboard.drafts.pages import draft_url
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.htmx import SeeOther
from apps.policies import services
from apps.policies.models import Policy, Revision
from apps.policies.publishing import revert

_OFFERED_FOR = timedelta(days=1)


@require_http_methods(["GET", "HEAD", "POST"])
def undo(request: HttpRequest, policy: str) -> HttpResponse:
    """Publish the inverse of the revision in force; where that can't be done at once, it stays as a draft."""
    tree = reverse("dashboard:policy", kwargs={"policy": policy})
    if request.method != "POST":
        return SeeOther(tree)
    at, actor = clock.now(), actor_of(request)
    number = _number(request)
    reason = _("Undoes revision %(n)s.") % {"n": number}
    draft = revert.revert_revision(policy_slug=policy, number=number, reason=reason, at=at, actor=actor)
    try:
        revision = services.publish_change_set(id=draft.pk, version=draft.version, reason=reason, at=at, actor=actor)
    except (Conflict, Invalid, NotAllowed) as error:
        messages.warning(
            request, _("Not undone yet: %(why)s It is now a draft.") % {"why": error.message}, extra_tags=error.code
        )
        return SeeOther(draft_url(draft.pk))
    told = {"undone": number, "n": revision.number}
    messages.success(request, _("Revision %(undone)s is undone, as revision %(n)s.") % told)
    return SeeOther(tree)


def last_of_mine(policy: Policy, user_id: int | None, *, at: datetime) -> int | None:
    """The revision in force, if this person published it within a day and there is something before it."""
    mine = Revision.objects.filter(policy=policy, number=policy.head_number, author_id=user_id)
    recent = user_id is not None and mine.filter(number__gt=1, published_at__gt=at - _OFFERED_FOR).exists()
    return policy.head_number if recent else None


def _number(request: HttpRequest) -> int:
    text = request.POST.get("number", "")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise NotFound("There is no such revision.")
    return int(text)
