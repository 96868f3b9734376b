"""`manage.py compute` as a command: streams, exit status, and nothing opened."""

from __future__ import annotations

import errno
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

REPOSITORY = Path(__file__).resolve().parents[2]
CASE: dict[str, Any] = {
    "id": "two-projects",
    "algorithm": {"name": "aequus", "operator": "relative", "resolution": 10000},
    "policy": {
        "name": "root",
        "shares": 1,
        "children": [
            {
                "name": "physics",
                "shares": 30,
                "children": [
                    {"name": "alice", "kind": "user", "shares": 1},
                    {"name": "bob", "kind": "user", "shares": 1},
                ],
            },
            {"name": "biology", "shares": 70},
        ],
    },
    "usage": {"/physics/alice": 1200, "/physics/bob": 0, "/biology": 4900},
}
BAD = {**CASE, "id": "negative", "usage": {"/biology": -1}}


def run(*files: str) -> tuple[int, list[dict[str, Any]], list[str]]:
    """Status, results and error lines of the command."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    try:
        call_command("compute", *files, stdout=out, stderr=err)
    except SystemExit as stopped:
        status = int(str(stopped.code))
    return status, json.loads(out.getvalue()), err.getvalue().splitlines()


def write(path: Path, content: object) -> str:
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return str(path)


def test_the_example_of_the_contract_is_exact(tmp_path: Path) -> None:
    status, results, errors = run(write(tmp_path / "case.json", CASE))
    assert (status, errors) == (0, [])
    assert results == [
        {
            "id": "two-projects",
            "algorithm": {"name": "aequus", "operator": "relative", "resolution": 10000, "factor_from": "rank"},
            "nodes": {
                "/physics": {
                    "target": 0.3,
                    "actual": 0.19672131147540983,
                    "priority": 0.3442622950819672,
                    "vector": [6721],
                    "rank": 2,
                    "factor": 0.6666666666666667,
                },
                "/physics/alice": {
                    "target": 0.5,
                    "actual": 1.0,
                    "priority": -0.5,
                    "vector": [6721, 2500],
                    "rank": 2,
                    "factor": 0.6666666666666667,
                },
                "/physics/bob": {
                    "target": 0.5,
                    "actual": 0.0,
                    "priority": 1.0,
                    "vector": [6721, 9999],
                    "rank": 1,
                    "factor": 1.0,
                },
                "/biology": {
                    "target": 0.7,
                    "actual": 0.8032786885245902,
                    "priority": -0.12857142857142864,
                    "vector": [4357],
                    "rank": 3,
                    "factor": 0.33333333333333337,
                },
            },
        }
    ]


@pytest.mark.parametrize("folder", ["operators", "aequus", "gridwide"])
def test_published_vectors_pass_through_the_command(golden_dir: Path, folder: str) -> None:
    path = golden_dir / folder / "cases.json"
    cases = json.loads(path.read_text())
    status, results, errors = run(str(path))
    assert (status, errors) == (0, [])
    assert [result["id"] for result in results] == [case["id"] for case in cases]
    for case, result in zip(cases, results, strict=True):
        assert set(result["nodes"]) == set(case["expected"])
        for place, expected in case["expected"].items():
            for name in set(expected) - {"padded"}:
                value, got = expected[name], result["nodes"][place][name]
                is_number = isinstance(value, float)
                assert got == (pytest.approx(value, rel=0, abs=case["tolerance"]) if is_number else value), (
                    case["id"],
                    place,
                    name,
                )


def test_good_cases_are_printed_in_order_and_bad_ones_named(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    no_id = {key: value for key, value in BAD.items() if key != "id"}
    first = write(tmp_path / "1.json", [CASE, BAD, {**CASE, "id": "later"}])
    second = write(tmp_path / "2.json", no_id)
    status, results, errors = run(first, second)
    assert status == 2
    assert [result["id"] for result in results] == ["two-projects", "later"]
    assert [error.split(": ")[:3] for error in errors] == [
        ["error", "negative", "/biology"],
        ["error", "3", "/biology"],
    ]
    assert [error.count("-1") for error in errors] == [1, 1]
    assert errors == snapshot


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"\xff\xfe{", r"\bUTF-8\b.*\b0\b"),
        (b"{nope", r"\bJSON\b"),
        (b"", r"\bJSON\b"),
        (b"[" * 100_000 + b"]" * 100_000, r"^error: 0: .*\b99999\b"),
        (b"[" * 100_000, r"^error: 0: .*\b99999\b"),
        (b"3", r"^error: 0: "),
    ],
)
def test_unreadable_input_is_one_error_line(tmp_path: Path, content: bytes, named: str) -> None:
    status, results, errors = run(write(tmp_path / "bad.json", content))
    assert (status, results, len(errors)) == (2, [], 1)
    assert errors[0].startswith("error: ")
    assert re.search(named, errors[0])


def test_a_missing_file_is_an_error_line(tmp_path: Path) -> None:
    status, results, errors = run(str(tmp_path / "none.json"), write(tmp_path / "case.json", CASE))
    assert status == 2
    assert len(results) == 1
    (error,) = errors
    assert error.startswith(f"error: {tmp_path}/none.json: ")
    assert error.endswith(os.strerror(errno.ENOENT))


def test_unicode_names_are_kept_and_errors_stay_on_one_line(tmp_path: Path) -> None:
    policy = {"children": [{"name": "фи\u202e\n\ud800", "shares": 1}]}
    good = {"id": "good", "algorithm": {"name": "gridwide"}, "policy": policy, "usage": {}}
    bad = {**good, "id": "b\na\ud800d", "usage": {"/x\n\ud800": 1}}
    status, results, errors = run(write(tmp_path / "case.json", [good, bad]))
    assert status == 2
    assert list(results[0]["nodes"]) == ["/фи\u202e\n\ud800"]
    assert len(errors) == 1
    assert "b\\na\\ud800d" in errors[0]


def test_it_works_in_a_pipe_without_a_database_or_an_instance(tmp_path: Path) -> None:
    """A database that can't be reached, nowhere to write, settings that would stop everything else, and an id that the
    terminal's encoding doesn't know."""
    (tmp_path / "file").touch()
    environment = {
        **os.environ,
        "DATABASE_URL": "postgres://nobody@127.0.0.1:9/none",
        "FAIRSHARE_VAR": str(tmp_path / "file" / "var"),
        "FAIRSHARE_TICK_S": "often",
        "PYTHONIOENCODING": "ascii",
    }
    done = subprocess.run(
        [sys.executable, "manage.py", "compute", "-"],
        input=json.dumps([CASE, {**BAD, "id": "größe"}]).encode(),
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert [result["id"] for result in json.loads(done.stdout)] == ["two-projects"]
    (line,) = done.stderr.splitlines()
    assert line.startswith(b"error: gr")
    assert b"Traceback" not in done.stderr
