"""Shares to set in Slurm, from the associations that it lists."""

from __future__ import annotations

import pytest

from apps.policies.files.exports import ListedAssociation, WantedShares, shares_for_slurm
from tests.policies.formats.test_sacctmgr_against import SITE, changed

LISTED = [
    ListedAssociation("hep", "", "", "root", "60"),
    ListedAssociation("bio", "", "", "root", "1"),
    ListedAssociation("atlas", "", "", "hep", "2147483647"),
    ListedAssociation("hep", "ann", "", "", "2"),
    ListedAssociation("hep", "ann", "gpu", "", "9"),
    ListedAssociation("atlas", "ann", "", "", "3"),
    ListedAssociation("atlas", "ben", "", "", "1"),
]


def wanted(listed: list[ListedAssociation]) -> WantedShares:
    return shares_for_slurm(changed(SITE, hep__ann=5.0), "fram", listed)


def test_each_association_has_the_shares_of_its_entry() -> None:
    found = wanted(LISTED)
    assert {key: shares for key, (shares, _) in found.shares.items()} == {
        ("root", "root"): "1",
        ("hep", ""): "60",
        ("bio", ""): "1",
        ("atlas", ""): "parent",
        ("hep", "ann"): "5",
        ("hep", "ann:gpu"): "9",
        ("atlas", "ann"): "3",
        ("atlas", "ben"): "1",
    }
    assert [found.fitted.path(row) for _, row in found.shares.values()].count("/hep/atlas/ben") == 1


@pytest.mark.parametrize(("parent", "noted"), [("hep", []), ("bio", ["atlas is below bio"])])
def test_an_account_with_another_parent_in_slurm_is_noted(parent: str, noted: list[str]) -> None:
    listed = [one._replace(parent=parent) if one.group == "atlas" and not one.user else one for one in LISTED]
    assert [note.partition(" there")[0] for note in wanted(listed).notes] == noted
