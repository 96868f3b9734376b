"""Two editors of one policy at once, in any order: no update lost, no cycle, no orphan, no step outside one's part."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from apps.accounts.actor import Actor
from apps.core.errors import DomainError, Stale
from apps.policies import services
from apps.policies.changesets import drafts
from apps.policies.changesets.conflicts import EditConflict, MergeSides, resolve_conflicts
from apps.policies.models import ChangeSet, Policy
from apps.policies.operations.apply import apply_operations
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.stored import load_tree, load_tree_from_rows
from apps.policies.tree.working_tree import columns_of
from tests.examples import examples
from tests.instants import AT
from tests.policies.conftest import person
from tests.policies.operations.test_random_edits import check_shape, operation

who = st.sampled_from(["manager", "lead"])
kinds = st.sampled_from(["set_shares", "add", "move", "rename", "archive", "percent", "lock", "set_shares"])
names = st.sampled_from(["a", "b", "c", "å", "alice"])
places = st.sampled_from(["/physics/alice", "/physics/bob", "/physics", "/biology/lab", "/biology", "/reserve", "/"])
INTERLEAVINGS = 1_000  # in memory; some of them once more through everything that a request goes through
STEPS = 12
THROUGH_ALL = 30
MERGES_TRANSACTIONS = True  # of many requests into one, which `tests.lock_order` leaves out


def _start() -> TreeColumns:
    """The tree of the fixtures, by itself."""
    ids = [UUID(int=k + 1) for k in range(7)]
    root, physics, alice, bob, biology, lab, reserve = ids
    return columns_of(
        [
            Node(root, None, "grid"),
            Node(physics, root, "physics", "vo", 30.0),
            Node(biology, root, "biology", "vo", 50.0),
            Node(reserve, root, "reserve", "reserve", 20.0, is_group=False),
            Node(alice, physics, "alice", "user", 1.0, is_group=False),
            Node(bob, physics, "bob", "user", 3.0, is_group=False),
            Node(lab, biology, "lab"),
        ]
    )


START = _start()


def at_place(tree: TreeColumns, path: str, entry: str) -> int:
    """The entry at a path, or its sibling with a drawn name."""
    found = tree.index_of_path(path.rsplit("/", 1)[0] + "/" + entry)
    return found if found is not None else tree.index_of_path(path) or 0


def nothing_is_lost(base: TreeColumns, head: TreeColumns, after: TreeColumns, named: set[str]) -> None:
    """Entries that changed since the base, and that the draft doesn't name, are what their editor made them."""
    for i in range(len(head)):
        theirs = head.node(i)
        j, k = base.index_of_uid(theirs.uid), after.index_of_uid(theirs.uid)
        before = None if j is None else base.node(j)
        way = {str(head.uuid(step)) for step in [*head.ancestors(i), i]}
        beside = {str(head.uuid(child)) for child in head.children(max(int(head.parent[i]), 0))}
        if before == theirs or named & (way | beside):
            continue
        assert k is not None
        assert after.node(k) == theirs


@dataclass
class Writer:
    """One editor with a draft in memory."""

    base: TreeColumns
    log: list[Any] = field(default_factory=list)
    undone: list[Any] = field(default_factory=list)


class TwoInMemory(RuleBasedStateMachine):
    """The services' decisions, on trees alone."""

    seen = published = conflicting = 0

    @initialize()
    def start(self) -> None:
        self.head = START
        self.writers = {"manager": Writer(START), "lead": Writer(START)}
        TwoInMemory.seen += 1

    def _sides(self, writer: Writer) -> MergeSides:
        settings = PolicySettings()
        return MergeSides(writer.base, self.head, settings, settings, lambda uid: (), lambda uid: ())

    @rule(name=who, kind=kinds, place=places, goal=places, entry=names, shares=st.integers(0, 50))
    def edit(self, name: str, kind: str, place: str, goal: str, entry: str, shares: int) -> None:
        writer = self.writers[name]
        i, j = at_place(writer.base, place, entry), at_place(writer.base, goal, entry)
        asked = operation(writer.base, kind, i, j, entry, shares)
        if kind == "percent":
            asked["shares"]["percent"] = shares
        try:
            outcome = apply_operations(writer.base, [*writer.log, asked])
        except DomainError:
            return
        assert outcome.operations[:-1] == writer.log
        writer.log, writer.undone = outcome.operations, []

    @rule(place=places, mine=st.integers(0, 50), theirs=st.integers(0, 50))
    def both_want_it(self, place: str, mine: int, theirs: int) -> None:
        """Left to chance, two drafts hardly ever touch the same number."""
        self.edit("manager", "set_shares", place, place, "a", mine)
        self.edit("lead", "set_shares", place, place, "a", theirs)

    @rule(name=who, back=st.booleans())
    def step(self, name: str, back: bool) -> None:
        writer = self.writers[name]
        if back and writer.log:
            writer.undone.append(writer.log.pop())
        elif not back and writer.undone:
            writer.log = apply_operations(writer.base, [*writer.log, writer.undone.pop()]).operations

    @rule(name=who, side=st.sampled_from(["mine", "theirs"]))
    def rebase(self, name: str, side: str) -> None:
        writer = self.writers[name]
        choices: dict[str, Any] = {}
        for _ in range(40):
            settled = resolve_conflicts(self._sides(writer), writer.log, choices)
            if not settled.open:
                writer.log = apply_operations(self.head, settled.operations).operations if settled.kept else []
                writer.base, writer.undone = self.head, []
                return
            choices |= {each.key: side if each.can_keep else "theirs" for each in settled.open}
        raise AssertionError("choosing comes to no end")

    @rule(name=who)
    def publish(self, name: str) -> None:
        writer = self.writers[name]
        if not writer.log:
            return
        if writer.base is not self.head and self._sides(writer).conflicts(writer.log):
            TwoInMemory.conflicting += 1
            return
        after = apply_operations(self.head, writer.log).tree
        check_shape(after)
        nothing_is_lost(writer.base, self.head, after, drafts.named_uids(writer.log))
        TwoInMemory.published += 1
        self.head = after
        self.writers[name] = Writer(after)


