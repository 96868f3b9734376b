"""Unmapped accounts and their usage, which is reported but counts at no entry."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from django.db import connection
from django.db.models.expressions import RawSQL

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import Actor
from apps.accounts.models import Account
from apps.core.derived_state import in_memory
from apps.core.postgresql import SERVER_EPOCH, consistent_read
from apps.mapping.name_rules import MOST_NAMES_COMPARED
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import build_rule_set, load_rule_set, load_rules_of
from apps.policies.models import Policy
from apps.policies.tree.stored import load_current_trees, load_tree
from apps.priorities.serving.store import cached_state
from apps.usage.authority import may_read_all
from apps.usage.models import Import, Source

DERIVED_STATE = (
    in_memory(
        "_by_source",
        holds="usage of unmapped accounts by source",
        key="start and identity of the database; unmapped accounts; id, slug and watermark of each source",
        inputs="buckets of these accounts",
        range="all hours",
        ends="another key",
    ),
)


# An account is listed if it is unmapped in every computed policy that isn't archived.
_UNMAPPED = """
WITH computed AS (
    SELECT account_ids FROM priorities_unmappedaccounts AS unmapped
    JOIN policies_policy AS policy ON policy.id = unmapped.policy_id AND policy.archived_at IS NULL)
SELECT account_id FROM computed, unnest(account_ids) AS account_id
GROUP BY account_id HAVING count(*) = (SELECT count(*) FROM computed) ORDER BY account_id
"""
_BY_SOURCE = """
SELECT source.slug, count(DISTINCT bucket.account_id), sum(bucket.cpu_s)
FROM usage_bucket AS bucket JOIN usage_source AS source ON source.id = bucket.source_id
WHERE source.archived_at IS NULL AND bucket.account_id = ANY(%s) GROUP BY source.slug
"""
_BySource = dict[str, tuple[int, float]]

# Served snapshots whose tree and mapping are the policy's current ones.
_CURRENT = """
SELECT snapshot.id FROM priorities_snapshot AS snapshot JOIN policies_policy AS policy ON policy.id = snapshot.policy_id
LEFT JOIN mapping_mapping AS mapping ON mapping.policy_id = policy.id
WHERE snapshot.id = ANY(%s) AND policy.archived_at IS NULL AND snapshot.revision_number = policy.head_number
    AND snapshot.mapping_version = COALESCE(mapping.version, 0)
