"""Change sets of a policy: open, mine, waiting for me, published, withdrawn."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from apps.core import clock
from apps.dashboard.review import words as change_words
from apps.dashboard.review.pages import STATES, tab_url
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.htmx import fragment
from apps.policies.changesets.change_lists import WHICH, Which, list_of_change_sets
from apps.policies.models import ChangeSet
from apps.policies.selectors import get_policy


def page_url(policy: str, **_kwargs: Any) -> str:
    return reverse("dashboard:changes", kwargs={"policy": policy})


@require_safe
def changes(request: HttpRequest, policy: str) -> HttpResponse:
    return render(request, "dashboard/review/list.html", _context(request, policy))


@require_safe
@fragment(page_url)
def rows(request: HttpRequest, policy: str) -> HttpResponse:
    """One list, with the row of lists above it."""
    context = _context(request, policy)
    response = render(request, "dashboard/review/_rows.html", context)
    n = len(context["rows"])
    response["HX-Trigger"] = json.dumps({"announce": ngettext("%(n)s change", "%(n)s changes", n) % {"n": n}})
    return response


def _context(request: HttpRequest, policy: str) -> dict[str, Any]:
    actor, at = actor_of(request), clock.now()
    found = get_policy(slug=policy, actor=actor)
    which: Which = next((each for each in WHICH if each == request.GET.get("list")), "open")
    listed = list_of_change_sets(policy=found, which=which, actor=actor, at=at)
    names = {
        "open": _("Open"),
        "mine": _("Mine"),
        "waiting": _("Waiting for me"),
        "published": _("Published"),
        "withdrawn": _("Withdrawn"),
    }
    return {
        "found": found,
        "policy": policy,
        "which": which,
        "lists": [{"key": each, "name": names[each], "query": f"?list={each}"} for each in WHICH],
        "rows": [_row(each) for each in listed],
        "empty": _empty(which),
        "crumbs": [
            {"label": found.name, "url": reverse("dashboard:policy", kwargs={"policy": policy})},
            {"label": _("Changes")},
        ],
    }


def _row(change_set: ChangeSet) -> dict[str, Any]:
    css, icon = STATES[change_set.state]
    n = len(change_set.operations)
    return {
        "change_set": change_set,
        "title": change_words.title_of(change_set),
        "url": tab_url(change_set.pk),
        "state": change_set.get_state_display(),
        "css": css,
        "icon": icon,
        "edits": ngettext("%(n)s edit", "%(n)s edits", n) % {"n": n},
        "revision": getattr(change_set, "revision", None),
    }


def _empty(which: str) -> str:
    return {
        "open": _("No open changes. Edit the tree to start one."),
        "mine": _("You have no open changes. Edit the tree to start one."),
        "waiting": _("No decisions requested."),
        "published": _("No visible published changes."),
        "withdrawn": _("No withdrawn changes."),
    }[which]
