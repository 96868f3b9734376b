"""The figure of the decay functions: the weights of the engine, the policy's own first."""

from __future__ import annotations

import pytest
from django.http import QueryDict

from apps.core.errors import Invalid
from apps.core.periods import PERIODS_DAYS
from apps.engine.decay import weights
from apps.engine.decay_functions import DECAY_FUNCTIONS
from apps.policies.settings import PolicySettings
from apps.priorities.metering import window_of
from apps.web.figures import Figure
from apps.web.figures.curves import DAY_S, DecayOptions, decay_figure, policy_decay_figure, read_decay
from tests.each_case import each_case
from tests.web.figures.schema import check_schema

AS_OF_S = 1_767_225_600.0
WINDOWS = {name: window_of(PolicySettings.from_json({"window": {"aging": name}}).window) for name in DECAY_FUNCTIONS}


def figure_for(query: str = "", own: str = "exponential") -> Figure:
    asked = QueryDict(query)
    return decay_figure(WINDOWS[own], WINDOWS, read_decay(asked), asked, policy="grid", as_of_s=AS_OF_S)


@pytest.mark.parametrize("query", ["", "age=7&function=own", "age=365&function=" + "&function=".join(DECAY_FUNCTIONS)])
def test_the_figure_is_valid_for_plotly(query: str) -> None:
    check_schema(figure_for(query))


@each_case("own", DECAY_FUNCTIONS)
@each_case("length_s", [None, 20 * DAY_S])
def test_every_function_is_compared_with_every_other(own: str, length_s: int | None) -> None:
    if own == "linear" and length_s is None:
        length_s = 30 * DAY_S
    settings = PolicySettings.from_json({"window": {"aging": own, "length_s": length_s}})
    query = QueryDict("function=" + "&function=".join(DECAY_FUNCTIONS))
    found = policy_decay_figure(settings, "grid", query, as_of_s=AS_OF_S)
    assert len(found.traces) == len(DECAY_FUNCTIONS)


def test_points_are_weights_of_the_engine() -> None:
    found = figure_for("age=90&function=pbs")
    assert [trace["name"] for trace in found.traces] == [DECAY_FUNCTIONS["pbs"].label, "active"]
    ages_s = [day * DAY_S for day in found.traces[0]["x"]]
    wanted = weights(ages_s, WINDOWS["pbs"], AS_OF_S) * 100
    assert found.traces[0]["y"] == pytest.approx(wanted.tolist(), abs=0.005)
    assert [row[1] for row in found.table.raw] == pytest.approx(found.traces[1]["y"], abs=0.006)


def test_each_decay_function_has_a_fixed_colour() -> None:
    alone, among = figure_for("function=lsf"), figure_for("function=pbs&function=lsf&function=flux")
    of_lsf = [
        [t["line"]["color"] for t in one.traces if t["name"] == DECAY_FUNCTIONS["lsf"].label] for one in (alone, among)
    ]
    assert of_lsf[0] == of_lsf[1]


def test_compared_decay_functions_have_other_colours_than_that_of_the_policy() -> None:
    found = figure_for("function=" + "&function=".join(DECAY_FUNCTIONS))
    colors = [trace["line"]["color"] for trace in found.traces]
    assert len(colors) == len(set(colors)) == len(DECAY_FUNCTIONS)
    chips = [choice.key for choice in found.controls[1].choices]
    assert "function-exponential" not in chips
    assert chips[0] == "function-own"
    assert len(chips) == len(DECAY_FUNCTIONS)


@pytest.mark.parametrize("days", PERIODS_DAYS)
def test_the_table_has_full_hours_and_the_end(days: int) -> None:
    ages = [float(row[0]) for row in figure_for(f"age={days}").table.rows]
    assert all(abs(age * 24 - round(age * 24)) < 1e-9 for age in ages)
    assert ages[-1] > days * 0.98


def test_the_end_of_the_window_is_marked() -> None:
    window = window_of(PolicySettings.from_json({"window": {"aging": "none", "length_s": 20 * DAY_S}}).window)
    marked = {
        days: decay_figure(window, WINDOWS, DecayOptions(days, ()), QueryDict(), policy="grid", as_of_s=AS_OF_S)
        for days in (7, 30)
    }
    check_schema(marked[30])
    assert marked[30].layout["shapes"][0]["x0"] == 20
    assert "shapes" not in marked[7].layout


def test_a_choice_links_to_its_page_and_back() -> None:
    chips = {choice.key: choice for choice in figure_for("aging=slurm&function=lsf").controls[1].choices}
    assert chips["function-pbs"].query == "aging=slurm&function=lsf&function=pbs"
    assert chips["function-lsf"].is_chosen
    assert chips["function-lsf"].query == "aging=slurm&function=own"


@pytest.mark.parametrize(("query", "where"), [("age=8", "age"), ("age=1e9", "age"), ("function=tea", "function")])
def test_invalid_figure_parameters_are_refused_by_name(query: str, where: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_decay(QueryDict(query))
    assert [problem.where for problem in caught.value.fields] == [where]
