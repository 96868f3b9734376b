"""Pages of the rules that open notices: those of the site, and of policies that override them."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.actor import Actor
from apps.accounts.selectors import display_name
from apps.contrib.notices import rules as rule_services
from apps.contrib.notices.kind import Kind
from apps.contrib.notices.kinds import kind_of
from apps.contrib.notices.pages.forms import RuleForm, ScopeForm, list_kinds
from apps.contrib.notices.places import Place, may_set, place_of
from apps.contrib.notices.rules import NEW, RuleRow
from apps.core import clock
from apps.core.errors import DomainError, NotAllowed
from apps.policies.models import Policy
from apps.policies.selectors import list_policies
from apps.web.shell.forms import read_action
from apps.web.shell.requests import SeeOther, actor_of


@require_safe
def rules(request: HttpRequest) -> HttpResponse:
    """Rules by kind of notice: the site's rule first, then the rules of policies that override it."""
    actor, now = actor_of(request), clock.now()
    lines = rule_services.list_rules(at=now, actor=actor)
    groups = []
    for kind in list_kinds():
        own = [draw_rule(line) for line in lines if line.kind is kind]
        groups.append((kind, sorted(own, key=lambda row: (not row["is_site"], row["place"]))))
    context = {
        "groups": groups,
        "may_add": bool(_managed_policies(actor)),
        **_crumbs(),
    }
    return render(request, "contrib/notices/rules.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def rule(request: HttpRequest, rule: int) -> HttpResponse:
    """Show one rule; POST changes it if the actor decides there."""
    actor, now = actor_of(request), clock.now()
    line = rule_services.get_rule(id=rule, at=now, actor=actor)
    initial = RuleForm.initial_of(line.rule.is_on, line.terms, line.rule.version)
    form = RuleForm(request.POST or None, kind=line.kind, initial=initial)
    if request.method == "POST" and _set_rule(form, line.rule.policy, actor):
        messages.success(request, _("Saved"))
        return SeeOther(reverse("pages:notice-rules"))
    context = {"form": form, "kind": line.kind, "row": draw_rule(line), "is_new": False, **_crumbs(line.kind)}
    return render(request, "contrib/notices/rule.html", context, status=form.status)


@require_http_methods(["GET", "HEAD", "POST"])
def new_rule(request: HttpRequest) -> HttpResponse:
    """Ask for kind and policy of a new rule, then for its limits."""
    actor = actor_of(request)
    managed = _managed_policies(actor)
    if not managed:
        raise NotAllowed(_("Rules are set by administrators, and by managers of a whole policy."))
    choice = ScopeForm(request.GET if request.GET else None, policies=managed)
    if not request.GET or not choice.is_valid():
        return render(request, "contrib/notices/rule_place.html", {"form": choice, **_crumbs()}, status=choice.status)
    kind = kind_of(choice.cleaned_data["kind"])
    policy = place_of(policy_slug=choice.cleaned_data["policy"], actor=actor).policy
    lines = rule_services.list_rules(policy_slug=choice.cleaned_data["policy"], at=clock.now(), actor=actor)
    existing = next((line for line in lines if line.kind is kind and line.rule.policy == policy), None)
    if existing is not None and request.method != "POST":
        return SeeOther(reverse("pages:notice-rule", kwargs={"rule": existing.rule.pk}))
    form = RuleForm(request.POST or None, kind=kind, initial=RuleForm.initial_of(True, kind.defaults(), NEW))
    if request.method == "POST" and _set_rule(form, policy, actor):
        messages.success(request, _("Saved"))
        return SeeOther(reverse("pages:notice-rules"))
    row = {"place": _place_text(policy), "may_change": True}
    context = {"form": form, "kind": kind, "row": row, "is_new": True, **_crumbs(kind)}
    return render(request, "contrib/notices/rule.html", context, status=form.status)


@require_POST
def remove_rule(request: HttpRequest, rule: int) -> HttpResponse:
    rule_services.remove_rule(id=rule, version=read_action(request).version, at=clock.now(), actor=actor_of(request))
    messages.success(request, _("Removed"))
    return SeeOther(reverse("pages:notice-rules"))


def draw_rule(line: RuleRow) -> dict[str, Any]:
    rule = line.rule
    return {
        "id": rule.pk,
        "is_on": rule.is_on,
        "limits": [(term.name, term.title, line.terms[term.name]) for term in line.kind.terms],
        "version": rule.version,
        "may_change": line.may_change,
        "place": _place_text(rule.policy),
        "is_site": rule.policy is None,
        "author": display_name(rule.author_name),
        "changed_at": rule.changed_at,
    }


def _place_text(policy: Policy | None) -> str:
    return _("The whole site") if policy is None else policy.name


def _set_rule(form: RuleForm, policy: Policy | None, actor: Actor) -> bool:
    """Store the rule; False if it is invalid or refused, with the errors in the form."""
    if not form.is_valid():
        return False
    cleaned_data = form.cleaned_data
    try:
        rule_services.set_rule(
            kind=form.kind.name,
            policy=policy,
            is_on=cleaned_data["is_on"],
            terms=form.terms(),
            version=cleaned_data["version"],
            at=clock.now(),
            actor=actor,
        )
    except NotAllowed:
        raise
    except DomainError as error:
        form.add_refusal(error)
        return False
    return True


def _managed_policies(actor: Actor) -> list[tuple[str, str]]:
    """Policies for which the actor sets rules."""
    managed = [policy for policy in list_policies(actor=actor) if may_set(Place(policy), clock.now(), actor)]
    return [(policy.slug, policy.name) for policy in managed]


def _crumbs(kind: Kind | None = None) -> dict[str, Any]:
    notices, own = reverse("pages:notices"), reverse("pages:notice-rules")
    crumbs: list[dict[str, Any]] = [{"label": _("Notices"), "url": notices}, {"label": _("Rules")}]
    if kind is not None:
        crumbs[-1]["url"] = own
        crumbs.append({"label": kind.title})
    return {"crumbs": crumbs}
