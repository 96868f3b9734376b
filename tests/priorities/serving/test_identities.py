"""Identities of many entries are those of each alone."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.accounts.account_keys import AccountKey
from apps.mapping.rules.rule import Rule
from apps.policies.files.document import read_document
from apps.priorities.serving.identities import identities_of_each
from tests.call_counts import count_calls
from tests.examples import examples
from tests.mapping.rules.test_placement import _KEYS, _ROOT, _RULES, _UIDS, _entry, _user
from tests.priorities.serving.test_named_entries import _index

_NEW = ("eve", "mallory", "Zoë", "u-ann", "p%2Fq", "bob:gpu", "(none)", "-x", "atlas", "ann")


def _wide() -> dict[str, object]:
    """The tree of placement with more users in each group, some of whose names need conversion."""
    root = deepcopy(_ROOT)
    physics, lone, _bob = root["children"]
    number = 100
    for group in (root, *physics["children"], physics, lone):
        for name in _NEW:
            if group.get("name") != "physics" or name != "atlas":
                number += 1
                own = _user(number, name) if number % 7 else _entry(number, name)
                group.setdefault("children", []).append(own)
        group["children"] += [_user(1000 * number + at, f"u{number}-{at}") for at in range(4)]
    return root


_TREE = read_document({"policy": "grid", "root": _wide()}).tree
_ACCOUNTS = _KEYS | st.builds(
    AccountKey,
    st.sampled_from(["", "c1"]),
    st.sampled_from([*_TREE.name[1:], *_NEW]),
    st.sampled_from(["", "atlas", "cms"]),
)


@pytest.mark.deep
@examples(300)
@given(st.lists(_RULES, max_size=4), st.lists(_ACCOUNTS, max_size=20))
@example([Rule("glob", _UIDS[0], suffix="/{group}/{user}")], [AccountKey("c1", "u110-1", "physics")])
@example([Rule("glob", _UIDS[1], suffix="/{group}/{user}", namespace="c1")], [])
@example([Rule("each", _UIDS[2]), Rule("group", _UIDS[7], group_pattern="cms", suffix="/{user}")], [])
@example([Rule("association", _UIDS[0])], [AccountKey("c1", "u120-1", "atlas")])
def test_identities_of_many_entries_are_those_of_each(rules: list[Rule], known: list[AccountKey]) -> None:
    index = _index(_TREE, *rules, known=known)
    entries = np.arange(len(_TREE))
    accounts = index.accounts_of_each(entries)
    identities = [*map(tuple, identities_of_each(index, entries, accounts))]
    assert identities == [index.identities(entry) for entry in entries.tolist()]
    for entry, others in zip(entries.tolist(), [*accounts[1:], [AccountKey("c1", "zed")]], strict=True):
        (of_others,) = identities_of_each(index, np.array([entry]), [others])
        assert tuple(of_others) == index.identities(entry, others), "accounts of another name"


def test_siblings_are_not_asked_about_one_by_one() -> None:
    root = _entry(1, "grid", *(_entry(g, f"g{g}", *(_user(g * 1000 + u, f"u{g}-{u}") for u in range(200)))
                               for g in range(2, 12)))  # fmt: skip
    tree = read_document({"policy": "grid", "root": root}).tree
    ran = [AccountKey("c1", name, name[1:].split("-")[0]) for name in tree.name if name.endswith("7")]
    rule = Rule("glob", tree.uuid(0), suffix="/{group}/{user}", namespace="c1")
    index = _index(tree, rule, known=[key._replace(group_name=f"g{key.group_name}") for key in ran])
    entries = np.arange(11, len(tree))
    accounts = index.accounts_of_each(entries)
    index.prepare()
    identities, calls = count_calls(lambda: identities_of_each(index, entries, accounts))
    assert {each[0].user_name for each in identities} == set(tree.name[11:])
    assert calls < 15 * len(entries)
