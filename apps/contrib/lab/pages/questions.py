"""The presets as the lab's page asks them: on the site's own jobs, or on drawn ones where none can be replayed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.accounts.actor import Actor
from apps.contrib.lab.experiments.presets import Preset, list_presets
from apps.contrib.lab.experiments.records import Estimate
from apps.contrib.lab.experiments.selectors import estimate_experiment
from apps.core.errors import Invalid
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree

Json = dict[str, Any]
OF_AN_ENTRY = "project_doubles"  # the preset that is about a chosen entry
NO_OWN_JOBS = ("no_jobs", "no_submit_times")
MOST_ENTRY_CHOICES = 200  # to choose from
USUAL_DAYS = 30


@dataclass(frozen=True, slots=True)
class EntryChoice:
    uid: str
    path: str


@dataclass(frozen=True)
class Estimated:
    """What an experiment would need. is_drawn: its jobs are drawn, because the site's own ones can't be replayed."""

    spec: Json
    estimate: Estimate
    is_drawn: bool


def entry_choices(tree: TreeColumns) -> list[EntryChoice]:
    """Entries with shares of their own, the upper levels first."""
    choices = []
    for i in range(1, len(tree)):
        if not tree.inherit[i] and not tree.is_reserve[i]:
            choices.append(EntryChoice(str(tree.uuid(i)), tree.path(i)))
        if len(choices) == MOST_ENTRY_CHOICES:
            break
    return choices


def questions_of(policy: Policy, entry: str, *, at: datetime, actor: Actor) -> dict[str, Preset]:
    """By name. entry: empty for the first that there is. Raises Invalid for an unknown one."""
    if not entry:
        entry = next((choice.uid for choice in entry_choices(load_tree(policy))), "")
    presets = list_presets(policy_slug=policy.slug, entry=entry, at=at, actor=actor)
    return {preset.name: preset for preset in presets}


def estimated(policy: Policy, preset: Preset, *, at: datetime, actor: Actor) -> Estimated:
    """The preset's experiment with its estimate. Raises Invalid and Conflict as `estimate_experiment`."""
    spec, is_drawn = dict(preset.spec), False
    try:
        estimate = estimate_experiment(policy_slug=policy.slug, spec=spec, at=at, actor=actor)
    except Invalid as error:
        if error.code not in NO_OWN_JOBS:
            raise
        spec, is_drawn = spec | {"workload": drawn_workload()}, True
        estimate = estimate_experiment(policy_slug=policy.slug, spec=spec, at=at, actor=actor)
    return Estimated(spec, estimate, is_drawn)


def drawn_workload() -> Json:
    """Jobs of all users, in proportion to their targets, for a site that has no records."""
    return {
        "kind": "synthetic",
        "hours": 96,
        "sites": [{"name": "site", "cpus": 100}],
        "all_users": {"load": 1.1},
    }
