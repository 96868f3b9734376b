"""The column of CONTRIBUTING.md, taken from the page: it is on the page, in files, in REST and in the command."""

from __future__ import annotations

import io
import re

import pytest
from django.core.management import call_command
from django.test import Client

from apps.cli.management.commands import tree as tree_command
from apps.pages.tree import api, presenters, state
from apps.web.listings import tree_listing
from apps.web.listings.listing import Listing, answer_serializer
from apps.web.shell import presentation
from tests.conftest import REPOSITORY
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read
from tests.sign_in import sign_in

PAGE = (REPOSITORY / "CONTRIBUTING.md").read_text()
(SOURCE,) = re.findall(r"```python\n# apps/web/listings/tree_listing.py\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def _added(monkeypatch: pytest.MonkeyPatch) -> None:
    column = eval(SOURCE, {**vars(tree_listing), "presentation": presentation})  # noqa: S307 - code of ours
    tree = tree_listing.TREE
    longer = Listing((*tree.columns, column), tree.cells, tree.orders)
    for module in (tree_listing, presenters, api, tree_command):
        monkeypatch.setattr(module, "TREE", longer)
    monkeypatch.setattr(state, "COLUMNS", tuple(longer.names("table")))


@pytest.mark.django_db
@pytest.mark.usefixtures("_added")
def test_one_line_adds_a_column_to_all_faces(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    page = read(client.get(f"/policy/{SLUG}/", {"col": "adjusted"}))
    assert page.texts("thead th")[-1] == "Adjusted"
    assert set(page.texts("#rows td.c-adjusted")) == {"0"}
    file = b"".join(client.get(f"/policy/{SLUG}/tree.csv", {"col": "adjusted"})).decode()
    assert file.splitlines()[0] == '"path","name","kind","adjusted"'
    table = b"".join(client.get(f"/api/v1/policies/{SLUG}/tree", {"format": "csv"})).decode()
    assert table.splitlines()[0].endswith(',"adjusted"')
    assert client.get(f"/api/v1/policies/{SLUG}/tree").json()["adjusted"] == 0
    assert "below 0" in str(answer_serializer(tree_listing.TREE, "Entry")().fields["adjusted"].help_text)
    out = io.StringIO()
    call_command("tree", SLUG, stdout=out)
    assert out.getvalue().splitlines()[0].endswith("adjusted")
