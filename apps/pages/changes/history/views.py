"""History of a policy: published revisions with their reasons, comparison of any two, revert and restore."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.core import clock
from apps.core.errors import DomainError, Invalid, NotFound
from apps.pages.changes.history import presenters
from apps.pages.changes.lists import list_links
from apps.policies.changesets.drafts import may_draft
from apps.policies.models import ChangeSet, Policy
from apps.policies.publishing import revert
from apps.policies.revision_reading import hide_outside
from apps.policies.selectors import get_policy, get_revision
from apps.priorities.selectors import diff_revisions, get_entry_history
from apps.web.changes.entry_changes import history_row
from apps.web.changes.revision_comparison import compared_context
from apps.web.shell.lines import show_tabs_of
from apps.web.shell.requests import SeeOther, actor_of, fragment

_MOST_QUERY = 128


def page_url(policy: str, **_kwargs: Any) -> str:
    return reverse("pages:history", kwargs={"policy": policy})


def diff_url(policy: str, **_kwargs: Any) -> str:
    return reverse("pages:diff", kwargs={"policy": policy})


@require_safe
def history(request: HttpRequest, policy: str) -> HttpResponse:
    """Published revisions, newest first, and the changes of the newest."""
    viewed_policy = get_policy(slug=policy, actor=actor_of(request), is_past=True)
    (head,) = hide_outside([get_revision(policy=viewed_policy)], presenters.sees_of(request, viewed_policy))
    context = {
        **_rows(request, viewed_policy),
        "head": head,
        "lists": list_links(policy, "history"),
        "may_remove": actor_of(request).is_admin,
        "chosen": (max(viewed_policy.head_number - 1, 1), viewed_policy.head_number),
        "options": presenters.options(request, viewed_policy),
        "crumbs": [
            {"label": viewed_policy.name, "url": reverse("pages:policy", kwargs={"policy": policy})},
            {"label": _("Changes and history")},
        ],
    }
    return render(request, "pages/changes/history/history.html", context)


@require_safe
@fragment(page_url)
def rows(request: HttpRequest, policy: str) -> HttpResponse:
    """The list, filtered or continued."""
    viewed_policy = get_policy(slug=policy, actor=actor_of(request), is_past=True)
    return render(request, "pages/changes/history/_rows.html", _rows(request, viewed_policy))


@require_safe
def diff(request: HttpRequest, policy: str) -> HttpResponse:
    """Compare `?from=` and `?to=`, in either order; by default the newest revision with the one before."""
    viewed_policy = get_policy(slug=policy, actor=actor_of(request), is_past=True)
    return render(
        request,
        "pages/changes/history/diff.html",
        {
            **_diff_context(request, viewed_policy),
            "options": presenters.options(request, viewed_policy),
            "may_draft": may_draft(viewed_policy, actor_of(request), clock.now()),
            "crumbs": [
                {"label": viewed_policy.name, "url": reverse("pages:policy", kwargs={"policy": policy})},
                {"label": _("History"), "url": page_url(policy)},
                {"label": _("Compare")},
            ],
        },
    )


@require_safe
@fragment(diff_url)
def diff_part(request: HttpRequest, policy: str) -> HttpResponse:
    """The comparison as a fragment."""
    context = _diff_context(request, get_policy(slug=policy, actor=actor_of(request), is_past=True))
    response = render(request, "pages/changes/history/_diff.html", context)
    response["HX-Push-Url"] = (
        f"{diff_url(policy)}?from={context['diff'].before.number}&to={context['diff'].after.number}"
    )
    return response


@require_http_methods(["GET", "HEAD", "POST"])
def undo(request: HttpRequest, policy: str, revision: int) -> HttpResponse:
    """Preview of reverting a revision; POST creates the change set."""

    def draft(reason: str) -> ChangeSet:
        return revert.revert_revision(
            policy_slug=policy, number=revision, reason=reason, at=clock.now(), actor=actor_of(request)
        )

    viewed_policy = get_policy(slug=policy, actor=actor_of(request))
    if revision < 2:
        raise NotFound(f"Policy {viewed_policy.slug} has no revision that could be undone by that number.")
    context = {"goes_back_to": revision - 1, "is_undo": True, "title": _("Undo revision %(n)s") % {"n": revision}}
    return _way_back(request, viewed_policy, (revision, revision - 1), draft, context)


@require_http_methods(["GET", "HEAD", "POST"])
def restore(request: HttpRequest, policy: str, revision: int) -> HttpResponse:
    """Preview of restoring the tree of a revision; POST creates the change set."""

    def draft(reason: str) -> ChangeSet:
        return revert.restore_revision(
            policy_slug=policy,
            number=revision,
            with_settings="tree_only" not in request.POST,
            reason=reason,
            at=clock.now(),
            actor=actor_of(request),
        )

    viewed_policy = get_policy(slug=policy, actor=actor_of(request))
    title = _("Restore the tree of revision %(n)s?") % {"n": revision}
    context = {"goes_back_to": revision, "is_undo": False, "title": title}
    return _way_back(request, viewed_policy, (viewed_policy.head_number, revision), draft, context)


@require_safe
def entry(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Changes of one entry: by whom, when and why."""
    entry_history = get_entry_history(
        policy_slug=policy, uid=uid, before=presenters.read_revision_number(request, "before"), actor=actor_of(request)
    )
    url = reverse("pages:entry-find", kwargs={"policy": policy, "uid": uid})
    if not entry_history.is_archived:
        show_tabs_of(request, uid, entry_history.name)
    context = {
        "found": entry_history,
        "rows": [history_row(line) for line in entry_history.lines],
        "may_draft": may_draft(entry_history.policy, actor_of(request), clock.now()),
        "policy": policy,
        "entry_url": url,
        "crumbs": [
            {"label": entry_history.policy.name, "url": reverse("pages:policy", kwargs={"policy": policy})},
            {"label": entry_history.name, "url": url},
            {"label": _("History")},
        ],
    }
    return render(request, "pages/changes/history/entry.html", context)


