"""A column of the tree is the same number on each of its faces."""

from __future__ import annotations

import csv
from typing import Any

import pytest
from django.test import Client

from apps.pages.tree.state import COLUMNS
from apps.web.tree_listing import TREE
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read
from tests.sign_in import sign_in

TREE_PAGE = f"/policy/{SLUG}/"
REST = f"/api/v1/policies/{SLUG}/tree"


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


def table(client: Client, address: str, **query: Any) -> dict[str, dict[str, str]]:
    """Lines of a CSV file by path."""
    answer = client.get(address, query)
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    return {line["path"]: line for line in csv.DictReader(text.splitlines())}


def answers(client: Client) -> dict[str, dict[str, Any]]:
    found, waiting = {}, [client.get(REST, {"depth": 9}).json()]
    while waiting:
        entry = waiting.pop()
        found[entry["path"]] = entry
        waiting += entry["children"]
    return found


def test_files_have_the_numbers_of_rest(admin: Client) -> None:
    entries, file = answers(admin), table(admin, REST, format="csv")
    page = table(admin, f"{TREE_PAGE}tree.csv", level=9, col=COLUMNS)
    assert set(entries) == set(file) == set(page)
    for path, entry in entries.items():
        for name in set(TREE.names("file")) & set(TREE.names("answer")) - {"uid", "locked", "suppressed"}:
            assert file[path][name].lstrip("'") == ("" if entry[name] is None else str(entry[name])), (path, name)
        for name in ("shares", "target", "actual", "state"):
            assert page[path][name] == file[path][name], (path, name)
        assert page[path]["rank"] == ("" if entry["n_children"] else file[path]["rank"])


def test_the_page_has_a_cell_for_each_column_that_is_chosen(admin: Client) -> None:
    offered = read(admin.get(TREE_PAGE)).each('input[name="col"]', "value")
    assert set(COLUMNS) - set(offered) == {"own"}, "this algorithm has no number of its own"
    for name in offered:
        page = read(admin.get(TREE_PAGE, {"level": "2", "col": name}))
        key = "bal" if name == "balance" else name
        assert len(page.each("#rows tr[data-uid] td", "class")) == len(page.each(f"#rows td.c-{key}", "class")) > 1
        assert page.each(f"thead th.c-{key}", "scope") == ["col"]
