"""The profile of operators: the priorities of the engine, for a target that is moved."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from django.http import QueryDict
from django.test import Client

from apps.core.errors import Invalid
from apps.engine.operators import all_operators, get_operator
from apps.web.figures import Figure
from apps.web.figures.curves import policy_profile_figure, read_profile
from tests.pages.grid import SLUG, Grid
from tests.web.figures.schema import check_schema

NAMES = [operator.name for operator in all_operators()]
PAGE = f"/policy/{SLUG}/algorithm/"


def figure_for(query: str = "", own: str = "relative", k: float = 0.5) -> Figure:
    return policy_profile_figure({"operator": own, "k": k}, "grid", QueryDict(query))


@pytest.mark.parametrize("query", ["", "profile_target=0.5&profile=own", "profile=" + "&profile=".join(NAMES)])
def test_the_figure_is_valid_for_plotly(query: str) -> None:
    check_schema(figure_for(query))


def test_points_are_priorities_of_the_engine() -> None:
    found = figure_for("profile_target=30&profile=combined&profile=sigmoid-3", own="slurm", k=0.25)
    lines = {trace["name"]: trace for trace in found.traces if trace.get("name")}
    assert list(lines) == ["sigmoid-3", "combined", "slurm"]
    for name, trace in lines.items():
        actual = np.array(trace["x"]) / 100
        wanted = get_operator(name, k=0.25)(np.full(len(actual), 0.3), actual)
        assert trace["y"] == pytest.approx(wanted.tolist(), abs=1e-6)
    raw = {row[0]: row[1] for row in found.table.raw}
    assert raw[30.0] == 0
    assert "+0.41" in found.sentence, "slurm for half of the target"


def test_every_curve_goes_through_zero_at_the_target_and_never_rises() -> None:
    found = figure_for("profile_target=12.5&profile=" + "&profile=".join(NAMES[:7]))
    for trace in found.traces:
        if trace.get("name"):
            assert trace["y"][trace["x"].index(12.5)] == 0
            assert all(one >= other for one, other in pairwise(trace["y"]))


def test_each_operator_has_a_fixed_colour() -> None:
    whole = figure_for("profile=" + "&profile=".join(NAMES))
    colors = {trace["name"]: trace["line"]["color"] for trace in whole.traces if trace.get("name")}
    assert len(set(colors.values())) == len(colors) == 9
    (alone,) = [t["line"]["color"] for t in figure_for("profile=slurm").traces if t.get("name") == "slurm"]
    chip = next(choice for choice in whole.controls[1].choices if choice.key == "profile-slurm")
    assert chip.swatch == alone


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("profile_target=0", "profile_target"),
        ("profile_target=100", "profile_target"),
        ("profile_target=nan", "profile_target"),
        ("profile_target=x", "profile_target"),
        ("profile=tea", "profile"),
        ("profile=relative-100000", "profile"),
    ],
)
def test_invalid_figure_parameters_are_refused_by_name(query: str, where: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_profile(QueryDict(query), "relative")
    assert [problem.where for problem in caught.value.fields] == [where]


def test_page_and_json_have_the_same_numbers_and_only_algorithms_with_an_operator_have_the_figure(
    open_grid: Grid, client: Client
) -> None:
    client.force_login(open_grid.alice)
    asked = {"profile_target": "35", "profile": ["slurm", "absolute"]}
    page = client.get(PAGE, asked)
    figure = page.context["profile"].figure
    answer = client.get(f"{PAGE}figures/operator", asked)
    assert answer.json()["data"][1]["y"] == figure.traces[1]["y"]
    again = client.get(f"{PAGE}figures/operator", asked, headers={"If-None-Match": answer["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(PAGE, {"algorithm": "slurm-fair-tree"}).context["profile"] is None
    assert client.get(f"{PAGE}figures/operator", {"profile_target": "101"}).status_code == 422
    decay = client.get(f"/policy/{SLUG}/decay/figures/decay?function=lsf&function=pbs").json()
    assert [column["title"] for column in decay["table"]["columns"][2:]] == ["LSF, %", "PBS, %"]
