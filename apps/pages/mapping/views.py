"""Pages of a policy's mapping from accounts to entries; each change is previewed, then saved as a new version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_safe

from apps.core import clock
from apps.core.errors import DomainError, FieldProblem, Invalid, NotAllowed, NotFound, status_of
from apps.core.typed_numbers import read_whole
from apps.mapping.changes import (
    AddRule,
    Assign,
    ChangeRule,
    Detach,
    Edit,
    MoveRule,
    Plan,
    RemoveRule,
    Restore,
    get_rule_at,
    make_change,
    preview_change,
)
from apps.mapping.permissions import MapRights, rights_in
from apps.mapping.selectors import MappingPage, get_mapping_page
from apps.mapping.versions import current_mapping, get_version_row, list_version_rows, version_of
from apps.pages.mapping import presenters as mapping_lines
from apps.pages.mapping.forms import RuleForm, initial_of
from apps.policies.models import Policy
from apps.priorities.sentences import numbers
from apps.usage.selectors import list_source_names
from apps.web.shell import presentation
from apps.web.shell.forms import read_action
from apps.web.shell.requests import SeeOther, actor_of, fragment

_MOST_PATHS = 500
_MOST_CHOSEN_ACCOUNTS = 10_000
Fields = Sequence[tuple[str, str]]


def page_url(policy: str) -> str:
    return reverse("pages:mappings", kwargs={"policy": policy})


@require_safe
def mappings(request: HttpRequest, policy: str) -> HttpResponse:
    """List unmapped accounts first, because their usage is not charged, then rules and attached accounts."""
    page = _page(request, policy)
    verdict, at_stake = mapping_lines.head_text(page)
    return render(
        request,
        "pages/mapping/mappings.html",
        {
            **_unmapped_context(page),
            **_rules_context(request, page),
            **mapping_lines.attached_context(page),
            "other_case": [mapping_lines.other_case_line(page, line) for line in page.other_case],
            "verdict": verdict,
            "at_stake": at_stake,
            "crumbs": crumbs_of(page.rights.policy, last=True),
        },
    )


@require_safe
@fragment(page_url)
def unmapped(request: HttpRequest, policy: str) -> HttpResponse:
    """Fragment with further unmapped accounts, after the first `?after=`."""
    return render(request, "pages/mapping/_unmapped.html", _unmapped_context(_page(request, policy)))


@require_safe
@fragment(page_url)
def rules(request: HttpRequest, policy: str) -> HttpResponse:
    page = _page(request, policy)
    return render(request, "pages/mapping/_rules.html", _rules_context(request, page))


@require_safe
def versions(request: HttpRequest, policy: str) -> HttpResponse:
    """List the versions of the mapping, newest first."""
    rights = rights_in(policy, at=clock.now(), actor=actor_of(request))
    before = read_whole(request.GET.get("before", ""), 9)
    version_rows = list_version_rows(rights, before=before, limit=31)
    shown = version_rows[:30]
    return render(
        request,
        "pages/mapping/versions.html",
        {
            "policy": policy,
            "policy_name": rights.policy.name,
            "versions": [mapping_lines.version_line(rights, line, source_names(request)) for line in shown],
            "older": shown[-1].version.number if len(version_rows) > len(shown) else None,
            "is_whole": rights.may_name(0),
            "crumbs": [*crumbs_of(rights.policy), {"label": _("Versions")}],
        },
    )


def crumbs_of(policy: Policy, *, last: bool = False) -> list[dict[str, str]]:
    here = {"label": _("Accounts")} if last else {"label": _("Accounts"), "url": page_url(policy.slug)}
    return [{"label": policy.name, "url": reverse("pages:policy", kwargs={"policy": policy.slug})}, here]


def source_names(request: HttpRequest) -> dict[str, str]:
    return dict(list_source_names(actor=actor_of(request)))


def paths_to_choose(rights: MapRights) -> list[str]:
    """Paths of entries to which the actor may map accounts, topmost first, as suggestions for an input."""
    return [rights.tree.path(entry) for entry in rights.entries_mapped(_MOST_PATHS)]


def _page(request: HttpRequest, policy: str) -> MappingPage:
    after = read_whole(request.GET.get("after", ""), 9) or 0
    return get_mapping_page(policy_slug=policy, after=after, at=clock.now(), actor=actor_of(request))


def _unmapped_context(page: MappingPage) -> dict[str, Any]:
    most = max((line.usage.core_s for line in page.unmapped), default=0.0)
    return {
        **_base(page),
        "unmapped": [mapping_lines.unmapped_line(page, line, most) for line in page.unmapped],
        "n_unmapped": page.n_unmapped,
        "n_hidden": page.n_hidden,
        "next_after": page.next_after,
        "n_waiting": page.n_waiting,
        "waiting_core_s": page.waiting_core_s,
        "paths": paths_to_choose(page.rights) if page.may_edit and page.unmapped else [],
    }


def _rules_context(request: HttpRequest, page: MappingPage) -> dict[str, Any]:
    sources = source_names(request)
    n_exact = sum(line.tier == 0 for line in page.rules)
    return {
        **_base(page),
        "rules": [mapping_lines.rule_line(page, line, sources) for line in page.rules],
        "n_exact": n_exact,
        "members_priority": n_exact + 1 + bool(page.n_attached),
        "by_members": numbers.count(page.n_by_members) if page.n_by_members else "",
        "members_core_h": presentation.hours(page.members_core_s),
        "attached_accounts": numbers.count(page.n_attached) if page.n_attached else "",
        "attached_core_h": presentation.hours(page.attached_core_s),
    }


def _base(page: MappingPage) -> dict[str, Any]:
    return {
        "policy": page.rights.policy.slug,
        "policy_name": page.rights.policy.name,
        "version": page.version,
        "may_edit": page.may_edit,
        "is_whole": page.is_whole,
    }


@require_http_methods(["GET", "HEAD", "POST"])
def rule(request: HttpRequest, policy: str) -> HttpResponse:
    """Preview and save a new rule, or a change of the rule whose index is `?rule=`."""
    rights, which = _rights(request, policy), (request.POST or request.GET).get("rule", "new")
    stored = current_mapping(rights.policy).rules
    at = None if which == "new" else _number(which)
    old = None if at is None else get_rule_at(rights, stored, at)
    sources = sorted(source_names(request).items(), key=lambda item: item[1])
    initial = {"shares": "1"} if old is None or at is None else initial_of(old, rights.tree, at)
    form = RuleForm(request.POST or None, initial=initial, tree=rights.tree, sources=sources)
    context: dict[str, Any] = {"rule": which, "form": form}
    if request.method != "POST":
        return _show_rule(request, rights, context)
    if not form.is_valid():
        return _show_rule(request, rights, context, status=422)
    edit = AddRule(form.rule, form.to) if at is None else ChangeRule(at, form.rule, form.to)
    try:
        if read_action(request).step == "save" and request.POST.get("previewed") == _previewed(form):
            return _save(request, policy, edit)
        plan = _plan(request, policy, edit)
    except NotFound:
        raise
    except DomainError as error:
        form.add_refusal(error)
        return _show_rule(request, rights, context, status=status_of(error))
    context |= {"plan": mapping_lines.plan_context(plan), "previewed": _previewed(form)}
    return _show_rule(request, rights, context)


@require_http_methods(["GET", "HEAD", "POST"])
def order(request: HttpRequest, policy: str) -> HttpResponse:
    """Move a rule up or down by one, or remove it, as the button `way` says."""
    if request.method != "POST":
        return SeeOther(page_url(policy) + "#rules")
    at, way = _number(request.POST.get("rule", "")), read_action(request, "way").step
    edits: dict[str, tuple[Edit, str]] = {
        "up": (MoveRule(at, at - 1), _("Move the rule up?")),
        "down": (MoveRule(at, at + 1), _("Move the rule down?")),
        "remove": (RemoveRule(at), _("Remove the rule?")),
    }
    if way not in edits:
        raise NotFound(_("Reload the page and try again."))
    edit, question = edits[way]
    rights = _rights(request, policy)
    rule = get_rule_at(rights, current_mapping(rights.policy).rules, at)
    words = mapping_lines.rule_text(rule, source_names(request))
    fields = [("rule", str(at)), ("way", way)]
    return _confirm(request, policy, edit, question, words, fields)


@require_http_methods(["GET", "HEAD", "POST"])
def assign(request: HttpRequest, policy: str) -> HttpResponse:
    """Attach accounts to one entry, or each account to the entry that is suggested for it."""
    if request.method != "POST":
        return SeeOther(page_url(policy))
    rights = _rights(request, policy)
    try:
        assignments = _assignments(request, rights)
    except Invalid as error:
        messages.error(request, error.message, extra_tags=error.code)
        return SeeOther(page_url(policy))
    n = len(assignments)
    question = ngettext("Assign %(n)s account?", "Assign %(n)s accounts?", n) % {"n": n}
    fields = [("place", f"{account}:{uid}") for account, uid in assignments.items()]
    words = _("They count there from the next recompute, whatever the rules say.")
    return _confirm(request, policy, Assign(assignments), question, words, fields)


@require_http_methods(["GET", "HEAD", "POST"])
def detach(request: HttpRequest, policy: str) -> HttpResponse:
    """Detach accounts, so that rules apply to them again."""
    if request.method != "POST":
        return SeeOther(page_url(policy) + "#attached")
    accounts = [_number(text) for text in request.POST.getlist("account")[:_MOST_CHOSEN_ACCOUNTS]]
    fields = [("account", str(account)) for account in accounts]
    words = _("Rules apply to it again.")
    return _confirm(request, policy, Detach(accounts), _("Detach"), words, fields)


@require_http_methods(["GET", "HEAD", "POST"])
def version(request: HttpRequest, policy: str, number: int) -> HttpResponse:
    """Show the changes of one version; POST restores the mapping as it was after that version."""
    rights = _rights(request, policy)
    line = get_version_row(rights, number)
    if request.method == "POST":
        question = _("Restore version %(n)s") % {"n": number}
        words = _("Creates a new version.")
        return _confirm(request, policy, Restore(number), question, words, [])
    sources = source_names(request)
    return render(
        request,
        "pages/mapping/version.html",
        {
            "policy": policy,
            "policy_name": rights.policy.name,
            "is_newest": number == version_of(rights.policy),
            "line": mapping_lines.version_line(rights, line, sources),
            "version": version_of(rights.policy),
            "may_edit": rights.maps_anywhere,
            "crumbs": [
                *crumbs_of(rights.policy),
                {"label": _("Versions"), "url": f"{page_url(policy)}versions/"},
                {"label": _("Version %(n)s") % {"n": number}},
            ],
        },
    )


def _confirm(request: HttpRequest, policy: str, edit: Edit, question: str, words: str, fields: Fields) -> HttpResponse:
    """Preview an edit and ask for its reason; make it if `step` is save. fields: hidden fields that describe it."""
    problem, code, status = "", "", 200
    action = read_action(request)
    if action.step == "save":
        try:
            return _save(request, policy, edit)
        except NotFound:
            raise
        except DomainError as error:
            problem, code, status = error.message, error.code, status_of(error)
    rights = _rights(request, policy)
    context: dict[str, Any] = {
        "policy": policy,
        "policy_name": rights.policy.name,
        "question": question,
        "words": words,
        "fields": fields,
        "problem": problem,
        "typed_reason": action.reason,
        "back": page_url(policy),
        "version": version_of(rights.policy),
        "crumbs": [*crumbs_of(rights.policy), {"label": question}],
    }
    try:
        context["plan"] = mapping_lines.plan_context(_plan(request, policy, edit))
    except NotFound:
        raise
    except DomainError as error:
        context["problem"], status = problem or error.message, max(status, status_of(error))
        code = code or error.code
    context["code"] = code
    return render(request, "pages/mapping/ask.html", context, status=status)


def _save(request: HttpRequest, policy: str, edit: Edit) -> HttpResponse:
    number = make_change(
        policy_slug=policy,
        edit=edit,
        reason=read_action(request).reason,
        version=_number(request.POST.get("version", "")),  # 0 is a version: the mapping before its first change
        at=clock.now(),
        actor=actor_of(request),
    )
    message = _("Saved as version %(n)s. Priorities follow with the next recompute.")
    messages.success(request, message % {"n": number})
    return SeeOther(page_url(policy))


def _plan(request: HttpRequest, policy: str, edit: Edit) -> Plan:
    return preview_change(policy_slug=policy, edit=edit, at=clock.now(), actor=actor_of(request))


def _rights(request: HttpRequest, policy: str) -> MapRights:
    rights = rights_in(policy, at=clock.now(), actor=actor_of(request))
    rights.require_anywhere()
    if request.method == "POST" and not rights.maps_anywhere:
        raise NotAllowed(_("You may not do this here: ask a manager of the entry."))
    return rights


def _assignments(request: HttpRequest, rights: MapRights) -> dict[int, UUID]:
    """Entry by account: from the previewed fields `place`, else from the chosen accounts.

    Chosen accounts get one entry for all (`to=entry`), or each the entry that was suggested for it.
    """
    posted = request.POST
    if posted.getlist("place"):
        pairs = [text.partition(":") for text in posted.getlist("place")[:_MOST_CHOSEN_ACCOUNTS]]
        return {_number(account): _uid(uid) for account, _sep, uid in pairs}
    accounts = [posted["one"]] if posted.get("one") else posted.getlist("account")[:_MOST_CHOSEN_ACCOUNTS]
    if not accounts:
        raise _refusal("account", "none_chosen", _("Choose at least one account."))
    if posted.get("to") == "entry" and not posted.get("one"):
        index = rights.tree.index_of_path(posted.get("entry", "").strip())
        if index is None or not rights.sees.may_see(index):
            raise _refusal("entry", "no_such_entry", _("Unknown entry: enter its path, such as /physics."))
        return dict.fromkeys(map(_number, accounts), rights.tree.uuid(index))
    without = [account for account in accounts if not posted.get(f"guess-{account}")]
    if without:
        raise _refusal("entry", "nothing_suggested", _("Choose one entry for accounts without a suggestion."))
    return {_number(account): _uid(posted[f"guess-{account}"]) for account in accounts}


def _uid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise _refusal("entry", "no_such_entry", _("Unknown entry: enter its path, such as /physics.")) from None


def _refusal(where: str, code: str, message: str) -> Invalid:
    return Invalid(message, code=code, fields=[FieldProblem(where, message)])


def _number(text: str) -> int:
    """The number; -1, which no row has, for text that is none."""
    number = read_whole(text)
    return -1 if number is None else number


def _previewed(form: RuleForm) -> str:
    """The rule as text; the page posts it back, so that a changed rule is previewed before it is saved."""
    return repr((sorted(form.rule.to_json().items(), key=str), form.to))


def _show_rule(request: HttpRequest, rights: MapRights, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    title = _("New rule") if context["rule"] == "new" else _("Change rule")
    shown = {
        "policy": rights.policy.slug,
        "policy_name": rights.policy.name,
        "title": title,
        "version": version_of(rights.policy),
        "paths": paths_to_choose(rights),
        "may_edit": rights.maps_anywhere,
        "crumbs": [*crumbs_of(rights.policy), {"label": title}],
    }
    return render(request, "pages/mapping/rule.html", {**shown, **context}, status=status)
