"""A column of the tree is the same number on each of its faces."""

from __future__ import annotations

import csv
import io
import re
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.test import Client

from apps.accounts.actor import Actor
from apps.pages.tree.state import COLUMNS
from apps.priorities.selectors.rows import open_view
from apps.priorities.selectors.tree import iterate_rows
from apps.priorities.selectors.tree_listing import Arrangement
from apps.priorities.sentences import numbers
from apps.web.listings.listing import Column, csv_rows
from apps.web.listings.tree_listing import TREE, EntrySerializer, csv_blocks, rows_of
from apps.web.shell.requests import csv_response, csv_response_by_columns
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


def test_a_file_by_columns_has_the_cells_of_a_file_by_rows(grid: Grid) -> None:
    """Also of columns that files of the page don't have: some are no field of an entry."""
    view, arranged = open_view(policy_slug=SLUG, actor=Actor(user=grid.admin, via="page")), Arrangement(level=9)
    columns = [column for column in TREE.columns if column.faces & {"answer", "file", "csv"}]
    columns.append(Column("parent", UUID | None, "entry.parent_uid"))
    names = [column.name for column in columns]
    by_columns = csv_response_by_columns("tree.csv", names, csv_blocks(view, arranged, columns, ""))
    by_rows = csv_response("tree.csv", names, csv_rows(columns, rows_of(view, iterate_rows(view, arranged))))
    file = b"".join(by_columns.streaming_content)  # type: ignore[arg-type]
    assert file.count(b"\r\n") == 1 + len(view.tree) > 2
    assert file == b"".join(by_rows.streaming_content)  # type: ignore[arg-type]


def test_files_have_the_numbers_of_rest(admin: Client) -> None:
    entries, file = answers(admin), table(admin, REST, format="csv")
    page = table(admin, f"{TREE_PAGE}tree.csv", level=9, col=COLUMNS)
    assert set(entries) == set(file) == set(page)
    for path, entry in entries.items():
        for name in set(TREE.names("file")) & set(TREE.names("answer")) - {"uid", "locked", "suppressed"}:
            assert file[path][name].lstrip("'") == ("" if entry[name] is None else str(entry[name])), (path, name)
        for name in set(file[path]) & set(page[path]):
            assert page[path][name] == file[path][name], (path, name)
    total = table(admin, f"{TREE_PAGE}tree.csv", level=9, of="total", col=COLUMNS)
    for path, line in total.items():
        assert "target" not in line
        assert (line["target_global"], line["actual_global"]) == (
            file[path]["target_global"],
            file[path]["actual_global"],
        )


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
        assert cell == ("" if value is None else numbers.signed(value)), path
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
