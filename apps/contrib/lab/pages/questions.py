"""The classic questions about a policy, each one experiment on the site's own jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Min
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.accounts.actor import Actor
from apps.contrib.lab.experiments.replay_records import own_sources
from apps.contrib.lab.experiments.selectors import estimate_experiment
from apps.contrib.lab.experiments.spec import MOST_VARIANTS, REPLAY
from apps.contrib.lab.experiments.variant_trees import entry_named
from apps.core.errors import FieldProblem, Invalid
from apps.engine.operators import all_operators
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.series.daily_series import last_complete_day, site_zone
from apps.usage.models import SiteDay

Json = dict[str, Any]
_DAY_S = 86_400
QUARTER_DAYS = 90
HALF_LIVES_S = (7 * _DAY_S, 14 * _DAY_S)
MOST_ENTRIES = 200  # to choose from


@dataclass(frozen=True, slots=True)
class EntryChoice:
    uid: str
    path: str


@dataclass(frozen=True)
class Question:
    """variants: of the policy and the chosen entry, as JSON of an experiment. has_entry: whether one is chosen."""

    key: str
    title: str | Promise
    text: str | Promise
    variants: Callable[[Policy, str], list[Json]]
    has_entry: bool = False

    def spec(self, policy: Policy, entry: str, workload: Json) -> Json:
        """JSON of the experiment. Raises Invalid for a wrong entry."""
        return {"workload": workload, "base": {}, "variants": self.variants(policy, entry), "seed": 1}

    def experiment_name(self, policy: Policy, entry: str) -> str:
        if not self.has_entry:
            return str(self.title)
        return _("What if %(path)s doubles?") % {"path": _path_of(policy, entry)}

    def sentence(self, policy: Policy, spec: Mapping[str, Any]) -> str:
        """What would be simulated."""
        names = ", ".join(variant["name"] for variant in spec["variants"])
        if spec["workload"]["kind"] == REPLAY:
            values = {"n": spec["workload"]["days"], "names": names}
            return _("The site’s own jobs of %(n)s days, with the policy as published and with: %(names)s.") % values
        return _("Drawn jobs, with the policy as published and with: %(names)s.") % {"names": names}


def drawn_workload() -> Json:
    """Jobs of all users, in proportion to their targets, for a site that has no records."""
    return {
        "kind": "synthetic",
        "hours": 96,
        "sites": [{"name": "site", "cpus": 100}],
        "all_users": {"load": 1.1},
    }


def usual_workload(policy: Policy, *, at: datetime, actor: Actor) -> Json:
    """The site's own jobs of a quarter, or since its first day; drawn jobs where none can be replayed."""
    first_on = SiteDay.objects.filter(source__in=own_sources()).aggregate(first=Min("day"))["first"]
    if first_on is None:
        return drawn_workload()
    last_on = last_complete_day(at, site_zone())
    replay: Json = {"kind": REPLAY, "days": max(1, min(QUARTER_DAYS, (last_on - first_on).days + 1))}
    try:
        estimate_experiment(policy_slug=policy.slug, spec={"workload": replay}, at=at, actor=actor)
    except Invalid as error:
        if error.code not in ("no_jobs", "no_submit_times"):
            return replay  # what is wrong is said where it is asked for
        return drawn_workload()
    return replay


def entry_choices(policy: Policy) -> list[EntryChoice]:
    """Entries with shares of their own, the upper levels first."""
    tree = load_tree(policy)
    choices = []
    for i in range(1, len(tree)):
        if not tree.inherit[i] and not tree.is_reserve[i]:
            choices.append(EntryChoice(str(tree.uuid(i)), tree.path(i)))
        if len(choices) == MOST_ENTRIES:
            break
    return choices


def _half_lives(policy: Policy, _entry: str) -> list[Json]:
    """Those that the policy doesn't have already."""
    own = settings_of(policy, policy.head_number).window
    is_exponential = own.get("aging") == "exponential"
    variants = []
    for half_life_s in HALF_LIVES_S:
        if is_exponential and own.get("half_life_s") == half_life_s:
            continue
        window: Json = {"half_life_s": half_life_s}
        if not is_exponential:
            window["aging"] = "exponential"
        days = half_life_s // _DAY_S
        variants.append({"name": _("Half-life %(n)s days") % {"n": days}, "settings": {"window": window}})
    return variants


def _doubled(policy: Policy, entry: str) -> list[Json]:
    path = _path_of(policy, entry)
    uid = str(load_tree(policy).uuid(_index_of(policy, entry)))
    return [
        {"name": _("Twice the jobs of %(path)s") % {"path": path}, "entries": [{"entry": uid, "jobs_times": 2}]},
        {"name": _("Twice the shares of %(path)s") % {"path": path}, "entries": [{"entry": uid, "shares_times": 2}]},
        {
            "name": _("Twice the jobs and shares of %(path)s") % {"path": path},
            "entries": [{"entry": uid, "jobs_times": 2, "shares_times": 2}],
        },
    ]


def _operators(policy: Policy, _entry: str) -> list[Json]:
    """The operators that the policy doesn't use. Another algorithm than ours is compared with ours."""
    own = settings_of(policy, policy.head_number).algorithm
    names = [operator.name for operator in all_operators() if operator.name != own.get("operator")]
    chosen = [name for name in _FIRST_OPERATORS if name in names]
    chosen += [name for name in names if name not in chosen]
    named = {} if own.get("name") == "aequus" else {"name": "aequus"}
    return [
        {"name": _("Operator %(name)s") % {"name": name}, "settings": {"algorithm": {**named, "operator": name}}}
        for name in chosen[:MOST_VARIANTS]
    ]


_FIRST_OPERATORS = ("relative", "absolute", "combined", "sigmoid")


def _index_of(policy: Policy, entry: str) -> int:
    i = entry_named(load_tree(policy), entry)
    if i is None or i == 0:
        message = _("Choose an entry of the policy.")
        raise Invalid(message, fields=[FieldProblem("entry", message)])
    return i


def _path_of(policy: Policy, entry: str) -> str:
    return load_tree(policy).path(_index_of(policy, entry))


QUESTIONS: Mapping[str, Question] = {
    each.key: each
    for each in (
        Question(
            "half-life",
            gettext_lazy("Half-life 7 or 14 days?"),
            gettext_lazy("How waits and shares change with how long past usage counts."),
            _half_lives,
        ),
        Question(
            "project",
            gettext_lazy("What if a project doubles?"),
            gettext_lazy("Twice the jobs, twice the shares, or both: who waits longer."),
            _doubled,
            has_entry=True,
        ),
        Question(
            "operator",
            gettext_lazy("Which operator would have served last quarter best?"),
            gettext_lazy("The other operators beside the policy’s own, on the same jobs."),
            _operators,
        ),
    )
}
