"""`manage.py analyse`: the same numbers as page and REST, as text, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND
from apps.contrib.lab.operators.figures import FIGURES
from apps.contrib.lab.operators.records import FigureQuery
from apps.contrib.lab.operators.selectors import get_figure, get_operators_page
from tests.pages.grid import SLUG, Grid


def analyse(*arguments: str) -> str:
    out = io.StringIO()
    call_command("analyse", SLUG, *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_without_a_figure_it_prints_the_check_and_the_operators(open_grid: Grid) -> None:
    text = analyse("--operator", "absolute", "--resolution", "10")
    query = FigureQuery(operator="absolute", resolution=10)
    check = get_operators_page(policy_slug=SLUG, query=query, actor=COMMAND).check
    assert text.startswith(check.sentence)
    assert json.loads(analyse("--json"))["check"]["n_leaves"] == check.n_leaves == 6
    names = [row["name"] for row in csv.DictReader(io.StringIO(analyse("--csv")))]
    assert {"absolute", "relative", "slurm"} <= set(names)


@pytest.mark.parametrize("name", list(FIGURES))
def test_a_figure_is_printed_as_text_json_and_csv(open_grid: Grid, name: str) -> None:
    found = get_figure(policy_slug=SLUG, figure=name, query=FigureQuery(), actor=COMMAND)
    assert found.sentence in analyse(name)
    assert json.loads(analyse(name, "--json")) == found.json()
    assert len(list(csv.reader(io.StringIO(analyse(name, "--csv"))))) == len(found.rows) + 1


def test_bad_input_exits_with_2_and_names_the_field(open_grid: Grid) -> None:
    with pytest.raises(CommandError, match="nodes") as refused:
        analyse("--nodes", "0")
    assert refused.value.returncode == 2
