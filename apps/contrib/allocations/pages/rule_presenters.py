"""Rules of allocations and their steps as texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.contrib.allocations.models import RuleStep
from apps.contrib.allocations.pages.forms import day_text
from apps.contrib.allocations.pages.presenters import amount, quantity, tab_url
from apps.contrib.allocations.pages.rule_form import KIND_LABELS, MODE_LABELS
from apps.contrib.allocations.rules.kinds import (
    aging,
    carry_over,
    last_when_used_up,
    portions,
    pull_back,
    thresholds,
)
from apps.contrib.allocations.rules.step import (
    AmountEffect,
    CarryEffect,
    Effect,
    LimitsEffect,
    SharesEffect,
    Step,
)
from apps.policies.allocation_rules import AllocationRule, PullBack
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.sentences import numbers
from apps.web.shell import presentation

_MOST_EFFECTS = 6
_MOST_SHOWN_NUMBERS = 12
_MODE_CSS = {"off": "", "shadow": "info", "on": "ok"}


@dataclass(frozen=True, slots=True)
class RuleLine:
    """A rule. next_step: its first step in the year ahead; past: how often it would have acted in the past year."""

    name: str
    kind: str
    mode: str
    mode_label: str
    mode_css: str
    formula: str
    entries: str
    unit: str
    next_step: str
    past: str
    matches_none: bool


@dataclass(frozen=True, slots=True)
class StepLine:
    """One step. url: of the entry's allocations. numbers: of the formula. revision: that took it, with its address."""

    day: str
    rule: str
    path: str
    url: str
    what: str
    formula: str
    numbers: str
    revision: int | None = None
    revision_url: str = ""


def formula_of(rule: AllocationRule) -> str:
    if isinstance(rule.terms, PullBack):
        return pull_back.FORMULA if rule.terms.of == "planned" else pull_back.FORMULA_OF_UNUSED
    modules = {
        "thresholds": thresholds,
        "last_when_used_up": last_when_used_up,
        "carry_over": carry_over,
        "portions": portions,
        "aging": aging,
    }
    return str(modules[rule.kind].FORMULA)


def headline(rules: Sequence[AllocationRule], ahead: Sequence[Step], view: PolicyView) -> str:
    """The page's title: how many rules are on, and the next day on which one acts."""
    n = sum(rule.is_on for rule in rules)
    on = {rule.name for rule in rules if rule.is_on}
    first = next((step for step in ahead if step.rule in on and step.effects), None)
    if not n:
        return _("No rule is on")
    title = ngettext("%(n)s rule is on", "%(n)s rules are on", n) % {"n": n}
    if first is None:
        return title
    words = {"title": title, "day": day_text(first.on, view.now), "path": first.path}
    return _("%(title)s; next, if use continues: %(day)s, %(path)s") % words


def rule_line(rule: AllocationRule, view: PolicyView, ahead: Sequence[Step], past: Sequence[Step]) -> RuleLine:
    own = [step for step in ahead if step.rule == rule.name and step.effects]
    n_past = sum(step.rule == rule.name and bool(step.effects) for step in past)
    next_step = ""
    if own:
        words = {"day": day_text(own[0].on, view.now), "path": own[0].path}
        next_step = _("If use continues: %(day)s, %(path)s") % words
    paths = (view.tree.path(i) for i in range(1, len(view.tree)))
    return RuleLine(
        name=rule.name,
        kind=str(KIND_LABELS[rule.kind]),
        mode=rule.mode,
        mode_label=str(MODE_LABELS[rule.mode]),
        mode_css=_MODE_CSS[rule.mode],
        formula=formula_of(rule),
        entries=", ".join(rule.entries) or _("all"),
        unit=rule.unit,
        next_step=next_step,
        past=ngettext("%(n)s step in the past year", "%(n)s steps in the past year", n_past) % {"n": n_past},
        matches_none=bool(rule.entries) and not any(rule.concerns(path) for path in paths),
    )


