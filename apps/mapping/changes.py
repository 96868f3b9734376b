"""Preview and make changes of the mapping; each becomes a version that can be undone. `moves` decides who may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import ClassVar, Protocol
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.audit_log import log_refusals
from apps.accounts.entry_accounts import RESERVED
from apps.accounts.models import Account
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound
from apps.mapping.attachments import refuse_unmappable_entry
from apps.mapping.models import Attachment, MappingRule
from apps.mapping.moves import Move, ProposedMapping, find_moves, may_read, refusal_of, refusal_of_rules
from apps.mapping.permissions import WRITE, MapRights, rights_in
from apps.mapping.rules.rule import Rule, rule_problems
from apps.mapping.rules.rule_set import tier_of
from apps.mapping.versions import (
    MappingState,
    Placement,
    current_mapping,
    get_attaching_user,
    get_version,
    mapping_at_version,
    refuse_stale,
    sort_by_tier,
    store_version,
    version_of,
)
from apps.policies.access.scope import require_scope
from apps.policies.changesets.change_sets import require_reason
from apps.policies.models import Policy
from apps.policies.publishing.revisions import lock_policy
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import load_tree
from apps.usage.models import Source

MOST_MAPPING_RULES = 10_000
MOST_ASSIGNED = 10_000


class Edit(Protocol):
    """A change of the current mapping."""

    # Verb of the audit event.
    verb: ClassVar[str]

    def wanted(self, rights: MapRights, state: MappingState) -> ProposedMapping: ...


@dataclass(frozen=True)
class AddRule:
    """Insert a rule before the one at index `to`; None: after all others of its tier."""

    rule: Rule
    to: int | None = None
    verb: ClassVar[str] = "mapping.changed"

    def wanted(self, rights: MapRights, state: MappingState) -> ProposedMapping:
        return ProposedMapping(_insert_rule(state.rules, self.rule, self.to))


@dataclass(frozen=True)
class ChangeRule:
    """Replace the rule at an index, optionally moving it to another index."""

    at: int
    rule: Rule
    to: int | None = None
    verb: ClassVar[str] = "mapping.changed"

    def wanted(self, rights: MapRights, state: MappingState) -> ProposedMapping:
        old = get_rule_at(rights, state.rules, self.at)
        to = self.to
        if to is None and tier_of(old) == tier_of(self.rule):
            to = self.at
        return ProposedMapping(_insert_rule((*state.rules[: self.at], *state.rules[self.at + 1 :]), self.rule, to))


@dataclass(frozen=True)
class MoveRule:
    at: int
    to: int
    verb: ClassVar[str] = "mapping.changed"

    def wanted(self, rights: MapRights, state: MappingState) -> ProposedMapping:
        rule = get_rule_at(rights, state.rules, self.at)
        return ProposedMapping(_insert_rule((*state.rules[: self.at], *state.rules[self.at + 1 :]), rule, self.to))


@dataclass(frozen=True)
class RemoveRule:
    at: int
    verb: ClassVar[str] = "mapping.changed"

    def wanted(self, rights: MapRights, state: MappingState) -> ProposedMapping:
        get_rule_at(rights, state.rules, self.at)
        return ProposedMapping((*state.rules[: self.at], *state.rules[self.at + 1 :]))


@dataclass(frozen=True)
class ReplaceRules:
    rules: Sequence[Rule]
    verb: ClassVar[str] = "mapping.changed"

    def wanted(self, rights: MapRights, state: MappingState) -> ProposedMapping:
        refuse_invalid_rules(rights, self.rules, state.rules)
        return ProposedMapping(sort_by_tier(self.rules))


@dataclass(frozen=True)
class Assign:
    """Attach accounts, by id, to entries; attachments take precedence over rules."""

    places: Mapping[int, UUID]
    verb: ClassVar[str] = "mapping.assigned"

    def wanted(self, rights: MapRights, state: MappingState) -> ProposedMapping:
        if not 0 < len(self.places) <= MOST_ASSIGNED:
            raise _invalid("accounts", _("must be 1 to %(most)d accounts") % {"most": MOST_ASSIGNED})
        for uid in set(self.places.values()):
            refuse_unmappable_entry(rights, rights.require(uid))
        return ProposedMapping(places=self.places)


@dataclass(frozen=True)
class Detach:
    """Detach accounts, by id, so that rules map them again."""

    accounts: Sequence[int]
    verb: ClassVar[str] = "mapping.detached"

    def wanted(self, rights: MapRights, state: MappingState) -> ProposedMapping:
        tree = rights.tree
        for account in self.accounts:
            at = state.attached.get(account)
            if at is None or not rights.may_name(tree.index_of_uid(at) or 0):
                raise NotFound(_("Not found, or not visible to you."))
            if not rights.may_map(tree.index_of_uid(at) or 0):
                raise NotAllowed(_("You may not map accounts there: ask a manager of the entry."))
        return ProposedMapping(places=dict.fromkeys(self.accounts))


@dataclass(frozen=True)
class Restore:
    """Restore the rules and attachments of a version."""

    number: int
    verb: ClassVar[str] = "mapping.restored"

    def wanted(self, rights: MapRights, state: MappingState) -> ProposedMapping:
        get_version(rights.policy, self.number)
        before = mapping_at_version(rights.policy, self.number)
        there = Account.objects.filter(pk__in=list(before.attached)).values_list("pk", flat=True)
        places = {
            account: before.attached.get(account)
            for account in {*state.attached, *there}
            if state.attached.get(account) != before.attached.get(account)
        }
        gone = [uid for uid in places.values() if uid is not None and rights.tree.index_of_uid(uid) is None]
        gone += [rule.target_uid for rule in before.rules if rights.tree.index_of_uid(rule.target_uid) is None]
        if gone:
            message = _("%(n)s target entries of that version are archived: restore them first.")
            raise Conflict(message % {"n": len(set(gone))}, code="entry_gone")
        stated = [rule.stated for rule in before.rules]
        return ProposedMapping(before.rules if stated != [rule.stated for rule in state.rules] else None, places)


@dataclass(frozen=True)
class Plan:
    """The effect of an edit. `refusal`: why the actor may not make it, with its key.

    `moves`: all moved accounts, for the decision; `readable`: those that the actor may see.
    """

    rights: MapRights
    version: int
    wanted: ProposedMapping
    moves: Sequence[Move]
    refusal: str = ""
    refusal_key: str = ""
    before: MappingState = field(repr=False, default_factory=lambda: MappingState((), {}))

    @cached_property
    def readable(self) -> list[Move]:
        return [move for move in self.moves if may_read(self.rights, move)]

    @property
    def n_of_others(self) -> int | None:
        """Number of moves hidden from the actor; None if it is below the rule of five."""
        n = len(self.moves) - len(self.readable)
        return n if not n or n >= settings.FAIRSHARE_SMALLEST_GROUP else None

    @property
    def core_s(self) -> float:
        """Recent usage of the readable moves, in core-seconds."""
        return sum(move.usage.core_s for move in self.readable)


def preview_change(*, policy_slug: str, edit: Edit, at: datetime, actor: Actor) -> Plan:
    """Return the effect of an edit without saving; an invalid edit raises the same errors as making it."""
    rights = rights_in(policy_slug, at=at, actor=actor)
    rights.require_anywhere()
    return _plan(rights, edit, at)


def make_change(*, policy_slug: str, edit: Edit, reason: str, version: int | None, at: datetime, actor: Actor) -> int:
    """Make a change as the next version; return its number. version: as loaded by the caller; None skips the check."""
    require_scope(actor, WRITE)
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    with log_refusals(edit.verb, actor, at, policy_slug=policy.slug), transaction.atomic():
        policy = lock_policy(policy.pk)
        rights = MapRights(policy, load_tree(policy), actor, at)
        rights.require_anywhere()
        refuse_stale(policy, version)
        plan = _plan(rights, edit, at)
        if plan.refusal:
            raise NotAllowed(plan.refusal, code="not_yours")
        return _make(plan, edit, require_reason(reason), at=at, actor=actor)


def get_rule_at(rights: MapRights, rules: Sequence[Rule], at: int) -> Rule:
    """Return the rule at an index; raise NotFound if there is none that the actor may read."""
    rule = rules[at] if 0 <= at < len(rules) else None
    if rule is None or not may_read_rule(rights, rule):
        raise NotFound(_("Not found, or not visible to you."))
    return rule


def may_read_rule(rights: MapRights, rule: Rule) -> bool:
    """Return whether the actor may see names at the rule's entry, because rules contain names; if archived, at the
    root."""
    return rights.may_name(rights.tree.index_of_uid(rule.target_uid) or 0)


def refuse_invalid_rules(rights: MapRights, rules: Sequence[Rule], known: Sequence[Rule] = ()) -> None:
    """Raise Invalid for invalid rules. known: stored rules, which stay valid if their entry or source was removed."""
    if len(rules) > MOST_MAPPING_RULES:
        raise Invalid(_("A policy has at most %(most)d mapping rules.") % {"most": MOST_MAPPING_RULES})
    tree, standing = rights.tree, {rule.stated for rule in known}
    slugs = set(Source.all_objects.values_list("slug", flat=True))
    problems = []
    for at, rule in enumerate(rules):
        where = f"rules[{at}]"
        if rule.stated in standing:
            continue
        problems += rule_problems(rule, where)
        target = tree.index_of_uid(rule.target_uid)
        if target is None or tree.is_reserve[target] or not rights.sees.may_see(target):
            problems.append(FieldProblem(f"{where}.target_uid", "names no entry that may have accounts"))
        if rule.source and rule.source not in slugs:
            problems.append(FieldProblem(f"{where}.source", "names no usage source"))
    if problems:
        raise Invalid(f"{problems[0].where} {problems[0].message}.", code="bad_rules", fields=problems)


def with_reach(rights: MapRights, wanted: Sequence[Rule], before: Sequence[Rule], *, at: datetime) -> tuple[Rule, ...]:
    """Return rules to be stored: unchanged ones keep their reach, new ones get that of the actor's rights."""
    known: dict[Rule, list[Rule]] = {}
    for rule in reversed(before):
        known.setdefault(rule.stated, []).append(rule)
    rules = []
    for rule in wanted:
        same = known.get(rule.stated)
        rules.append(same.pop() if same else _recorded(rights, rule, at))
    return tuple(rules)