"""


def count_unmapped_by_source(*, actor: Actor) -> dict[str, tuple[int, float | None]]:
    """Number of unmapped accounts and their core-seconds, by source.

    The core-seconds are often those of one person, so they are None unless the actor may read all usage.
    """
    if actor.user is not None and not actor.user.is_active:
        return {}
    reads_all = may_read_all(actor)
    return {slug: (n, core_s if reads_all else None) for slug, (n, core_s) in _by_source.get().items()}


def count_unmapped_accounts(account_ids: Sequence[int]) -> int:
    """Number of these accounts that no policy maps, by the current rules and trees."""
    rows = Account.objects.filter(pk__in=account_ids).values_list(*AccountKey._fields)
    return _count_unmapped([AccountKey(*row) for row in rows])


def count_unmapped_of_import(usage_import: Import) -> int | None:
    """Number of unmapped accounts of an import, or of a dry run, whose accounts aren't stored yet.

    None without a policy, or if there were too many names to store.
    """
    n_unmapped = count_unmapped_of_preview(usage_import.run.result, usage_import.source.namespace)
    account_ids = usage_import.run.cursor.get("accounts")
    if n_unmapped is not None or account_ids is None or not _has_policies():
        return n_unmapped
    return count_unmapped_accounts(account_ids)


def list_other_case_of_import(usage_import: Import) -> list[tuple[AccountKey, str]]:
    """Accounts of an import without an entry of their own in a policy, and the path of the entry that differs by letter
    case."""
    account_ids = usage_import.run.cursor.get("accounts") or ()
    rows = Account.objects.filter(pk__in=account_ids).values_list(*AccountKey._fields)
    keys = [AccountKey(*row) for row in rows]
    pairs: list[tuple[AccountKey, str]] = []
    for policy in Policy.objects.filter(head_number__gt=0) if keys else ():
        tree = load_tree(policy)
        resolver = load_rule_set(policy, tree).on(tree)
        lost = [key for key in keys if not resolver.has_own_entry(resolver.resolve(key).entry)]
        likely = ((key, resolver.likely_entry(key)) for key in lost[:MOST_NAMES_COMPARED])
        pairs += [(key, tree.path(entry)) for key, entry in likely if entry is not None]
    return pairs


def count_unmapped_of_preview(result: Mapping[str, Any], namespace: str) -> int | None:
    """Number of unmapped accounts of a dry run; None without a policy, or if its result has no names."""
    if "names" not in result or not _has_policies():
        return None
    return _count_unmapped([AccountKey(namespace, *name) for name in result["names"]])


def _has_policies() -> bool:
    return Policy.objects.filter(head_number__gt=0).exists()


def _without_placed(keys: list[AccountKey]) -> list[AccountKey]:
    """Those that no served snapshot has at an entry, by a mapping that still holds: most needn't be resolved again.

    Left out are mappings by what has no version: members of sign-in groups, and namespaces of sources.
    """
    served = {each.snapshot_id: each for each in cached_state().snapshots.values()}
    usable = {key: each for key, each in served.items() if not (each.meta.keys() & {"people", "namespaces"})}
    if not keys or not usable:
        return keys
    with connection.cursor() as cursor:
        cursor.execute(_CURRENT, [list(usable)])
        indexes = [usable[snapshot_id].index for (snapshot_id,) in cursor.fetchall()]
    return [key for key in keys if not any(index.has_account(key) for index in indexes)]


def _count_unmapped(keys: list[AccountKey]) -> int:
    """Which entry an account has doesn't matter here, so attachments are read only if rules leave some unmapped."""
    unmapped = _without_placed(keys)
    if not unmapped:
        return 0
    trees = load_current_trees()
    stored = load_rules_of([policy for policy, _ in trees])
    for with_attached in (False, True):
        for policy, tree in trees:
            if not unmapped or not (with_attached or stored[policy.pk] or tree.members):
                continue
            rule_set = build_rule_set(policy, tree, stored[policy.pk], with_attached=with_attached)
            resolver = rule_set.on(tree)
            unmapped = [key for key in unmapped if resolver.resolve(key).entry == UNMAPPED]
    return len(unmapped)


class _BySourceCache:
    """The last sums: they read all buckets, and stay as they are until a watermark or the unmapped accounts change, or
    the database is another one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.kept: OrderedDict[Hashable, _BySource] = OrderedDict()

    def get(self) -> _BySource:
        with self._lock, consistent_read() as may_keep:  # concurrent requests for it wait
            with connection.cursor() as cursor:
                cursor.execute(_UNMAPPED)
                unmapped = [account_id for (account_id,) in cursor.fetchall()]
            if not unmapped:
                return {}
            with_epoch = Source.objects.annotate(epoch=RawSQL(SERVER_EPOCH, ()))  # noqa: S611 - a constant
            sources = with_epoch.order_by("pk").values_list("pk", "slug", "watermark", "epoch")
            key = (np.array(unmapped).tobytes(), tuple(sources))
            by_source = self.kept.get(key) if may_keep else None
            if by_source is None:
                by_source = _sum_by_source(unmapped)
            if may_keep:
                self.kept.clear()
                self.kept[key] = by_source
            return by_source


_by_source = _BySourceCache()


def _sum_by_source(account_ids: list[int]) -> _BySource:
    with connection.cursor() as cursor:
        cursor.execute(_BY_SOURCE, [account_ids])
        return {slug: (count, float(core_s)) for slug, count, core_s in cursor.fetchall()}
