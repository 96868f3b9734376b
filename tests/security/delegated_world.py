"""A policy with delegates, and what a delegate must never change or read: for the tests of rules that move accounts.

/            grid: people see their own part
├─ physics   pia divides it   alice, bob; seasonal: summer, winter
├─ biology   ben divides it   carol; an administrator's rule for members takes the groups bio*
└─ climate   cleo divides and mounts, lea leads it
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import numpy as np

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.models import Account, User
from apps.accounts.request_cache import cache_for_request
from apps.engine.algorithms import compute
from apps.mapping.membership_plan import apply_membership_rules
from apps.mapping.permissions import MapRights
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import load_rule_set
from apps.mapping.services import set_rules
from apps.policies.access.scope import Verb
from apps.policies.models import Adjustment, Policy
from apps.policies.services import make_policy, publish_document
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.stored import load_tree
from tests.grants import make_grant
from tests.instants import AT

SLUG = "grid"
HOURS = {"alice": 6.0, "bob": 1.0, "summer1": 2.0, "carol": 3.0, "bioc": 4.0, "cyd": 5.0}
DELEGATES = {
    "pia": ("/physics", "manager"),
    "ben": ("/biology", "manager"),
    "cleo": ("/climate", "admin"),
    "lea": ("/climate", "lead"),
}
_GROUPS = {
    "alice": "physics",
    "bob": "physics",
    "summer1": "physics",
    "carol": "biology",
    "bioc": "bio-lab",
    "cyd": "climate",
    "guest": "visitors",
    "wanda": "visitors",
}
_DECIDES = tuple(verb for verb in Verb if verb not in (Verb.VIEW_AGGREGATE, Verb.VIEW_MEMBERS))


def _people(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "kind": "user"} for name in names]


_TREE: dict[str, Any] = {
    "name": "grid",
    "children": [
        {
            "name": "physics",
            "shares": 50,
            "children": [
                *_people("alice", "bob"),
                {"name": "seasonal", "children": _people("summer", "winter")},
            ],
        },
        {"name": "biology", "shares": 30, "members": [{"group": "bio*"}], "children": _people("carol")},
        {"name": "climate", "shares": 20, "children": _people("cyd")},
    ],
}


def make_world() -> dict[str, Actor]:
    """The policy, its accounts and rules; the delegates by name, and the administrator."""
    make_policy(slug=SLUG, name="Grid", at=AT, actor=SYSTEM)
    publish_document(policy_slug=SLUG, document={"root": _TREE}, reason="The first tree.", at=AT, actor=SYSTEM)
    policy = Policy.objects.get(slug=SLUG)
    tree = load_tree(policy)
    for user, group in _GROUPS.items():
        add_account(user, group)
    rules = [Rule(kind="glob", target_uid=tree.uuid(0), group_pattern="*", suffix="/{group}/{user}")]
    set_rules(policy_slug=SLUG, rules=rules, at=AT, actor=SYSTEM)
    actors = {name: Actor(user=User.objects.create_user(name), via="page") for name in (*DELEGATES, "tom")}
    for name, (path, role) in DELEGATES.items():
        at = tree.index_of_path(path)
        assert at is not None
        make_grant(actors[name].user, tree.uuid(at), role, policy=policy, at=AT - timedelta(days=9), reason="test")
    apply_membership_rules(at=AT)
    actors["admin"] = Actor(user=User.objects.create_superuser("admin"), via="page")
    return actors


def add_account(user: str, group: str) -> None:
    empty = dict.fromkeys(AccountKey._fields, "")
    account = Account(**{**empty, "namespace": "a", "user_name": user, "group_name": group}, first_seen_at=AT)
    Account.objects.bulk_create([account], ignore_conflicts=True)


@dataclass(frozen=True, eq=False)
class State:
    """All that could change for others. Usage is in hours, of entries with all below them."""

    policy: Policy
    tree: TreeColumns
    places: dict[AccountKey, int]
    usage: dict[UUID, float]
    target: dict[UUID, float]
    priority: dict[UUID, float]
    adjusted: frozenset[tuple[UUID, int]]
    context: Context  # with the query results of this state: of rules, grants, groups
    known_rights: dict[int, MapRights] = field(default_factory=dict)

    @classmethod
    @cache_for_request()
    def now(cls) -> State:
        policy = Policy.objects.get(slug=SLUG)
        tree = load_tree(policy)
        keys = [AccountKey(*row) for row in Account.objects.values_list(*AccountKey._fields)]
        resolver = load_rule_set(policy, tree).on(tree)
        places = {key: resolver.resolve(key).entry for key in keys}
        own = np.zeros(len(tree))
        for key, place in places.items():
            if place > 0:
                own[place] += HOURS.get(key.user_name, 0.0)
        result = compute(tree.engine_tree(), own)
        by_uid = [
            dict(zip(map(tree.uuid, range(len(tree))), column.tolist(), strict=True))
            for column in (result.usage, result.target_global, result.priority)
        ]
        adjusted = Adjustment.objects.filter(policy=policy, until=None).values_list("entry_uid", "pk")
        return cls(policy, tree, places, by_uid[0], by_uid[1], by_uid[2], frozenset(adjusted), copy_context())

    def rights(self, actor: Actor) -> MapRights:
        """Asked once in each state: grants change with a state alone."""
        key = actor.user.pk if actor.user else 0
        if key not in self.known_rights:
            self.known_rights[key] = MapRights(self.policy, self.tree, actor, AT)
        return self.known_rights[key]

    def top(self, key: AccountKey) -> str:
        """The entry below the root where an account counts; "" for none."""
        place = self.places[key]
        return "" if place <= 0 else self.tree.path(place).split("/")[1]


class Outside:
    """What one actor doesn't decide about in one state: entries, and the accounts that count there."""

    @classmethod
    def of(cls, state: State, actor: Actor) -> Outside:
        return state.context.run(cls, state, actor)

    def __init__(self, state: State, actor: Actor) -> None:
        rights = state.rights(actor)
        self.state, self.actor = state, actor
        self.entries = {state.tree.uuid(i) for i in range(len(state.tree)) if not rights.holds(i, *_DECIDES)}
        self.tops = {
            state.tree.uuid(i)
            for i in range(1, len(state.tree))
            if state.tree.uuid(i) not in self.entries and state.tree.uuid(int(state.tree.parent[i])) in self.entries
        }
        self.readable = _readable(state, actor, self.entries)
        others = {key for key, at in state.places.items() if at > 0 and state.tree.uuid(at) in self.entries}
        own_or_free = {key.user_name for key in state.places.keys() - others}  # one name may be in several groups
        seen = {name for name, is_seen in zip(state.tree.name, state.rights(actor).sees.mask, strict=True) if is_seen}
        self.strangers = {key.user_name for key in others} - own_or_free - seen

    def require_unchanged(self, after: State, *, corrected: bool = False) -> None:
        """corrected: usage of the actor's own part was corrected, which others are compared with."""
        after.context.run(self._require_unchanged, after, corrected=corrected)

    def _require_unchanged(self, after: State, *, corrected: bool) -> None:
        before = self.state
        decided = Outside.entries_below(after, self.tops)
        now = {after.tree.uuid(i) for i in range(len(after.tree))} - decided
        assert now == self.entries, "entries came to others, or went from them"
        for uid in self.entries:
            assert _node(before.tree, uid) == _node(after.tree, uid), "an entry outside your rights changed"
        for uid in (self.entries | self.tops) - {before.tree.uuid(0)}:  # the root has no competitors
            assert before.target[uid] == after.target[uid], "a target of others changed"
            assert before.usage[uid] == after.usage[uid], "usage of others changed"
            if not corrected:
                assert before.priority[uid] == after.priority[uid], "a priority of others changed"
        for key, place in before.places.items():
            there, here = _uid(before, place), _uid(after, after.places[key])
            assert there not in self.entries or there == here, f"{key.user_name} was taken from others"
            assert here not in self.entries or there == here, f"{key.user_name} was given to others"
        others = {pair for pair in after.adjusted if pair[0] in self.entries}
        assert others == {pair for pair in before.adjusted if pair[0] in self.entries}
        assert _readable(after, self.actor, self.entries) <= self.readable, "more of others can be read"

    @staticmethod
    def entries_below(state: State, tops: Iterable[UUID]) -> set[UUID]:
        found: set[UUID] = set()
        for top in tops:
            i = state.tree.index_of_uid(top)
            assert i is not None, "the top of a part was archived by who decides below it"
            found |= {state.tree.uuid(j) for level in state.tree.subtree(i) for j in level}
        return found

    def require_absent(self, text: str, *, given: str) -> None:
        """No name of an account of others is in an answer, unless the actor sent it."""
        strangers = [name for name in self.strangers if re.search(rf"\b{name}\b", text) and name not in given]
        assert not strangers, f"{strangers} in {text}"


def _readable(state: State, actor: Actor, outside: set[UUID]) -> set[str]:
    """Entries of others that the actor sees, and accounts of others whose names they may read."""
    rights = state.rights(actor)
    seen = {str(uid) for uid in outside if (i := state.tree.index_of_uid(uid)) is not None and rights.sees.may_see(i)}
    names = {
        key.user_name
        for key, place in state.places.items()
        if place > 0 and _uid(state, place) in outside and rights.may_name(place)
    }
    return seen | names


def _node(tree: TreeColumns, uid: UUID) -> Node | None:
    i = tree.index_of_uid(uid)
    return None if i is None else tree.node(i)


def _uid(state: State, place: int) -> UUID | None:
    return None if place in (UNMAPPED, 0) else state.tree.uuid(place)