def _recorded(rights: MapRights, rule: Rule, at: datetime) -> Rule:
    written_at = at.astimezone(UTC).isoformat()
    if rights.may_map(0):  # a restored rule keeps its time
        return replace(rule, written_at=rule.written_at or written_at)
    target = rights.tree.index_of_uid(rule.target_uid)
    reach = rule.target_uid if target is None else rights.reach_of(target)
    return replace(rule, reach_uid=reach, written_at=written_at)


def _plan(rights: MapRights, edit: Edit, at: datetime) -> Plan:
    state = current_mapping(rights.policy)
    wanted = edit.wanted(rights, state)
    if wanted.rules is not None:
        refuse_invalid_rules(rights, wanted.rules, state.rules)
        wanted = replace(wanted, rules=with_reach(rights, wanted.rules, state.rules, at=at))
    if not _changes_anything(wanted, state):
        raise Invalid(_("Already the current state: nothing would change."), code="nothing_to_change")
    moves = find_moves(rights, wanted, at=at)
    refusal = None if wanted.rules is None else refusal_of_rules(rights, state.rules, wanted.rules)
    if isinstance(edit, Assign):
        _refuse_other_accounts(rights, edit, moves)
    attached = _attached_by(rights, edit.accounts) if isinstance(edit, Detach) else ()
    key, text = refusal or refusal_of(rights, moves, attached=attached) or ("", "")
    return Plan(rights, version_of(rights.policy), wanted, moves, text, key, state)


