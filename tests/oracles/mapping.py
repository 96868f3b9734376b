"""Where accounts count, by docs/accounts.md and "Rules that move accounts" in docs/security.md, read literally.

A tree is nested dictionaries as in a policy file; nothing is indexed or remembered. An account is asked alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, NamedTuple
from uuid import UUID

from apps.accounts.account_keys import AccountKey
from apps.mapping.rules.rule import Person, Rule


@dataclass(eq=False)
class Node:
    name: str
    uid: UUID
    kind: str
    above: Node | None
    below: list[Node] = field(default_factory=list)
    may_have_children: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """From the root down, without the root's."""
        return () if self.above is None else (*self.above.names, self.name)

    @property
    def path(self) -> str:
        return "/" + "/".join(self.names)

    @property
    def turn(self) -> tuple[int, tuple[str, ...]]:
        """Its order among entries where nothing else decides: by level, then by name."""
        return len(self.names), self.names

    def is_in(self, other: Node) -> bool:
        return self is other or (self.above is not None and self.above.is_in(other))

    def nodes(self) -> Iterator[Node]:
        """Itself and all below it, depth first."""
        yield self
        for child in self.below:
            yield from child.nodes()

    def child(self, name: str) -> Node | None:
        return next((child for child in self.below if child.name == name and child.kind != "reserve"), None)


def tree_of(entry: Mapping[str, Any], above: Node | None = None) -> Node:
    children = entry.get("children")
    kind = entry.get("kind", "group")
    may = kind not in ("user", "reserve") or bool(children)
    node = Node(entry["name"], UUID(entry["uid"]), kind, above, may_have_children=may)
    node.below = [tree_of(child, node) for child in children or ()]
    return node


class Place(NamedTuple):
    """The entry's path, "" for none. rule: the one that decided. joins: whether it would add the account there as a
    member; is_member: whether it is one."""

    path: str = ""
    rule: Rule | None = None
    joins: bool = False
    is_member: bool = False


NOWHERE = Place()


def in_documented_order(stored: Sequence[Rule], of_entries: Sequence[Rule], root: Node) -> list[Rule]:
    """Exact rules; membership rules, those of deeper entries first; the other rules; the default rules."""
    names = {node.uid: node.names for node in root.nodes()}
    members = sorted(of_entries, key=lambda rule: (-len(names[rule.target_uid]), names[rule.target_uid]))
    exact = [rule for rule in stored if rule.kind == "exact"]
    default = [rule for rule in stored if rule.kind == "default"]
    return [*exact, *members, *(rule for rule in stored if rule not in exact and rule not in default), *default]


def place(
    account: AccountKey,
    rules: Sequence[Rule],
    root: Node,
    attached: Mapping[AccountKey, UUID],
    people: Mapping[AccountKey, Person],
) -> Place:
    """rules: in the order in which they are tried. attached, people: by accounts in any spelling."""
    by_hand = _of_account(attached, account)
    entry = next((node for node in root.nodes() if node.uid == by_hand), None)
    if entry is not None and entry.kind != "reserve":
        return Place(entry.path)
    person = _of_account(people, account)
    results = [(rule, _lead(rule, account, person, root)) for rule in rules]
    leading = [(rule, result) for rule, result in results if result != NOWHERE]
    current = next((result for rule, result in leading if _reach(rule, root) is None), NOWHERE)
    parts: dict[int, tuple[Node, Place]] = {}
    for rule, result in leading:
        top = _reach(rule, root)
        if top is not None:
            parts.setdefault(id(top), (top, result))
    older = sorted(parts.values(), key=lambda part: (_written(part[1]), part[0].turn))
    for top, result in older:
        if _is_free(current, root) or _node(current.path, root).is_in(top):
            current = result
    return current


def stays_outside(
    account: AccountKey,
    rule: Rule,
    rules: Sequence[Rule],
    root: Node,
    attached: Mapping[AccountKey, UUID],
    people: Mapping[AccountKey, Person],
) -> bool:
    """Whether the rule is for this account, but may not take it from where it counts."""
    current, top = place(account, rules, root, attached, people), _reach(rule, root)
    if top is None or _is_free(current, root) or _node(current.path, root).is_in(top):
        return False
    return matches(rule, account, _of_account(people, account))


def likely_path(
    account: AccountKey,
    rules: Sequence[Rule],
    root: Node,
    attached: Mapping[AccountKey, UUID],
    people: Mapping[AccountKey, Person],
) -> str | None:
    """Another letter case: the only entry that a rule would lead to if the account were spelled as the entry is, where
    it counts at a group, at all others' leaf or nowhere. None if it counts there already."""
    current = place(account, rules, root, attached, people)
    here = None if current == NOWHERE else _node(current.path, root)
    if here is not None and not here.may_have_children and here.name != "default":
        return None
    person = _of_account(people, account)
    for rule in rules:
        target = next((node for node in root.nodes() if node.uid == rule.target_uid), None)
        if target is None or target.kind == "reserve" or not matches(rule, account, person):
            continue
        alike = _alike(rule, target, account, person)
        if alike is not None:
            return None if alike is here else alike.path
    return None


