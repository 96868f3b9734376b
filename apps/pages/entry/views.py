"""The page of one entry: target, usage and explanation; and the form that changes its shares, with a preview."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.forms import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotFound
from apps.explain.entry_page import EntryPage, get_entry_page
from apps.pages.entry.forms import SharesForm
from apps.pages.entry.presenters import draw_preview
from apps.policies import selectors as policy_selectors
from apps.policies import services as policy_services
from apps.policies.changesets.conflicts import EditConflict
from apps.priorities import shares_preview as previews
from apps.priorities.pins import pinned_among
from apps.web import setting_texts as algorithm_text
from apps.web.entry_changes import history_row
from apps.web.origins import origin_of
from apps.web.share_input import Percentage, Shares, read_typed_shares
from apps.web.shell import lines, presentation, time_travel
from apps.web.shell.publishing import add_published_message
from apps.web.shell.requests import SeeOther, actor_of, fragment
from apps.web.svg import bars


def page_url(policy: str, uid: UUID, **_kwargs: Any) -> str:
    return reverse("dashboard:entry-find", kwargs={"policy": policy, "uid": uid})


@require_safe
def find(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Redirect from the URL without a name to the one with it."""
    page = _page_of(request, policy, uid)
    return SeeOther(lines.entry_url(policy, uid, page.entry.name, _moment(page)))


@require_safe
def entry(request: HttpRequest, policy: str, uid: UUID, name: str) -> HttpResponse:
    if elsewhere := time_travel.day_redirect(request):
        return SeeOther(elsewhere)
    page = _page_of(request, policy, uid, cursor=request.GET.get("cursor") or None)
    has_left = page.moment is not None and time_travel.AT not in request.GET
    if has_left or name != lines.name_slug(page.entry.name):
        return SeeOther(lines.entry_url(policy, uid, page.entry.name, _moment(page)))
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
    """Preview of the siblings' targets, refreshed while typing."""
    typed = request.GET.get("shares", "")
    context: dict[str, Any] = {"typed": typed, "policy": policy, "uid": uid}
    try:
        shares = read_typed_shares(typed)
    except ValidationError as error:
        return render(request, "pages/entry/_preview.html", {**context, "problem": error.messages[0]}, status=422)
    return render(request, "pages/entry/_preview.html", {**context, **_preview_context(request, policy, uid, shares)})


@require_http_methods(["GET", "HEAD", "POST"])
def change_shares(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """First the preview, then the publication, which is rejected if the number changed in between."""
    if request.method != "POST":
        return SeeOther(f"{page_url(policy, uid)}")
    actor = actor_of(request)
    wants_publish = request.POST.get("step") == "publish"
    form = SharesForm(request.POST)
    form.fields["reason"].required = wants_publish  # a preview needs no reason
    if not form.is_valid():
        return _show_form(request, policy, uid, form, shares=form.cleaned_data.get("shares"), status=422)
    shares: Shares | Percentage = form.cleaned_data["shares"]
    if not (wants_publish and form.is_previewed):
        return _show_form(request, policy, uid, form, shares=shares)
    try:
        revision = policy_services.change_shares(
            policy_slug=policy,
            entry_uid=uid,
            shares=shares,
            reason=form.cleaned_data["reason"].strip(),
            base_revision=form.cleaned_data["base_revision"],
            at=clock.now(),
            actor=actor,
        )
    except Invalid as error:
        form.add_error("shares", error.message)
        return _show_form(request, policy, uid, form, status=422)
    except Conflict as error:
        return _show_form(request, policy, uid, form, shares=shares, conflict=error, status=409)
    add_published_message(request, revision)
    return SeeOther(page_url(policy, uid))


def _show_form(
    request: HttpRequest,
    policy: str,
    uid: UUID,
    form: SharesForm,
    *,
    shares: Shares | Percentage | None = None,
    conflict: Conflict | None = None,
    status: int = 200,
) -> HttpResponse:
    """The page with the typed values; after a conflict the change is based on the new revision."""
    page = get_entry_page(policy_slug=policy, uid=uid, actor=actor_of(request))
    extra: dict[str, Any] = {"form": form, "conflict": conflict, "conflict_lines": _conflict_lines(conflict)}
    if shares is not None:
        extra |= _preview_context(request, policy, uid, shares)
    return _show(request, page, status=status, **extra)


def _conflict_lines(conflict: Conflict | None) -> list[str]:
    """Base, present and typed value of each conflicting field; empty for errors without fields."""
    if not isinstance(conflict, EditConflict):
        return [conflict.message] if conflict else []
    return [
        presentation.field_conflict(each.path, each.field, base=each.base, current=each.theirs, wanted=each.mine)
        for each in conflict.conflicts
    ]


def _preview_context(request: HttpRequest, policy: str, uid: UUID, shares: Shares | Percentage) -> dict[str, Any]:
    actor = actor_of(request)
    shares_preview = previews.preview_shares(policy_slug=policy, entry_uid=uid, shares=shares, actor=actor)
    page = get_entry_page(policy_slug=policy, uid=uid, actor=actor)
    groups = {row.uid for row in page.siblings if row.n_children or row.hidden_children}
    return {"effect": draw_preview(shares_preview, policy_slug=policy, groups=groups)}


def _show(request: HttpRequest, page: EntryPage, *, status: int = 200, **extra: Any) -> HttpResponse:
    context = {**entry_context(page), "time_bar": time_travel.time_bar(request, page.moment, page.policy_slug), **extra}
    context["origin"] = (
        None
        if page.moment
        else origin_of(policy_slug=page.policy_slug, uid=page.entry.uid, at=clock.now(), actor=actor_of(request))
    )
    form = context.get("form")
    context["typed"] = form.data.get("shares", "") if form else presentation.shares(page.entry.shares)
    context["typed_reason"] = form.data.get("reason", "") if form else ""
    uid = page.entry.uid
    if not page.archived_in:
        lines.show_tabs_of(request, uid, page.entry.name)
    if page.moment is None and not page.archived_in:
        kwargs = {"policy": page.policy_slug, "uid": uid, "name": lines.name_slug(page.entry.name)}
        context["look_back"] = time_travel.look_back(request, page.policy_slug)
        context["over_time_url"] = reverse("dashboard:entry-over-time", kwargs=kwargs)
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
    tree = reverse("dashboard:policy", kwargs={"policy": slug})
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
        "scale": presentation.percent(scale, 0),
        "sub_allocated": lines.whole_of(page.children),
        "sibling_shares": lines.whole_of([page.entry, *page.siblings]),
        "crumbs": [*crumbs, {"label": page.entry.name}],
        "own_numbers": algorithm_text.own_numbers(page.entry.columns, page.algorithm, tolerance),
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
