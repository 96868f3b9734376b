"""After the import of a tree: how many known accounts have an entry, and the mapping rules that its names suggest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.names.account_index import load_roll
from apps.accounts.names.entry_names import is_reserved
from apps.core.errors import FieldProblem, Invalid
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import load_rulebook, load_rules
from apps.mapping.services import set_rules
from apps.onboarding.default_rules import default_rules
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.usage.models import Source


@dataclass(frozen=True)
class Mapped:
    """Accounts of the usage sources, those of them that have an entry, and the rules that there are."""

    n_accounts: int
    n_mapped: int
    n_rules: int


def count_mapped(policy: Policy, tree: TreeColumns) -> Mapped:
    """By the rules of now, in this tree."""
    keys = [key for key in load_roll(remembers=False).keys if not is_reserved(key.namespace)]
    book = load_rulebook(policy, tree)
    n_mapped = int((book.on(tree).resolve_many(keys) != UNMAPPED).sum())
    return Mapped(len(keys), n_mapped, len(book.rules))


@transaction.atomic
def map_by_names(*, policy_slug: str, namespace: str | None, reason: str, at: datetime, actor: Actor) -> int:
    """Add the rules that lead users and groups to entries of their names; return how many are new.

    namespace: whose user names these are; None: that of the usage sources, if they have one, and any names without
    a source.

    Raises:
        Invalid: sources have several namespaces, or none has this one.
    """
    policy = get_policy(slug=policy_slug, actor=actor, scope="policies:write")
    stored = list(load_rules(policy))
    wanted = default_rules(load_tree(policy), _namespace(namespace))
    standing = {rule.stated for rule in stored}
    new = [rule for rule in wanted if rule not in standing]
    set_rules(policy_slug=policy_slug, rules=[*stored, *new], reason=reason, at=at, actor=actor)
    return len(new)


def _namespace(wanted: str | None) -> str:
    known = sorted({name for name in Source.objects.values_list("namespace", flat=True) if not is_reserved(name)})
    if wanted is None and len(known) < 2:
        return known[0] if known else ""
    if wanted in known:
        return wanted
    names = ", ".join(known) or _("none")
    if wanted is None:
        message = _("names one of the namespaces of the usage sources: %(names)s") % {"names": names}
    else:
        message = _("%(name)s is not a namespace of a usage source; choose from %(names)s") % {
            "name": repr(wanted[:80]),
            "names": names,
        }
    raise Invalid(f"--map {message}.", fields=[FieldProblem("--map", message)])
