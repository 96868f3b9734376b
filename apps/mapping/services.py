"""Replace all mapping rules of a policy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.core.errors import NotAllowed
from apps.mapping.changes import refuse_invalid_rules, with_reach, write_rules
from apps.mapping.permissions import MapRights
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import load_rules
from apps.mapping.versions import sort_by_tier, store_version, version_of
from apps.policies.access.scope import administers_within_bounds
from apps.policies.publishing.revisions import lock_policy
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import load_tree


@transaction.atomic
def set_rules(*, policy_slug: str, rules: Sequence[Rule], reason: str = "", at: datetime, actor: Actor) -> int:
    """Replace the rules of a policy; return its new version. Equal rules change nothing.

    For administrators and set-up code; pages and REST change rules by `changes`.
    """
    policy = get_policy(slug=policy_slug, actor=actor, scope="policies:write")
    policy = lock_policy(policy.pk)
    rights = MapRights(policy, load_tree(policy), actor, at)
    if not (administers_within_bounds(actor, Token.Scope.ADMIN) and rights.may_map(0)):
        raise NotAllowed(_("Only an administrator can replace all mapping rules."))
    stored = sort_by_tier(list(load_rules(policy)))
    refuse_invalid_rules(rights, rules)
    wanted = with_reach(rights, sort_by_tier(rules), stored, at=at)
    if stored == wanted:
        return version_of(policy)
    write_rules(policy, wanted)
    number = store_version(policy, rules=wanted, reason=reason, at=at, actor=actor)
    details = {"version": number, "rules": [rule.to_json() for rule in wanted[:100]]}
    audit.record(actor=actor, verb="mapping.changed", at=at, policy_slug=policy.slug, reason=reason, details=details)
    return number
