"""The runner of mutants: what it changes, what it reports, and that its lists are about code that exists."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from apps.core.code_paths import REPOSITORY
from docsite.papers.claims import CLAIMS
from tests.mutants.accepted import accepted
from tests.mutants.changes import is_within, mutants_of
from tests.mutants.claims import claims_about_data, claims_of_papers

SOURCE = '''
"""Of the module."""
LIMIT = 3
type_only: int


class Edges:
    size = 5

    def __repr__(self) -> str:
        return "x" * 2

    def inside(self, value: float, *, default: int = 7) -> bool:
        """Say 3 < 4."""
        assert value > 0
        if value is None or (
            value
            < LIMIT
        ):
            raise ValueError(f"not {value + 1}")
        return not value and all(each for each in (1.5,) if each)


def steps(items):
    for item in items:
        total = -item
        items.count += 1
        items.close()
        yield min(item, total) if item else _("five %d" % 5)
'''


def _changes(source: str) -> list[str]:
    return [mutant.change for mutant in mutants_of("module.py", source)]


def test_edges_conditions_numbers_statements_and_results_are_changed() -> None:
    assert set(_changes(SOURCE)) >= {
        "3 → 4",
        "3 → 2",
        "value < LIMIT → value <= LIMIT",
        "value is None → value is not None",
        "value is None or ( value < LIMIT ) → True",
        "value is None or ( value < LIMIT ) → False",
        "value is None or ( value < LIMIT ) → value is None and ( value < LIMIT )",
        "value is None or ( value < LIMIT ) → False or ( value < LIMIT )",
        'raise ValueError(f"not {value + 1}") → pass',
        "not value → value",
        "each → True",
        "1.5 → 2.5",
        "not value and all(each for each in (1.5,) if each) → None",
        "all(each for each in (1.5,) if each) → any(each for each in (1.5,) if each)",
        "-item → item",
        "items.count += 1 → items.count -= 1",
        "items.count += 1 → pass",
        "items.close() → pass",
        "min(item, total) → max(item, total)",
        "item → True",
    }


# A repository of one module, whose tests miss one of its two limits; MARK is the mark that papers count

PRODUCT = """
HIGHEST = 7


def is_high(value):
    return value >= HIGHEST


def is_low(value):
    return value < 3
"""
TESTS = """
import pytest

from tests.product import is_high, is_low


@MARK("O1", "O2")
def test_high():
    assert is_high(7)


@MARK("O1")
@pytest.mark.parametrize("value", [5, 6], ids=["O1", "O3"])
def test_not_high(value):
    assert not is_high(value)


@MARK("O2")
def test_low():
    assert is_low(-100)


@MARK("O2")
def test_broken():
    raise OSError("no such file")
"""
TABLE = """
[code]
O1 = ["tests/product.py::is_high"]
O2 = ["tests/product.py::is_low", "tests/product.py::HIGHEST"]
"""
# Loaded before the runner, which reads the places of the repository while it is imported.
PLANTED = """
from pathlib import Path

from apps.core import code_paths

code_paths.REPOSITORY = Path.cwd()
from tests.mutants import claims, rooms

claims._FILE = Path("claims.toml")
rooms.ROOMS["planted"] = rooms.Room("planted", ("tests/product.py",), ("tests/test_product.py",), 90)


def pytest_addoption(parser):
    parser.addoption("--deep", action="store_true")


def pytest_configure(config):
    config.addinivalue_line("markers", "paper")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    for name, text in {
        "tests/product": PRODUCT,
        "planted": PLANTED,
        "tests/test_product": TESTS.replace("MARK", "pytest.mark.paper"),
    }.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    (tmp_path / "claims.toml").write_text(TABLE, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]", encoding="utf-8")
    return tmp_path


def _run(folder: Path, *arguments: str) -> tuple[int, list[str]]:
    """Exit status and lines of the command in this folder."""
    command = [
        sys.executable,
        "-c",
        "import planted; from tests.mutants.__main__ import main; raise SystemExit(main())",
    ]
    environment = os.environ | {
        "PYTHONPATH": f"{folder}:{REPOSITORY}",
        "PYTEST_ADDOPTS": "-p planted -p no:django -p no:cacheprovider",
    }
    ended = subprocess.run(
        [*command, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stdout.splitlines() + ended.stderr.splitlines()


def test_surviving_mutants_and_tests_that_fail_without_any_are_reported(folder: Path) -> None:
    status, lines = _run(folder, "--rooms", "planted")
    assert status == 1, lines
    assert {line for line in lines if line.startswith("survived: ")} == {
        f"survived: tests/product.py:10 is_low: return value < 3: {change} [1 tests pass]"
        for change in ("3 → 2", "3 → 4", "value < 3 → value <= 3")
    }
    assert lines[-1].split()[:6] == ["planted", "8", "8", "5", "0", "3"]
    broken = "tests/test_product.py::test_broken: OSError: no such file"
    assert f"  left out, since it fails without any change: {broken}" in lines


def test_a_test_of_a_claim_that_notices_no_mutant_shows_nothing(folder: Path) -> None:
    """Of O1, `test_not_high` has a parameter that no mutant changes; its other parameter is about O3."""
    status, lines = _run(folder, "--claims")
    assert status == 1, lines
    assert {line for line in lines if line.startswith("survived: ")} == {
        "survived: each mutant of claim O1 (1): tests/test_product.py::test_not_high shows nothing",
        "survived: each mutant of claim O2 (5): tests/test_product.py::test_broken shows nothing",
        "survived: each mutant of claim O2 (5): tests/test_product.py::test_low shows nothing",
    }
    assert [line.split() for line in lines[-2:]] == [["O1", "1", "1", "1", "2", "1"], ["O2", "5", "5", "1", "3", "2"]]


def test_outcomes_are_remembered(folder: Path) -> None:
    _run(folder, "--claims=O1")
    _status, lines = _run(folder, "--claims=O1", "--table")
    assert lines[-1].split() == ["O1", "1", "1", "1", "2", "1"]


# What the lists name


def test_each_claim_with_tests_names_code_that_can_be_changed() -> None:
    """A function that was renamed is reported with its claim."""
    listed = claims_of_papers()
    assert {*listed, *claims_about_data()} == {name for name, claim in CLAIMS.items() if not claim.untested}
    missing = [
        f"{claim.name}: {named}"
        for claim in listed.values()
        for named in claim.code
        if not any(is_within(place, named) for place in claim.places())
    ]
    assert missing == []


@pytest.mark.deep
def test_each_accepted_survivor_is_still_a_mutant_and_has_a_reason() -> None:
    paths = {name.partition("::")[0] for name in accepted()}
    names = {
        mutant.name for path in paths for mutant in mutants_of(path, (REPOSITORY / path).read_text(encoding="utf-8"))
    }
    assert set(accepted()) <= names
    assert all(len(reason.split()) >= 3 and reason.endswith(".") for reason in accepted().values())
