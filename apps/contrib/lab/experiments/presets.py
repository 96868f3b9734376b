"""Three classic questions as experiments on this policy, ready to be estimated and made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.contrib.lab.comparison.replay import MOST_REPLAY_DAYS
from apps.contrib.lab.experiments.permissions import policy_to_manage
from apps.contrib.lab.experiments.spec import MOST_VARIANTS, REPLAY
from apps.contrib.lab.experiments.variant_trees import entry_named, no_entry
from apps.engine.operators import NAMES
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import Policy
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import load_tree

MONTH_DAYS = 30
DAY_S = 86_400
_HALF_LIVES_DAYS = (7, 14)
_OPERATORS = ("relative", "absolute", "sigmoid", "combined", "slurm")


@dataclass(frozen=True, slots=True)
class Preset:
    name: Annotated[str, "Stable"]
    title: Annotated[str, "The question, and a name for the experiment"]
    text: str
    spec: Annotated[Mapping[str, Any], "To be sent to make the experiment"]


def list_presets(*, policy_slug: str, entry: str = "", at: datetime, actor: Actor) -> tuple[Preset, ...]:
    """All that fit. entry: path or uid of the project that doubles; without one, that question is left out.

    Raises Invalid for an entry that isn't in the policy.
    """
    policy = policy_to_manage(slug=policy_slug, at=at, actor=actor)
    if policy.head_number == 0:
        return ()
    settings = settings_of(policy, policy.head_number)
    doubled = (project_doubles(policy, entry),) if entry else ()
    return (half_life(settings), *doubled, best_operator(settings))


def half_life(settings: PolicySettings) -> Preset:
    """A half-life of 7 and of 14 days, on the days of advice. The one that the policy has is the base alone."""
    window = settings.window
    wanted = [{"aging": "exponential", "half_life_s": days * DAY_S} for days in _HALF_LIVES_DAYS]
    variants = [{"settings": {"window": each}} for each in wanted if not each.items() <= window.items()]
    return Preset(
        "half_life",
        _("Half-life 7 or 14 days?"),
        _("Replays the jobs of the last %(days)s days with each half-life of past usage.") % {"days": MOST_REPLAY_DAYS},
        _spec(MOST_REPLAY_DAYS, variants),
    )


def project_doubles(policy: Policy, entry: str) -> Preset:
    """Twice the shares, twice the jobs, and both, on the last month."""
    tree = load_tree(policy)
    i = entry_named(tree, entry)
    if not i:
        raise no_entry("entry", entry)
    uid = str(tree.uuid(i))
    doublings = ({"shares_times": 2.0}, {"jobs_times": 2.0}, {"shares_times": 2.0, "jobs_times": 2.0})
    return Preset(
        "project_doubles",
        _("What if %(path)s doubles?") % {"path": tree.path(i)},
        _("Replays the jobs of the last 30 days with twice its shares, twice its jobs, and both."),
        _spec(MONTH_DAYS, [{"entries": [{"entry": uid, **each}]} for each in doublings]),
    )


def best_operator(settings: PolicySettings) -> Preset:
    """Other operators than the policy's own, on the days of advice."""
    algorithm = settings.algorithm
    own = algorithm.get("operator") if algorithm["name"] == "aequus" else None
    others = [name for name in _OPERATORS if name in NAMES and name != own][:MOST_VARIANTS]
    name = {} if own else {"name": "aequus"}
    variants = [{"settings": {"algorithm": {**name, "operator": operator}}} for operator in others]
    return Preset(
        "operator",
        _("Which operator would have served best?"),
        _("Replays the jobs of the last %(days)s days with each operator. A better one is nearer to fair use.")
        % {"days": MOST_REPLAY_DAYS},
        _spec(MOST_REPLAY_DAYS, variants),
    )


def _spec(days: int, variants: list[dict[str, Any]]) -> dict[str, Any]:
    return {"workload": {"kind": REPLAY, "days": days}, "base": {}, "variants": variants, "seed": 1}
