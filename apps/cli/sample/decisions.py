"""Requests, drafts and tokens of the sample grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from apps.accounts.actor import Actor
from apps.accounts.models import Token, User
from apps.accounts.services import NewToken, make_token
from apps.cli.sample.grid import GUESTS, POLICY_SLUG
from apps.mapping.membership_plan import apply_membership_rules
from apps.policies.changesets.drafts import add_operations, open_draft
from apps.policies.changesets.lifecycle import comment_on, schedule_change_set
from apps.policies.models import ChangeSet
from apps.policies.publishing.direct import publish_operations
from apps.policies.records import NewChangeSet
from apps.policies.requests.share_requests import RequestTerms, request_shares
from apps.policies.services import make_change_set, propose_change_set

UidOf = Callable[[str], UUID]
_DAY = timedelta(days=1)
_GUESTS = "guests"


def on(at: datetime, days_ago: int, hour: int, minute: int) -> datetime:
    """An instant some days before `at`, at a time of day: people decide by day, whenever the sample is loaded."""
    return (at - days_ago * _DAY).replace(hour=hour, minute=minute, second=0, microsecond=0)


def create_decisions(people: Mapping[str, User], uid_of: UidOf, *, at: datetime) -> None:
    """Make drafts, proposals and scheduled changes, each by the person in charge, in chronological order."""
    actors = {name: Actor(user=user, via="command") for name, user in people.items()}
    _admit_guests(uid_of, at=on(at, 6, 13, 20), manager=actors["maria"])
    request_shares(
        policy_slug=POLICY_SLUG,
        entry_uid=uid_of("/climate"),
        terms=RequestTerms(shares=150, until=(at + 90 * _DAY).date()),
        reason="Two ensembles of the winter outlook run until spring.",
        at=on(at, 5, 14, 25),
        actor=actors["maria"],
    )
    apply_membership_rules(at=on(at, 2, 8, 10))
    _schedule(uid_of, decided_at=on(at, 2, 10, 45), effective_at=on(at, -12, 6, 0), admin=actors["admin"])
    _propose(uid_of, at=on(at, 2, 15, 5), manager=actors["maria"], admin=actors["admin"])
    request_shares(
        policy_slug=POLICY_SLUG,
        entry_uid=uid_of("/climate/seasonal"),
        terms=RequestTerms(shares=40, until=(at + 30 * _DAY).date()),
        reason="The seasonal forecast is due at the end of the month.",
        at=on(at, 1, 9, 35),
        actor=actors["ingrid"],
    )
    for name, path, minute in (("admin", "/polymers", 10), ("maria", "/climate/sea-ice", 50)):
        _draft(uid_of(path), at=on(at, 1, 16, minute), actor=actors[name])


def refund(entry: UUID, amount: int, *, at: datetime, note: str, reason: str, actor: Actor) -> None:
    """Publish a refund of usage of the previous day."""
    operation = {
        "op": "adjust_usage",
        "entry": str(entry),
        "resource": "cpu_s",
        "amount_s": -3600 * amount,
        "at": (at - _DAY).isoformat(),
        "note": note,
    }
    publish_operations(policy_slug=POLICY_SLUG, operations=[operation], reason=reason, at=at, actor=actor)


def make_tokens(people: Mapping[str, User], *, at: datetime) -> None:
    """Make a token for each person."""
    scopes = {
        "admin": ("slurm on umea", Token.Scope.PRIORITIES_READ),
        "maria": ("spreadsheet", Token.Scope.POLICIES_READ),
        "ingrid": ("notebook", Token.Scope.SELF_READ),
        "kimberg": ("terminal", Token.Scope.SELF_READ),
    }
    admin = Actor(user=people["admin"], via="command")
    for username, (name, scope) in scopes.items():
        make_token(NewToken(name=name, scopes=[scope], user=people[username], policy_slug=""), at=at, actor=admin)


def _admit_guests(uid_of: UidOf, *, at: datetime, manager: Actor) -> None:
    """Make a project whose members are all users of a group, from their first job on."""
    climate = uid_of("/climate")
    uid = str(uuid5(climate, _GUESTS))
    rule = {"group": GUESTS, "shares": 1, "archive_after_days": 180}
    operations: list[dict[str, Any]] = [
        {
            "op": "add",
            "parent": str(climate),
            "name": _GUESTS,
            "kind": "project",
            "shares": 5,
            "is_group": True,
            "uid": uid,
        },
        {"op": "set_members", "entry": uid, "members": [rule]},
    ]
    publish_operations(
        policy_slug=POLICY_SLUG, operations=operations, reason="Guests of the summer school.", at=at, actor=manager
    )


def _schedule(uid_of: UidOf, *, decided_at: datetime, effective_at: datetime, admin: Actor) -> None:
    made = _made(
        [{"op": "set_shares", "entry": str(uid_of("/radio-sky")), "shares": 100}],
        "The telescope observes again: 100 shares as agreed for the winter.",
        decided_at,
        admin,
    )
    proposed = propose_change_set(id=made.pk, version=made.version, at=decided_at, actor=admin)
    schedule_change_set(
        id=proposed.pk,
        version=proposed.version,
        effective_at=effective_at,
        at=decided_at,
        actor=admin,
    )


def _propose(uid_of: UidOf, *, at: datetime, manager: Actor, admin: Actor) -> None:
    entry = str(uid_of("/climate/storm-tracks"))
    made = _made(
        [{"op": "set_shares", "entry": entry, "shares": 15}],
        "Storm tracks run for the insurance project until summer.",
        at,
        manager,
    )
    propose_change_set(id=made.pk, version=made.version, at=at, actor=manager)
    comment_on(
        id=made.pk, text="Is the insurance project's contract signed?", at=at + timedelta(minutes=50), actor=admin
    )


def _draft(entry: UUID, *, at: datetime, actor: Actor) -> None:
    draft = open_draft(policy_slug=POLICY_SLUG, reason="Spring round, first idea.", at=at, actor=actor)
    operation = {"op": "set_shares", "entry": str(entry), "shares": 25}
    add_operations(id=draft.pk, version=draft.version, operations=[operation], at=at, actor=actor)


def _made(operations: list[dict[str, Any]], reason: str, at: datetime, actor: Actor) -> ChangeSet:
    return make_change_set(
        policy_slug=POLICY_SLUG, new=NewChangeSet(operations=operations, reason=reason), at=at, actor=actor
    )
