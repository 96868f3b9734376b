"""HTCondor's accounting groups: quotas as shares, and what is named because it is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apps.core.errors import Invalid
from apps.policies.tree.names import new_uids
from tests.policies.formats.round_trip import asked, read, text_of_tree

POOL = """\
# the pool
GROUP_NAMES = group_physics, \\
   group_physics.hep, Group_Chem group_bio
GROUP_QUOTA_DYNAMIC_group_physics = 0.6
GROUP_QUOTA_DYNAMIC_GROUP_PHYSICS.hep = .5
GROUP_QUOTA_DYNAMIC_group_chem = $(REST)
REST = 0.25
GROUP_ACCEPT_SURPLUS = True
GROUP_ACCEPT_SURPLUS_group_chem = False
SCRIPT @=end
GROUP_NAMES = other
@end
"""


def shares_of(text: str) -> dict[str, float]:
    tree = read("htcondor", text).tree
    return {tree.path(i): float(tree.shares[i]) for i in range(1, len(tree))}


def test_groups_have_their_quotas_as_shares_and_names_have_no_case() -> None:
    assert shares_of(POOL) == {
        "/Group_Chem": 0.25,
        "/group_bio": 0.0,
        "/group_physics": 0.6,
        "/group_physics/hep": 0.5,
    }


def test_what_is_no_share_is_named() -> None:
    ignored = read("htcondor", POOL + "GROUP_NAMES = $(GROUP_NAMES), a.b, group_BIO\n").ignored
    assert "a.b: a isn't in GROUP_NAMES, so HTCondor ignores it" in ignored
    assert any(each.startswith("group_bio: repeated") or each.startswith("group_BIO: repeated") for each in ignored)
    assert "0.15 of the pool is no group's: jobs without one of its groups have it" in ignored
    assert "0.5 of /group_physics is no group's: jobs without one of its groups have it" in ignored
    assert "GROUP_ACCEPT_SURPLUS_group_chem = False: it isn't a share" in ignored


def test_quotas_in_slots_are_shares_where_all_groups_of_a_level_have_them() -> None:
    assert shares_of("GROUP_NAMES=a,b\nGROUP_QUOTA_a=30\nGROUP_QUOTA_b = 10.5\n") == {"/a": 30.0, "/b": 10.5}


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("GROUP_NAMES = a, b\nGROUP_QUOTA_a = 3\nGROUP_QUOTA_DYNAMIC_b = 0.5\n", "a has slots and b a fraction"),
        ("GROUP_NAMES = a\nGROUP_QUOTA_DYNAMIC_a = 1.5\n", "'1.5' is not a number from 0 to 1"),
        ("GROUP_NAMES = a\nGROUP_QUOTA_a = -3\n", "'-3' is not a number"),
        ("GROUP_NAMES = a\nGROUP_QUOTA_a = nan\n", "'nan' is not a number"),
        ("GROUP_NAMES = $(A)\nA = $(B)\nB = $(A)\n", "have no end"),
        ("GROUP_NAMES = $(A)$(A)\n" + "A = $(A)$(A)x\n" * 2 + "A = $(B)$(B)\nB = $(A)$(A)\n", "have no end"),
        ("GROUP_NAMES = a, a..b\n", "a part without a name"),
        ("GROUP_NAMES = .b\n", "a part without a name"),
        ("PRIORITY_HALFLIFE = 86400\n", "it has no GROUP_NAMES"),
    ],
)
def test_what_htcondor_or_a_tree_cannot_take_is_refused(text: str, match: str) -> None:
    with pytest.raises(Invalid, match=match):
        read("htcondor", text)


def test_the_same_file_again_changes_nothing() -> None:
    tree = read("htcondor", "GROUP_NAMES = a.B, A\nGROUP_QUOTA_DYNAMIC_a = 1\nGROUP_QUOTA_DYNAMIC_A.b = 1\n").tree
    tree = replace(tree, uid=new_uids(len(tree)))
    assert asked("htcondor", text_of_tree("htcondor", tree), tree) == []
    assert [tree.path(i) for i in range(1, len(tree))] == ["/A", "/A/B"]


def test_a_group_named_as_htcondors_own_root_is_no_group() -> None:
    assert shares_of("GROUP_NAMES = <none>, a\nGROUP_QUOTA_DYNAMIC_a = 1\n") == {"/a": 1.0}
