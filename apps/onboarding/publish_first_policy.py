"""Publish a first policy: the tree as revision 1, and the rules that map the log's accounts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.core.errors import Conflict
from apps.mapping.services import set_rules
from apps.onboarding.default_rules import default_rules
from apps.onboarding.first_policy_draft import LogState, locked, log_state, tree_of
from apps.policies.models import Policy
from apps.policies.publishing.first_revision import begin_policy
from apps.policies.settings import PolicySettings


def found_policy(
    *, version: int, slug: str, name: str, settings: Mapping[str, Any], reason: str, at: datetime, actor: Actor
) -> Policy:
    """settings: parts of PolicySettings; what they leave out is as the file says, else as usual."""
    with transaction.atomic():
        beginning = locked(version, actor)
        if log_state(beginning) is not LogState.READY or beginning.source is None:
            raise Conflict(_("The accounting log is missing: import it, or use a source with usage."))
        tree = tree_of(beginning)
        base = PolicySettings.from_json(beginning.file_settings)
        wanted = PolicySettings.from_json(settings, base=base)
        policy = begin_policy(slug=slug, name=name, tree=tree, settings=wanted, reason=reason, at=at, actor=actor)
        rules = default_rules(tree, beginning.source.namespace, beginning.decisions)
        set_rules(policy_slug=slug, rules=rules, reason=reason, at=at, actor=actor)
        beginning.is_open, beginning.policy, beginning.updated_at = False, policy, at
        beginning.save(update_fields=["is_open", "policy", "updated_at"])
    return policy
