"""The figures of operators and resolution: Plotly knows them, and they hold the records."""

from __future__ import annotations

from math import log

import pytest
from django.http import QueryDict

from apps.accounts.actor import COMMAND
from apps.contrib.lab.figures import DRAWN
from apps.contrib.lab.operators.records import NAMES, read_query
from apps.contrib.lab.operators.selectors import FIGURES, get_figure, open_query
from apps.contrib.lab.views import drawn
from apps.web.figures import Figure
from tests.pages.grid import SLUG, Grid
from tests.web.figures.schema import check_schema


def figure(name: str, address: str = "") -> Figure:
    asked = QueryDict(address)
    query = read_query({each: asked.get(each, "") for each in NAMES})
    return drawn(open_query(policy_slug=SLUG, query=query, actor=COMMAND), name, asked)


def records(name: str, address: str = "") -> list[dict[str, object]]:
    asked = QueryDict(address)
    query = read_query({each: asked.get(each, "") for each in NAMES})
    return list(get_figure(policy_slug=SLUG, figure=name, query=query, actor=COMMAND).json()["rows"])


def test_every_figure_of_the_analysis_is_drawn() -> None:
    assert list(DRAWN) == list(FIGURES)


@pytest.mark.parametrize("name", list(DRAWN))
@pytest.mark.parametrize(
    "address", ["", "operator=combined&k=0.2&resolution=7&bits=2&region=over&count=pairs&target=0.5&entry=/atlas/alice"]
)
def test_figures_are_valid_for_plotly(open_grid: Grid, name: str, address: str) -> None:
    found = figure(name, address)
    check_schema(found)
    assert found.table.rows
    assert len(found.table.raw) == len(records(name, address))
    assert all(len(row) == len(found.table.columns) for row in found.table.rows)
    assert all(len(row) == len(found.table.csv_header) for row in found.table.raw)


def test_narrow_windows_label_lines_and_wrap_regions(open_grid: Grid) -> None:
    leaves = figure("leaf-jobs")
    assert [(one.color, one.text) for one in leaves.series] == [(one.swatch, one.text) for one in leaves.labels]
    assert len(leaves.series) == 2
    regions = figure("bits")
    assert [text.count("<br>") for text in regions.layout["xaxis"]["ticktext"]] == [1, 1, 1, 0]


@pytest.mark.parametrize("name", ["resolution", "leaf-jobs"])
def test_without_usage_a_message_replaces_the_figure(unused_grid: Grid, name: str) -> None:
    found = figure(name)
    assert found.empty


def test_cells_of_job_sizes_belong_to_the_region(open_grid: Grid) -> None:
    found = figure("job-size", "region=under&job_h=500")
    (trace,) = found.traces
    rows = {
        (row["operator"], str(row["bits"])): row["job_h"] for row in records("job-size") if row["region"] == "under"
    }
    columns, names = found.layout["xaxis"]["ticktext"], found.layout["yaxis"]["ticktext"]
    drawn_at = {(names[round(base + 0.47)], columns[x]) for base, x in zip(trace["base"], trace["x"], strict=True)}
    assert drawn_at == {place for place, job_h in rows.items() if job_h is not None}
    first = {(names[each["y"]], int(each["text"])) for each in found.layout["annotations"]}
    assert all(columns[each["x"]] == each["text"] for each in found.layout["annotations"])
    for name, bits in first:
        job_h, before = rows[name, str(bits)], rows.get((name, str(bits - 1)))
        assert job_h is not None
        assert float(str(job_h)) <= 500
        assert before is None or float(str(before)) > 500
    assert len(found.layout["shapes"]) <= 150


def test_the_curves_show_the_records(open_grid: Grid) -> None:
    profiles = figure("profiles", "operator=slurm&target=0.1")
    by_name = {trace.get("name"): trace for trace in profiles.traces}
    for row in records("profiles", "target=0.1"):
        trace = by_name[row["operator"]]
        assert trace["y"][trace["x"].index(row["actual"])] == pytest.approx(row["priority"], abs=5e-5)
    assert by_name["slurm"]["meta"] == {"read": True}, "the one that was asked for is read point by point"
    exponent = figure("exponent", "entry=/atlas/alice")
    (point,) = [row for row in records("exponent", "entry=/atlas/alice") if row["entry"]]
    marked = next(trace for trace in exponent.traces if trace["mode"] == "markers")
    assert marked["x"] == pytest.approx([log(float(str(point["parent_ratio"])))])
    assert marked["y"] == [point["k"]]


def test_the_curve_rises_to_the_fraction_of_leaves_with_a_visible_job(open_grid: Grid) -> None:
    found, rows = figure("leaf-jobs"), records("leaf-jobs")
    for trace, name in zip(found.traces, ("any_level_h", "every_level_h"), strict=True):
        known = [row[name] for row in rows if row[name] is not None]
        assert trace["y"] == sorted(trace["y"])
        assert trace["y"][-1] == pytest.approx(100 * len(known) / len(rows))


def test_a_control_changes_one_parameter_and_keeps_the_rest(open_grid: Grid) -> None:
    address = "operator=absolute&target=0.5&nodes=50"
    controls = {control.label: control for control in figure("profiles", address).controls}
    chosen = [choice.label for choice in controls["Operator"].choices if choice.is_chosen]
    assert chosen == ["absolute"]
    slurm = next(choice for choice in controls["Operator"].choices if choice.label == "slurm")
    assert slurm.query == "operator=slurm&target=0.5&nodes=50"
    assert [choice.is_chosen for choice in controls["Target"].choices].count(True) == 1


@pytest.mark.parametrize(("bits", "n_texts"), [(3, 56), (8, 0)])
def test_a_figure_with_many_cells_has_no_numbers_in_them(open_grid: Grid, bits: int, n_texts: int) -> None:
    found = figure("local-density", f"bits={bits}")
    assert len(found.layout["annotations"]) == n_texts
    assert len(found.table.columns) == 1 + 2**bits


def test_resolution_columns_are_labelled_by_bits_and_the_active_one_outlined(open_grid: Grid) -> None:
    found = figure("resolution", "resolution=300")
    names = found.layout["xaxis"]["ticktext"]
    assert names == ["8", "300", "9", "10", "11", "12", "13", "10\u00a0k", "14", "15", "16"]
    (outline,) = found.layout["shapes"]
    assert (outline["x0"], outline["x1"]) == (0.5, 1.5)
