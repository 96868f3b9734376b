"""One page to remove, archive or restore a policy or a usage source, with a preview of the effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from apps.core import clock
from apps.core.errors import Conflict, Invalid
from apps.mapping import removal
from apps.mapping.removal import Kind, Removal, preview_removal
from apps.web.shell.forms import read_action
from apps.web.shell.requests import SeeOther, actor_of

_SERVICES: dict[tuple[str, str], Callable[..., Any]] = {
    ("policy", "remove"): removal.remove_policy,
    ("policy", "archive"): removal.archive_policy,
    ("policy", "restore"): removal.restore_policy,
    ("source", "remove"): removal.remove_source,
    ("source", "archive"): removal.archive_source,
    ("source", "restore"): removal.restore_source,
}
_BUTTONS = {
    "remove": gettext_lazy("Remove"),
    "archive": gettext_lazy("Archive"),
    "restore": gettext_lazy("Restore"),
}
_TITLES = {
    "remove": gettext_lazy("Remove: %(name)s"),
    "archive": gettext_lazy("Archive: %(name)s"),
    "restore": gettext_lazy("Restore: %(name)s"),
}
_DONE = {
    "remove": gettext_lazy("Removed: %(name)s"),
    "archive": gettext_lazy("Archived: %(name)s"),
    "restore": gettext_lazy("Restored: %(name)s"),
}


@require_http_methods(["GET", "HEAD", "POST"])
def policy(request: HttpRequest, policy: str) -> HttpResponse:
    """Remove, archive or restore a policy."""
    return _page(request, "policy", policy, reverse("pages:history", kwargs={"policy": policy}))


@require_http_methods(["GET", "HEAD", "POST"])
def source(request: HttpRequest, slug: str) -> HttpResponse:
    """Remove, archive or restore a usage source."""
    return _page(request, "source", slug, reverse("pages:source", kwargs={"slug": slug}))


def _page(request: HttpRequest, kind: Kind, slug: str, url: str) -> HttpResponse:
    actor = actor_of(request)
    subject = preview_removal(kind=kind, slug=slug, actor=actor)
    if request.method != "POST":
        return _preview(request, subject, url)
    posted = read_action(request, "action")
    try:
        if posted.step != subject.action:  # the page showed another action than the one that is possible now
            raise Conflict(_("Another person changed this first"), code="changed")
        _SERVICES[kind, posted.step](slug=subject.slug, reason=posted.reason, at=clock.now(), actor=actor)
    except (Invalid, Conflict) as refusal:
        current = preview_removal(kind=kind, slug=slug, actor=actor)
        return _preview(request, current, url, refusal.message, 422 if isinstance(refusal, Invalid) else 409)
    messages.success(request, str(_DONE[posted.step]) % {"name": subject.name})
    if posted.step == "restore":
        return SeeOther(url)
    return SeeOther(reverse("pages:sources" if kind == "source" else "pages:overview"))


def _preview(request: HttpRequest, subject: Removal, url: str, problem: str = "", status: int = 200) -> HttpResponse:
    title = str(_TITLES[subject.action]) % {"name": subject.name}
    back = [{"label": _("Sources and quality"), "url": reverse("pages:sources")}] if subject.kind == "source" else []
    context = {
        "found": subject,
        "title": title,
        "button": _BUTTONS[subject.action],
        "url": url,
        "problem": problem,
        "typed_reason": read_action(request).reason,
        "crumbs": [*back, {"label": subject.name, "url": url}, {"label": _BUTTONS[subject.action]}],
    }
    return render(request, "web/removal.html", context, status=status)
