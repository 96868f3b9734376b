"""The members of an entry: by which rules they come, which accounts are theirs, what was done lately."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound, status_of
from apps.core.typed_numbers import read_whole
from apps.dashboard.members import presenters as member_lines
from apps.dashboard.members.presenters import AttachForm, RuleForm, seen_tag
from apps.dashboard.shell import lines, publishing
from apps.dashboard.shell.requests import SeeOther, actor_of, fragment
from apps.mapping import attachments
from apps.mapping import attachments as attaching
from apps.mapping import permissions as map_rights
from apps.policies.tree.terms import MembershipRule
from apps.priorities.selectors.members import MembersPage, get_members_page, preview_members
from apps.usage.selectors import list_source_names

_MOST_CHOICES = 500


def page_url(policy: str, uid: UUID) -> str:
    return reverse("dashboard:members", kwargs={"policy": policy, "uid": uid})


def entry_page_url(policy: str, uid: UUID) -> str:
    return reverse("dashboard:entry-find", kwargs={"policy": policy, "uid": uid})


@require_safe
def members(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """`?rule=` opens the form with one of the rules in it, `?rule=new` an empty one."""
    page = _page(request, policy, uid)
    asked = request.GET.get("rule", "")
    form = None
    if asked and page.may_draft:
        form = RuleForm(initial=member_lines.initial_of(_chosen(page, asked)), sources=_sources(request))
    return _show(request, page, rule_form=form, rule=asked)


@require_safe
@fragment(entry_page_url)
def of_entry(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """The part of an entry's page."""
    return render(request, "dashboard/members/_entry.html", member_lines.draw(_page(request, policy, uid)))


