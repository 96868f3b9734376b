"""Export everything stored about one person, by table, as JSON, for requests under Article 15 of the GDPR.

Tables that refer to people or accounts are found by their foreign keys; a test checks that each is a section here or
left out with a reason. Secrets, and contents about a policy rather than its author, are not exported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model, Q

from apps.accounts.actor import Actor
from apps.accounts.models import Account, AuditEvent, User
from apps.core.errors import NotAllowed, NotFound
from apps.core.plugins import with_additions

_JOB = "job array_task submit_at restart state start_at end_at cpus gpus nodes mem_mb billing requested_s kinds"

LEFT_OUT = {
    "admin.logentry": "repeats the audit log",
    "account.emailaddress": "never written: the address is in accounts.user",
    "socialaccount.socialaccount": "never written: the identity is in accounts.identity",
}


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the export: a description of its rows, and the exported fields.

    of_accounts: which rows are of some accounts, of a table that has names in place of foreign keys.
    """

    about: str
    fields: tuple[str, ...]
    of_accounts: Callable[[Sequence[Account]], Q] | None = None


def section(about: str, fields: str, *, of_accounts: Callable[[Sequence[Account]], Q] | None = None) -> Section:
    """A section of these fields, separated by spaces."""
    return Section(about, tuple(fields.split()), of_accounts)


SECTIONS: Mapping[str, Section] = {
    "accounts.user": section(
        "the person who signs in",
        "username first_name last_name email is_active is_superuser is_staff date_joined last_login time_zone",
    ),
    "accounts.identity": section("who they are for other sign-in systems", "source subject linked_at"),
    "accounts.session": section("sessions that have not been removed", "expire_date"),
    "accounts.passwordreset": section("requested mails for a new password", "asked_at ended_at"),
    "accounts.token": section(
        "API tokens without secrets",
        "public_id name scopes policy_slug source_slug scheduler_name created_at expires_at last_used_at revoked_at",
    ),
    "mfa.authenticator": section("second factors without secrets", "type created_at last_used_at"),
    "accounts.account": section(
        "names under which their jobs ran", "namespace user_name group_name dn fqan project first_seen_at is_pseudonym"
    ),
    "usage.record": section("jobs", f"source__slug account cluster site {_JOB} note"),
    "usage.replacedrecord": section(
        "earlier versions of jobs, kept while their import can be undone",
        f"source__slug account cluster site replaced_at {_JOB} note",
    ),
    "usage.toolaterecord": section(
        "jobs reported after their time was sealed",
        "source__slug account cluster job submit_at end_at cpu_s received_at",
    ),
    "usage.bucket": section(
        "usage by hour: seconds of cores and GPUs, GB·s of memory, seconds of nodes, billing, jobs ended",
        "source__slug account site hour_at cpu_s gpu_s mem_gb_s node_s billing jobs",
    ),
    "usage.kindhour": section(
        "usage by hour and kind of resource: seconds of devices and licences, joules of energy",
        "source__slug account site hour_at kind__name amount",
    ),
    "mapping.attachment": section(
        "entries of policies that their accounts are attached to, or that they attached accounts to",
        "policy__slug entry_uid account author_name reason created_at",
    ),
    "mapping.claim": section("accounts that they claim", "namespace user_name created_at"),
    "mapping.mappingversion": section("mappings that they changed", "policy__slug number at reason"),
    "policies.grant": section(
        "rights that they hold or gave", "policy__slug entry_uid people role verbs reason created_at expires_at"
    ),
    "policies.changeset": section(
        "changes that they drafted or decided about", "policy__slug state reason created_at updated_at"
    ),
    "policies.revision": section("revisions that they published", "policy__slug number reason published_at"),
    "policies.approval": section("their approvals", "change_set version created_at"),
    "policies.comment": section("their comments", "change_set text created_at"),
    "policies.adjustment": section(
        "adjustments of usage that they made", "policy__slug entry_uid resource amount_s note reason created_at"
    ),
    "policies.allocation": section(
        "allocations that they made", "policy__slug entry_uid amount unit starts_on ends_on reason created_at"
    ),
    "policies.pin": section("entries that they pinned", "policy__slug entry_uid created_at"),
    "runs.run": section("background work that they requested", "kind state subject created_at finished_at"),
    "usage.import": section("files that they uploaded", "source__slug file_name n_bytes sha256 created_at"),
    "usage.overlap": section("overlaps that they decided", "site from_at to_at state decided_at reason"),
    "federation.mount": section("mounts that they created", "policy__slug url issuer made_at"),
    "federation.subscription": section("usage feeds that they subscribed to", "policy__slug url issuer made_at"),
    "accounts.auditevent": section(
        "their actions, and actions about them, in the audit log",
        "id at actor_name verb outcome policy_slug entry_uid subject reason details via address",
    ),
}


def sections() -> dict[str, Section]:
    """Sections by table, also of plug-ins, in the order of the export."""
    return with_additions(SECTIONS, "personal_data")


def about_person(*, name: str, actor: Actor) -> dict[str, Any]:
    """All stored data of the person with this user name, and of accounts with this name or owned by the person.

    Raises:
        NotAllowed: the actor is not an administrator.
        NotFound: no user and no account has this name.
    """
    if not actor.is_admin:
        raise NotAllowed("Only administrators may export all data of a person.")
    user = User.objects.filter(username=name).first() if "\0" not in name else None
    accounts = list(_accounts(name, user)) if name and "\0" not in name else []
    if user is None and not accounts:
        raise NotFound(f"There is no user {name[:150]}, and no account of this name.")
    rows_by_table = {label: _rows(label, section, name, user, accounts) for label, section in sections().items()}
    return {"name": name, **{label: rows for label, rows in rows_by_table.items() if rows}}


def as_json(rows_by_table: Mapping[str, Any]) -> str:
    return json.dumps(rows_by_table, cls=DjangoJSONEncoder, ensure_ascii=False, indent=1)


def relations(model: type[Model]) -> dict[str, type[Model]]:
    """Fields of a table that refer to people or accounts."""
    fields = {field.name: field.related_model for field in model._meta.concrete_fields if field.is_relation}
    return {name: to for name, to in fields.items() if to in (User, Account)}  # type: ignore[misc]


def _accounts(name: str, user: User | None) -> Any:
    own = Q(user_name=name)
    return Account.objects.filter(own | Q(person=user) if user is not None else own).order_by("pk")


def _rows(label: str, section: Section, name: str, user: User | None, accounts: list[Account]) -> list[dict[str, Any]]:
    model: type[Model] = apps.get_model(label)
    if model is User:
        wanted = Q(pk=user.pk if user else None)
    elif model is Account:
        wanted = Q(pk__in=[account.pk for account in accounts])
    elif model is AuditEvent:
        wanted = Q(subject=name) | (Q(actor_id=user.pk) if user else Q(pk=None))
    elif section.of_accounts is not None:
        wanted = section.of_accounts(accounts)
    else:
        wanted = _refers(model, user, accounts)
    return list(model._default_manager.filter(wanted).order_by("pk").values(*section.fields))


def _refers(model: type[Model], user: User | None, accounts: list[Account]) -> Q:
    wanted = Q(pk__in=())
    for field, to in relations(model).items():
        if to is Account:
            wanted |= Q(**{f"{field}__in": accounts})
        elif user is not None:
            wanted |= Q(**{field: user.pk})
    return wanted
