"""Pages of a policy's roles: the list of grants, the explanation of a person's rights, and forms to change grants."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.models import User
from apps.core import clock
from apps.core.errors import Conflict, DomainError, FieldProblem, Invalid, NotAllowed, NotFound, Stale, status_of
from apps.core.typed_numbers import read_whole
from apps.mapping.permissions import load_visibility
from apps.pages.access import presenters as access_lines
from apps.pages.access.forms import EndForm, GrantForm, TermsForm
from apps.policies.access import delegation
from apps.policies.access import role_holders as access
from apps.policies.access.authority import VERBS_OF_ROLE, GrantChange, GrantTerms
from apps.policies.access.delegation import SUGGESTED
from apps.policies.access.role_holders import GrantLine, GrantState
from apps.policies.models import Grant, Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import load_tree
from apps.web.shell.forms import read_action
from apps.web.shell.lines import show_tabs_of
from apps.web.shell.requests import SeeOther, actor_of, fragment

_MOST_CHOSEN_GRANTS = 200

_ACTIVE = (GrantState.ACTIVE, GrantState.SOON)
_REFUSALS = (Invalid, NotAllowed, Conflict, NotFound, Stale)


def page_url(policy: str, **_kwargs: Any) -> str:
    return reverse("pages:access", kwargs={"policy": policy})


def entry_page_url(policy: str, uid: UUID) -> str:
    return reverse("pages:entry-find", kwargs={"policy": policy, "uid": uid})


@require_safe
def overview(request: HttpRequest, policy: str) -> HttpResponse:
    """The list of grants with its filter, grants that end soon, the rights of roles, and the explanation of rights."""
    viewed_policy = get_policy(slug=policy, actor=actor_of(request))
    now = clock.now()
    lines = access.list_grants(policy_slug=policy, at=now, actor=actor_of(request))
    soon = [access_lines.grant_row(policy, line, now) for line in access.ending_soon(lines)]
    people = {access.name_of(line.grant) for line in lines}
    context = {
        "policy": policy,
        "policy_name": viewed_policy.name,
        "summary": access_lines.count_text(len(people), len(lines)),
        "soon": soon,
        "can_extend": [row for row in soon if row.may_open],
        "may_grant": access.may_grant(policy_slug=policy, at=now, actor=actor_of(request)),
        "roles": Grant.Role.choices,
        "table": access_lines.roles_table(),
        "crumbs": [
            {"label": viewed_policy.name, "url": reverse("pages:policy", kwargs={"policy": policy})},
            {"label": _("Access")},
        ],
        **_list_context(request, policy, lines, now),
        # Path of the entry of the reader's first active grant, the default of the explanation; / without one.
        **_why_context(
            request,
            viewed_policy,
            now,
            next((line.path for line in lines if line.is_own and line.state in _ACTIVE), "/"),
        ),
    }
    return render(request, "pages/access/access.html", context)


@require_safe
@fragment(page_url)
def grants(request: HttpRequest, policy: str) -> HttpResponse:
    """Fragment with the filtered list."""
    now = clock.now()
    lines = access.list_grants(policy_slug=policy, at=now, actor=actor_of(request))
    return render(request, "pages/access/_grants.html", _list_context(request, policy, lines, now))


@require_safe
@fragment(page_url)
def why(request: HttpRequest, policy: str) -> HttpResponse:
    """Fragment that explains the rights of one person at one entry."""
    viewed_policy = get_policy(slug=policy, actor=actor_of(request))
    context = _why_context(request, viewed_policy, clock.now())
    status = 422 if context["why_problem"] else 200
    return render(request, "pages/access/_why.html", {"policy": policy, **context}, status=status)


@require_safe
@fragment(entry_page_url)
def of_entry(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Fragment of an entry's page: the actor's rights at the entry, and the grants at it and above it."""
    return render(request, "pages/access/_entry.html", _entry_context(request, policy, uid))


