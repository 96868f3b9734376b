"""Page of a policy's rules of allocations: what they are, the year ahead, the past year, and what they did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from apps.contrib.allocations.pages import rule_form, rule_presenters
from apps.contrib.allocations.pages.forms import zone
from apps.contrib.allocations.pages.rule_form import RuleForm
from apps.contrib.allocations.pages.views import crumbs_of
from apps.contrib.allocations.rules.year import load_ruled, past_year, steps_taken, visible_steps, year_ahead
from apps.contrib.allocations.units import policy_units
from apps.core.errors import Conflict, Invalid
from apps.policies.access.scope import administers_policies
from apps.policies.allocation_rules import KINDS, MODES, rules_of
from apps.policies.services import change_settings
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.web.shell.forms import read_action
from apps.web.shell.publishing import add_published_message
from apps.web.shell.requests import SeeOther, actor_of

MOST_SHOWN_STEPS = 50


@require_http_methods(["GET", "HEAD", "POST"])
def rules(request: HttpRequest, policy: str) -> HttpResponse:
    """List the rules with their years. `?kind=` begins one, `?rule=` changes one; `step` saves, switches or removes."""
    view = open_view(policy_slug=policy, actor=actor_of(request))
    view.require(view.tree.uuid(0))
    declared = view.settings.rules
    if request.method != "POST":
        return _page(request, view, _opened_form(request, view))
    action = read_action(request)
    name = request.POST.get("rule", "")
    before = next((each for each in declared if each["name"] == name), None)
    form = None
    if action.step in ("remove", *MODES) and before is not None:
        changed = [each for each in declared if each is not before]
        if action.step != "remove":
            changed = [each | {"mode": action.step} if each is before else each for each in declared]
        reason = action.reason.strip() or rule_presenters.switch_reason(name, action.step)
    else:
        kind = request.POST.get("kind", "")
        kind = kind if kind in KINDS else next(iter(KINDS))
        n_rows = 0 if before is None else rule_form.initial_of(before)[1]
        form = RuleForm(request.POST, kind=kind, units=policy_units(view.policy), n_rows=n_rows)
        if not form.is_valid():
            return _page(request, view, form, status=422, changes=name)
        new = form.rule()
        changed = [new if each is before else each for each in declared] if before else [*declared, new]
        reason = form.cleaned_data["reason"]
    try:
        revision = change_settings(
            policy_slug=policy, settings={"rules": changed}, reason=reason, at=view.now, actor=view.actor
        )
    except (Invalid, Conflict) as refusal:
        if form is None:
            messages.error(request, refusal.message)
            return _page(request, view, None, status=422)
        form.add_refusal(refusal)
        return _page(request, view, form, status=422, changes=name)
    add_published_message(request, revision)
    return SeeOther(reverse("pages:allocation-rules", kwargs={"policy": policy}))


def _opened_form(request: HttpRequest, view: PolicyView) -> RuleForm | None:
    """The form of the rule or kind that the query names; None where it names none."""
    units = policy_units(view.policy)
    named = next((each for each in view.settings.rules if each["name"] == request.GET.get("rule")), None)
    if named is not None:
        initial, n_rows = rule_form.initial_of(named)
        return RuleForm(initial=initial, kind=named["kind"], units=units, n_rows=n_rows)
    kind = request.GET.get("kind", "")
    if kind not in KINDS:
        return None
    return RuleForm(initial={"mode": "shadow", "most_percent": "100", "most_entries": "1000"}, kind=kind, units=units)


def _page(
    request: HttpRequest, view: PolicyView, form: RuleForm | None, *, status: int = 200, changes: str = ""
) -> HttpResponse:
    ruled = load_ruled(view, zone())
    declared = rules_of(view.settings.rules)
    ahead, past = (
        [step for step in visible_steps(view, steps) if step.effects] for steps in (year_ahead(ruled), past_year(ruled))
    )
    slug = view.policy.slug
    context = {
        "policy": slug,
        "policy_name": view.policy.name,
        "rules": [rule_presenters.rule_line(rule, view, ahead, past) for rule in declared],
        "headline": rule_presenters.headline(declared, ahead, view),
        "ahead": _shown(ahead, view),
        "past": _shown(past, view),
        "taken": [rule_presenters.taken_line(step, view) for step in steps_taken(view, MOST_SHOWN_STEPS)],
        "form": form if administers_policies(view.actor) else None,
        "form_title": _form_title(form, changes or request.GET.get("rule", "")),
        "changes": changes or request.GET.get("rule", ""),
        "kinds": rule_form.kind_choices(),
        "modes": [{"mode": mode, "label": rule_form.MODE_LABELS[mode]} for mode in MODES],
        "may_change": administers_policies(view.actor),
        "crumbs": [*crumbs_of(slug, view.policy.name), {"label": _("Rules")}],
    }
    return render(request, "contrib/allocations/rules.html", context, status=status)


def _form_title(form: RuleForm | None, changes: str) -> str:
    if form is None:
        return _("Add a rule")
    words: Mapping[str, Any] = {"name": changes, "kind": rule_form.KIND_LABELS[form.kind]}
    return _("Change %(name)s") % words if changes else _("New rule: %(kind)s") % words


def _shown(steps: Sequence[Any], view: PolicyView) -> dict[str, Any]:
    """The first steps that change or report something as texts, and how many more there are."""
    lines = [rule_presenters.step_line(step, view) for step in steps[:MOST_SHOWN_STEPS]]
    return {"lines": lines, "n": len(steps), "n_more": max(len(steps) - MOST_SHOWN_STEPS, 0)}