def step_line(step: Step, view: PolicyView) -> StepLine:
    shown = step.numbers[:_MOST_SHOWN_NUMBERS]
    i = view.tree.index_of_uid(step.entry_uid)
    return StepLine(
        day=day_text(step.on, view.now),
        rule=step.rule,
        path=step.path,
        url=tab_url(view.policy.slug, step.entry_uid, view.tree.name[i]) if i is not None else "",
        what=_effects_text(step, view),
        formula=step.formula,
        numbers=_numbers_text(shown, len(step.numbers) - len(shown)),
    )


def _numbers_text(shown: Sequence[tuple[str, float]], n_more: int) -> str:
    texts = [f"{name} = {number_text(value)}" for name, value in shown]
    if n_more > 0:
        texts.append(ngettext("%(n)s more", "%(n)s more", n_more) % {"n": n_more})
    return "; ".join(texts)


def number_text(value: float) -> str:
    """A number of a formula: whole from a hundred on, with up to three significant digits below."""
    return numbers.count(round(value)) if abs(value) >= 100 else presentation.shares_short(value)


def _effects_text(step: Step, view: PolicyView) -> str:
    if not step.effects:
        return _("nothing to change")
    texts = [_effect_text(effect, step, view) for effect in step.effects[:_MOST_EFFECTS]]
    n_more = len(step.effects) - len(texts)
    if n_more:
        texts.append(ngettext("%(n)s more", "%(n)s more", n_more) % {"n": n_more})
    return "; ".join(texts)


def _effect_text(effect: Effect, step: Step, view: PolicyView) -> str:
    if isinstance(effect, SharesEffect):
        i = view.tree.index_of_uid(effect.entry_uid)
        words = {
            "before": presentation.shares_short(effect.before),
            "after": presentation.shares_short(effect.after),
            "name": view.tree.name[i] if i is not None and effect.entry_uid != step.entry_uid else "",
        }
        if words["name"]:
            return _("shares of %(name)s %(before)s → %(after)s") % words
        return _("shares %(before)s → %(after)s") % words
    if isinstance(effect, AmountEffect):
        return _("amount %(before)s → %(after)s") % {"before": amount(effect.before), "after": amount(effect.after)}
    if isinstance(effect, CarryEffect):
        words = {"n": quantity(effect.amount, effect.unit), "day": day_text(effect.ends_on, view.now)}
        return _("%(n)s carried over, until %(day)s") % words
    if isinstance(effect, LimitsEffect):
        return limits_text(effect.qos, effect.grp_tres_mins)
    return _("notice at %(n)s") % {"n": percent_text(effect.percent)}


def percent_text(percent: float) -> str:
    return numbers.percent(percent / 100, 0 if percent % 1 == 0 else 1)


def limits_text(qos: str | None, minutes: Sequence[tuple[str, int]] | None) -> str:
    texts = [f"QOS {qos}"] if qos else []
    if minutes:
        texts.append("GrpTRESMins " + ",".join(f"{name}={n}" for name, n in minutes))
    return "; ".join(texts) or _("limits cleared")


def taken_line(step: RuleStep, view: PolicyView) -> StepLine:
    facts: dict[str, Any] = step.facts
    i = view.tree.index_of_uid(step.entry_uid)
    all_numbers = [(name, value) for name, value in facts["numbers"]]
    shown = all_numbers[:_MOST_SHOWN_NUMBERS]
    if step.number is not None:
        what = _("revision %(n)s") % {"n": step.number}
    elif facts["percent"] is not None:
        what = _("notice at %(n)s") % {"n": percent_text(facts["percent"])}
    else:
        what = _("nothing to change")
    diff = reverse("pages:diff", kwargs={"policy": view.policy.slug})
    return StepLine(
        day=day_text(step.on, view.now),
        rule=step.rule,
        path=facts["path"],
        url=tab_url(view.policy.slug, step.entry_uid, view.tree.name[i]) if i is not None else "",
        what=what,
        formula=facts["formula"],
        numbers=_numbers_text(shown, len(all_numbers) - len(shown)),
        revision=step.number,
        revision_url="" if step.number is None else f"{diff}?to={step.number}",
    )


def switch_reason(name: str, step: str) -> str:
    """Reason of a revision that switches or removes a rule, where none was typed."""
    if step == "remove":
        return _("Rule %(name)s removed.") % {"name": name}
    return _("Rule %(name)s: %(mode)s.") % {"name": name, "mode": MODE_LABELS[step]}