@require_http_methods(["GET", "HEAD", "POST"])
def rules(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """First what a rule would do, then the rule; or one taken away."""
    if request.method != "POST":
        return SeeOther(page_url(policy, uid))
    page, step = _page(request, policy, uid), request.POST.get("step", "preview")
    if not page.may_draft:
        raise NotAllowed(_("You may not do this here: ask a manager of the entry."))
    asked = request.POST.get("rule", "new")
    if request.POST.get("seen") != seen_tag(page.rules):
        gone = _(
            "Another person changed these settings after you opened the page. Check the current ones, then decide."
        )
        return _show(request, page, refusal=Conflict(gone, code="rules_changed"), status=409)
    if step == "remove":
        return _remove(request, page, asked)
    form = RuleForm(request.POST, sources=_sources(request))
    form.fields["reason"].required = step == "publish"
    if not form.is_valid():
        return _show(request, page, rule_form=form, rule=asked, status=422)
    wanted = member_lines.with_rule(page.rules, asked, form.rule)
    if step == "preview" or not form.is_previewed:
        return _show_preview(request, page, form, asked, wanted)
    return _decide(request, page, form, asked, wanted, step)


@require_POST
def attach(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    page, form = _page(request, policy, uid), AttachForm(request.POST)
    if not page.may_map:
        raise NotAllowed(_("You may not do this here: ask a manager of the entry."))
    if not form.is_valid():
        return _show(request, page, attach_form=form, status=422)
    try:
        attaching.attach_account(
            policy_slug=policy,
            entry_uid=form.cleaned_data["entry"],
            account=form.account,
            reason=form.cleaned_data["reason"],
            at=clock.now(),
            actor=actor_of(request),
        )
    except (Invalid, NotFound) as error:
        refused = ValidationError(error.message, code=error.code)
        form.add_error("user_name" if isinstance(error, Invalid) else "entry", refused)
        return _show(request, page, attach_form=form, status=422)
    messages.success(request, _("Saved"))
    return SeeOther(page_url(policy, uid))


@require_POST
def detach(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    attaching.detach_account(
        policy_slug=policy,
        attachment_id=_number(request, "attachment"),
        reason=request.POST.get("reason", "") or _("Detached on the members page."),
        at=clock.now(),
        actor=actor_of(request),
    )
    messages.success(request, _("Rules apply to it again."))
    return SeeOther(page_url(policy, uid))


@require_POST
def decide_claim(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Confirm that an account is somebody's, or refuse."""
    confirm = request.POST.get("step") == "confirm"
    rights = map_rights.rights_in(policy, at=clock.now(), actor=actor_of(request), scope=map_rights.WRITE)
    rights.sees.require(rights.tree.index_of_uid(uid))
    attachments.decide_claim(
        rights, claim_id=_number(request, "claim"), confirm=confirm, at=clock.now(), actor=actor_of(request)
    )
    messages.success(request, _("Confirmed") if confirm else _("Rejected"))
    return SeeOther(page_url(policy, uid))


def _remove(request: HttpRequest, page: MembersPage, asked: str) -> HttpResponse:
    _chosen(page, asked)
    left = [rule for at, rule in enumerate(page.rules) if str(at) != asked]
    slug, uid, reason = page.view.policy.slug, page.entry.uid, request.POST.get("reason", "")
    try:
        return publishing.publish(request, slug, [_operation(uid, left)], reason, page_url(slug, uid))
    except (Invalid, Conflict) as error:
        return _show(request, page, refusal=error, status=status_of(error))


def _decide(
    request: HttpRequest, page: MembersPage, form: RuleForm, asked: str, wanted: list[MembershipRule], step: str
) -> HttpResponse:
    slug, uid = page.view.policy.slug, page.entry.uid
    operations = [_operation(uid, wanted)]
    try:
        if step == "draft":
            return publishing.add_to_draft(request, slug, operations)
        return publishing.publish(request, slug, operations, form.cleaned_data["reason"], page_url(slug, uid))
    except (Invalid, Conflict) as error:
        form.add_error(None, error.message)
        status = status_of(error)
        return _show(request, page, rule_form=form, rule=asked, status=status)


def _show_preview(
    request: HttpRequest, page: MembersPage, form: RuleForm, asked: str, wanted: list[MembershipRule]
) -> HttpResponse:
    words, found = "", None
    if page.may_rule:
        found = preview_members(
            policy_slug=page.view.policy.slug,
            entry_uid=page.entry.uid,
            members=wanted,
            at=clock.now(),
            actor=actor_of(request),
        )
        words = member_lines.preview_words(found)
    return _show(request, page, rule_form=form, rule=asked, stated=form.stated, preview=words, effect=found)


def _operation(uid: UUID, wanted: list[MembershipRule]) -> dict[str, Any]:
    return {"op": "set_members", "entry": str(uid), "members": [rule.to_json() for rule in wanted]}


def _page(request: HttpRequest, policy: str, uid: UUID) -> MembersPage:
    cursor = request.GET.get("cursor") or None
    return get_members_page(policy_slug=policy, uid=uid, actor=actor_of(request), cursor=cursor)


def _chosen(page: MembersPage, asked: str) -> MembershipRule | None:
    """The rule of this number; None for a new one."""
    if asked == "new":
        return None
    place = read_whole(asked, 3)
    if place is None or place >= len(page.rules):
        raise NotFound(_("Not found"))
    return page.rules[place]


def _sources(request: HttpRequest) -> list[tuple[str, str]]:
    return list_source_names(actor=actor_of(request))


def _number(request: HttpRequest, name: str) -> int:
    text = request.POST.get(name, "")
    return read_whole(text) or 0


def _show(request: HttpRequest, page: MembersPage, *, status: int = 200, **more: Any) -> HttpResponse:
    context = {**member_lines.draw(page), "seen": seen_tag(page.rules), **more}
    if page.may_map:
        form = context.setdefault("attach_form", AttachForm(initial={"entry": page.entry.uid}))
        form.fields["entry"].widget.choices = _places(page)
    slug = page.view.policy.slug
    tree = reverse("dashboard:policy", kwargs={"policy": slug})
    entry = {"label": page.entry.name, "url": lines.entry_url(slug, page.entry.uid, page.entry.name)}
    context["crumbs"] = [{"label": page.view.policy.name, "url": tree}, entry, {"label": _("Members")}]
    return render(request, "dashboard/members/members.html", context, status=status)


def _places(page: MembersPage) -> list[tuple[str, str]]:
    """The entry itself and its children: where an account may be attached from this page."""
    rows = [page.entry, *(line.entry for line in page.members[:_MOST_CHOICES])]
    return [(str(row.uid), row.path) for row in rows]
