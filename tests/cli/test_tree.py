from __future__ import annotations

import io
import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.cli.refusals import code_of
from tests.rest_site import Caller
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

pytestmark = pytest.mark.django_db


def printed(*arguments: str) -> str:
    out = io.StringIO()
    call_command("tree", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_it_prints_the_columns_of_the_file_of_the_page(computed_site: Site) -> None:
    head, *lines = (line.split() for line in printed("grid").splitlines())
    assert head[:5] == ["path", "shares", "target", "actual", "deviation_points"]
    cells = {line[0]: dict(zip(head, line, strict=True)) for line in lines}
    tree = Caller(user=computed_site.admin).get("policies/grid/tree", {"depth": 2}).json()
    (physics,) = (entry for entry in tree["children"] if entry["name"] == "physics")
    assert cells["/physics"]["actual"] == f"{physics['actual']:.6g}"
    assert cells["/physics"]["rank"] == str(physics["rank"]), "of a group's own vector, as in REST"
    assert {"/physics/alice", "/physics/bob"} <= set(cells)


def test_it_prints_so_many_levels(computed_site: Site) -> None:
    assert "/physics/alice" not in printed("grid", "--level", "1")
    with pytest.raises(CommandError) as refused:
        printed("grid", "--level", "0")
    assert refused.value.returncode == 2
    assert "--level must be from 1 to" in str(refused.value)


def test_json_equals_rest(computed_site: Site) -> None:
    answer = Caller(user=computed_site.admin).get("policies/grid/tree", {"depth": 2}).json()
    assert json.loads(printed("grid", "--json")) == answer


def test_an_unknown_policy_is_not_found(computed_site: Site) -> None:
    with pytest.raises(CommandError) as refused:
        printed("nothing")
    assert code_of(refused.value) == "not_found"
