"""The accounts that a policy's entries of Slurm's associations of one partition need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from apps.accounts.account_keys import AccountKey
from apps.mapping.rules.entry_names import text_of
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import load_rules
from apps.mapping.rules.slurm_accounts import account_of_entry
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.slurm_associations import SEPARATOR, split_association
from apps.policies.tree.stored import load_tree
from apps.usage.models import Source
from apps.usage.records.partition_usage import register_partition_accounts


def register_partitions_of(policy: Policy, *, at: datetime) -> int:
    """Let jobs count for the policy's entries of one partition, in its newest revision."""
    return register_partitions(load_tree(policy), load_rules(policy), at=at)


def register_partitions(tree: TreeColumns, rules: Sequence[Rule], *, at: datetime) -> int:
    """As `register_partitions_of`, for a tree and stored rules; returns the number of accounts that are new as such."""
    if not any(rule.kind == "association" for rule in rules):
        return 0
    return register_partition_accounts(_accounts(tree, rules), at=at)


def _accounts(tree: TreeColumns, rules: Sequence[Rule]) -> Iterator[AccountKey]:
    entries = [
        i for i, name in enumerate(tree.name) if SEPARATOR in name and not tree.is_group[i] and not tree.is_reserve[i]
    ]
    namespaces = _Namespaces()
    for rule in rules:
        top = tree.index_of_uid(rule.target_uid) if rule.kind == "association" else None
        for i in entries if top is not None else ():
            user, partition = split_association(text_of(tree.name[i]))
            account = account_of_entry(tree, top or 0, int(tree.parent[i])) if partition else None
            if account is not None:
                keys = [AccountKey(name, user, account, project=partition) for name in namespaces.of(rule)]
                yield from filter(rule.matches, keys)


class _Namespaces:
    """Those in which a rule maps accounts."""

    def __init__(self) -> None:
        self._of_sources: dict[str, str] | None = None

    def of(self, rule: Rule) -> Sequence[str]:
        if rule.namespace:
            return (rule.namespace,)
        if self._of_sources is None:
            sources = Source.objects.exclude(kind=Source.Kind.PEER)
            self._of_sources = dict(sources.values_list("slug", "namespace"))
        if rule.source:
            return tuple(name for slug, name in self._of_sources.items() if slug == rule.source)
        return tuple(dict.fromkeys(self._of_sources.values()))
