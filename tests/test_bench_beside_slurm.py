"""The bench that asks Slurm's commands and this service the same questions."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from bench import beside_slurm, slurm_answers, slurm_tables
from bench.full_site import batches
from bench.recompute import divisions_of
from bench.same_answers import differences, n_rows
from docsite import beside_slurm as page
from tests.real_schedulers.slurm_site import SlurmSite, running_slurm

N_ENTRIES, N_JOBS = 300, 2_000
MONTH, MONTH_ENDS = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)
SSHARE = """\
Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare
root|||0.000000|30|1.000000|
 g1||1|1.000000|30|1.000000|
  g1|ann|2|0.666667|10|0.333333|1.000000
  g1|bob|1|0.333333|20|0.666667|0.500000
"""
TREE = """\
"path","name","kind","shares","usage_core_s","factor"
"/g1","g1","group",1.0,30.0,""
"/g1/ann","ann","user",2.0,10.0,1.0
"/g1/bob","bob","user",1.0,20.0,0.5
"""
SREPORT = """\
--------
Usage reported in CPU Seconds
Cluster|Account|Login|Proper Name|Used|Energy
c1|g1|||30|0
c1|g1|ann||10|0
c1|g1|bob||20|0
"""
BUCKETS = """\
"at","user","group","cpu_s"
"2026-10-17T00:00:00Z","bob","g1",15.0
"2026-10-18T00:00:00Z","ann","g1",10.0
"2026-10-18T00:00:00Z","bob","g1",5.0
"""
SPRIO = "JOBID PARTITION USER PRIORITY SITE\n   17 batch  ann      600    0\n"


def _leaf(user: str, factor: float) -> dict[str, object]:
    return {"account": user, "entry": f"/g1/{user}", "factor": factor}


LEAVES = "".join(json.dumps(_leaf(user, factor)) + "\n" for user, factor in (("ann", 1.0), ("bob", 0.5)))
LOOKED_UP = json.dumps({"policy": "grid", "results": [_leaf("ann", 1.0), _leaf("bob", 0.5)]})
DELIVERED = json.dumps(
    {"results": [{"path": f"/g1/{name}", "delivered": core_s / 3_600} for name, core_s in (("ann", 10), ("bob", 20))]}
)
WHY = json.dumps({"scheduler": "c1", "job": {"job": "17", "priority": 600.0}})
ANSWERS = {
    "tree": (SSHARE, TREE, "20.0,0.5", "20.0,0.6"),
    "factors": (SSHARE, LEAVES, "0.5", "0.6"),
    "looked up": (SSHARE, LOOKED_UP, "0.5", "0.6"),
    "buckets": (SREPORT, BUCKETS, "5.0", "5.5"),
    "table": (SREPORT, DELIVERED, "0.00277", "0.00377"),
    "why": (SPRIO, WHY, "600.0", "601.0"),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_equal_answers_have_no_differences_and_one_number_that_differs_is_named(kind: str) -> None:
    slurm, ours, number, other = ANSWERS[kind]
    assert differences(kind, slurm, ours, is_cut=False) == []
    changed = ours.replace(number, other)
    assert changed != ours
    (sentence,) = differences(kind, slurm, changed, is_cut=False)
    assert "0 on one side, 1 of " in sentence


def test_a_user_whom_one_side_leaves_out_is_named() -> None:
    shorter = "".join(line for line in TREE.splitlines(keepends=True) if "bob" not in line)
    (sentence,) = differences("tree", SSHARE, shorter, is_cut=False)
    assert "1 on one side" in sentence
    assert "bob" in sentence


def test_of_an_answer_that_was_cut_only_whole_lines_are_compared() -> None:
    beginning = SSHARE[: SSHARE.index("bob|1|0.33")]
    assert differences("tree", beginning, TREE, is_cut=True) == []
    assert differences("tree", beginning, TREE, is_cut=False) != []
    assert differences("tree", beginning, TREE.replace("2.0,10.0", "2.0,11.0"), is_cut=True) != []


def test_two_empty_answers_are_not_taken_as_equal() -> None:
    header = SSHARE.splitlines(keepends=True)[0]
    assert differences("tree", header, TREE.splitlines(keepends=True)[0], is_cut=False) != []


@pytest.mark.parametrize(
    ("text", "n"), [(SSHARE, 4), (SREPORT, 3), (TREE, 3), (LEAVES, 2), (LOOKED_UP, 2), (WHY, 1), ("", 0), (SPRIO, 1)]
)
def test_rows_of_an_answer_are_counted_without_its_header(text: str, n: int) -> None:
    assert n_rows(text) == n


def test_associations_are_those_of_the_policy_as_nested_sets() -> None:
    rows = slurm_tables.associations(N_ENTRIES)
    published = {
        user["name"] for each in divisions_of(N_ENTRIES) for group in each["children"] for user in group["children"]
    }
    assert {row.user for row in rows if row.user} == published
    edges = sorted(itertools.chain.from_iterable((row.left, row.right) for row in rows))
    assert edges == list(range(2, 2 + 2 * len(rows)))
    accounts = {row.account: row for row in rows if not row.user}
    for row in rows:
        above = accounts.get(row.account if row.user else row.parent)
        assert above is None or above.left < row.left < row.right < above.right


def test_last_month_of_january_is_december() -> None:
    first, ends = slurm_tables.last_month(datetime(2027, 1, 31, 23, tzinfo=UTC))
    assert (first, ends) == (datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))


def test_without_slurm_the_bench_is_left_out_and_the_remedy_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None)
    assert list(beside_slurm.measure_large()) == []
    printed = capsys.readouterr().err
    assert "beside_slurm is left out: no mariadbd (mariadb-server of Debian): make schedulers" in printed


def test_the_recorded_runs_answer_the_questions_of_the_bench() -> None:
    subjects = slurm_answers.Subjects("g1", "u1-5", MONTH, MONTH_ENDS)
    asked = [question.text for question in beside_slurm.questions(subjects, "17")]
    assert page.runs()
    for run in page.runs():
        assert [each["question"] for each in run["answers"]] == asked


def test_a_run_replaces_the_one_of_its_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(page, "FIGURES", tmp_path / "runs.json")
    large, small, again = ({"users": users, "on": on} for users, on in ((100, "a"), (10, "b"), (100, "c")))
    for run in (large, small, again):
        page.store(run)
    assert page.runs() == [small, again]


@pytest.mark.parametrize(
    ("asked", "generic"),
    [
        ("sshare -a -P -A g674", "sshare -a -A ACCOUNT"),
        ("sreport -P -t Seconds cluster Utilization start=2026-10-01 end=2026-11-01", "sreport cluster Utilization"),
        ("sprio -l -j 151; squeue --start -j 151", "sprio -l -j JOB; squeue --start -j JOB"),
        ("GET policies/bench/priorities?account=u7-5", "GET …/priorities?account=USER"),
        ("GET policies/b/table?of=/d0/g7&from=2026-10-01&to=2026-10-31", "GET …/table?of=GROUP"),
        ("GET schedulers/c1/why?job=87", "GET schedulers/{scheduler}/why?job=JOB"),
    ],
)
def test_the_page_shows_commands_without_the_names_of_one_run(asked: str, generic: str) -> None:
    assert page.generic(asked) == generic


def test_the_page_has_a_row_of_each_question_and_the_rows_of_a_command_that_was_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cost = {"asked": "sshare -a -P", "cpu_s": 0.0123, "wall_s": 1.0, "n_rows": 7, "is_cut": False}
    answers = [{"question": "all", "slurm": {**cost, "cpu_s": 120.4, "n_rows": 41_891, "is_cut": True}, "ours": cost}]
    run = {"jobs": 10, "on": "2026-11-30", "versions": {"Slurm": "22.05.8"}, "processor": "2 cores", "answers": answers}
    monkeypatch.setattr(page, "runs", lambda: [{**run, "users": 1_000}])
    sentence, costs, asked = page.page_part().split("\n\n")
    assert sentence == "- 1,000 users with 10 jobs: 2026-11-30, Slurm 22.05.8, 2 cores."
    assert costs.splitlines()[-1] == "| all | cut after 120.4 s, 41,891 rows | 0.012 s |"
    assert asked.splitlines()[-1] == "| all | `sshare -a` | `sshare -a` |"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmSite]:
    with running_slurm(tmp_path_factory.mktemp("slurm"), users=(), settings=slurm_answers.SETTINGS) as site:
        slurm_tables.fill(site, N_ENTRIES, N_JOBS, MONTH, MONTH_ENDS)
        yield site


def _core_s() -> dict[str, float]:
    """By user, of the jobs themselves."""
    sums: dict[str, float] = {}
    for batch in batches(N_ENTRIES, N_JOBS, MONTH_ENDS):
        of_job = (batch.end_us - batch.start_us) / 1e6 * batch.cpus
        for names, core_s in zip(batch.people, np.bincount(batch.who, weights=of_job), strict=True):
            sums[names.user] = sums.get(names.user, 0.0) + float(core_s)
    return sums


@pytest.mark.schedulers
@pytest.mark.deep
def test_slurm_reports_the_usage_of_the_jobs_it_was_filled_with(filled: SlurmSite) -> None:
    asked = (
        "-P",
        "-n",
        "-t",
        "Seconds",
        "cluster",
        "AccountUtilizationByUser",
        f"start={MONTH:%F}",
        f"end={MONTH_ENDS:%F}",
    )
    rows = [line.split("|") for line in filled.run("sreport", *asked).splitlines()]
    assert {login: float(used) for _c, _a, login, _n, used, _e in rows if login} == _core_s()
    assert {
        row["User"]: float(row["RawUsage"]) for row in filled.shares() if float(row["RawUsage"]) and row["User"]
    } == (_core_s())