def _attached_by(rights: MapRights, accounts: Sequence[int]) -> set[int]:
    """Return which of the accounts the actor attached while they were unmapped."""
    user = rights.actor.user
    return {
        account for account in accounts if user is not None and get_attaching_user(rights.policy, account) == user.pk
    }


def _changes_anything(wanted: ProposedMapping, state: MappingState) -> bool:
    if wanted.rules is not None and wanted.rules != state.rules:
        return True
    return any(state.attached.get(account) != uid for account, uid in (wanted.places or {}).items())


def _refuse_other_accounts(rights: MapRights, edit: Assign, moves: Sequence[Move]) -> None:
    """Refuse missing accounts and accounts of others with the same error, so that it reveals neither."""
    there = Account.objects.filter(pk__in=list(edit.places)).exclude(namespace__startswith=RESERVED)
    unfit = set(edit.places) - set(there.values_list("pk", flat=True))
    if not rights.may_map(0):
        unfit |= {move.account for move in moves if not move.was_free and not rights.may_map(move.before)}
    if unfit:
        message = _("must be unmapped accounts: %(n)s of them don’t exist, or are mapped to other entries")
        raise _invalid("accounts", message % {"n": len(unfit)})


def _make(plan: Plan, edit: Edit, reason: str, *, at: datetime, actor: Actor) -> int:
    policy, wanted = plan.rights.policy, plan.wanted
    rules = wanted.rules if wanted.rules != plan.before.rules else None
    if rules is not None:
        write_rules(policy, rules)
    attached = _write_places(policy, plan, reason, at=at, actor=actor)
    number = store_version(policy, rules=rules, attached=attached, reason=reason, at=at, actor=actor)
    ends = {placement.after for placement in attached if placement.after is not None}
    audit.record(
        actor=actor,
        verb=edit.verb,
        at=at,
        policy_slug=policy.slug,
        reason=reason,
        entry_uid=next(iter(ends)) if len(ends) == 1 and rules is None else None,
        subject=_("version %(n)s of the mapping") % {"n": number},
        details={
            "version": number,
            "n_moved": len(plan.moves),
            "core_s": plan.core_s,
            **({} if rules is None else {"rules": [rule.to_json() for rule in rules[:100]]}),
            **({"attached": [placement.to_json() for placement in attached[:100]]} if attached else {}),
        },
    )
    return number


