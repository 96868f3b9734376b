"""The tree of the grid-wide paper's figure 1, as a table and as YAML."""

from __future__ import annotations

import pytest

from tests.policies.formats.round_trip import read, text_of_tree

TABLE = """path,kind,shares
/VO-A,vo,50
/VO-A/P-A1,project,25
/VO-A/P-A1/U-A11,user,50
/VO-A/P-A1/U-A12,user,50
/VO-A/P-A2,project,25
/VO-B,vo,25
/VO-B/P-B1,project,60
/local,group,25
"""


@pytest.mark.paper("4.12")
def test_the_tree_is_the_same_as_a_table_and_as_yaml() -> None:
    rows = [line.split(",") for line in TABLE.splitlines()[1:]]
    expected = {path: (kind, float(shares)) for path, kind, shares in rows}
    from_table = read("csv", TABLE).tree
    from_yaml = read("yaml", text_of_tree("yaml", from_table)).tree
    for tree in (from_table, from_yaml):
        nodes = {tree.path(i): tree.node(i) for i in range(1, len(tree))}
        assert {path: (node.kind, node.shares) for path, node in nodes.items()} == expected
