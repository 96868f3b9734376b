"""Whatever delegates of different parts do, nothing outside of a delegate's part changes or becomes readable."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

import pytest
from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import Actor
from apps.accounts.models import Account
from apps.accounts.request_cache import cache_for_request
from apps.core.errors import DomainError
from apps.mapping import changes as mapping_changes
from apps.mapping.attachments import attach_account, detach_account
from apps.mapping.changes import make_change, preview_change
from apps.mapping.claims import claim_account, decide_claim
from apps.mapping.membership_plan import apply_membership_rules
from apps.mapping.models import Attachment, Claim
from apps.mapping.rules.rule import KINDS as RULE_KINDS
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import load_rules
from apps.pages.mapping.api.serializers import plan_json
from apps.policies.access.authority import GrantTerms
from apps.policies.access.delegation import create_grant
from apps.policies.changesets.checks import list_checks
from apps.policies.changesets.lifecycle import approve_change_set, publish_due, schedule_change_set
from apps.policies.changesets.review import review_of
from apps.policies.files.import_export import FileImport, import_policy
from apps.policies.models import ChangeSet, Grant
from apps.policies.operations.apply import KINDS
from apps.policies.publishing.direct import publish_operations
from apps.policies.publishing.revert import restore_revision, revert_revision
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, propose_change_set, publish_change_set
from apps.policies.tree.terms import MembershipRule
from apps.priorities.selectors.members import preview_members
from tests.examples import examples
from tests.instants import AT
from tests.security.delegated_world import DELEGATES, SLUG, Outside, State, add_account, make_world

# Every class of mapping_changes that is an edit, so that a new one is tried automatically.
EDITS: list[Any] = [
    each
    for _name, each in sorted(vars(mapping_changes).items())
    if isinstance(each, type) and is_dataclass(each) and hasattr(each, "verb")
]
_NAMES = ["alice", "bob", "carol", "cyd", "guest", "seasonal", "summer", "x"]
_GROUPS = ["*", "*", "", "physics", "bio*", "bio-lab", "visitors", "climate", "?*"]
number = st.integers(0, 40)
names = st.sampled_from(_NAMES)
groups = st.sampled_from(_GROUPS)
who = st.sampled_from([*DELEGATES, "tom"])
shares = st.sampled_from([0, 1, 3.5, "parent", {"percent": 50, "from": "siblings"}])
instants = st.sampled_from(["2020-01-01T00:00:00+00:00", ""])


@st.composite
def member_rules(draw: st.DrawFn) -> dict[str, Any]:
    found = {"group": draw(groups), "people": draw(st.sampled_from(["", "", "*", "oidc:team"]))}
    wider = draw(st.sampled_from([{}, {}, {}, {}, {"reach": "*", "written_at": "2020-01-01T00:00:00+00:00"}]))
    return {**found, **wider, "archive_after_days": draw(st.sampled_from([None, 1]))}


# What each key of an operation is given; an operation with a key of its own names what it needs here.
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "entry": number,
    "parent": number,
    "name": names,
    "shares": shares,
    "uid": st.none(),
    "kind": st.sampled_from(["user", "group", "reserve"]),
    "is_group": st.booleans(),
    "scope": st.sampled_from(["", "local", "global"]),
    "sources": st.just([]),
    "locked": st.booleans(),
    "dates": st.sampled_from(
        [
            None,
            {"ends_on": "2026-11-30", "at_end": "archive"},
            {"starts_on": "2026-11-21", "shares": 9},
        ]
    ),
    "members": st.lists(member_rules(), max_size=2),
    "mount": st.just({"issuer": "vo-a.example", "publication": "p"}),
    "resource": st.just("cpu_s"),
    "amount_s": st.sampled_from([-3600, 3600]),
    "at": st.just("2026-11-20T10:00:00Z"),
    "note": st.just("refund"),
    "revokes": st.none(),
    "allocation": st.none(),
    "was": st.none(),
    "amount": st.sampled_from([0, 5_000]),
    "unit": st.just("core-h"),
    "starts_on": st.just("2026-01-01"),
    "ends_on": st.just("2026-12-31"),
    "rule": st.just("Aging"),
    "carried_from": st.none(),
    "settings": st.sampled_from([{"review": {"points": 5}}, {"algorithm": {"name": "aequus"}}]),
}
REQUIRED = {
    "set_shares": {"shares"},
    "add": {"parent", "name"},
    "rename": {"name"},
    "move": {"parent"},
    "set_members": {"members"},
    "set_policy": {"settings"},
    "set_scope": {"scope"},
    "allocate": {"amount", "starts_on", "ends_on"},
}


@st.composite
def operations(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(sorted(KINDS)))
    found = {"op": kind}
    for key in KINDS[kind].keys:
        always = key == "entry" or key in REQUIRED.get(kind, ()) or kind in ("adjust_usage", "set_dates", "mount")
        if always or draw(st.booleans()):
            value = draw(VALUES[key])
            if value is not None or key == "dates":
                found[key] = value
    return found


@st.composite
def mapping_rules(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "kind": draw(st.sampled_from(RULE_KINDS)),
        "target": draw(number),
        "group_pattern": draw(groups),
        "user_pattern": draw(st.sampled_from(["*", "", "carol", "alice", "g*"])),
        "suffix": draw(st.sampled_from(["", "/{user}", "/{group}/{user}"])),
    }


class Delegates(RuleBasedStateMachine):
    """Each delegate acts; then rules for members do their work; then everything outside is unchanged."""

    # The world is made and read once; each sequence is rolled back.
    actors: ClassVar[dict[str, Actor]]
    first: ClassVar[State]
    first_outsides: ClassVar[dict[str, Outside]]

    @initialize()
    def start(self) -> None:
        self.savepoint = transaction.atomic()
        self.savepoint.__enter__()
        self.uids: list[UUID] = []  # also of what was archived since
        self.days = 0
        self._take(self.first, self.first_outsides)

    def teardown(self) -> None:
        if hasattr(self, "savepoint"):
            transaction.set_rollback(True)
            self.savepoint.__exit__(None, None, None)

    @property
    def at(self) -> Any:
        return AT + timedelta(seconds=self.days)

    def _look(self) -> State:
        return self._take(State.now(), {})

    def _take(self, state: State, outsides: dict[str, Outside]) -> State:
        self.state, self.outsides = state, outsides
        self.uids = list(dict.fromkeys([*self.uids, *map(self.state.tree.uuid, range(len(self.state.tree)))]))
        return self.state

    def _uid(self, which: int, by: str) -> UUID:
        """An entry, also one that was archived; mostly of the part where the actor decides."""
        own = [uid for uid in self.uids if uid not in self._outside(by).entries]
        return own[which % len(own)] if own and which % 5 else self.uids[which % len(self.uids)]

    def _act(
        self,
        name: str,
        act: Callable[[Actor], object],
        *,
        corrected: bool = False,
        given: object = "",
        only_reads: bool = False,
    ) -> None:
        """given: what the actor sent, which may come back in the answer. only_reads: it changes nothing."""
        actor, is_done = self.actors[name], True
        outside = self._outside(name)
        self.days += 1
        found: object = ""
        try:
            with transaction.atomic():
                found = act(actor)
        except DomainError as error:  # all of it is rolled back
            found, is_done = [error.message, *((field.where, field.message) for field in error.fields)], False
        outside.require_absent(json.dumps(found, cls=DjangoJSONEncoder, default=str) if found else "", given=str(given))
        if is_done and not only_reads:
            apply_membership_rules(at=self.at)
            outside.require_unchanged(self._look(), corrected=corrected)

    def _outside(self, name: str) -> Outside:
        if name not in self.outsides:
            self.outsides[name] = Outside.of(self.state, self.actors[name])
        return self.outsides[name]

    def _resolved(self, written: list[dict[str, Any]], by: str) -> list[dict[str, Any]]:
        named = ("entry", "parent")
        return [
            {key: str(self._uid(value, by)) if key in named else value for key, value in each.items()}
            for each in written
        ]

    @rule(by=who, operation=operations())
    def publish(self, by: str, operation: dict[str, Any]) -> None:
        """One operation, published at once."""
        written = self._resolved([operation], by)

        def act(actor: Actor) -> None:
            publish_operations(policy_slug=SLUG, operations=written, reason="r", at=self.at, actor=actor)

        self._act(by, act, corrected=operation["op"] == "adjust_usage", given=written)

    @rule(by=who, entry=number, members=st.lists(member_rules(), max_size=2))
    def publish_rules(self, by: str, entry: int, members: list[dict[str, Any]]) -> None:
        """The operation of whose effect the least is known when it is published."""
        self.publish(by, {"op": "set_members", "entry": entry, "members": members})

    @rule(
        by=who,
        written=st.lists(operations(), min_size=1, max_size=2),
        helper=st.none() | who,
        way=st.sampled_from(["publish", "schedule", "approve"]),
    )
    def change(self, by: str, written: list[dict[str, Any]], helper: str | None, way: str) -> None:
        """Written and reviewed by one delegate, and published by that one or another."""
        written = self._resolved(written, by)
        corrected = any(each["op"] == "adjust_usage" for each in written)
        drafted: list[ChangeSet] = []

        def draft(actor: Actor) -> object:
            change_set = make_change_set(
                policy_slug=SLUG, new=NewChangeSet(operations=written, reason="r"), at=self.at, actor=actor
            )
            drafted.append(change_set)
            sees = self.state.rights(actor).sees.mask
            with cache_for_request():  # as on its page
                review = review_of(change_set, at=self.at)
                return [] if len(review.after) != len(sees) else list_checks(review, sees=sees, actor=actor)

        self._act(by, draft, given=written, only_reads=True)
        for change_set in drafted:
            if helper is not None or way != "publish":
                with suppress(DomainError):
                    change_set = propose_change_set(
                        id=change_set.pk, version=change_set.version, at=self.at, actor=self.actors[by]
                    )
            self._act(helper or by, partial(self._publish, change_set, way), corrected=corrected, given=written)

    def _publish(self, change_set: ChangeSet, way: str, actor: Actor) -> object:
        pk, version = change_set.pk, change_set.version
        if way == "approve":
            version = approve_change_set(id=pk, version=version, at=self.at, actor=actor).version
        if way == "schedule":
            due = self.at + timedelta(seconds=1)
            schedule_change_set(id=pk, version=version, effective_at=due, at=self.at, actor=actor)
            publish_due(at=due)
            return ChangeSet.objects.get(pk=pk).held_for
        publish_change_set(id=pk, version=version, at=self.at, actor=actor)
        return ""

    @rule(
        by=who,
        errand=st.sampled_from(["preview", "claim", "import", "hand_on"]),
        entry=number,
        name=names,
        owner=who,
        rules=st.lists(member_rules(), min_size=1, max_size=1),
    )
    def do_errand(self, by: str, errand: str, entry: int, name: str, owner: str, rules: list[dict[str, Any]]) -> None:
        """The rarer ways, one at a time."""
        if errand == "preview":
            self._preview_rules(by, rules, entry)
        elif errand == "claim":
            self._claim(by, name, owner)
        elif errand == "import":
            self._import_file(by, rules)
        else:
            self._hand_on(by, entry, name)

    def _preview_rules(self, by: str, rules: list[dict[str, Any]], entry: int) -> None:
        stated = [MembershipRule(group=each["group"], people=each["people"]) for each in rules]
        preview = cache_for_request()(preview_members)
        self._act(
            by,
            lambda actor: vars_of(
                preview(policy_slug=SLUG, entry_uid=self._uid(entry, by), members=stated, at=self.at, actor=actor)
            ),
            only_reads=True,
        )

    @rule(
        by=who,
        edit=st.sampled_from(EDITS),
        given=st.lists(mapping_rules(), min_size=1, max_size=2),
        a=number,
        b=number,
        keep=st.booleans(),
    )
    def map_accounts(self, by: str, edit: Any, given: list[dict[str, Any]], a: int, b: int, keep: bool) -> None:
        """Any edit of the mapping: tried, then made."""
        rules = [
            Rule(
                **{key: value for key, value in each.items() if key != "target"},
                target_uid=self._uid(each["target"], by),
            )
            for each in given
        ]
        accounts = list(Account.objects.order_by("pk").values_list("pk", flat=True))
        account = accounts[b % len(accounts)]
        stored = list(load_rules(self.state.policy))
        values = {
            "rule": rules[0],
            "rules": [*stored, *rules] if keep else rules,
            "at": a % 3,
            "to": b % 3,
            "places": {account: self._uid(a, by)},
            "accounts": [account],
            "number": 1 + a % 4,
        }
        wanted = edit(**{field.name: values[field.name] for field in fields(edit)})
        preview = cache_for_request()(preview_change)
        self._act(
            by,
            lambda actor: plan_json(preview(policy_slug=SLUG, edit=wanted, at=self.at, actor=actor)),
            only_reads=True,
        )
        self._act(
            by,
            lambda actor: make_change(policy_slug=SLUG, edit=wanted, reason="r", version=None, at=self.at, actor=actor),
        )

    @rule(by=who, entry=number, which=number, away=st.booleans())
    def attach(self, by: str, entry: int, which: int, away: bool) -> None:
        accounts = list(Account.objects.order_by("pk").values_list(*AccountKey._fields))
        key = AccountKey(*accounts[which % len(accounts)])

        def act(actor: Actor) -> None:
            there = list(Attachment.objects.order_by("pk").values_list("pk", flat=True))
            if away and there:
                detach_account(
                    policy_slug=SLUG, attachment_id=there[which % len(there)], reason="r", at=self.at, actor=actor
                )
                return
            with suppress(DomainError):  # names what was asked for
                attach_account(
                    policy_slug=SLUG, entry_uid=self._uid(entry, by), account=key, reason="r", at=self.at, actor=actor
                )

        self._act(by, act)

    def _claim(self, by: str, name: str, owner: str) -> None:
        def act(actor: Actor) -> None:
            claim_account(namespace="a", user_name=name, at=self.at, actor=self.actors[owner])
            claim = Claim.objects.order_by("-pk").first()
            if claim is not None:
                rights = self.state.rights(actor)
                decide_claim(rights, claim_id=claim.pk, confirm=True, at=self.at, actor=actor)

        self._act(by, act)

    @rule(by=who, number=st.integers(1, 5), back=st.booleans())
    def go_back(self, by: str, number: int, back: bool) -> None:
        def act(actor: Actor) -> None:
            way = revert_revision if back else restore_revision
            drafted = way(policy_slug=SLUG, number=number, reason="r", at=self.at, actor=actor)
            publish_change_set(id=drafted.pk, version=drafted.version, at=self.at, actor=actor)

        self._act(by, act, corrected=True)

    def _import_file(self, by: str, rules: list[dict[str, Any]]) -> None:
        """A document of one part, with rules."""
        collected = [{key: each[key] for key in ("group", "people")} for each in rules]
        root = {"name": "grid", "children": [{"name": "climate", "shares": 20, "members": collected}]}
        self._act(
            by,
            lambda actor: (
                import_policy(
                    file=FileImport(
                        policy_slug=SLUG, format="json", content=json.dumps({"root": root}).encode(), keep_missing=True
                    ),
                    publish=True,
                    reason="r",
                    at=self.at,
                    actor=actor,
                ).revision
                and ""
            ),
        )

    def _hand_on(self, by: str, entry: int, name: str) -> None:
        role = "lead" if name in _NAMES[:4] else "manager"

        def act(actor: Actor) -> None:
            if not Grant.objects.filter(user=self.actors["tom"].user).exists():
                create_grant(
                    policy_slug=SLUG,
                    entry_uid=self._uid(entry, by),
                    terms=GrantTerms(username="tom", role=role, reason="r"),
                    at=self.at,
                    actor=actor,
                )

        self._act(by, act)

    @rule(group=st.sampled_from(["physics", "biology", "climate", "bio-new", "visitors"]), name=names)
    def arrive(self, group: str, name: str) -> None:
        """A new account counts where the rules of administrators lead it, even if another user wrote a later rule."""
        add_account(f"{name}2", group)
        state = self._look()
        key = next(key for key in state.places if (key.user_name, key.group_name) == (f"{name}2", group))
        if group in ("physics", "biology", "climate", "bio-new"):
            assert state.top(key) == group.replace("bio-new", "biology"), f"{group} counts at {state.top(key)}"
        if apply_membership_rules(at=self.at):
            self._look()


def vars_of(found: Any) -> dict[str, Any]:
    return {field.name: getattr(found, field.name) for field in fields(found)}


@pytest.mark.deep
@pytest.mark.timeout(3_600)
def test_delegates_change_and_read_nothing_outside_their_subtree(db: None) -> None:
    Delegates.actors, Delegates.first_outsides = make_world(), {}
    Delegates.first = State.now()
    asked = examples(500, steps=5, suppress=HealthCheck, fixed=100)
    without_shrinking = (Phase.explicit, Phase.reuse, Phase.generate)  # five steps are short enough to read
    run_state_machine_as_test(Delegates, settings=settings(asked, phases=without_shrinking))


def test_every_key_of_an_operation_is_tried() -> None:
    asked = {key for kind in KINDS.values() for key in kind.keys}
    assert asked <= set(VALUES), "the machine doesn't know what to give for these"
