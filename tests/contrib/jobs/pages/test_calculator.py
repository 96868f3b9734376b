"""Grid Engine's policies tried in a form: the worked example's numbers, every input's effect, wrong input named."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import call_command
from django.http import QueryDict
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.models import User
from apps.contrib.jobs.algorithms import solve_job_case
from apps.contrib.jobs.algorithms.gridengine.config import PRESETS
from apps.contrib.jobs.pages.calculator import (
    DEPARTMENT_FIELDS,
    MOST_CALCULATOR_JOBS,
    MOST_CALCULATOR_ROWS,
    PROJECT_FIELDS,
    SETTINGS,
    STARTS,
    USER_FIELDS,
    CalculatorForm,
    case_of,
)
from apps.contrib.jobs.pages.pasted_jobs import read_table
from apps.contrib.jobs.pages.tables import MOST_JOB_ROWS as MOST_ROWS_SHOWN
from apps.contrib.jobs.pages.tables import grid_engine_table
from apps.contrib.jobs.pages.views import example
from apps.core.errors import Invalid
from tests.examples import examples
from tests.pages.page import Page, read
from tests.sign_in import sign_in

WORKED = STARTS[0].query


@pytest.fixture
def as_alice(client: Client, db: None) -> Client:
    sign_in(client, User.objects.create_user("alice"))
    return client


def query(text: str = WORKED, **changed: str | list[str]) -> QueryDict:
    found = QueryDict(text, mutable=True)
    for name, value in changed.items():
        found.setlist(name, value if isinstance(value, list) else [value])
    return found


def solved(asked: QueryDict) -> dict[str, Any]:
    form = CalculatorForm(asked)
    assert form.problems == []
    return solve_job_case(case_of(form))


def sums(page: Page) -> dict[str, list[str]]:
    return {
        row.attributes["data-key"] or "": [cell.text(strip=True) for cell in row.css("td")] for row in page.items("sum")
    }


def test_the_page_starts_with_the_worked_example_and_its_numbers(as_alice: Client) -> None:
    page = read(as_alice.get("/jobs/calculator/"))
    assert sums(page) == {
        "userA": ["2", "500,000", "0", "0", "–"],
        "userB": ["1", "500,000", "3", "90,277.8", "2"],
        "userC": ["0", "0", "2", "125,000", "1"],
        "Total": ["3", "1,000,000", "5", "215,277.8", "1"],
    }
    order = [one.attributes["data-value"] for one in page.items("explanation")]
    assert order == ["userC-1", "userB-2", "userC-2", "userB-3", "userB-4", "userA-1", "userB-1", "userA-2"]


@pytest.mark.paper("1.31")
def test_the_numbers_of_the_form_are_those_of_the_sample_and_of_the_golden_case(golden_dir: Any) -> None:
    cases = json.loads((golden_dir / "gridengine/blog_cases.json").read_text())
    (golden,) = (case for case in cases if case["id"].startswith("blog07"))
    names = {"A": "jobA", "B": "jobB", "C": "jobC"}
    in_form = {
        names[job.removeprefix("user")[0]] + job.rpartition("-")[2]: int(row["ftckt"])
        for job, row in solved(query())["jobs"].items()
    }
    worked = example("worked")
    assert worked is not None
    in_sample = solve_job_case(json.loads(str(worked.data["text"])))["jobs"]
    expected = {job: row["ftckt"] for job, row in golden["expected"].items()}
    assert in_form == {job: int(row["ftckt"]) for job, row in in_sample.items()} == expected


def test_page_command_and_api_give_the_same_numbers(as_alice: Client, tmp_path: Any) -> None:
    text = read(as_alice.get("/jobs/calculator/")).one('[data-testid="case"]').text()
    (tmp_path / "case.json").write_text(text)
    out = io.StringIO()
    call_command("jobs", str(tmp_path / "case.json"), stdout=out)
    (by_command,) = json.loads(out.getvalue())
    by_api = as_alice.post(reverse("api:jobs-explain"), text, content_type="application/json").json()
    assert by_command == by_api == solved(query())
    shown = read_table(text, None, [])
    assert {row.job: row.total for row in shown.rows} == {
        job: f"{row['prior']:.5f}" for job, row in by_command["jobs"].items()
    }


def test_more_than_a_thousand_jobs_are_truncated_with_a_message(as_alice: Client) -> None:
    page = read(as_alice.get(f"/jobs/calculator/?{STARTS[1].query}"))
    (note,) = [text for text in page.texts('[data-key="of_case"]') if "max_functional" in text]
    assert all(number in note for number in ("200", "802", "1002"))
    assert not page.has('[data-testid="case"]')
    whole = solved(query(STARTS[1].query, max_functional_jobs_to_schedule="2000"))
    assert sum(
        int(row["ftckt"]) for job, row in whole["jobs"].items() if job.startswith("userB-") and job != "userB-1"
    ) == pytest.approx(540051, abs=1000)


ONE = "user=ann&running=1&waiting=1&user=bob&running=1&waiting=1&weight_tickets_functional=1000&auto_user_fshare=100"


@pytest.mark.parametrize(
    ("changed", "column", "job", "value"),
    [
        ({}, "ftckt", "bob-1", 500),
        ({"fshare": ["300", ""]}, "ftckt", "ann-1", 750),
        ({"fshare": ["0", "100"]}, "ftckt", "ann-1", 0),
        ({"oticket": ["8", ""]}, "otckt", "ann-1", 8),
        ({"slots": ["4", ""], "slots_urgency": "1000"}, "rrcontr", "ann-1", 4000),
        ({"waits_s": ["7", ""], "weight_waiting_time": "2"}, "wtcontr", "ann-2", 14),
        ({"posix": ["-1023", "1024"]}, "npprior", "bob-2", 1),
        ({"job_share": ["1", "3"], "weight_user": "0"}, "ftckt", "bob-1", 750),
        ({"preset": "6.2"}, "rrcontr", "ann-1", 1000),
        ({"preset": "8.1.9"}, "rrcontr", "ann-1", 0),
        ({"department": ["d", ""], "dept": "d", "dept_fshare": "9", "weight_user": "0"}, "ftckt", "ann-1", 1000),
        ({"project": ["", "p"], "proj": "p", "proj_fshare": "9", "weight_user": "0"}, "ftckt", "bob-1", 1000),
        ({"project": ["q", "p"], "proj": "p", "proj_oticket": "60"}, "otckt", "bob-1", 60),
        ({"dept": "d", "dept_oticket": "5,5", "department": ["", "d"]}, "otckt", "bob-1", 5.5),
        ({"tree": ["75", "25"], "weight_tickets_share": "1000", "cpu": ["", ""]}, "stckt", "ann-1", 750),
        ({"tree": ["1", "1"], "weight_tickets_share": "1000", "cpu": ["300", "100"]}, "stckt", "ann-1", 250),
        ({"weight_tickets_functional": ""}, "ftckt", "bob-1", 0),
        ({"weight_urgency": "0", "weight_ticket": "0", "weight_priority": "2"}, "prior", "bob-2", 1),
    ],
)
@pytest.mark.paper("1.29")
def test_every_input_changes_the_result(
    changed: dict[str, str | list[str]], column: str, job: str, value: float
) -> None:
    assert solved(query(ONE, **changed))["jobs"][job][column] == pytest.approx(value)


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"weight_ticket": "-1"}, "Tickets"),
        ({"weight_ticket": "much"}, "Tickets"),
        ({"weight_ticket": "nan"}, "Tickets"),
        ({"weight_ticket": "1_0"}, "Tickets"),
        ({"max_functional_jobs_to_schedule": "1.5"}, "Pending jobs considered"),
        ({"running": ["2001", "1"]}, "ann: Running jobs"),
        ({"waiting": ["2000", "1"]}, "Jobs"),
        ({"slots": ["0", ""]}, "ann: Slots"),
        ({"posix": ["", "-1024"]}, "bob: POSIX priority"),
        ({"fshare": ["1e13", ""]}, "ann: Functional shares"),
        ({"user": ["", "bob"]}, "Row 1: User"),
        ({"user": ["ann", "ann"], "fshare": ["", "5"]}, "ann"),
        ({"dept": ["d", "d"]}, "d"),
        ({"preset": "7"}, "config.preset"),
    ],
)
def test_invalid_input_is_named_and_nothing_is_computed(
    as_alice: Client, changed: dict[str, str | list[str]], where: str
) -> None:
    answer = as_alice.get(f"/jobs/calculator/?{query(ONE, **changed).urlencode()}")
    page = read(answer)
    (problem,) = page.texts('[data-testid="problem"]')
    assert problem.startswith(where)
    assert not page.has('[data-testid="explanation"]')


CELLS = st.sampled_from(
    ["", "", "1", "0", "7", "2,5", "-3", "1e9", "1e400", "nan", "ann", "bob", "é", "1_0", "\x00", " "]
)
NAMES = [field.name for fields in (USER_FIELDS, DEPARTMENT_FIELDS, PROJECT_FIELDS) for field in fields]
NAMES += [field.name for group in SETTINGS for field in group.fields] + ["preset", "variants", "drop"]


@examples(100)
@given(st.dictionaries(st.sampled_from(NAMES), st.lists(CELLS, min_size=1, max_size=3), max_size=12))
def test_every_query_is_computed_or_refused_with_a_message(typed: dict[str, list[str]]) -> None:
    form = CalculatorForm(query("", **typed))
    if form.problems:
        assert all(message for _where, message in form.problems)
        return
    case = case_of(form)
    if form.preset not in ("", *PRESETS):
        with pytest.raises(Invalid):
            grid_engine_table(case, [], most_jobs=MOST_CALCULATOR_JOBS, with_tickets=True)
        return
    rows = grid_engine_table(case, [], most_jobs=MOST_CALCULATOR_JOBS, with_tickets=True).rows
    assert len(rows) == min(len(case["jobs"]), MOST_ROWS_SHOWN)


def test_an_invalid_cell_keeps_its_text_and_is_marked(as_alice: Client) -> None:
    page = read(as_alice.get(f"/jobs/calculator/?{query(ONE, fshare=['<b>', '']).urlencode()}"))
    (wrong,) = page.all('[aria-invalid="true"]')
    assert (wrong.attributes["id"], wrong.attributes["value"]) == ("fshare-1", "<b>")


def test_jobs_of_a_user_may_have_several_rows() -> None:
    rows = solved(query("user=ann&waiting=1&slots=1&user=ann&waiting=1&slots=3&slots_urgency=10"))["jobs"]
    assert {job: row["rrcontr"] for job, row in rows.items()} == {"ann-1": 10, "ann-2": 30}


def test_rows_are_added_and_removed_by_buttons_without_scripts(as_alice: Client) -> None:
    page = read(as_alice.get(f"/jobs/calculator/?{WORKED}&add=user"))
    names = [node.attributes.get("value") or "" for node in page.all('[name="user"]')]
    assert names == ["userA", "userB", "userC", ""]
    assert page.one("[autofocus]").attributes["id"] == "user-4"
    page = read(as_alice.get(f"/jobs/calculator/?{WORKED}&drop=user-2"))
    assert [node.attributes.get("value") or "" for node in page.all('[name="user"]')] == ["userA", "userC", ""]
    assert "userB" not in sums(page)
    full = query("", user=[f"u{n}" for n in range(MOST_CALCULATOR_ROWS + 1)])
    page = read(as_alice.get(f"/jobs/calculator/?{full.urlencode()}"))
    assert len(page.all('[name="user"]')) == MOST_CALCULATOR_ROWS
    assert not page.has('[name="add"][value="user"]')


def test_empty_settings_show_their_preset(as_alice: Client) -> None:
    shown = {}
    for preset in ("8.1.9", "6.2"):
        page = read(as_alice.get(f"/jobs/calculator/?{ONE}&preset={preset}"))
        names = ("weight_urgency", "weight_ticket", "weight_priority", "weight_waiting_time", "slots_urgency")
        shown[preset] = [page.one(f'[name="{name}"]').attributes["placeholder"] for name in names]
        assert page.one('button[name="preset"][aria-pressed="true"]').attributes["value"] == preset
    assert shown == {"8.1.9": ["0.5", "0.5", "0", "0.278", "0"], "6.2": ["0.1", "0.01", "1", "0", "1000"]}


def test_amendments_are_shown_with_the_result(as_alice: Client) -> None:
    page = read(as_alice.get(f"/jobs/calculator/?{WORKED}&variants=even_split&variants=odd"))
    assert page.has('[name="variants"][value="even_split"][checked]')
    assert len(page.all("th.wide-head")) == 1


def test_the_fragment_returns_the_numbers_and_their_address(as_alice: Client) -> None:
    asked = f"{ONE}&weight_ticket=1"
    answer = as_alice.get(f"/jobs/calculator/_result?{asked}", headers={"HX-Request": "true"})
    assert answer.content.decode().startswith('<div id="result"')
    address = answer.headers["HX-Replace-Url"]
    assert address.startswith("/jobs/calculator/?")
    assert sums(read(as_alice.get(address))) == sums(read(answer))
    assert "autofocus" not in answer.content.decode()  # typing continues
    assert as_alice.get("/jobs/calculator/_result").headers["Location"] == "/jobs/calculator/"


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.name)
def test_every_start_state_is_computed(as_alice: Client, start: Any) -> None:
    page = read(as_alice.get(f"/jobs/calculator/?{start.query}"))
    assert not page.has('[data-testid="problem"]')
    assert page.has('[data-testid="explanation"]')


def test_the_page_is_a_tab_beside_explain_a_job(as_alice: Client) -> None:
    assert read(as_alice.get("/jobs/")).has('.tabs a[href="/jobs/calculator/"]')
    assert read(as_alice.get("/jobs/calculator/")).has('.tabs a[href="/jobs/calculator/"][aria-current="page"]')
