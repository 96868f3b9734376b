"""Pages of the members of an entry: membership rules, attached accounts, claims, and recent changes by rules."""

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
from apps.mapping import attachments as attaching
from apps.mapping import claims
from apps.mapping import permissions as map_rights
from apps.pages.mapping.members import presenters as member_lines
from apps.pages.mapping.members.forms import AttachForm, RuleForm, initial_of, seen_tag
from apps.policies.tree.terms import MembershipRule
from apps.priorities.selectors.members import MembersPage, get_members_page, preview_members
from apps.usage.selectors import list_source_names
from apps.web.shell import lines, publishing
from apps.web.shell.forms import read_action
from apps.web.shell.requests import SeeOther, actor_of, fragment

_MOST_MEMBER_CHOICES = 500


def page_url(policy: str, uid: UUID) -> str:
    return reverse("pages:members", kwargs={"policy": policy, "uid": uid})


def entry_page_url(policy: str, uid: UUID) -> str:
    return reverse("pages:entry-find", kwargs={"policy": policy, "uid": uid})


@require_safe
def members(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Show the members; `?rule=` also opens the form for the rule with this index, `?rule=new` an empty one."""
    page = _page(request, policy, uid)
    which = request.GET.get("rule", "")
    form = None
    if which and page.may_draft:
        form = RuleForm(initial=initial_of(_chosen(page, which)), sources=_sources(request))
    return _show(request, page, rule_form=form, rule=which)


@require_safe
@fragment(entry_page_url)
def of_entry(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Fragment of an entry's page."""
    return render(request, "pages/mapping/members/_entry.html", member_lines.draw(_page(request, policy, uid)))


@require_http_methods(["GET", "HEAD", "POST"])
def rules(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Preview a new or changed rule, then publish it or add it to a draft; or remove a rule."""
    if request.method != "POST":
        return SeeOther(page_url(policy, uid))
    page, step = _page(request, policy, uid), read_action(request).step or "preview"
    if not page.may_draft:
        raise NotAllowed(_("You may not do this here: ask a manager of the entry."))
    which = request.POST.get("rule", "new")
    if request.POST.get("seen") != seen_tag(page.rules):
        message = _(
            "Another person changed these settings after you opened the page. Check the current ones, then decide."
        )
        return _show(request, page, refusal=Conflict(message, code="rules_changed"), status=409)
    if step == "remove":
        return _remove(request, page, which)
    form = RuleForm(request.POST, sources=_sources(request))
    form.fields["reason"].required = step == "publish"
    if not form.is_valid():
        return _show(request, page, rule_form=form, rule=which, status=422)
    wanted = member_lines.with_rule(page.rules, which, form.rule)
    if step == "preview" or not form.is_previewed:
        return _show_preview(request, page, form, which, wanted)
    return _decide(request, page, form, which, wanted, step)


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
        attachment_id=read_whole(request.POST.get("attachment", "")) or 0,
        reason=read_action(request).reason or _("Detached on the members page."),
        at=clock.now(),
        actor=actor_of(request),
    )
    messages.success(request, _("Rules apply to it again."))
    return SeeOther(page_url(policy, uid))


@require_POST
def decide_claim(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Confirm or reject a user's claim to an account."""
    now, actor = clock.now(), actor_of(request)
    claim_id, confirm = read_whole(request.POST.get("claim", "")) or 0, read_action(request).step == "confirm"
    rights = map_rights.rights_in(policy, at=now, actor=actor, scope=map_rights.WRITE)
    rights.sees.require(rights.tree.index_of_uid(uid))
    claims.decide_claim(rights, claim_id=claim_id, confirm=confirm, at=now, actor=actor)
    messages.success(request, _("Confirmed") if confirm else _("Rejected"))
    return SeeOther(page_url(policy, uid))


def _remove(request: HttpRequest, page: MembersPage, which: str) -> HttpResponse:
    _chosen(page, which)
    left = [rule for at, rule in enumerate(page.rules) if str(at) != which]
    slug, uid, reason = page.view.policy.slug, page.entry.uid, read_action(request).reason
    try:
        return publishing.publish(request, slug, [_operation(uid, left)], reason, page_url(slug, uid))
    except (Invalid, Conflict) as error:
        return _show(request, page, refusal=error, status=status_of(error))


def _decide(
    request: HttpRequest, page: MembersPage, form: RuleForm, which: str, wanted: list[MembershipRule], step: str
) -> HttpResponse:
    slug, uid = page.view.policy.slug, page.entry.uid
    operations = [_operation(uid, wanted)]
    try:
        if step == "draft":
            return publishing.add_to_draft(request, slug, operations)
        return publishing.publish(request, slug, operations, form.cleaned_data["reason"], page_url(slug, uid))
    except (Invalid, Conflict) as error:
        form.add_error(None, error.message)
        return _show(request, page, rule_form=form, rule=which, status=status_of(error))


def _show_preview(
    request: HttpRequest, page: MembersPage, form: RuleForm, which: str, wanted: list[MembershipRule]
) -> HttpResponse:
    words, effect = "", None
    if page.may_rule:
        effect = preview_members(
            policy_slug=page.view.policy.slug,
            entry_uid=page.entry.uid,
            members=wanted,
            at=clock.now(),
            actor=actor_of(request),
        )
        words = member_lines.preview_text(effect)
    return _show(request, page, rule_form=form, rule=which, stated=form.stated, preview=words, effect=effect)


def _operation(uid: UUID, wanted: list[MembershipRule]) -> dict[str, Any]:
    return {"op": "set_members", "entry": str(uid), "members": [rule.to_json() for rule in wanted]}


def _page(request: HttpRequest, policy: str, uid: UUID) -> MembersPage:
    cursor = request.GET.get("cursor") or None
    return get_members_page(policy_slug=policy, uid=uid, actor=actor_of(request), cursor=cursor)


def _chosen(page: MembersPage, which: str) -> MembershipRule | None:
    """The rule with this index; None for "new"."""
    if which == "new":
        return None
    index = read_whole(which, 3)
    if index is None or index >= len(page.rules):
        raise NotFound(_("Not found"))
    return page.rules[index]


def _sources(request: HttpRequest) -> list[tuple[str, str]]:
    return list_source_names(actor=actor_of(request))


def _show(request: HttpRequest, page: MembersPage, *, status: int = 200, **more: Any) -> HttpResponse:
    context = {**member_lines.draw(page), "seen": seen_tag(page.rules), **more}
    if page.may_map:
        form = context.setdefault("attach_form", AttachForm(initial={"entry": page.entry.uid}))
        form.fields["entry"].widget.choices = _entries(page)
    slug = page.view.policy.slug
    lines.show_tabs_of(request, page.entry.uid, page.entry.name)
    tree = reverse("pages:policy", kwargs={"policy": slug})
    entry = {"label": page.entry.name, "url": lines.entry_url(slug, page.entry.uid, page.entry.name)}
    context["crumbs"] = [{"label": page.view.policy.name, "url": tree}, entry, {"label": _("Members")}]
    return render(request, "pages/mapping/members/members.html", context, status=status)


def _entries(page: MembersPage) -> list[tuple[str, str]]:
    """UID and path of the entry and its children, to which accounts can be attached on this page."""
    rows = [page.entry, *(line.entry for line in page.members[:_MOST_MEMBER_CHOICES])]
    return [(str(row.uid), row.path) for row in rows]
