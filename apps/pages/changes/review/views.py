"""Pages to review a change set: its tabs, the decision, conflicts and comments; and lists of change sets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_safe

from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound, Stale, status_of
from apps.core.local_time import NoSuchTime, is_repeated
from apps.core.typed_numbers import read_whole
from apps.pages.changes.lists import list_links
from apps.pages.changes.review import text as review_text
from apps.pages.changes.review.checks import check_effect
from apps.pages.changes.review.forms import MAX_TIME, DecisionForm, read_local, skipped_text
from apps.pages.changes.review.pages import STATES, Decision, open_page, page_context, tab_context, tab_url
from apps.pages.changes.review.reviewed_change import ReviewPage
from apps.policies import services
from apps.policies.changesets import lifecycle
from apps.policies.changesets.conflicts import EditConflict, FieldConflict, Side
from apps.policies.changesets.review import WHICH, Which, list_of_change_sets
from apps.policies.models import ChangeSet
from apps.policies.selectors import get_policy
from apps.priorities import change_effect_runs
from apps.series.back_test_runs import request_back_test
from apps.web.changes.change_titles import ChangeTitle, titles_of
from apps.web.shell import field_labels, presentation
from apps.web.shell.forms import read_action
from apps.web.shell.requests import SeeOther, actor_of, fragment, is_htmx
from apps.web.texts import value_texts


def page_url(change_set: int, tab: str = "diff", **_kwargs: Any) -> str:
    return tab_url(change_set, tab)


@require_safe
def change(request: HttpRequest, change_set: int, tab: str) -> HttpResponse:
    """Page of a change set with one of its tabs. `?all`: show more rows; `?on=`: index of the edit to comment on."""
    return _show(request, open_page(request, change_set), tab)


@require_safe
@fragment(page_url)
def part(request: HttpRequest, change_set: int, tab: str) -> HttpResponse:
    """Fragment with one tab and the row of tabs above it."""
    page = open_page(request, change_set)
    response = render(request, "pages/changes/review/_tab.html", _tab(request, page, tab))
    if tab == "effect" and page.review.is_open and page.effect.state != "asked" and request.GET.get("waited"):
        response["HX-Trigger"] = json.dumps({"announce": check_effect(page.effect).title})
    return response


@require_safe
def raw(request: HttpRequest, change_set: int) -> HttpResponse:
    """The stored operations as JSON; not found for actors who may not see all of them."""
    page = open_page(request, change_set)
    if page.outside.n_edits:
        raise NotFound(f"There is no change set {change_set}.")
    return JsonResponse(page.review.change_set.operations, safe=False, json_dumps_params={"indent": 1})


@require_safe
@fragment(page_url)
def instant(request: HttpRequest, change_set: int) -> HttpResponse:
    """Fragment with the UTC time of the local time that is being typed."""
    open_page(request, change_set)
    context = instant_context(request.GET.get("effective_at", ""))
    return render(request, "pages/changes/review/_instant.html", context)


def instant_context(typed: str) -> dict[str, Any]:
    at: datetime | None = None
    skipped = ""
    try:
        at = read_local(typed)
    except NoSuchTime as error:
        skipped = skipped_text(error)
    zone = timezone.get_current_timezone()
    return {
        "instant": at,
        "skipped": skipped,
        "is_repeated": at is not None and is_repeated(at.astimezone(zone).replace(tzinfo=None), zone),
        "instant_text": "" if at is None else at.strftime("%Y-%m-%d %H:%M UTC"),
        "is_past": at is not None and at <= clock.now(),
        "zone": timezone.get_current_timezone_name(),
    }


@require_http_methods(["GET", "HEAD", "POST"])
def decide(request: HttpRequest, change_set: int) -> HttpResponse:
    """Propose, approve, send back, publish, schedule or withdraw the version of a change set that the page showed."""
    if request.method != "POST":
        return SeeOther(page_url(change_set))
    page, form = open_page(request, change_set), DecisionForm(request.POST)
    if not form.is_valid():
        (problem,) = next(iter(form.errors.as_data().values()))
        more: dict[str, Any] = {"refusal": problem.message, "refusal_code": problem.code}
        return _show(request, page, "diff", status=422, form=form, **more)
    try:
        message = _decide(page, read_action(request).version, **form.cleaned_data)
    except EditConflict as error:
        refusal = _("Another person changed the same fields. Choose a value for each.")
        more = {"refusal": refusal, "refusal_code": error.code}
        return _show(request, open_page(request, change_set), "diff", status=409, form=form, **more)
    except (Invalid, Conflict, Stale, NotAllowed) as error:
        more = {"refusal": error.message, "refusal_code": error.code}
        return _show(request, open_page(request, change_set), "diff", status=status_of(error), form=form, **more)
    messages.success(request, message)
    if form.cleaned_data["step"] == "request-changes":  # only its author sees it, now that it is a draft again
        return SeeOther(reverse("pages:changes", kwargs={"policy": page.review.policy.slug}))
    return SeeOther(page_url(change_set))


def _decide(page: ReviewPage, version: int, *, step: str, text: str, effective_at: datetime | None) -> str:
    """Carry out a decision; return the message that confirms it."""
    change_set = page.review.change_set
    common: dict[str, Any] = {"id": change_set.pk, "version": version, "at": page.now, "actor": page.actor}
    reason: dict[str, Any] = {"reason": change_set.reason if change_set.reason.strip() else text}
    if step == "approve":
        lifecycle.approve_change_set(**common)
        if text:
            lifecycle.comment_on(id=change_set.pk, text=text, at=page.now, actor=page.actor)
        return _("Approved. It isn’t published yet.")
    if step == "request-changes":
        lifecycle.request_changes(**common, text=text)
        return _("Saved")
    if step == "withdraw":
        services.withdraw_change_set(**common, reason=text)
        return _("Withdrawn; nothing was changed.")
    if step == "propose":
        services.propose_change_set(**common, **reason)
        if change_effect_runs.is_large(page.review.policy, at=page.now):
            change_effect_runs.request_effect(change_set_id=change_set.pk, at=page.now, actor=page.actor)
        return _("Submitted for a decision by the managers of these entries.")
    if step == "schedule" and effective_at is not None:
        lifecycle.schedule_change_set(**common, **reason, effective_at=effective_at)
        at = presentation.clock_time(effective_at, page.now)
        return _("Scheduled for %(at)s; it is checked again then.") % {"at": at}
    if step == "publish":
        revision = services.publish_change_set(**common, **reason, at_once=True)
        return _("Published as revision %(n)s.") % {"n": revision.number}
    raise Invalid(_("Choose an action."))


@require_http_methods(["GET", "HEAD", "POST"])
def conflicts(request: HttpRequest, change_set: int) -> HttpResponse:
    """List fields that both the change set and the head changed; POST rebases with the chosen values."""
    page = open_page(request, change_set)
    choices: dict[str, Side] = {}
    refusal, status = "", 200
    open_conflicts = lifecycle.open_conflicts(page.review.change_set, at=page.now, actor=page.actor)
    if request.method == "POST":
        choices = _choices(request.POST)
        version = read_action(request).version
        try:
            lifecycle.rebase_change_set(id=change_set, version=version, choices=choices, at=page.now, actor=page.actor)
        except EditConflict as error:
            open_conflicts = _merge_conflicts(open_conflicts, error.conflicts)
            refusal, status = _("Choose a value for each conflict."), 409
        except (Invalid, Conflict, Stale, NotAllowed, NotFound) as error:
            refusal, status = error.message, status_of(error)
        else:
            messages.success(request, _("Rebased on the current revision. Check its effect again."))
            return SeeOther(page_url(change_set))
    elif not open_conflicts:
        return SeeOther(page_url(change_set))
    context = {
        **page_context(page, "checks"),
        "rows": [_conflict_row(page, each, choices) for each in open_conflicts],
        "refusal": refusal,
        "may_rebase": Decision(page).is_mine,
    }
    context["crumbs"] = [
        *context["crumbs"][:-1],
        {"label": context["title"], "url": page_url(change_set)},
        {"label": _("Conflicts")},
    ]
    return render(request, "pages/changes/review/conflicts.html", context, status=status)


def _merge_conflicts(earlier: list[FieldConflict], later: tuple[FieldConflict, ...]) -> list[FieldConflict]:
    """Conflicts that the page showed, with their choices, followed by those that appeared since."""
    known = {each.key for each in earlier}
    return [*earlier, *(each for each in later if each.key not in known)]


def _choices(data: Mapping[str, Any]) -> dict[str, Side]:
    choices: dict[str, Side] = {}
    for key, value in data.items():
        if key.startswith("choice-") and value in ("mine", "theirs"):
            choices[key.removeprefix("choice-")] = value
    return choices


def _conflict_row(page: ReviewPage, conflict: FieldConflict, choices: Mapping[str, Side]) -> dict[str, Any]:
    return {
        "key": conflict.key,
        "path": conflict.path,
        "field": field_labels.conflicting_field(conflict.field),
        "sides": {side: _side(page, conflict.field, getattr(conflict, side)) for side in ("base", "mine", "theirs")},
        "can_keep": conflict.can_keep,
        "choice": choices.get(conflict.key, ""),
        "is_hidden": conflict.field == "entry",
    }


def _side(page: ReviewPage, field: str, value: Any) -> str:
    if field == "parent_uid" and isinstance(value, str):
        return review_text.name_of(page, value)
    if field == "shares" and isinstance(value, str) and value == "parent":
        return presentation.shares(None)
    return value_texts.value_text(value)


@require_http_methods(["GET", "HEAD", "POST"])
def comment(request: HttpRequest, change_set: int) -> HttpResponse:
    """Add a comment on the change set, or on the edit whose index is in `on`."""
    if request.method != "POST":
        return SeeOther(page_url(change_set, "discussion"))
    page = open_page(request, change_set)
    text, on = request.POST.get("text", ""), request.POST.get("on", "")
    try:
        lifecycle.comment_on(
            id=change_set,
            text=text,
            operation=read_whole(on, 5),
            at=page.now,
            actor=page.actor,
        )
    except Invalid:
        more: dict[str, Any] = {"typed": text, "problem": _("Enter a reason.")}
        if is_htmx(request):
            context = _tab(request, page, "discussion", on=on) | more
            return render(request, "pages/changes/review/_tab.html", context, status=422)
        return _show(request, page, "discussion", status=422, on=on, **more)
    if is_htmx(request):
        response = render(request, "pages/changes/review/_tab.html", _tab(request, page, "discussion", on=""))
        response["HX-Trigger"] = json.dumps({"announce": _("Saved")})
        return response
    return SeeOther(f"{page_url(change_set, 'discussion')}#say")


@require_http_methods(["GET", "HEAD", "POST"])
def compute(request: HttpRequest, change_set: int) -> HttpResponse:
    """Start to compute the effect of a change set of a large policy in the background."""
    if request.method != "POST":
        return SeeOther(page_url(change_set, "effect"))
    page = open_page(request, change_set)
    change_effect_runs.request_effect(change_set_id=change_set, at=page.now, actor=page.actor)
    if is_htmx(request):
        return render(
            request, "pages/changes/review/_tab.html", _tab(request, open_page(request, change_set), "effect")
        )
    return SeeOther(page_url(change_set, "effect"))


@require_http_methods(["GET", "HEAD", "POST"])
def compute_back_test(request: HttpRequest, change_set: int) -> HttpResponse:
    """Start to compute the past days under a change set."""
    if request.method != "POST":
        return SeeOther(page_url(change_set, "back-test"))
    page = open_page(request, change_set)
    if not page.sees_all_numbers:
        raise NotAllowed(_("A back-test ranks all users of the policy: it is for readers of all numbers."))
    n_days = read_whole(request.POST.get("days", ""))
    request_back_test(change_set_id=change_set, n_days=n_days or 0, at=page.now, actor=page.actor)
    if is_htmx(request):
        again = open_page(request, change_set)
        return render(request, "pages/changes/review/_tab.html", _tab(request, again, "back-test"))
    return SeeOther(page_url(change_set, "back-test"))


def _tab(request: HttpRequest, page: ReviewPage, tab: str, on: str | None = None) -> dict[str, Any]:
    edit = request.GET.get("on", "") if on is None else on
    return tab_context(page, tab, show_all="all" in request.GET, on=edit)


def _show(
    request: HttpRequest,
    page: ReviewPage,
    tab: str,
    *,
    status: int = 200,
    form: DecisionForm | None = None,
    on: str | None = None,
    **more: Any,
) -> HttpResponse:
    edit = request.GET.get("on", "") if on is None else on
    context = page_context(page, tab, show_all="all" in request.GET, on=edit)
    typed_at = str(form["effective_at"].value() or "")[:MAX_TIME] if form else ""
    context |= {"form": form, **instant_context(typed_at), **more}
    return render(request, "pages/changes/review/review.html", context, status=status)


def list_url(policy: str, **_kwargs: Any) -> str:
    return reverse("pages:changes", kwargs={"policy": policy})


@require_safe
def changes(request: HttpRequest, policy: str) -> HttpResponse:
    """Change sets of one `?list=`; what was published is listed by the history."""
    if request.GET.get("list") == "published":
        query = request.GET.copy()
        del query["list"]
        url = reverse("pages:history", kwargs={"policy": policy})
        return HttpResponsePermanentRedirect(f"{url}?{query.urlencode()}" if query else url)
    return render(request, "pages/changes/review/list.html", _context(request, policy))


@require_safe
@fragment(list_url)
def rows(request: HttpRequest, policy: str) -> HttpResponse:
    """Fragment with one list and the row of lists above it."""
    context = _context(request, policy)
    response = render(request, "pages/changes/review/_rows.html", context)
    n = len(context["rows"])
    response["HX-Trigger"] = json.dumps({"announce": ngettext("%(n)s change", "%(n)s changes", n) % {"n": n}})
    return response


def _context(request: HttpRequest, policy: str) -> dict[str, Any]:
    actor, at = actor_of(request), clock.now()
    viewed_policy = get_policy(slug=policy, actor=actor)
    which: Which = next((each for each in WHICH if each == request.GET.get("list")), "open")
    listed = list_of_change_sets(policy=viewed_policy, which=which, actor=actor, at=at)
    titles = titles_of(listed, actor=actor, at=at)
    return {
        "found": viewed_policy,
        "policy": policy,
        "which": which,
        "lists": list_links(policy, which),
        "rows": [_row(each, titles[each.pk]) for each in listed],
        "empty": _empty(which),
        "crumbs": [
            {"label": viewed_policy.name, "url": reverse("pages:policy", kwargs={"policy": policy})},
            {"label": _("Changes and history")},
        ],
    }


def _row(change_set: ChangeSet, title: ChangeTitle) -> dict[str, Any]:
    css, icon = STATES[change_set.state]
    n = len(change_set.operations)
    return {
        "change_set": change_set,
        "title": title.text,
        "reason": title.reason,
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
        "mine": _("No open changes. Edit the tree to start one."),
        "waiting": _("None."),
        "withdrawn": _("None."),
    }[which]
