"""`?bom=1` on every route that answers with CSV."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from dataclasses import replace
from typing import Any

import pytest

from tests.rights_world import World
from tests.test_idor_matrix import READS


def body(answer: Any) -> bytes:
    return answer.getvalue() if answer.streaming else answer.content  # type: ignore[no-any-return]


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_each_csv_has_a_byte_order_mark_on_request(world: World, pytestconfig: pytest.Config) -> None:
    """All of them with --deep."""
    n_rest = n_pages = 0
    is_deep = pytestconfig.getoption("deep")
    for row in READS:
        is_rest = row.path.startswith("/api/v1/")
        if not is_deep and (n_rest if is_rest else n_pages) >= 8:
            continue
        answer = world.ask(row, "admin") if "csv" in row.path or (is_rest and "format" not in row.path) else None
        if answer is not None and answer.status_code == 200 and is_rest and "csv" not in row.path:
            more = replace(row, path=f"{row.path}{'&' if '?' in row.path else '?'}format=csv")
            row, answer = more, world.ask(more, "admin")
        if answer is None or not answer.get("Content-Type", "").startswith("text/csv"):
            continue
        marked = world.ask(replace(row, path=f"{row.path}{'&' if '?' in row.path else '?'}bom=1"), "admin")
        assert marked.status_code == 200, (row.path, marked.content)
        plain, with_mark = body(answer), body(marked)
        assert with_mark.startswith(BOM_UTF8), row.path
        assert not plain.startswith(BOM_UTF8), row.path
        assert with_mark.removeprefix(BOM_UTF8).count(b"\n") == plain.count(b"\n")
        assert marked.get("Content-Length", str(len(with_mark))) == str(len(with_mark))
        n_rest, n_pages = n_rest + is_rest, n_pages + (not is_rest)
    assert n_rest >= 8
    assert n_pages >= 8


def test_other_responses_have_no_byte_order_mark_and_other_values_are_refused(world: World) -> None:
    admin = world.client("admin")
    assert not admin.get("/api/v1/policies/grid/tree?bom=1").content.startswith(BOM_UTF8)
    assert admin.get("/api/v1/policies/grid/tree?format=csv&bom=yes").status_code == 400


def test_the_schema_describes_it_for_csv_responses(world: World) -> None:
    paths = json.loads(world.client("admin").get("/api/v1/schema", headers={"Accept": "application/json"}).getvalue())[
        "paths"
    ]
    for path, methods in paths.items():
        operation = methods.get("get", {"responses": {}})
        is_csv = "text/csv" in operation["responses"].get("200", {}).get("content", {})
        assert ("bom" in {each["name"] for each in operation.get("parameters", [])}) is is_csv, path