@require_safe
def entry(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Rights of `?person=`, by default of the actor, at one entry, and the grants at it and above it."""
    viewed_policy, now = get_policy(slug=policy, actor=actor_of(request)), clock.now()
    context = _entry_context(request, policy, uid)
    tree = load_tree(viewed_policy)
    name = tree.name[tree.index_of_uid(uid) or 0]
    show_tabs_of(request, uid, name)
    context |= _why_context(request, viewed_policy, now, context["path"])
    context |= {
        "entry_name": name,
        "n_hidden": 0,
        "crumbs": [
            {"label": viewed_policy.name, "url": reverse("pages:policy", kwargs={"policy": policy})},
            {"label": name, "url": entry_page_url(policy, uid)},
            {"label": _("Access")},
        ],
    }
    return render(request, "pages/access/entry.html", context)


def _entry_context(request: HttpRequest, policy: str, uid: UUID) -> dict[str, Any]:
    """Raises NotFound if the actor doesn't see the entry."""
    now, actor = clock.now(), actor_of(request)
    own = access.explain_access(
        policy_slug=policy, entry_uid=uid, username="", at=now, actor=actor, visibility=load_visibility
    )
    at_or_above = {step.uid for step in own.steps}
    lines = access.list_grants(policy_slug=policy, at=now, actor=actor)
    wanted = [line for line in lines if line.grant.entry_uid in at_or_above and line.state is not GrantState.EXPIRED]
    return {
        "policy": policy,
        "uid": uid,
        "why": access_lines.draw_why(own, now, is_reader=True),
        "path": own.path,
        "rows": [access_lines.grant_row(policy, line, now) for line in wanted],
        "may_grant": access.may_grant(policy_slug=policy, at=now, actor=actor),
    }


def _list_context(request: HttpRequest, policy: str, lines: list[GrantLine], now: datetime) -> dict[str, Any]:
    filters: dict[str, Any] = {"query": request.GET.get("q", "")[:200], "role": request.GET.get("role", "")}
    filters["soon"] = request.GET.get("soon") == "1"
    rows = [access_lines.grant_row(policy, line, now) for line in lines]
    shown = [row for row in rows if access_lines.matches(row, **filters)]
    as_matrix = request.GET.get("view") == "matrix"
    return {
        "query": filters["query"],
        "role": filters["role"],
        "soon_only": filters["soon"],
        "policy": policy,
        "rows": shown,
        "n_hidden": len(rows) - len(shown),
        "as_matrix": as_matrix,
        "matrix": access_lines.draw_matrix(shown) if as_matrix else None,
        "roles": Grant.Role.choices,
    }


def _why_context(request: HttpRequest, policy: Policy, now: datetime, default: str = "/") -> dict[str, Any]:
    """Context of the explanation. default: path of the entry if the query names none."""
    actor = actor_of(request)
    person, path = request.GET.get("person", "").strip(), request.GET.get("entry", "").strip() or default
    context: dict[str, Any] = {"person": person, "path": path, "why": None, "why_problem": "", "why_code": ""}
    try:
        uid = entry_uid(request, policy, path)
        explanation = access.explain_access(
            policy_slug=policy.slug, entry_uid=uid, username=person, at=now, actor=actor, visibility=load_visibility
        )
        context["why"] = access_lines.draw_why(explanation, now, is_reader=explanation.person == actor.user)
        context["path"] = explanation.path
    except (Invalid, NotAllowed, NotFound) as refusal:
        context["why_problem"], context["why_code"] = refusal.message, refusal.code
    return context


def entry_uid(request: HttpRequest, policy: Policy, text: str) -> UUID:
    """UID of the entry with a path; raises Invalid if the actor sees no such entry."""
    path, actor, tree = "/" + text.strip().strip("/"), actor_of(request), load_tree(policy)
    index = tree.index_of_path(path)
    if index is not None and load_visibility(policy=policy, tree=tree, at=clock.now(), actor=actor).may_see(index):
        return tree.uuid(index)
    message = _("No visible entry %(path)s.") % {"path": path}
    raise Invalid(message, fields=[FieldProblem("entry", message)])


@require_http_methods(["GET", "HEAD", "POST"])
def assign(request: HttpRequest, policy: str) -> HttpResponse:
    """Grant a role at an entry to a person or sign-in group."""
    viewed_policy, now = get_policy(slug=policy, actor=actor_of(request)), clock.now()
    if not access.may_grant(policy_slug=policy, at=now, actor=actor_of(request)):
        raise NotAllowed(_("You may not do this here: ask a manager of the entry."))
    if request.method != "POST":
        initial = {
            "entry": request.GET.get("entry", ""),
            "role": Grant.Role.LEAD,
            "ends_on": timezone.localtime(now + SUGGESTED).date(),
        }
        return _assignment_page(request, viewed_policy, GrantForm(initial=initial))
    form = GrantForm(request.POST)
    if form.is_valid() and (made := _add_grant(request, viewed_policy, form, now)):
        words = {"role": Grant.Role(made.role).label, "who": access.name_of(made), "path": form.cleaned_data["entry"]}
        messages.success(request, _("%(who)s is now %(role)s at %(path)s and below.") % words)
        return SeeOther(page_url(policy))
    return _assignment_page(request, viewed_policy, form, status=422)


def _add_grant(request: HttpRequest, policy: Policy, form: GrantForm, now: datetime) -> Grant | None:
    """Add the grant; None if it is refused, with the refusal in the form."""
    actor, verbs = actor_of(request), form.chosen_verbs
    wanted = VERBS_OF_ROLE[form.cleaned_data["role"]] if verbs is None else verbs
    try:
        uid = entry_uid(request, policy, form.cleaned_data["entry"])
        limit = access.longest_end(policy_slug=policy.slug, entry_uid=uid, verbs=wanted, at=now, actor=actor)
        return delegation.create_grant(
            policy_slug=policy.slug,
            entry_uid=uid,
            terms=GrantTerms(
                username=form.cleaned_data["person"].strip(),
                people=form.cleaned_data["people"].strip(),
                role=form.cleaned_data["role"],
                verbs=verbs,
                reason=form.cleaned_data["reason"],
                expires_at=form.ends_at(limit),
            ),
            at=now,
            actor=actor,
        )
    except _REFUSALS as refusal:
        form.add_refusal(refusal)
        return None


@require_http_methods(["GET", "HEAD", "POST"])
def grant(request: HttpRequest, policy: str, grant_id: int) -> HttpResponse:
    """Change, extend or end one grant; `tag` identifies the state of it that the page showed."""
    viewed_policy, now = get_policy(slug=policy, actor=actor_of(request)), clock.now()
    line = access.get_grant_line(policy_slug=policy, grant_id=grant_id, at=now, actor=actor_of(request))
    if request.method != "POST":
        return _grant_page(request, viewed_policy, line, _terms_of(line), EndForm())
    if read_action(request).step == "end":
        return _end(request, viewed_policy, line, now)
    form = TermsForm(request.POST)
    if form.is_valid() and _change_grant(request, viewed_policy, line, form, now):
        messages.success(request, _("Saved"))
        return SeeOther(page_url(policy))
    return _grant_page(request, viewed_policy, line, form, EndForm(), status=form.status)


def _change_grant(request: HttpRequest, policy: Policy, line: GrantLine, form: TermsForm, now: datetime) -> bool:
    """Change the grant; False if it is refused, with the refusal in the form."""
    actor, verbs = actor_of(request), form.chosen_verbs
    wanted = VERBS_OF_ROLE[form.cleaned_data["role"]] if verbs is None else verbs
    uid = line.grant.entry_uid
    limit = access.longest_end(policy_slug=policy.slug, entry_uid=uid, verbs=wanted, at=now, actor=actor)
    try:
        delegation.change_grant(
            policy_slug=policy.slug,
            grant_id=line.grant.pk,
            tag=read_action(request).tag,
            change=GrantChange(
                role=form.cleaned_data["role"],
                verbs=verbs,
                reason=form.cleaned_data["reason"],
                expires_at=line.grant.expires_at if _same_day(line, form) else form.ends_at(limit),
            ),
            given_on="keep" if request.POST.get("given_on") == "keep" else "end",
            at=now,
            actor=actor,
        )
    except _REFUSALS as refusal:
        form.add_refusal(refusal)
        return False
    return True


def _end(request: HttpRequest, policy: Policy, line: GrantLine, now: datetime) -> HttpResponse:
    form, status = EndForm(request.POST), 422
    if form.is_valid():
        try:
            delegation.end_grant(
                policy_slug=policy.slug,
                grant_id=line.grant.pk,
                tag=read_action(request).tag,
                reason=form.cleaned_data["reason"],
                given_on="keep" if form.cleaned_data["given_on"] == "keep" else "end",
                at=now,
                actor=actor_of(request),
            )
        except (NotAllowed, Stale) as refusal:
            form.add_refusal(refusal)
            status = status_of(refusal)
        else:
            messages.success(request, _("Role ended: %(who)s") % {"who": access.name_of(line.grant)})
            return SeeOther(page_url(policy.slug))
    return _grant_page(request, policy, line, _terms_of(line), form, status=status)


@require_POST
def extend(request: HttpRequest, policy: str) -> HttpResponse:
    """Extend each chosen grant by a year, or until the actor's own right expires."""
    done, problems = 0, []
    for number in request.POST.getlist("grant")[:_MOST_CHOSEN_GRANTS]:
        try:
            _extend_one(request, policy, read_whole(number) or 0)
            done += 1
        except DomainError as refusal:
            problems.append(refusal.message)
    if done:
        messages.success(request, ngettext("%(n)s grant extended.", "%(n)s grants extended.", done) % {"n": done})
    for problem in dict.fromkeys(problems):
        messages.warning(request, problem)
    return SeeOther(page_url(policy))


def _extend_one(request: HttpRequest, policy: str, number: int) -> None:
    now, actor = clock.now(), actor_of(request)
    line = access.get_grant_line(policy_slug=policy, grant_id=number, at=now, actor=actor)
    uid, verbs = line.grant.entry_uid, line.grant.verbs
    limit = access.longest_end(policy_slug=policy, entry_uid=uid, verbs=verbs, at=now, actor=actor)
    until = min(max(line.grant.expires_at or now, now) + SUGGESTED, limit)
    delegation.change_grant(
        policy_slug=policy, grant_id=number, tag=line.tag, change=GrantChange(expires_at=until), at=now, actor=actor
    )


def _assignment_page(request: HttpRequest, policy: Policy, form: GrantForm, *, status: int = 200) -> HttpResponse:
    lines = access.list_grants(policy_slug=policy.slug, at=clock.now(), actor=actor_of(request))
    context = {
        "policy": policy.slug,
        "form": form,
        "people": _known_people(request, lines),
        "groups": _known_groups(request, lines),
        "places": list(dict.fromkeys(line.path for line in lines if line.state is not GrantState.DORMANT))[
            :_MOST_CHOSEN_GRANTS
        ],
        **_terms_context(form),
        "crumbs": _crumbs(policy, _("Assign role")),
    }
    return render(request, "pages/access/assign.html", context, status=status)


def _grant_page(
    request: HttpRequest, policy: Policy, line: GrantLine, form: TermsForm, end_form: EndForm, *, status: int = 200
) -> HttpResponse:
    now, actor = clock.now(), actor_of(request)
    dependent = delegation.list_dependent_grants(policy_slug=policy.slug, grant_id=line.grant.pk, at=now, actor=actor)
    row = access_lines.grant_row(policy.slug, line, now)
    context = {
        "policy": policy.slug,
        "line": line,
        "row": row,
        "since": line.grant.created_at,
        "form": form,
        "end_form": end_form,
        "dependent_grants": [(access.name_of(each), str(Grant.Role(each.role).label)) for each in dependent],
        **_terms_context(form),
        "crumbs": _crumbs(policy, row.who),
    }
    return render(request, "pages/access/grant.html", context, status=status)


def _terms_context(form: TermsForm) -> dict[str, Any]:
    role = str(form["role"].value() or Grant.Role.LEAD)
    chosen = form["verbs"].value() or VERBS_OF_ROLE.get(role, ())
    return {"role_choices": access_lines.role_choices(role), "verb_choices": access_lines.verb_choices(list(chosen))}


def _terms_of(line: GrantLine) -> TermsForm:
    """The form with the current terms of a grant."""
    grant = line.grant
    singly = set(grant.verbs) != set(VERBS_OF_ROLE[grant.role])
    ends = timezone.localtime(grant.expires_at).date() if grant.expires_at else None
    return TermsForm(
        initial={
            "role": grant.role,
            "singly": singly,
            "verbs": grant.verbs,
            "reason": grant.reason,
            "ends_on": ends,
            "no_end": ends is None,
        }
    )


def _same_day(line: GrantLine, form: TermsForm) -> bool:
    """Whether the form has the grant's current expiry day, which must then stay at its exact time."""
    ends = line.grant.expires_at
    if form.cleaned_data["no_end"] or ends is None:
        return form.cleaned_data["no_end"] and ends is None
    return bool(timezone.localtime(ends).date() == form.cleaned_data["ends_on"])


def _known_people(request: HttpRequest, lines: list[GrantLine]) -> list[str]:
    """Suggested user names: all for an administrator, otherwise those with a grant."""
    if actor_of(request).is_admin:
        return list(
            User.objects.filter(is_active=True)
            .order_by("username")
            .values_list("username", flat=True)[:_MOST_CHOSEN_GRANTS]
        )
    return sorted({line.grant.user.username for line in lines if line.grant.user})[:_MOST_CHOSEN_GRANTS]


def _known_groups(request: HttpRequest, lines: list[GrantLine]) -> list[str]:
    if actor_of(request).is_admin:
        return list(Group.objects.order_by("name").values_list("name", flat=True)[:_MOST_CHOSEN_GRANTS])
    return sorted({line.grant.people for line in lines if line.grant.people})[:_MOST_CHOSEN_GRANTS]


def _crumbs(policy: Policy, label: str) -> list[dict[str, str]]:
    tree = reverse("pages:policy", kwargs={"policy": policy.slug})
    return [{"label": policy.name, "url": tree}, {"label": _("Access"), "url": page_url(policy.slug)}, {"label": label}]
