"""What a variant changes of the base, in words: each variant is named by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.contrib.lab.experiments.records import Changed
from apps.contrib.lab.experiments.scenario_base import scenario_spec, settings_of_base, tree_of_base
from apps.contrib.lab.experiments.scenario_titles import title_of_scenario
from apps.contrib.lab.experiments.spec import SETTINGS, Changes, ExperimentSpec, read_spec
from apps.contrib.lab.experiments.variant_trees import entry_named
from apps.core.errors import Invalid
from apps.policies.models import Policy
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns

_LABELS: dict[str, str | Promise] = {
    "settings.algorithm.name": gettext_lazy("Algorithm"),
    "settings.algorithm.operator": gettext_lazy("Operator"),
    "settings.algorithm.resolution": gettext_lazy("Resolution"),
    "settings.algorithm.k": gettext_lazy("Weight of absolute (k)"),
    "settings.window.half_life_s": gettext_lazy("Half-life"),
    "settings.window.length_s": gettext_lazy("Window"),
    "settings.window.aging": gettext_lazy("Decay function"),
    "settings.approach.local": gettext_lazy("Approach to local usage"),
    "settings.approach.global": gettext_lazy("Approach to global usage"),
    "refresh_s": gettext_lazy("Refresh of global usage"),
    "priority_refresh_s": gettext_lazy("Recompute of priorities"),
    "scope": gettext_lazy("Scope"),
    "noise.usage_delay_s": gettext_lazy("Delay of usage data"),
    "noise.loss": gettext_lazy("Lost usage data"),
    "noise.resolution": gettext_lazy("Steps of known shares"),
    "imbalance": gettext_lazy("Load imbalance"),
    "jobs_times": gettext_lazy("Jobs"),
    "backfill": gettext_lazy("Backfill"),
    "change_set": gettext_lazy("Draft"),
}
_UNITS_S = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))
_PARTS = ("noise.loss", "imbalance")


def title_of(policy: Policy, revision: int, spec: ExperimentSpec, index: int) -> str:
    """The name that it was given, or what it changes. revision: that of the base, also after a later one."""
    variant = spec.base if index == 0 else spec.variants[index - 1]
    if variant.name:
        return variant.name
    if index == 0 and spec.scenario:
        is_shipped = spec.base == read_spec(scenario_spec(spec.scenario)).base
        return title_of_scenario(spec.scenario) if is_shipped else _("Base")
    if index == 0:
        return _("The policy as published") if _is_unchanged(spec.base) else _("Base")
    titles = [f"{each.label} {each.after}" for each in changes_of(policy, revision, spec, index)]
    return ", ".join(titles) or _("Nothing changed")


def _is_unchanged(changes: Changes) -> bool:
    return changes == Changes(name=changes.name)


def changes_of(policy: Policy, revision: int, spec: ExperimentSpec, index: int) -> tuple[Changed, ...]:
    """What the variant changes of the base; of the base, what it changes of the policy."""
    before, after = (Changes(), spec.base) if index == 0 else (spec.base, spec.setup(index))
    return tuple(_changes(policy, revision, spec, before, after))


def _changes(policy: Policy, revision: int, spec: ExperimentSpec, before: Changes, after: Changes) -> Iterator[Changed]:
    if after.change_set is not None:
        yield _changed("change_set", "", _("change set %(id)s") % {"id": after.change_set})
    own = settings_of_base(policy, revision, spec)
    yield from _changed_settings(_merged(own, before), _merged(own, after))
    yield from _changed_entries(tree_of_base(policy, spec), before, after)
    for name in ("refresh_s", "priority_refresh_s", "scope", "imbalance", "jobs_times", "backfill"):
        was, now = getattr(before, name), getattr(after, name)
        if was != now:
            yield _changed(name, _text(name, was), _text(name, now))
    for name in ("usage_delay_s", "loss", "resolution"):
        was, now = (getattr(each.noise, name) if each.noise else 0 for each in (before, after))
        if was != now:
            yield _changed(f"noise.{name}", _text(f"noise.{name}", was), _text(f"noise.{name}", now))


def _merged(own: PolicySettings, changes: Changes) -> Mapping[str, Any]:
    try:
        return PolicySettings.from_json(changes.settings, base=own).to_json()
    except Invalid:  # an algorithm that this installation no longer has
        return {part: {**getattr(own, part), **changes.settings.get(part, {})} for part in SETTINGS}


def _changed_settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Changed]:
    for part in SETTINGS:
        for name in dict.fromkeys([*after[part], *before[part]]):
            was, now = before[part].get(name), after[part].get(name)
            if was != now and name in after[part]:
                field = f"settings.{part}.{name}"
                yield _changed(field, _text(field, was), _text(field, now))


def _changed_entries(tree: TreeColumns, before: Changes, after: Changes) -> Iterator[Changed]:
    for change in after.entries:
        if change in before.entries:
            continue
        i = entry_named(tree, change.entry)
        path = change.entry if i is None else tree.path(i)
        for name, times, label in (
            ("shares_times", change.shares_times, _("Shares of %(path)s")),
            ("jobs_times", change.jobs_times, _("Jobs of %(path)s")),
        ):
            if times != 1.0:
                yield Changed(f"entries.{name}", label % {"path": path}, "", f"× {times:g}")


def _changed(field: str, before: str, after: str) -> Changed:
    return Changed(field, str(_LABELS.get(field, field.rpartition(".")[2])), before, after)


def _text(field: str, value: Any) -> str:
    """A value as a person writes it."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if field.endswith("_s") and isinstance(value, int | float):
        unit_s, unit = next((each for each in _UNITS_S if value >= each[0] and value % each[0] == 0), (1.0, "s"))
        return f"{value / unit_s:g} {unit}"
    if field in _PARTS:
        return f"{100 * value:g} %"
    if field == "jobs_times":
        return f"× {value:g}"
    return f"{value:.10g}" if isinstance(value, int | float) else str(value)
