"""Database queries of the membership rules: users in sign-in groups, recent activity, archived entries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from apps.accounts.account_keys import AccountKey
from apps.accounts.models import Account, User
from apps.mapping.rules.rule import Person
from apps.policies.models import ChangeSet, Policy
from apps.usage.held_hours import OF_CURRENT
from apps.usage.parsers.base import FINISHED, PENDING, RUNNING

HOUR = timedelta(hours=1)

_USED = f"""
SELECT account_id, max(hour_at) FROM usage_bucket
WHERE account_id = ANY(%s::int8[]) AND hour_at >= %s::timestamptz{OF_CURRENT} GROUP BY account_id
"""  # noqa: S608 - constants only
_OPEN = f"""
SELECT account_id, max(submit_at) FROM usage_record
WHERE state <> {FINISHED} AND state IN ({RUNNING}, {PENDING}) AND account_id = ANY(%s::int8[])
    {OF_CURRENT} GROUP BY account_id
"""  # noqa: S608 - constants only
# Last version of an entry that was archived below the parent it would rejoin, if it wasn't moved or changed instead.
_GONE = """
SELECT DISTINCT ON (old.parent_uid, old.name) old.parent_uid, old.name, old.uid, gone.published_at
FROM policies_entry AS old
JOIN policies_revision AS gone ON gone.policy_id = old.policy_id AND gone.number = old.until
WHERE old.policy_id = %(policy)s AND old.until IS NOT NULL AND NOT old.is_group
    AND old.parent_uid = ANY(%(parents)s) AND old.name = ANY(%(names)s)
    AND NOT EXISTS (
        SELECT FROM policies_entry AS later
        WHERE later.policy_id = old.policy_id AND later.uid = old.uid AND later.since >= old.until)
ORDER BY old.parent_uid, old.name, old.until DESC
"""
_SINCE = """
SELECT now.uid, began.published_at FROM policies_entry AS now
JOIN policies_revision AS began ON began.policy_id = now.policy_id AND began.number = now.since
WHERE now.policy_id = %s AND now.until IS NULL AND now.uid = ANY(%s)
"""
_BY_RULE = """
SELECT first.uid FROM (
    SELECT uid, min(since) AS since FROM policies_entry WHERE policy_id = %s AND uid = ANY(%s) GROUP BY uid) AS first
JOIN policies_revision AS began ON began.policy_id = %s AND began.number = first.since
JOIN policies_changeset AS made ON made.id = began.change_set_id AND made.origin = %s
"""


@dataclass(frozen=True)
class Activity:
    """By account: the start of the last hour with usage, and the submission of its last running or pending job."""

    used_at: dict[int, datetime]
    open_at: dict[int, datetime]

    def is_idle(self, accounts: Iterable[int], since: datetime) -> bool:
        """Return whether there was no usage since then, and no job is running or pending."""
        return not any(account in self.open_at or self._used_after(account, since - HOUR) for account in accounts)

    def has_new_activity(self, accounts: Iterable[int], after: datetime) -> bool:
        """Return whether an hour with usage started, or an unfinished job was submitted, after that instant."""
        return any(self._used_after(account, after) or self._submitted_after(account, after) for account in accounts)

    def _used_after(self, account: int, after: datetime) -> bool:
        used = self.used_at.get(account)
        return used is not None and used >= after

    def _submitted_after(self, account: int, after: datetime) -> bool:
        submitted = self.open_at.get(account)
        return submitted is not None and submitted > after


class ArchivedEntry(NamedTuple):
    """An archived entry and the instant of its archiving."""

    uid: UUID
    at: datetime


class SignInUser(NamedTuple):
    """A user in sign-in groups, the last sign-in, and their accounts."""

    person: Person
    seen_at: datetime
    accounts: tuple[AccountKey, ...] = ()


def load_activity(accounts: Sequence[int], *, since: datetime) -> Activity:
    if not accounts:
        return Activity({}, {})
    with connection.cursor() as cursor:
        cursor.execute(_USED, [list(accounts), since])
        used = dict(cursor.fetchall())
        cursor.execute(_OPEN, [list(accounts)])
        return Activity(used, dict(cursor.fetchall()))


def load_archived_entries(policy: Policy, wanted: Iterable[tuple[UUID, str]]) -> dict[tuple[UUID, str], ArchivedEntry]:
    """Return archived leaves by their former parent and name."""
    asked = set(wanted)
    if not asked:
        return {}
    parents, names = {parent for parent, _ in asked}, {name for _, name in asked}
    with connection.cursor() as cursor:
        cursor.execute(_GONE, {"policy": policy.pk, "parents": list(parents), "names": list(names)})
        entries = {(parent, name): ArchivedEntry(uid, at) for parent, name, uid, at in cursor.fetchall()}
    return {place: gone for place, gone in entries.items() if place in asked}


def load_last_changed(policy: Policy, uids: Sequence[UUID]) -> dict[UUID, datetime]:
    """Return when each entry was last changed."""
    if not uids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_SINCE, [policy.pk, list(uids)])
        return dict(cursor.fetchall())


def added_by_rule(policy: Policy, uids: Sequence[UUID]) -> set[UUID]:
    """Return which of these entries a membership rule added."""
    if not uids:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(_BY_RULE, [policy.pk, list(uids), policy.pk, ChangeSet.Origin.RULE])
        return {uid for (uid,) in cursor.fetchall()}


def load_group_users(names: Sequence[str]) -> list[SignInUser]:
    """Return the active users who are in one of these sign-in groups."""
    if not names:
        return []
    rows = User.objects.filter(is_active=True, groups__name__in=names).order_by("username")
    groups: dict[str, set[str]] = {}
    seen: dict[str, datetime] = {}
    for username, joined_at, login_at, group in rows.values_list(
        "username", "date_joined", "last_login", "groups__name"
    ):
        groups.setdefault(username, set()).add(group)
        seen[username] = max(joined_at, login_at or joined_at)
    keys_by_user: dict[str, list[AccountKey]] = {}
    owned = Account.objects.filter(person__username__in=groups).order_by("pk")
    for username, *key in owned.values_list("person__username", *AccountKey._fields):
        keys_by_user.setdefault(username, []).append(AccountKey(*key))
    return [
        SignInUser(Person(name, frozenset(groups[name])), seen[name], tuple(keys_by_user.get(name, ())))
        for name in groups
    ]