@pytest.mark.fault("F18")
def test_interleaved_edits_of_two_editors_lose_no_update_and_keep_a_valid_tree() -> None:
    TwoInMemory.seen = TwoInMemory.published = TwoInMemory.conflicting = 0
    drawn = examples(INTERLEAVINGS, steps=STEPS, suppress=HealthCheck)
    run_state_machine_as_test(TwoInMemory, settings=drawn)
    assert TwoInMemory.seen >= drawn.max_examples
    assert TwoInMemory.published >= drawn.max_examples / 10
    assert TwoInMemory.conflicting > drawn.max_examples / 100


class TwoEditors(RuleBasedStateMachine):
    """The manager rules the whole, the lead what is below /physics. A model of each draft's log runs beside it."""

    people: dict[str, Actor]
    seen = 0
    published = 0

    @initialize()
    def start(self) -> None:
        self.undoing = transaction.atomic()  # each example begins with the same policy
        self.undoing.__enter__()
        self.slug = "grid"
        self.policy = Policy.objects.get(slug=self.slug)
        physics = load_tree(self.policy).index_of_path("/physics")
        assert physics is not None
        self.physics = load_tree(self.policy).uuid(physics)
        self.drafts: dict[str, int] = {}
        self.log: dict[str, list[Any]] = {"manager": [], "lead": []}
        self.undone: dict[str, list[Any]] = {"manager": [], "lead": []}
        self.versions: dict[str, int] = {}
        TwoEditors.seen += 1

    def _draft(self, name: str) -> ChangeSet:
        if name not in self.drafts:
            opened = drafts.open_draft(policy_slug=self.slug, reason="r", at=AT, actor=self.people[name])
            self.drafts[name], self.versions[name] = opened.pk, opened.version
            self.log[name], self.undone[name] = [], []
        return ChangeSet.objects.get(pk=self.drafts[name])

    def _try(self, name: str, step: Any, **more: Any) -> ChangeSet | None:
        """Run one step; a refusal leaves everything as it was."""
        draft = self._draft(name)
        common: dict[str, Any] = {"id": draft.pk, "version": draft.version, "at": AT, "actor": self.people[name]}
        try:
            with transaction.atomic():
                done: ChangeSet = step(**common, **more)
        except DomainError:
            draft_now = ChangeSet.objects.get(pk=draft.pk)
            assert (draft_now.version, draft_now.operations) == (draft.version, draft.operations)
            return None
        return done

    @rule(name=who, kind=kinds, place=places, goal=places, entry=names, shares=st.integers(0, 50))
    def edit(self, name: str, kind: str, place: str, goal: str, entry: str, shares: int) -> None:
        draft = self._draft(name)
        tree = load_tree(self.policy, draft.base_number)
        asked = operation(tree, kind, at_place(tree, place, entry), at_place(tree, goal, entry), entry, shares)
        if kind == "percent":
            asked["shares"]["percent"] = shares
        done = self._try(name, drafts.add_operations, operations=[asked])
        if done is not None:
            assert done.operations[:-1] == self.log[name], "what was written before is still there"
            self.log[name], self.undone[name] = done.operations, []

    @rule(name=who, kind=kinds, place=places, goal=places, entry=names, shares=st.integers(0, 50))
    def edit_more(self, name: str, kind: str, place: str, goal: str, entry: str, shares: int) -> None:
        """One more edit, so that drafts contain something."""
        before = self._draft(name).version
        self.edit(name, kind, place, goal, entry, shares)
        if self._draft(name).version != before:
            self._stale(name, before)

    def _stale(self, name: str, version: int) -> None:
        """Who still holds the version before can't write over it."""
        root = str(load_tree(self.policy).uuid(0))
        with pytest.raises(Stale), transaction.atomic():
            drafts.add_operations(
                id=self.drafts[name],
                version=version,
                operations=[{"op": "rename", "entry": root, "name": "z"}],
                at=AT,
                actor=self.people[name],
            )

    @rule(name=who)
    def undo(self, name: str) -> None:
        done = self._try(name, drafts.undo)
        assert (done is not None) == bool(self.log[name])
        if done is not None:
            self.undone[name].append(self.log[name].pop())
            assert (done.operations, done.undone) == (self.log[name], self.undone[name])

    @rule(name=who)
    def redo(self, name: str) -> None:
        done = self._try(name, drafts.redo)
        assert (done is not None) == bool(self.undone[name]), "what was taken back can always be brought again"
        if done is not None:
            self.log[name].append(self.undone[name].pop())
            assert (done.operations, done.undone) == (self.log[name], self.undone[name])

    @rule(name=who, side=st.sampled_from(["mine", "theirs"]))
    def rebase(self, name: str, side: str) -> None:
        draft = self._draft(name)
        choices: dict[str, Any] = {}
        for _ in range(20):
            try:
                with transaction.atomic():
                    done = drafts.update_draft(
                        id=draft.pk, version=draft.version, choices=choices, at=AT, actor=self.people[name]
                    )
            except EditConflict as conflict:
                choices |= {each.key: side if each.can_keep else "theirs" for each in conflict.conflicts}
                continue
            except DomainError:
                return
            self.policy.refresh_from_db()
            assert done.base_number == self.policy.head_number
            self.log[name], self.undone[name] = done.operations, []
            return

    @rule(name=who, gives_up=st.integers(0, 7))
    def finish(self, name: str, gives_up: int) -> None:
        """Nearly always by publishing it."""
        draft = self._draft(name)
        if gives_up == 7 and self._try(name, services.withdraw_change_set) is not None:
            del self.drafts[name]
            return
        if not draft.operations:
            return
        base, head = load_tree(self.policy, draft.base_number), load_tree(self.policy)
        try:
            with transaction.atomic():
                revision = services.publish_change_set(
                    id=draft.pk, version=draft.version, reason="r", at=AT, actor=self.people[name]
                )
        except DomainError:
            return
        TwoEditors.published += 1
        self.policy.refresh_from_db()
        assert revision.number == self.policy.head_number
        after = load_tree(self.policy)
        check_shape(after)
        assert after.same_as(load_tree_from_rows(self.policy))
        nothing_is_lost(base, head, after, drafts.named_uids(draft.operations))
        if name == "lead":
            self._nothing_outside(head, after)
        del self.drafts[name]

    @rule(name=who, place=places, shares=st.integers(1, 50))
    def change_shares(self, name: str, place: str, shares: int) -> None:
        """Left to chance, few drafts with edits are published."""
        self.edit(name, "set_shares", place, place, "a", shares)
        self.finish(name, gives_up=0)

    def _nothing_outside(self, head: TreeColumns, after: TreeColumns) -> None:
        """A delegate's publish changes neither an entry nor a target outside the delegated part."""
        inside = head.subtree_mask(head.index_of_uid(self.physics) or 0)
        for i in range(len(head)):
            if not inside[i] or head.uuid(i) == self.physics:
                j = after.index_of_uid(head.uuid(i))
                assert j is not None
                before, now = head.node(i), after.node(j)
                assert (before.shares, before.parent_uid, before.name) == (now.shares, now.parent_uid, now.name)

    def teardown(self) -> None:
        if hasattr(self, "policy"):
            transaction.set_rollback(True)
            self.undoing.__exit__(None, None, None)


@pytest.mark.django_db(transaction=True)
@pytest.mark.fault("F18")
def test_no_interleaving_of_two_editors_loses_an_update(policy: Policy, bob: Actor) -> None:
    TwoEditors.people = {"manager": person("manager", is_admin=True), "lead": bob}
    TwoEditors.seen = TwoEditors.published = 0
    drawn = examples(THROUGH_ALL, steps=STEPS, suppress=HealthCheck, fixed=25)
    run_state_machine_as_test(TwoEditors, settings=drawn)
    assert TwoEditors.seen >= drawn.max_examples
    assert TwoEditors.published >= 3
