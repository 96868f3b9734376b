"""Entitlement beside usage before there is a policy; and the mapping of accounts by their names."""

from __future__ import annotations

import numpy as np
import pytest

from apps.accounts.account_keys import AccountKey
from apps.contrib.onboarding.tree_vs_usage import compare_with_usage, top_entries
from apps.mapping.name_rules import default_rules
from apps.mapping.rules.resolver import Resolver
from apps.policies.formats.registry import get_format, read_file
from apps.policies.publishing.direct import tree_of_document
from apps.policies.tree.columns import TreeColumns

TOLERANCE = {"relative": 0.1, "points": 0.5}
DUMP = b"""\
Cluster - 'c':Fairshare=1
Parent - 'root'
User - 'root':Fairshare=1
Account - 'physics':Fairshare=60
Account - 'biology':Fairshare=39
Account - 'through':Fairshare=parent
Parent - 'through'
User - 'eve':Fairshare=1
Parent - 'physics'
User - 'ada':Fairshare=1
Account - 'hep*':Fairshare=3
Parent - 'hep*'
User - 'ada':Fairshare=1
Parent - 'biology'
User - 'carol':Fairshare=1
"""


@pytest.fixture
def tree() -> TreeColumns:
    found = get_format("sacctmgr")
    return tree_of_document(read_file(found, DUMP), found)


def test_days_and_tolerance_equal_a_manual_calculation(tree: TreeColumns) -> None:
    rng = np.random.default_rng(6)
    places = ["/physics/ada", "/physics/hep*/ada", "/biology/carol", "/root", "/through/eve"]
    entry = np.array([*(tree.index_of_path(path) for path in places), -1], dtype=np.int32)
    used = rng.uniform(0, 1000, size=(6, 12))
    used[:, :3] = 0  # nothing ran on the first days
    ledger = compare_with_usage(tree, entry, used, half_life_days=3, tolerance=TOLERANCE)

    shares = {"physics": 60.0, "biology": 39.0, "root": 1.0, "eve": 1.0}  # eve competes in place of her group
    rows = {"physics": used[0] + used[1], "biology": used[2], "root": used[3], "eve": used[4]}
    whole = sum(float(days.sum()) for days in rows.values())
    total = sum(shares.values())
    assert ledger.n_days == 9
    assert ledger.used_s == pytest.approx(whole, rel=1e-12)
    inside: dict[str, int] = dict.fromkeys(rows, 0)
    deviations = []
    for day in range(3, 12):
        faded = {
            name: sum(days[past] * 0.5 ** ((day - past) / 3) for past in range(day + 1)) for name, days in rows.items()
        }
        everybody = sum(faded.values())
        deviation = 0.0
        for name, amount in faded.items():
            target, actual = shares[name] / total, amount / everybody
            deviation += target * abs(actual - target)
            inside[name] += abs(actual - target) <= max(0.1 * target, 0.005)
        deviations.append(deviation)
    assert ledger.mean_deviation == pytest.approx(sum(deviations) / 9, rel=1e-12)
    wanted = sum(shares[name] / total * n / 9 for name, n in inside.items())
    assert ledger.time_in_band == pytest.approx(wanted, rel=1e-12)
    for row in ledger.top:
        name = tree.name[row.entry]
        assert row.target == pytest.approx(shares[name] / total, rel=1e-12)
        assert row.actual == pytest.approx(float(rows[name].sum()) / whole, rel=1e-12)


def test_an_inheriting_group_does_not_compete_itself(tree: TreeColumns) -> None:
    assert sorted(tree.name[i] for i in top_entries(tree)) == ["biology", "eve", "physics", "root"]


def test_without_usage_values_are_empty(tree: TreeColumns) -> None:
    ledger = compare_with_usage(
        tree, np.zeros(0, dtype=np.int32), np.zeros((0, 90)), half_life_days=7, tolerance=TOLERANCE
    )
    assert (ledger.n_days, ledger.time_in_band, ledger.mean_deviation) == (0, None, None)
    assert {row.state for row in ledger.top} == {"unknown"}


@pytest.mark.parametrize(
    ("user", "group", "path"),
    [
        ("ada", "physics", "/physics/ada"),
        ("ada", "hep*", "/physics/hep*/ada"),
        ("ada", "hepX", None),  # the star in a name is a name
        ("newcomer", "hep*", "/physics/hep*"),
        ("root", "root", "/root"),
        ("eve", "through", "/through/eve"),
        ("carol", "nowhere", None),
    ],
)
def test_accounts_map_to_the_entry_of_their_name_in_any_group(
    tree: TreeColumns, user: str, group: str, path: str | None
) -> None:
    found = Resolver(default_rules(tree, "c"), tree).resolve(AccountKey("c", user, group)).entry
    assert (tree.path(found) if found > 0 else None) == path
    assert Resolver(default_rules(tree, "c"), tree).resolve(AccountKey("other", user, group)).entry < 0
