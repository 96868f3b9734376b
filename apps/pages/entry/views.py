"""The page of one entry: target, usage and explanation; and the side panel that changes its shares."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound
from apps.explain.entry_page import EntryPage, get_entry_page
from apps.pages.entry.forms import SharesForm
from apps.pages.entry.shares_panel import effect_context, panel_context
from apps.policies import selectors as policy_selectors
from apps.policies import services as policy_services
from apps.policies.changesets.conflicts import EditConflict
from apps.priorities.pins import pinned_among
from apps.priorities.selectors.rows import open_view
from apps.priorities.sentences import numbers
from apps.priorities.shares_preview import preview_shares
from apps.web.changes.edit_refusals import message_of
from apps.web.changes.entry_changes import history_row
from apps.web.links.addresses import review_url, shares_url
from apps.web.shell import lines, time_travel
from apps.web.shell.forms import read_action
from apps.web.shell.publishing import add_published_message
from apps.web.shell.requests import SeeOther, actor_of, fragment, is_htmx
from apps.web.svg import bars
from apps.web.texts import algorithm_text
from apps.web.texts.origins import origin_of

PANEL = "shares"  # value of `panel` in the address
PUBLISH, PROPOSE = "publish", "propose"


def page_url(policy: str, uid: UUID, **_kwargs: Any) -> str:
    return reverse("pages:entry-find", kwargs={"policy": policy, "uid": uid})


@require_safe
def find(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Redirect from the URL without a name to the one with it."""
    return SeeOther(_address(request, _page_of(request, policy, uid)))


def _address(request: HttpRequest, page: EntryPage) -> str:
    """URL of the page with its name, at the same moment and with the same panel."""
    url = lines.entry_url(page.policy_slug, page.entry.uid, page.entry.name, _moment(page))
    panel = urlencode({key: request.GET[key] for key in ("panel", "focus", "shares") if key in request.GET})
    return url if page.moment or not panel else f"{url}?{panel}"


@require_safe
def entry(request: HttpRequest, policy: str, uid: UUID, name: str) -> HttpResponse:
    if elsewhere := time_travel.day_redirect(request):
        return SeeOther(elsewhere)
    page = _page_of(request, policy, uid, cursor=request.GET.get("cursor") or None)
    has_left = page.moment is not None and time_travel.AT not in request.GET
    if has_left or name != lines.name_slug(page.entry.name):
        return SeeOther(_address(request, page))
    return _show(request, page)


def _page_of(request: HttpRequest, policy: str, uid: UUID, cursor: str | None = None) -> EntryPage:
    """The entry at the requested moment; an archived entry without one as it was last."""
    actor, at = actor_of(request), time_travel.read_moment_param(request)
    try:
        return get_entry_page(policy_slug=policy, uid=uid, actor=actor, cursor=cursor, at=at)
    except NotFound:
        last = None if at is not None else policy_selectors.last_revision_with(policy_slug=policy, uid=uid)
        if last is None:
            raise
        return get_entry_page(policy_slug=policy, uid=uid, actor=actor, cursor=cursor, at=last)


def _moment(page: EntryPage) -> str:
    return time_travel.moment_query(page.moment.asked if page.moment else None)


