"""Replace names of people by pseudonyms: of all accounts without recent usage, or of one person. No sum changes.

An account stays at its entry: it is attached there before its name is erased, because rules that match names would no
longer find it. Older snapshots contain the old names until they are deleted; the audit log is never rewritten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction

from apps.accounts import audit_log as audit
from apps.accounts.account_keys import AccountKey, pseudonymous
from apps.accounts.actor import Actor
from apps.accounts.models import Account
from apps.core.errors import FieldProblem, Invalid, NotAllowed, NotFound
from apps.core.plugins import plugins
from apps.mapping.models import Attachment
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import load_rule_set
from apps.mapping.versions import Placement, store_version
from apps.policies.changesets.change_sets import require_reason
from apps.policies.models import Policy
from apps.policies.publishing.revisions import lock_policy
from apps.policies.tree.stored import load_tree
from apps.usage.parsers.base import FINISHED, PENDING, RUNNING

_DAY = timedelta(days=1)
_CANDIDATES = f"""
WITH used AS (SELECT account_id, max(hour_at) AS last_at FROM usage_bucket GROUP BY account_id),
open AS (SELECT DISTINCT account_id FROM usage_record WHERE state <> {FINISHED} AND state IN ({RUNNING}, {PENDING}))
SELECT account.id, account.id IN (SELECT account_id FROM open)
FROM accounts_account AS account LEFT JOIN used ON used.account_id = account.id
WHERE NOT is_pseudonym AND left(namespace, 1) <> '@' AND (user_name <> '' OR dn <> '')
    AND (%(namespace)s = '' OR namespace = %(namespace)s)
    AND (%(since)s::timestamptz IS NULL OR COALESCE(used.last_at, first_seen_at) < %(since)s)
    AND (%(user)s = '' OR user_name = %(user)s
        OR person_id IN (SELECT id FROM accounts_user WHERE username = %(user)s))
ORDER BY account.id
"""  # noqa: S608 - constants only


@dataclass(frozen=True, slots=True)
class Hidden:
    """Result: accounts that got a pseudonym, attachments made for them, and accounts skipped because of open jobs."""

    n_accounts: int
    n_places: int
    n_held_back: int = 0


def pseudonymise_idle(
    *, idle_days: int, namespace: str = "", reason: str, dry_run: bool = False, at: datetime, actor: Actor
) -> Hidden:
    """Pseudonymise all accounts (of one namespace, if given) without usage for some days. This can't be undone.

    Raises:
        NotAllowed: the actor is no administrator.
        Invalid: no positive number of days, or no reason.
    """
    _require_admin(actor)
    if not 1 <= idle_days <= 36_500:
        problem = FieldProblem("idle_days", "needs a number of days from 1 to 36,500")
        raise Invalid(f"{idle_days} is not a valid number of days.", fields=[problem])
    wanted = {"since": at - idle_days * _DAY, "namespace": namespace, "user": ""}
    return _pseudonymise(wanted, {"idle_days": idle_days}, reason, dry_run, at, actor)


def pseudonymise_user(
    *, user_name: str, namespace: str = "", reason: str, dry_run: bool = False, at: datetime, actor: Actor
) -> Hidden:
    """Pseudonymise one person: accounts with this user name, and all accounts of the user who signs in with it.

    Recent usage doesn't matter. This can't be undone.

    Raises:
        NotAllowed: the actor is no administrator.
        NotFound: no account has this name.
        Invalid: no reason.
    """
    _require_admin(actor)
    wanted = {"since": None, "namespace": namespace, "user": user_name}
    hidden = _pseudonymise(wanted, {"of_one_person": True}, reason, dry_run, at, actor) if user_name else Hidden(0, 0)
    if not hidden.n_accounts and not hidden.n_held_back:
        raise NotFound("No account has this user name.")
    return hidden


def _require_admin(actor: Actor) -> None:
    if not actor.is_admin:
        raise NotAllowed("Only administrators pseudonymise accounts.")


@transaction.atomic
def _pseudonymise(
    wanted: Mapping[str, Any], details: Mapping[str, Any], reason: str, dry_run: bool, at: datetime, actor: Actor
) -> Hidden:
    """Pseudonymise accounts. wanted: parameters of `_CANDIDATES`. details: for the audit row; never a name."""
    reason = require_reason(reason)
    with connection.cursor() as cursor:
        cursor.execute(_CANDIDATES, wanted)
        rows = cursor.fetchall()
    ids = [account for account, is_open in rows if not is_open]
    n_held_back = len(rows) - len(ids)
    if dry_run or not ids:
        return Hidden(len(ids), 0, n_held_back)
    accounts = list(Account.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk"))
    pks = Policy.all_objects.order_by("pk").values_list("pk", flat=True)
    policies = [lock_policy(pk, also_archived=True) for pk in pks]
    n_places = sum(_attach_to_entries(policy, accounts, reason, at, actor) for policy in policies)
    pseudonyms: dict[tuple[str, str], str] = {}  # by namespace and user name
    for account in accounts:
        hidden = pseudonymous(_key_of(account))
        if account.user_name:
            pseudonyms[account.namespace, account.user_name] = hidden.user_name
        for name, value in hidden._asdict().items():
            setattr(account, name, value)
        account.is_pseudonym, account.person = True, None
        account.save(update_fields=["user_name", "dn", "is_pseudonym", "person"])
    _hide_elsewhere(pseudonyms)
    namespace = str(wanted["namespace"])
    counts = {"accounts": len(accounts), "places": n_places, "namespace": namespace, "held_back": n_held_back}
    audit.record(
        actor=actor,
        verb="accounts.pseudonymised",
        at=at,
        subject=namespace,
        reason=reason,
        details={**counts, **details},
    )
    return Hidden(len(accounts), n_places, n_held_back)


def _hide_elsewhere(pseudonyms: Mapping[tuple[str, str], str]) -> None:
    """Let plug-ins hide these names, unless another account of the namespace keeps its own."""
    named = Account.objects.filter(is_pseudonym=False, user_name__in={name for _namespace, name in pseudonyms})
    kept = set(named.values_list("namespace", "user_name"))
    gone = {key: pseudonym for key, pseudonym in pseudonyms.items() if key not in kept}
    for plugin in plugins() if gone else ():
        plugin.names_hidden(gone)


def _attach_to_entries(policy: Policy, accounts: Sequence[Account], reason: str, at: datetime, actor: Actor) -> int:
    """Attach each account to its present entry, unless it is attached already, in a new version of the mapping."""
    if not policy.head_number:
        return 0
    tree = load_tree(policy)
    resolver = load_rule_set(policy, tree).on(tree)
    attached = set(Attachment.objects.filter(policy=policy).values_list("account_id", flat=True))
    made = []
    for account in accounts:
        entry = resolver.resolve(_key_of(account)).entry
        if account.pk not in attached and entry not in (UNMAPPED, 0):
            made.append(
                Attachment(
                    policy=policy,
                    account=account,
                    entry_uid=tree.uuid(entry),
                    reason=reason,
                    author=actor.user,
                    author_name=actor.name,
                    created_at=at,
                )
            )
    Attachment.objects.bulk_create(made, batch_size=5_000)
    placed = [Placement(attachment.account_id, None, attachment.entry_uid) for attachment in made]
    store_version(policy, attached=placed, reason=reason, at=at, actor=actor)
    return len(made)


def _key_of(account: Account) -> AccountKey:
    return AccountKey(*(getattr(account, name) for name in AccountKey._fields))