def _rows(request: HttpRequest, policy: Policy) -> dict[str, Any]:
    query = request.GET.get("q", "").strip().replace("\0", "")[:_MOST_QUERY]
    before = presenters.read_revision_number(request, "before")
    shown, older = presenters.revision_rows(request, policy, before=before, query=query)
    return {
        "policy": policy.slug,
        "found": policy,
        "days": presenters.by_day(shown),
        "older": older,
        "query": query,
        "before": before,
        "may_draft": may_draft(policy, actor_of(request), clock.now()),
    }


def _diff_context(request: HttpRequest, policy: Policy) -> dict[str, Any]:
    before = presenters.read_revision_number(request, "from")
    after = presenters.read_revision_number(request, "to")
    after = policy.head_number if after is None else after
    before = max(after - 1, 1) if before is None else before
    if request.GET.get("swap"):
        before, after = after, before
    return _compared(request, policy, before, after)


def _compared(request: HttpRequest, policy: Policy, before: int, after: int) -> dict[str, Any]:
    compared = diff_revisions(
        policy_slug=policy.slug,
        before=before,
        after=after,
        cursor=request.GET.get("cursor"),
        at=clock.now(),
        actor=actor_of(request),
    )
    return {"policy": policy.slug, "found": policy, "chosen": (before, after), **compared_context(compared)}


def _way_back(
    request: HttpRequest,
    policy: Policy,
    way: tuple[int, int],
    draft: Callable[[str], ChangeSet],
    context: dict[str, Any],
) -> HttpResponse:
    status, problem, code = 200, "", ""
    if request.method == "POST":
        try:
            made = draft(request.POST.get("reason", ""))
        except NotFound:
            raise
        except DomainError as error:
            problem, code = error.message, error.code
            status = 422 if isinstance(error, Invalid) else 403 if code == "partial_view" else 409
        else:
            messages.success(request, _("Added to the draft."))
            return SeeOther(reverse("pages:change", kwargs={"change_set": made.pk}))
    chosen = get_revision(policy=policy, at=way[0] if context["is_undo"] else way[1])
    (shown,) = hide_outside([chosen], presenters.sees_of(request, policy))
    return render(
        request,
        "pages/changes/history/way_back.html",
        {
            **_compared(request, policy, *way),
            **context,
            "revision": shown,
            "problem": problem,
            "code": code,
            "typed_reason": request.POST.get("reason", ""),
            "n_later": policy.head_number - way[0],
            "crumbs": [
                {"label": policy.name, "url": reverse("pages:policy", kwargs={"policy": policy.slug})},
                {"label": _("History"), "url": page_url(policy.slug)},
                {"label": context["title"]},
            ],
        },
        status=status,
    )
