"""A column of the tree is the same number on each of its faces."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from apps.pages.tree.state import COLUMNS
from apps.web.shell import presentation
from apps.web.tree_listing import TREE, EntrySerializer
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


def test_the_priority_of_an_entry_is_on_the_page_in_files_and_in_rest(admin: Client, grid: Grid) -> None:
    wanted = {path: entry["priority"] for path, entry in answers(admin).items()}
    assert wanted["/"] is None
    assert max(wanted.values(), key=lambda value: value or 0) > 0
    page = read(admin.get(TREE_PAGE, {"level": "2", "col": "priority"}))
    files = table(admin, REST, format="csv"), table(admin, f"{TREE_PAGE}tree.csv", level=2, col="priority")
    out = io.StringIO()
    call_command("tree", SLUG, stdout=out)
    head, *lines = (re.split(" {2,}", line.strip()) for line in out.getvalue().splitlines())
    printed = {line[0]: line[head.index("priority")] for line in lines}
    for path, value in wanted.items():
        (cell,) = page.texts(f"#e-{grid.uid(path)} td.c-priority")
        assert cell == ("" if value is None else presentation.signed(value)), path
        assert [file[path]["priority"] for file in files] == ["" if value is None else str(value)] * 2, path
        assert printed[path] == ("-" if value is None else f"{value:.6g}"), path
    assert "higher is sooner" in str(EntrySerializer().fields["priority"].help_text)


def test_the_page_has_a_cell_for_each_column_that_is_chosen(admin: Client) -> None:
    offered = read(admin.get(TREE_PAGE)).each('input[name="col"]', "value")
    assert set(COLUMNS) - set(offered) == {"own"}, "this algorithm has no number of its own"
    for name in offered:
        page = read(admin.get(TREE_PAGE, {"level": "2", "col": name}))
        key = "bal" if name == "balance" else name
        assert len(page.each("#rows tr[data-uid] td", "class")) == len(page.each(f"#rows td.c-{key}", "class")) > 1
        assert page.each(f"thead th.c-{key}", "scope") == ["col"]