def _alike(rule: Rule, target: Node, account: AccountKey, person: Person | None) -> Node | None:
    if rule.kind == "share_tree":
        return _alike_in_share_tree(target, account.user_name or account.dn, account.project)
    start = slurm_account(target, account.group_name) if rule.kind == "association" else target
    names = names_below(rule, account, person)
    if start is None or not names:
        return None
    entry = start
    for name in names:
        exact = [child for child in entry.below if child.name == (name or "(none)")]
        children = exact or [child for child in entry.below if child.name.lower() == (name or "(none)").lower()]
        if len(children) != 1 or children[0].kind == "reserve":
            return None
        entry = children[0]
    return entry


def _alike_in_share_tree(top: Node, user: str, project: str) -> Node | None:
    projects = {node.name: node for node in reversed([*top.nodes()]) if node is not top and node.kind == "project"}
    if not project:
        places = [top]
    elif project in projects:
        places = [projects[project]]
    else:
        places = [node for name, node in projects.items() if name.lower() == project.lower()]
    if len(places) != 1:
        return None
    leaves = {node.name: node for node in reversed(_leaves_of(places[0], top))}
    alike = [node for name, node in leaves.items() if name.lower() == user.lower()]
    return alike[0] if len(alike) == 1 else None


def ambiguous_names(top: Node) -> dict[str, set[str]]:
    """Names of several Slurm accounts below an entry, with their paths."""
    paths: dict[str, set[str]] = {}
    for node in top.nodes():
        if node is not top and node.may_have_children:
            paths.setdefault(node.name, set()).add(node.path)
    return {name: same for name, same in paths.items() if len(same) > 1}


def _written(result: Place) -> str:
    return "" if result.rule is None else result.rule.written_at


def _node(path: str, root: Node) -> Node:
    return next(node for node in root.nodes() if node.path == path)


def _of_account(known: Mapping[AccountKey, Any], account: AccountKey) -> Any:
    """An account is the same in either spelling of its DN and its FQAN; its own spelling comes first."""
    if account in known:
        return known[account]
    return next((value for key, value in known.items() if _same(key) == _same(account)), None)


def _same(account: AccountKey) -> tuple[Any, ...]:
    return (*account[:3], _dn(account.dn), _fqan(account.fqan), account.project)


def _dn(text: str) -> tuple[str, ...]:
    """From the most general part down. Here: of the two usual spellings, without escapes."""
    if text.startswith("/"):
        return tuple(text[1:].split("/"))
    return tuple(reversed(text.split(","))) if text else ()


def _fqan(text: str) -> str:
    for nothing in ("/Capability=NULL", "/Role=NULL"):
        text = text.removesuffix(nothing)
    return text


def _reach(rule: Rule, root: Node) -> Node | None:
    """The part of the policy whose accounts a rule may take; None for the whole."""
    if rule.reach_uid is None or rule.kind == "default":
        return None
    target = next(node for node in root.nodes() if node.uid == rule.target_uid)
    top = next((node for node in root.nodes() if node.uid == rule.reach_uid), None)
    if top is None or not target.is_in(top):
        return target
    return None if top is root else top


def _is_free(current: Place, root: Node) -> bool:
    """It counts nowhere, or at the entry that a default rule names."""
    if current == NOWHERE:
        return True
    rule = current.rule
    return rule is not None and rule.kind == "default" and _node(current.path, root).uid == rule.target_uid


def _lead(rule: Rule, account: AccountKey, person: Person | None, root: Node) -> Place:
    """Where the rule leads the account if it were the only one."""
    target = next((node for node in root.nodes() if node.uid == rule.target_uid), None)
    if target is None or target.kind == "reserve" or not matches(rule, account, person):
        return NOWHERE
    if rule.kind == "share_tree":
        node = _share_tree(target, account.user_name or account.dn, account.project)
        return NOWHERE if node is None or node is root else Place(node.path, rule)
    names = names_below(rule, account, person)
    if rule.kind == "association":
        start = slurm_account(target, account.group_name)
        return NOWHERE if start is None else _association(rule, start, names, account.project, root)
    entry, n_steps = _descend(target, names)
    if rule.kind == "each":
        if n_steps == len(names):
            return Place(entry.path, rule, is_member=True)
        if n_steps == len(names) - 1 and entry.may_have_children:
            return Place(entry.path, rule, joins=True)
    return NOWHERE if entry is root else Place(entry.path, rule)


