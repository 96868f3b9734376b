"""`manage.py jobs` as a command: the manners of compute, nothing opened."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from syrupy.assertion import SnapshotAssertion

from tests.conftest import REPOSITORY

SAM: dict[str, Any] = {
    "id": "sam",
    "algorithm": {"name": "sam"},
    "shares": {"g1": 0.5, "g2": 0.5},
    "benefit": {"g1": 23, "g2": 26},
    "jobs": [{"id": "j1", "group": "g1", "benefit": 1}],
}
SLURM: dict[str, Any] = {
    "id": "slurm",
    "algorithm": {"name": "slurm-multifactor"},
    "weights": {"fairshare": 100000},
    "jobs": [{"id": 38, "fairshare": 0.6, "site": 11}],
}


def run(*files: str) -> tuple[int, list[dict[str, Any]], list[str]]:
    """Status, results and error lines of the command."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    try:
        call_command("jobs", *files, stdout=out, stderr=err)
    except SystemExit as stopped:
        status = int(str(stopped.code))
    return status, json.loads(out.getvalue()), err.getvalue().splitlines()


def write(path: Path, content: object) -> str:
    path.write_text(json.dumps(content))
    return str(path)


def test_cases_of_several_files_are_printed_in_order(tmp_path: Path) -> None:
    status, results, errors = run(write(tmp_path / "a.json", [SLURM, SAM]), write(tmp_path / "b.json", SAM))
    assert (status, errors) == (0, [])
    assert [result["id"] for result in results] == ["slurm", "sam", "sam"]
    assert results[0]["jobs"]["38"]["priority"] == 60011
    assert results[1]["jobs"]["j1"]["queue"] == "front"


def test_an_invalid_case_is_one_error_line_and_the_rest_is_printed(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    bad = {**SAM, "id": "negative", "shares": {"g1": -1}}
    nameless = {**SLURM, "id": None, "weights": {"fairshare": 1}, "jobs": [{"id": "x", "nice": 1e30}]}
    status, results, errors = run(write(tmp_path / "cases.json", [bad, SAM, nameless]))
    assert status == 2
    assert [result["id"] for result in results] == ["sam"]
    assert errors[0].startswith("error: negative: shares.g1: -1 ")
    assert errors[1].startswith("error: 2: jobs.x.nice: 1e+30 ")
    assert re.findall(r"-?\d{2,}", errors[1].partition("1e+30")[2]) == ["-2147483645", "2147483645"]
    assert errors == snapshot


def test_a_missing_or_tree_algorithm_is_refused(tmp_path: Path) -> None:
    tree = {**SAM, "id": "tree", "algorithm": {"name": "aequus"}}
    missing = {"id": "none", "jobs": []}
    status, results, errors = run(write(tmp_path / "cases.json", [tree, missing, 7]))
    assert (status, results) == (2, [])
    assert errors[0].startswith("error: tree: algorithm.name: ")
    assert '"aequus"' in errors[0]
    assert errors[1].startswith("error: none: algorithm: ")
    assert errors[2].startswith("error: 2: ")


def test_numbers_beyond_json_and_duplicate_keys_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(
        '[{"id": "inf", "algorithm": {"name": "sam"}, "shares": {"g": 1e999}, "jobs": []},'
        ' {"id": "twice", "algorithm": {"name": "sam"}, "shares": {"g": 1, "g": 2}, "jobs": []}]'
    )
    status, results, errors = run(str(path))
    assert (status, results) == (2, [])
    assert errors[0].startswith("error: inf: shares.g: Infinity ")
    assert errors[1].startswith("error: twice: shares.g: ")
    assert "Infinity" not in errors[1]


@pytest.mark.deep
def test_standard_input_is_read_without_a_database_or_an_instance(tmp_path: Path) -> None:
    blind = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRSHARE", "DJANGO", "PG"))}
    blind |= {"DATABASE_URL": "postgres://nobody@127.0.0.1:1/none", "FAIRSHARE_VAR": str(tmp_path / "absent")}
    done = subprocess.run(
        [sys.executable, "manage.py", "jobs", "-"],
        input=json.dumps(SAM),
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env=blind,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)[0]["jobs"]["j1"]["fraction_after"] == 0.48
    assert not (tmp_path / "absent").exists()


def test_every_real_grid_engine_job_set_needs_no_algorithm_name(golden_dir: Path) -> None:
    path = golden_dir / "gridengine/cases.json"
    cases = json.loads(path.read_text())
    assert not any("algorithm" in case for case in cases)
    status, results, errors = run(str(path))
    assert (status, errors) == (0, [])
    assert [result["id"] for result in results] == [case["id"] for case in cases]
    for case, result in zip(cases, results, strict=True):
        for job in case["jobs"]:
            if job["state"] in ("pending", "running"):
                width = case.get("tolerance", {}).get("prior", 0.6e-5)
                assert abs(result["jobs"][job["id"]]["prior"] - case["expected"][job["id"]]["prior"]) <= width, job[
                    "id"
                ]
