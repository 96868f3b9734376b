"""Accounts of policy entries, and the namespaces reserved for them."""

from __future__ import annotations

from uuid import UUID

from apps.accounts.account_keys import AccountKey
from apps.core.errors import FieldProblem, Invalid

ENTRY_NAMESPACE = "@entries"
RESERVED = "@"  # first character of reserved namespaces


def entry_account(uid: UUID) -> AccountKey:
    """The account for the usage that other sites report for an entry."""
    return AccountKey(ENTRY_NAMESPACE, user_name=str(uid))


def uid_of_account(key: AccountKey) -> UUID | None:
    """The entry that an account represents; None for an account under which jobs run."""
    if key.namespace != ENTRY_NAMESPACE:
        return None
    try:
        uid = UUID(key.user_name)
    except ValueError:
        return None
    return uid if entry_account(uid) == key else None  # only the canonical spelling of the UUID


def is_reserved(namespace: str) -> bool:
    """Whether this namespace is reserved for the service itself."""
    return namespace.lstrip().startswith(RESERVED)


def refuse_reserved(namespace: str, *, where: str = "namespace") -> None:
    """Raises:
    Invalid: the namespace is reserved.
    """
    if is_reserved(namespace):
        message = "Namespaces that begin with @ are reserved for usage of other sites: choose another name."
        raise Invalid(message, code="reserved_namespace", fields=[FieldProblem(where, message)])
