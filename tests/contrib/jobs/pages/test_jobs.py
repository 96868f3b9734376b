"""Job priorities: listings and cases explained, variants side by side, and unreadable rows reported with their line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from syrupy.assertion import SnapshotAssertion

from apps.accounts.models import User
from apps.contrib.jobs.algorithms import get_job_algorithm
from apps.contrib.jobs.pages import pasted_jobs as job_reading
from apps.contrib.jobs.pages.pasted_jobs import read_table
from apps.contrib.jobs.pages.tables import MOST_JOB_ROWS, JobTable
from apps.contrib.jobs.pages.views import EXAMPLES
from apps.core.errors import FieldProblem, Invalid, TooLarge
from tests.contrib.jobs.algorithms.test_listings import URG_OF_2011
from tests.each_case import each_case
from tests.pages.page import read
from tests.sign_in import sign_in

GE_CASE: dict[str, Any] = {
    "config": {"weight_ticket": 0.5, "weight_tickets_functional": 1000, "weight_user": 1, "weight_priority": 0.2},
    "users": [{"name": "ada", "fshare": 100}, {"name": "ben", "fshare": 100}],
    "jobs": [
        {"id": "1", "user": "ada", "state": "running", "posix_priority": 0},
        {"id": "2", "user": "ada", "posix_priority": -100},
        {"id": "3", "user": "ada", "posix_priority": -100},
        {"id": "4", "user": "ben", "posix_priority": 100, "state": "held"},
    ],
}


@pytest.fixture
def as_alice(client: Client, db: None) -> Client:
    sign_in(client, User.objects.create_user("alice"))
    return client


def sample(golden_dir: Path, *names: str) -> str:
    return "".join((golden_dir / name).read_text() for name in names)


def totals(table: JobTable) -> dict[str, str]:
    return {row.job: row.total for row in table.rows}


@pytest.mark.paper("1.28")
def test_a_qstat_listing_is_explained_by_weights_inferred_from_its_rows(golden_dir: Path) -> None:
    table = read_table(sample(golden_dir, "gridengine/samples/qstat-ext-urg-pri.txt"), None, [])
    assert [row.place for row in table.rows] == [1, 2, 3, 4, 5, 6, None, None, None]
    assert [row.job for row in table.rows][:3] == ["590", "592", "595"]
    assert not any(row.doubts for row in table.rows)
    assert [note.key for note in table.notes] == ["weights_found", "all_follow"]
    assert "0.3 / 0.5 / 0.2" in table.notes[0].text
    assert [cell.amount for cell in table.rows[0].cells] == ["0.30000", "0.27531", "0.10000"]
    held = next(row for row in table.rows if row.state == "hqw")
    (line,) = held.lines
    assert re.findall(r"hqw|\d+", line) == ["0", "hqw"]


def test_a_listing_with_missing_terms_shows_the_unexplained_part(golden_dir: Path) -> None:
    table = read_table(URG_OF_2011, None, [])
    assert [note.key for note in table.notes] == ["weights_installed", "not_listed"]
    assert re.findall(r"0\.\d+", table.notes[1].text) == ["0.25"]
    assert not any(row.doubts for row in table.rows)
    weights = {"weight_urgency": 0.3, "weight_ticket": 0.5, "weight_priority": 0.2}
    table = read_table(sample(golden_dir, "gridengine/samples/qstat-urg.txt"), weights, [])
    assert [note.key for note in table.notes] == ["weights_given", "not_listed"]
    assert re.findall(r"0\.\d+", table.notes[1].text) == ["0.15049", "0.6"]


def test_an_xml_listing_gives_the_same_table(golden_dir: Path) -> None:
    text, xml = (sample(golden_dir, f"gridengine/samples/qstat-ext-urg-pri.{kind}") for kind in ("txt", "xml"))
    assert totals(read_table(text, None, [])) == totals(read_table(xml, None, []))


def test_wrong_weights_are_marked_row_by_row(golden_dir: Path) -> None:
    weights = {"weight_urgency": 0.5, "weight_ticket": 0.5, "weight_priority": 0.0}
    table = read_table(sample(golden_dir, "gridengine/samples/qstat-ext-urg-pri.txt"), weights, [])
    assert re.search(r"\bprior\b", table.rows[0].doubts[0])
    assert table.rows[0].total in table.rows[0].doubts[0]
    assert (table.notes[1].key, re.findall(r"\d+", table.notes[1].text)) == ("doubted", ["8"])
    assert sum(bool(row.doubts) for row in table.rows) == 8


def test_missing_rows_of_a_listing_are_detected_by_the_range(golden_dir: Path) -> None:
    lines = sample(golden_dir, "gridengine/samples/qstat-ext-urg-pri.txt").splitlines()
    part = "\n".join(line for line in lines if not line.lstrip().startswith("590"))
    whole, rest = (read_table(text, None, []) for text in ("\n".join(lines), part))
    assert not any(row.doubts for row in whole.rows)
    doubts = [doubt for row in rest.rows for doubt in row.doubts]
    assert any(re.search(r"\bn(urg|tckts)\b", doubt) for doubt in doubts), "a value that the rows' range doesn't give"


def test_variants_of_a_listing_show_rank_changes(golden_dir: Path) -> None:
    text = sample(golden_dir, "gridengine/samples/qstat-ext-urg-pri.txt")
    table = read_table(text, None, ["exclude_running", "linear_urgency", "even_split"])
    assert len(table.variants) == 3
    assert table.notes[-1].key == "needs_shares"
    labels = {each.setting: each.label for each in get_job_algorithm("gridengine").variants}
    assert labels["even_split"] in table.notes[-1].text
    assert labels["linear_urgency"] not in table.notes[-1].text
    moved = {row.job: row.others[0].moved for row in table.rows if row.place}
    assert sum(moved.values()) == 0
    assert any(moved.values())
    assert all(len(row.others) == 3 for row in table.rows)


def test_listings_of_sprio_are_rebuilt_from_weights_and_factors(golden_dir: Path) -> None:
    names = [f"slurm/samples/sprio-{kind}.txt" for kind in ("n-l", "l", "w")]
    table = read_table(sample(golden_dir, *names), None, [])
    assert totals(table) == {"38": "64908", "30": "60579", "40": "44921"}
    assert not any(row.doubts for row in table.rows)
    assert any(re.findall(r"\d[\d.]*", line) == ["87.5", "0.875", "100"] for line in table.rows[0].lines)
    assert "weights_missing" not in [note.key for note in table.notes]
    alone = read_table(sample(golden_dir, "slurm/samples/sprio-l.txt"), None, [])
    assert totals(alone) == totals(table)
    assert alone.notes[-1].key == "weights_missing"
    assert "sprio -w" in alone.notes[-1].text


@pytest.mark.parametrize("version", ["24.11.5", "26.05.5"])
def test_a_listing_of_sprio_of_each_release_is_read(golden_dir: Path, version: str) -> None:
    table = read_table(sample(golden_dir, f"slurm/{version}/sprio-l.txt"), None, [])
    assert totals(table) == {"14": "7572", "17": "572", "15": "469"}
    assert [note.key for note in table.notes][-1] == "weights_missing"


@pytest.mark.paper("1.30")
def test_a_case_shows_the_amendments_and_8_1_9() -> None:
    table = read_table(json.dumps(GE_CASE), None, ["even_split", "default_zero"])
    assert [row.place for row in table.rows] == [1, 2, None, None]
    assert [row.state for row in table.rows] == ["pending", "pending", "held", "running"]
    assert len(table.variants) == 3
    first = table.rows[0]
    assert float(first.total) == pytest.approx(sum(float(cell.amount) for cell in first.cells), abs=2e-5)
    assert first.lines[0].startswith("priority ")


@pytest.mark.parametrize(
    ("config", "weights"),
    [
        ({"preset": "6.2"}, ["0.1", "0.01", "1"]),
        ({"preset": "6.2", "weight_ticket": 0.3}, ["0.1", "0.3", "1"]),
        ({"preset": "8.1.9", "weight_ticket": None}, ["0.5", "0.5", "0"]),
    ],
)
def test_columns_of_a_case_show_the_weights_used(config: dict[str, Any], weights: list[str]) -> None:
    case = {**GE_CASE, "config": {"weight_tickets_functional": 1000, **config}}
    table = read_table(json.dumps(case), None, [])
    assert [column.weight for column in table.columns] == weights
    for row in table.rows:
        assert float(row.total) == pytest.approx(sum(float(cell.amount) for cell in row.cells), abs=2e-5)


def test_a_listing_of_6_2_uses_the_weights_of_6_2() -> None:
    header = "job-ID prior nurg npprior ntckts ppri name user state submit/start at queue slots"
    rows = [
        (63300, 1.105, 1.0, 1024),
        (63301, 1.07375, 0.96875, 960),
        (63316, 0.605, 0.5, 0),
        (63331, 0.13625, 0.03125, -960),
    ]
    lines = [
        f"{job} {prior:.5f} 1.00000 {npprior:.5f} 0.50000 {ppri} j ann qw 04/06/2011 10:00:00 1"
        for job, prior, npprior, ppri in rows
    ]
    table = read_table("\n".join([header, *lines]), None, [])
    assert [note.key for note in table.notes] == ["weights_installed", "all_follow"]
    assert re.findall(r"[\d.]+", table.notes[0].text)[:4] == ["0.1", "0.01", "1", "6.2"]


def test_jobs_beyond_the_limit_are_noted_above_the_table() -> None:
    config = {**GE_CASE["config"], "max_functional_jobs_to_schedule": 1}
    table = read_table(json.dumps({**GE_CASE, "config": config}), None, [])
    (note,) = [note for note in table.notes if note.key == "of_case"]
    assert "max_functional_jobs_to_schedule is 1" in note.text
    assert note.text.endswith(": 3.")
    assert [(each.label, each.n_running, each.n_waiting) for each in table.sums] == [
        ("ada", 1, 2),
        ("ben", 0, 0),
        ("Total", 1, 2),
    ]


def test_a_variant_named_in_the_case_is_shown_by_default() -> None:
    case = {**GE_CASE, "config": {**GE_CASE["config"], "variant": "default_zero"}}
    assert len(read_table(json.dumps(case), None, []).variants) == 1


UNREADABLE = [  # text, where it is wrong, and what of it is named
    ("", "text", []),
    ("hello", "line 1", []),
    ("job-ID prior name user state slots\n 7 x\n", "line 2", []),
    ("job-ID prior name user state slots\n 7 x j ada qw 1\n", "line 2", ["prior", '"x"']),
    ("job-ID prior name user state slots\n 7 nan j ada qw 1\n", "line 2", ["prior", '"nan"']),
    ("job-ID prior name user state slots\n" + " 7 0.5 j ada qw 1\n" * 2, "line 3", ["7", "line 2"]),
    ("JOBID PRIORITY SITE NICE\n 1 2\n", "line 2", ["2", "4"]),
    ("JOBID PRIORITY SITE NICE\n 1 2 3 much\n", "line 2", ["NICE", '"much"']),
    ("JOBID PRIORITY AGE\nWeights 1\n", "line 3", []),
    ("<a>\n<b>\n</a>", "line 3", ["mismatched tag"]),  # the parser's own words
    ('<!DOCTYPE a [<!ENTITY b "c">]>\n<a>&b;</a>', "line 1", []),
    ("<job_info><job_list>\n<JB_owner>ada</JB_owner></job_list></job_info>", "line 2", ["JB_job_number"]),
    ('{"algorithm": {"name": "sam"}, "jobs": []}', "shares", []),
    ('{"algorithm": ', "text", ["JSON"]),
    ("[1, 2]", "text", []),
    ('{"config": {"weight_ticket": 1, "variant": "odd"}, "jobs": []}', "config.variant", ["odd"]),
]


def problem_of(text: str) -> FieldProblem:
    with pytest.raises(Invalid) as refused:
        read_table(text, None, [])
    (field,) = refused.value.fields
    return field


@each_case(("text", "where", "named"), UNREADABLE)
def test_unreadable_input_is_reported_with_its_line(text: str, where: str, named: list[str]) -> None:
    field = problem_of(text)
    assert field.where == where
    assert [each for each in named if each not in field.message] == []


def test_sentences_about_unreadable_input(snapshot: SnapshotAssertion) -> None:
    assert [problem_of(text).message for text, _where, _named in UNREADABLE] == snapshot


def test_a_page_limits_jobs_and_shows_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    case = {
        "algorithm": {"name": "slurm-multifactor"},
        "weights": {},
        "jobs": [{"id": i} for i in range(MOST_JOB_ROWS + 5)],
    }
    table = read_table(json.dumps(case), None, [])
    assert (len(table.rows), table.n_jobs, table.n_hidden) == (MOST_JOB_ROWS, MOST_JOB_ROWS + 5, 5)
    monkeypatch.setattr(job_reading, "MOST_PASTED_JOBS", 10)
    with pytest.raises(TooLarge):
        read_table(json.dumps(case), None, [])


def test_the_page_works_without_scripts_and_keeps_its_input(as_alice: Client) -> None:
    assert as_alice.get("/jobs/").status_code == 200
    answer = as_alice.post("/jobs/", {"text": json.dumps(GE_CASE), "variants": ["even_split"], "weight_urgency": "0,5"})
    assert answer.headers["Cache-Control"] == "private, no-store"
    page = read(answer)
    assert [one.attributes["data-value"] for one in page.items("explanation")][:1] == ["2"]
    assert page.has('[name="variants"][value="even_split"][checked]')
    assert page.one('[name="weight_urgency"]').attributes["value"] == "0,5"
    wrong = as_alice.post("/jobs/", {"text": "hello", "weight_ticket": "much"})
    assert list(wrong.context["form"].errors) == ["weight_ticket"]
    assert len(read(wrong, 422).items("problem")) == 1
    unread = read(as_alice.post("/jobs/", {"text": "hello"}), 422)
    assert [problem_of("hello").message in text for text in unread.texts('[data-testid="problem"]')] == [True]


def test_the_fragment_contains_the_result_only_and_redirects_to_the_page(as_alice: Client) -> None:
    assert as_alice.get("/jobs/_result").headers["Location"] == "/jobs/"
    answer = as_alice.post("/jobs/_result", {"text": json.dumps(GE_CASE)}, headers={"HX-Request": "true"})
    html = answer.content.decode()
    assert html.startswith('<div id="result"')
    assert "<form" not in html
    assert not read(answer).has('[data-testid="problem"]')
    nothing = as_alice.post("/jobs/_result", {}, headers={"HX-Request": "true"})
    assert len(read(nothing, 422).items("problem")) == 1
    assert not read(nothing, 422).has('[data-testid="explanation"]')


@pytest.mark.parametrize("name", [each.name for each in EXAMPLES])
def test_every_example_is_explained_completely(as_alice: Client, name: str) -> None:
    answer = as_alice.get(f"/jobs/?example={name}")
    page = read(answer)
    assert not page.has('#result [data-testid="doubts"]')
    assert page.has('#result [data-testid="explanation"]')
    assert as_alice.get("/jobs/?example=nothing").status_code == 200


def test_pasted_text_is_escaped(as_alice: Client) -> None:
    case = {"algorithm": {"name": "slurm-multifactor"}, "weights": {}, "jobs": [{"id": "<script>alert(1)</script>"}]}
    html = as_alice.post("/jobs/", {"text": json.dumps(case)}).content.decode()
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_jobs_of_htcondor_are_listed_best_first_with_their_terms() -> None:
    case = {
        "algorithm": {"name": "htcondor"},
        "submitters": [{"name": "a", "real": 2, "cores": 1}, {"name": "b", "real": 3, "factor": 200}],
        "jobs": [{"id": "1.0", "submitter": "a"}, {"id": "2.0", "submitter": "b"}, {"id": "3.0", "submitter": "c"}],
    }
    table = read_table(json.dumps(case), None, [])
    assert [(row.place, row.job, row.user, row.total) for row in table.rows] == [
        (1, "3.0", "c", "500"),
        (2, "2.0", "b", "600"),
        (3, "1.0", "a", "2000"),
    ]
    assert [cell.amount for cell in table.rows[1].cells] == ["3", "200", "0.4", "0"]
    assert table.notes == []
    tied = read_table(json.dumps(case | {"submitters": []}), None, [])
    assert [note.key for note in tied.notes] == ["of_case"]


def test_the_sam_ledger_is_the_same_on_the_page_and_by_rest(as_alice: Client) -> None:
    sample = next(each for each in EXAMPLES if each.name == "sam-weighted").data["text"]
    rest = as_alice.post("/api/v1/jobs/explain", sample, content_type="application/json").json()
    shown = read(as_alice.post("/jobs/", {"text": sample}))
    for group, found in rest["ledger"]["groups"].items():
        row = shown.text(f'[data-testid="ledger"][data-key="{group}"]')
        assert [each for each in ("before", "booked", "after", "owed") if f"{found[each]:g}" not in row] == []
    for job in rest["jobs"].values():
        assert f"{job['benefit']:g}" in shown.text(".job-table")
