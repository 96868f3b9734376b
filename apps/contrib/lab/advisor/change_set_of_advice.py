"""A draft with what the newest advice changes of a policy's settings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.contrib.lab.advisor.records import Advice
from apps.contrib.lab.advisor.runs import stored_advice
from apps.contrib.lab.experiments.permissions import policy_to_manage
from apps.core.errors import Conflict
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import ChangeSet
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set
from apps.policies.settings import PolicySettings


def make_change_set_of_advice(*, policy_slug: str, at: datetime, actor: Actor) -> ChangeSet:
    """Make a draft of the actor with the advised settings, whose reason is the advice.

    Raises:
        NotAllowed: the actor doesn't manage the whole policy.
        Conflict: `nothing_to_change` where nothing is advised, or the published settings are the advised ones.
    """
    policy = policy_to_manage(slug=policy_slug, at=at, actor=actor)
    advice = stored_advice(policy, at).advice
    published = settings_of(policy, policy.head_number)
    changed = {} if advice is None or not advice.is_change else _changed(published, advice)
    if advice is None or not changed:
        raise Conflict(_("The advice changes nothing of the policy."), code="nothing_to_change")
    new = NewChangeSet(operations=[{"op": "set_policy", "settings": changed}], reason=advice.sentence)
    return make_change_set(policy_slug=policy_slug, new=new, at=at, actor=actor)


def _changed(published: PolicySettings, advice: Advice) -> dict[str, Mapping[str, Any]]:
    """The algorithm and the window that are advised, each whole, where they differ from the published ones."""
    advised: dict[str, Mapping[str, Any]] = {
        "algorithm": {name: value for name, value in advice.algorithm.items() if value is not None}
    }
    if advice.half_life_s is not None:
        advised["window"] = {"aging": advice.aging, "half_life_s": int(advice.half_life_s)}
    wanted = PolicySettings.from_json(advised, base=published)
    parts = ((part, getattr(published, part), getattr(wanted, part)) for part in advised)
    return {part: dict(after) for part, before, after in parts if before != after}