@require_safe
@fragment(page_url)
def preview(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Effect of the shares that are being typed. What can't be read yet is said at the field; the effect stays."""
    form = SharesForm(request.GET)
    form.is_valid()
    problem = next((form.errors[name][0] for name in ("shares", "giver") if name in form.errors), "")
    context: dict[str, Any] = {"policy": policy, "uid": uid, "oob": True}
    if not problem:
        try:
            shares, giver = form.cleaned_data["shares"], form.giver_uid
            context |= effect_context(
                preview_shares(policy_slug=policy, entry_uid=uid, shares=shares, giver=giver, actor=actor_of(request)),
                policy,
            )
        except (Invalid, Conflict) as error:
            problem = message_of(error)
    response = render(request, "pages/entry/_preview.html", {**context, "problem": problem})
    response["HX-Trigger"] = json.dumps({"announce": problem or context["effect"].announcement})
    if problem:
        response["HX-Reswap"] = "none"
    return response


@require_http_methods(["GET", "HEAD", "POST"])
def shares(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """The side panel; the page with it for browsers without scripts. POST publishes, or sends to review."""
    if request.method != "POST":
        if not is_htmx(request):
            return SeeOther(shares_url(policy, uid))
        return _panel(request, panel_context(request, policy, uid, place=_uid(request.GET.get("place", ""))))
    form, step = SharesForm(request.POST), read_action(request).step
    is_decided = step in (PUBLISH, PROPOSE)
    form.fields["reason"].required = is_decided
    form.answer_conflict(step)
    conflict, status = None, 200
    if form.is_valid() and is_decided:
        try:
            return _decide(request, policy, uid, form, step)
        except EditConflict as error:
            conflict, status = error, 409
        except (Invalid, Conflict) as error:
            form.add_refusal(error)
    place = form.place_uid or uid
    context = panel_context(request, policy, uid, place=place, form=form, conflict=conflict)
    page = get_entry_page(policy_slug=policy, uid=place, actor=actor_of(request))
    return _show(request, page, status=422 if form.errors else status, **context)


def _decide(request: HttpRequest, policy: str, uid: UUID, form: SharesForm, step: str) -> HttpResponse:
    """Publish the change or send it to review; errors of the services are raised."""
    if form.giver_uid is not None:
        open_view(policy_slug=policy, actor=actor_of(request)).require(form.giver_uid)
    change: dict[str, Any] = {
        "policy_slug": policy,
        "entry_uid": uid,
        "shares": form.cleaned_data["shares"],
        "giver": form.giver_uid,
        "reason": form.cleaned_data["reason"].strip(),
        "base_revision": form.cleaned_data["base_revision"],
        "at": clock.now(),
        "actor": actor_of(request),
    }
    if step == PROPOSE:
        change_set = policy_services.propose_shares(**change)
        messages.success(request, _("Submitted"))
        return SeeOther(review_url(change_set.pk))
    add_published_message(request, policy_services.change_shares(**change))
    place = form.place_uid or uid
    return SeeOther(page_url(policy, place) + (f"?focus={uid}" if place != uid else ""))


def _panel(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    if context["panel"] is None:
        raise NotAllowed(_("You can’t change these shares."))
    return render(request, "pages/entry/_panel.html", context)


def _uid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _opened_panel(request: HttpRequest, page: EntryPage) -> dict[str, Any]:
    """Context of the panel that the address asks for: of the entry, or of the child that it names in `focus`."""
    uid = page.entry.uid
    if request.GET.get("panel") != PANEL or page.moment is not None:
        return {"panel": None}
    try:
        entry_uid, drafted = _uid(request.GET.get("focus", "")) or uid, request.GET.get("shares", "")
        return panel_context(request, page.policy_slug, entry_uid, place=uid, drafted=drafted)
    except NotFound:
        return {"panel": None}


def _show(request: HttpRequest, page: EntryPage, *, status: int = 200, **panel: Any) -> HttpResponse:
    context = {**entry_context(page), "time_bar": time_travel.time_bar(request, page.moment, page.policy_slug)}
    context |= panel or _opened_panel(request, page)
    context["origin"] = (
        None
        if page.moment
        else origin_of(policy_slug=page.policy_slug, uid=page.entry.uid, at=clock.now(), actor=actor_of(request))
    )
    uid = page.entry.uid
    if not page.archived_in:
        lines.show_tabs_of(request, uid, page.entry.name)
    context["shares_url"] = shares_url(page.policy_slug, uid)
    if page.moment is None and not page.archived_in:
        kwargs = {"policy": page.policy_slug, "uid": uid, "name": lines.name_slug(page.entry.name)}
        context["look_back"] = time_travel.look_back(request, page.policy_slug)
        context["over_time_url"] = reverse("pages:entry-over-time", kwargs=kwargs)
        focus = _uid(request.GET.get("focus", ""))
        if any(child.uid == focus for child in page.children):
            context["over_time_url"] += f"?entry={focus}"
    context["is_pinned"] = uid in pinned_among(policy_slug=page.policy_slug, uids=[uid], actor=actor_of(request))
    return render(request, "pages/entry/entry.html", context, status=status)


def entry_context(page: EntryPage) -> dict[str, Any]:
    """Template context of an entry's page; its bar is on the scale of its siblings."""
    tolerance = lines.tolerance_of(page.settings)
    slug, moment = page.policy_slug, _moment(page)
    group = page.siblings if any(row.uid == page.entry.uid for row in page.siblings) else [page.entry]
    siblings = lines.draw_lines(
        group, lines.LineContext(policy_slug=slug, tolerance=tolerance, width=bars.PANEL_WIDTH, moment=moment)
    )
    own = next(line for line in siblings if line.entry.uid == page.entry.uid)
    against_target = bars.differ_tenfold(row.target or 0.0 for row in page.children)
    children = lines.draw_lines(
        page.children,
        lines.LineContext(
            policy_slug=slug, tolerance=tolerance, width=160, against_target=against_target, moment=moment
        ),
    )
    scale = lines.sibling_scales(page.children, of=lines.OF_PARENT, tolerance=tolerance).get(page.entry.uid, 1.0)
    tree = reverse("pages:policy", kwargs={"policy": slug})
    crumbs = [{"label": page.policy_name, "url": f"{tree}{moment}"}]
    crumbs += [
        {"label": row.name, "url": lines.entry_url(slug, row.uid, row.name, moment)} for row in page.ancestors[1:]
    ]
    return {
        "page": page,
        "entry": page.entry,
        "line": own,
        "parent": page.ancestors[-1] if page.ancestors else None,
        "parent_url": _parent_url(page),
        "moment": moment,
        "children": children,
        "against_target": against_target,
        "rows": [history_row(line) for line in page.history],
        "scale": numbers.percent(scale, 0),
        "sub_allocated": lines.whole_of(page.children),
        "sibling_shares": lines.whole_of([page.entry, *page.siblings]),
        "crumbs": [*crumbs, {"label": page.entry.name}],
        "own_numbers": algorithm_text.own_numbers(page.entry.columns, page.algorithm, page.entry.state),
        "algorithm_label": algorithm_text.label_of(page.algorithm),
        "scope_text": lines.phrase(page.scope, page.scope_sources),
        "compared_text": lines.phrase(*page.compared_by),
        "decides_by_levels": algorithm_text.decides_by_levels(page.algorithm),
        "policy": slug,
        "uid": page.entry.uid,
    }


def _parent_url(page: EntryPage) -> str:
    if not page.ancestors:
        return ""
    parent = page.ancestors[-1]
    return lines.entry_url(page.policy_slug, parent.uid, parent.name, _moment(page))