def write_rules(policy: Policy, rules: Sequence[Rule]) -> None:
    MappingRule.objects.filter(policy=policy).delete()
    MappingRule.objects.bulk_create(
        [MappingRule(policy=policy, position=position, **rule.to_json()) for position, rule in enumerate(rules)]
    )


def _write_places(policy: Policy, plan: Plan, reason: str, *, at: datetime, actor: Actor) -> list[Placement]:
    before = plan.before.attached
    changed = [
        Placement(account, before.get(account), uid)
        for account, uid in sorted((plan.wanted.places or {}).items())
        if before.get(account) != uid
    ]
    Attachment.objects.filter(policy=policy, account_id__in=[placement.account for placement in changed]).delete()
    Attachment.objects.bulk_create(
        Attachment(
            policy=policy,
            account_id=placement.account,
            entry_uid=placement.after,
            reason=reason,
            author=actor.user,
            author_name=actor.name,
            created_at=at,
        )
        for placement in changed
        if placement.after is not None
    )
    return changed


def _insert_rule(rules: Sequence[Rule], rule: Rule, to: int | None) -> tuple[Rule, ...]:
    """Insert a rule at an index, limited to the range of its tier; None: at the end of its tier."""
    first = sum(tier_of(other) < tier_of(rule) for other in rules)
    last = sum(tier_of(other) <= tier_of(rule) for other in rules)
    at = last if to is None else min(max(to, first), last)
    return (*rules[:at], rule, *rules[at:])


def _invalid(where: str, message: str) -> Invalid:
    return Invalid(f"{where} {message}.", fields=[FieldProblem(where, message)])
