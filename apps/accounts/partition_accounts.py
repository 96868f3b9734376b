"""Accounts of Slurm's associations of one partition: jobs of the user in that partition have an account of their own.

As in Slurm, a job that lists several partitions has the association of the first: others are refused beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from django.db.models import Q, QuerySet

from apps.accounts.account_keys import AccountKey, pseudonym_of
from apps.accounts.models import Account


class _Limited(NamedTuple):
    """Names that Slurm stores in lower case; the user's may be a pseudonym."""

    user: str
    group: str
    partition: str


class PartitionAccounts:
    """The accounts of one partition in a namespace."""

    def __init__(self, namespace: str, keys: Mapping[_Limited, AccountKey]) -> None:
        self._namespace, self._keys = namespace, keys

    def __bool__(self) -> bool:
        return bool(self._keys)

    def key_of(self, key: AccountKey, partitions: str) -> AccountKey:
        """The account of a job: that of its partition if there is one, else the given one."""
        if not partitions or not key.group_name or key.project:
            return key
        group, partition = key.group_name.lower(), first_partition(partitions)
        names = (key.user_name, key.user_name.lower(), pseudonym_of(key.user_name, self._namespace))
        limited = (self._keys.get(_Limited(name, group, partition)) for name in dict.fromkeys(names))
        return next((each for each in limited if each is not None), key)


def first_partition(partitions: str) -> str:
    return partitions.partition(",")[0].lower()


def load_partition_accounts(namespace: str) -> PartitionAccounts:
    rows = Account.objects.filter(namespace=namespace, is_of_partition=True).values_list(*AccountKey._fields)
    keys = [AccountKey(*row) for row in rows]
    limited = {_Limited(key.user_name, key.group_name.lower(), key.project.lower()): key for key in keys}
    return PartitionAccounts(namespace, limited)


def mark_of_partitions(account_ids: Sequence[int]) -> None:
    """Mark accounts as those of their partition. Each gets the owner of the user's other account of the group."""
    for account in Account.objects.filter(pk__in=account_ids):
        beside = plain_accounts(account).exclude(person=None).first()
        account.is_of_partition = True
        account.person_id = account.person_id or (None if beside is None else beside.person_id)
        account.save(update_fields=["is_of_partition", "person"])


def plain_accounts(account: Account) -> QuerySet[Account]:
    """Accounts of the same user and group for all other partitions."""
    same_user = Q(user_name=account.user_name) | Q(user_name__iexact=account.user_name)
    return Account.objects.filter(
        same_user, namespace=account.namespace, group_name__iexact=account.group_name, project="", dn="", fqan=""
    )
