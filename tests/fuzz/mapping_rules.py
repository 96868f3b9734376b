"""Mapping rules as REST takes them: accounts count where tests/oracles/mapping.py says, together as alone."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import UUID

from apps.accounts.account_index import AccountKeys
from apps.accounts.account_keys import AccountKey, canonical
from apps.mapping.rules.placement import place_columns
from apps.mapping.rules.resolver import UNMAPPED, Decided, KnownAccounts, Resolver
from apps.mapping.rules.rule import Person, Rule, rule_problems
from apps.mapping.rules.rule_set import in_order
from apps.pages.mapping.api.serializers import RuleFieldsSerializer, rule_of, stated_json
from apps.policies.files.document import read_document
from tests.oracles import mapping as oracle

_MOST_RULES = 8
# The oracle reads DNs without escapes, and no other spelling of their types.
_OF_ORACLE = re.compile(r"[A-Za-z0-9*?/\[\]_.!-]*(?:CN=[a-z]+,DC=[a-z]+)?")


def _entry(number: int, name: str, *children: dict[str, Any], **fields: Any) -> dict[str, Any]:
    uid = str(UUID(int=number))
    return {"name": name, "shares": 1, "uid": uid, **fields, **({"children": list(children)} if children else {})}


def _user(number: int, name: str) -> dict[str, Any]:
    return _entry(number, name, kind="user")


_ROOT = _entry(
    1,
    "grid",
    _entry(
        2,
        "physics",
        _entry(3, "atlas", _user(4, "alice"), _user(5, "bob"), _user(6, "default")),
        _entry(8, "cms", _user(9, "alice"), _user(10, "alice:gpu"), _entry(11, "keep", kind="reserve")),
        _entry(12, "students", children=[]),
    ),
    _entry(13, "lone", _user(14, "carol"), _entry(15, "keep", kind="reserve"), kind="project"),
    _user(16, "bob"),
)
_TREE = read_document({"policy": "grid", "root": _ROOT}).tree
_NODES = oracle.tree_of(_ROOT)
_PATHS = {_TREE.path(i): _TREE.uuid(i) for i in range(len(_TREE))} | {"/": _TREE.uuid(0)}
_ACCOUNTS = [
    AccountKey(namespace, user, group, dn, fqan, project)
    for namespace in ("c1", "c2")
    for user, group, dn, fqan, project in (
        *(("alice", "atlas", "", "", ""), ("bob", "cms", "", "", "lone"), ("Carol", "", "", "", "lone")),
        *(("carol", "Atlas", "", "", ""), ("alice", "cms", "", "", "GPU"), ("nobody", "root", "", "", "")),
        ("", "", "/DC=org/CN=alice", "/atlas/Role=production", ""),
        ("bob", "atlas", "CN=alice,DC=org", "/atlas", ""),
    )
]
_KNOWN = KnownAccounts(
    {canonical(_ACCOUNTS[3]): UUID(int=14)}, {canonical(_ACCOUNTS[0]): Person("bob", frozenset({"staff"}))}
)


def check(data: bytes) -> bool:
    """Whether the rules are valid. The input is the list of `rules` of a request, with paths of entries."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return False
    if not isinstance(document, list) or len(document) > _MOST_RULES:
        return False
    body = RuleFieldsSerializer(data=document, many=True)
    if not body.is_valid():
        return False
    if not all(fields["entry"] in _PATHS for fields in body.validated_data):
        return False
    rules = [rule_of(fields, _PATHS[fields["entry"]]) for fields in body.validated_data]
    if any(rule_problems(rule, "rules") for rule in rules):
        return False
    for rule in rules:
        assert Rule.from_json(json.loads(json.dumps(rule.to_json()))) == rule
        assert len(stated_json(rule)) == 10
    stored = [rule for rule in rules if rule.kind != "each"]
    of_entries = [rule for rule in rules if rule.kind == "each"]
    resolver = Resolver(in_order(stored, of_entries), _TREE, _KNOWN)
    alone = [resolver.decide(account) for account in _ACCOUNTS]
    assert list(place_columns(resolver, AccountKeys.of(_ACCOUNTS))) == alone, "placed together otherwise than alone"
    if not of_entries and all(map(_is_of_oracle, rules)):
        tried = oracle.in_documented_order(stored, [], _NODES)
        right = [oracle.place(account, tried, _NODES, _KNOWN.places, _KNOWN.persons) for account in _ACCOUNTS]
        assert [_placed(resolver, decided) for decided in alone] == right
    return True


def _is_of_oracle(rule: Rule) -> bool:
    texts = rule.user_pattern, rule.group_pattern, rule.fqan_pattern
    return all(_OF_ORACLE.fullmatch(text) for text in texts) and "{" not in re.sub(r"\{[a-z]+\}", "", rule.suffix)


def _placed(resolver: Resolver, decided: Decided) -> oracle.Place:
    match, number = decided
    if match.entry == UNMAPPED:
        return oracle.NOWHERE
    rule = None if number is None else resolver.rules[number]
    return oracle.Place(_TREE.path(match.entry), rule, match.joins is not None, match.member is not None)


def seeds() -> list[bytes]:
    lists: list[list[dict[str, Any]]] = [
        [{"kind": "association", "entry": "/physics"}],
        [{"kind": "share_tree", "entry": "/"}, {"kind": "default", "entry": "/lone"}],
        [{"kind": "glob", "user": "a*", "group": "[Aa]tlas", "entry": "/physics", "suffix": "/{group}/{user}"}],
        [{"kind": "exact", "user": "CN=alice,DC=org", "namespace": "c1", "entry": "/physics/atlas/alice"}],
        [{"kind": "group", "fqan": "/atlas", "entry": "/physics/atlas", "suffix": "/{user}"}],
        [{"kind": "each", "entry": "/physics/atlas", "group": "atlas", "shares": 2.5, "archive_after_idle_days": 30}],
        [{"kind": "glob", "source": "c1", "user": "?ob", "entry": "/lone", "suffix": "/{project}"}],
    ]
    return [json.dumps(rules).encode() for rules in lists]