def names_below(rule: Rule, account: AccountKey, person: Person | None) -> list[str]:
    """From the target down."""
    suffix = rule.suffix or ("/{user}" if rule.kind in ("each", "association") else "")
    user = person.name if rule.people and person is not None else account.user_name or account.dn
    return [
        part.replace("{user}", user).replace("{group}", account.group_name).replace("{project}", account.project)
        for part in suffix.split("/")
        if part
    ]


def _descend(start: Node, names: Sequence[str]) -> tuple[Node, int]:
    """As deep as such entries exist."""
    entry = start
    for n_steps, name in enumerate(names):
        child = entry.child(name) if name else entry.child("(none)")
        if child is None:
            return entry, n_steps
        entry = child
    return entry, len(names)


def _association(rule: Rule, start: Node, names: list[str], partition: str, root: Node) -> Place:
    """Slurm stores users in lower case, unless the tree has users with capital letters. The user's association of the
    partition decides where there is one."""
    tries = [names]
    if not any(node.name != node.name.lower() for node in root.nodes() if not node.may_have_children):
        tries.append([name.lower() for name in names])
    if partition and (rule.suffix or "/{user}").rstrip("/").endswith("/{user}"):
        for each in tries:
            entry, n_steps = _descend(start, [*each[:-1], f"{each[-1]}:{partition.lower()}"])
            if n_steps == len(each):
                return Place(entry.path, rule)
    entry, n_steps = _descend(start, names)
    if n_steps < len(names):
        entry, n_steps = _descend(start, tries[-1])
    return NOWHERE if entry is root else Place(entry.path, rule)


def slurm_account(target: Node, account: str) -> Node | None:
    """The account's entry, found by its name at any depth: nowhere where several have it."""
    groups = [node for node in target.nodes() if node is not target and node.may_have_children]
    exact = [node for node in groups if node.name == account]
    alike = exact or [node for node in groups if node.name.lower() == account.lower()]
    if alike:
        return alike[0] if len(alike) == 1 else None
    return target if account.lower() == "root" else None


def _share_tree(top: Node, user: str, project: str) -> Node | None:
    """Grid Engine: the user's node in the job's project, or outside of projects; else the leaf `default` there."""
    place = top
    if project:
        named = [node for node in top.nodes() if node is not top and node.kind == "project" and node.name == project]
        if not named:
            return None
        place = named[0]
    if not place.below:
        return place
    leaves = _leaves_of(place, top)
    for name in (user, "default"):
        for leaf in leaves:
            if leaf.name == name:
                return leaf
    return place if project else None


def _leaves_of(place: Node, top: Node) -> list[Node]:
    """Those of a project without its subprojects', or those outside of projects; depth first."""

    def project_of(node: Node) -> Node:
        while node is not top and node.kind != "project":
            assert node.above is not None
            node = node.above
        return node

    nodes = [node for node in top.nodes() if node is not top and node is not place]
    return [node for node in nodes if not node.below and node.kind != "reserve" and project_of(node) is place]


def matches(rule: Rule, account: AccountKey, person: Person | None) -> bool:
    if rule.namespace and rule.namespace != account.namespace:
        return False
    if rule.people and (person is None or not any(fnmatchcase(group, rule.people) for group in person.groups)):
        return False
    if rule.kind == "default":
        return True
    fqan = _fqan(account.fqan)
    if rule.kind == "exact":
        is_user = not rule.user_pattern or rule.user_pattern == account.user_name or _is_dn(rule, account)
        return is_user and rule.group_pattern in ("", account.group_name) and _fqan(rule.fqan_pattern) in ("", fqan)
    return (
        (not rule.user_pattern or _like(rule.user_pattern, account.user_name) or _is_dn(rule, account))
        and (not rule.group_pattern or _like(rule.group_pattern, account.group_name))
        and (not rule.fqan_pattern or _at_or_below(_fqan(rule.fqan_pattern), fqan))
    )


def _is_dn(rule: Rule, account: AccountKey) -> bool:
    """Whether the user pattern is the account's DN, or a pattern of it, in either spelling."""
    if not account.dn:
        return False
    usual, pattern = _usual_dn(account.dn), rule.user_pattern
    if "=" in pattern:
        pattern = _usual_dn(pattern)
    return pattern == usual or (rule.kind != "exact" and _like(pattern, usual))


def _usual_dn(text: str) -> str:
    return "/".join(("", *_dn(text)))


def _like(pattern: str, text: str) -> bool:
    return bool(text) and fnmatchcase(text, pattern)


def _at_or_below(pattern: str, fqan: str) -> bool:
    return bool(fqan) and (fnmatchcase(fqan, pattern) or fqan.startswith(pattern.rstrip("/") + "/"))
