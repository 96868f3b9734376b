"""Accounts that represent entries of policies, for sums that other sites report by entry.

A namespace that begins with @ is reserved: records, rules and names can't use one.
"""

from __future__ import annotations

from uuid import UUID

from apps.accounts.names.account_ids import AccountKey
from apps.core.errors import FieldProblem, Invalid

ENTRY_NAMESPACE = "@entries"
RESERVED = "@"  # how a namespace of ours begins


def entry_account(uid: UUID) -> AccountKey:
    """The account for the usage that others report of an entry."""
    return AccountKey(ENTRY_NAMESPACE, user_name=str(uid))


def uid_of_account(key: AccountKey) -> UUID | None:
    """The entry that an account represents; None for one under which jobs run."""
    if key.namespace != ENTRY_NAMESPACE:
        return None
    try:
        uid = UUID(key.user_name)
    except ValueError:
        return None
    return uid if entry_account(uid) == key else None  # in this one spelling


def is_reserved(namespace: str) -> bool:
    """Whether only this service itself may use this namespace."""
    return namespace.lstrip().startswith(RESERVED)


def refuse_reserved(namespace: str, *, where: str = "namespace") -> None:
    """Raises:
    Invalid: the namespace is reserved.
    """
    if is_reserved(namespace):
        message = "Namespaces that begin with @ are reserved for usage of other sites: choose another name."
        raise Invalid(message, code="reserved_namespace", fields=[FieldProblem(where, message)])
