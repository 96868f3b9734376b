"""The fuzzer finds a planted fault, blindly and by coverage, keeps its input, and fails."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import __main__ as fuzzer
from tests.fuzz import session, target, targets
from tests.fuzz.mutations import dictionary
from tests.fuzz.target import Target

REPOSITORY = Path(__file__).resolve().parents[2]
_PLANTED = """
def check(data):
    if data[:1] == b"F":
        if data[1:2] == b"U":
            if data[2:3] == b"Z":
                if data[3:4] == b"Z":
                    raise ZeroDivisionError
    return True
"""
_SESSION = """
from tests.fuzz.session import fuzz_by_coverage
from tests.fuzz.target import Target

def load():
    import planted

    return Target("planted", planted.check, list)

fuzz_by_coverage(["planted"], load, ["-runs=200000", "-seed=1", "-max_len=16"])
"""


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refuse_nan(data: bytes) -> bool:
    assert b"NaN" not in data
    return True


def test_a_fault_is_found_blindly_and_its_input_is_left(in_folder: Path) -> None:
    (in_folder / "seeds").mkdir()
    (in_folder / "seeds/one").write_bytes(b"1 2 3\n4 5 6\n")
    with pytest.raises(AssertionError):
        session.fuzz_blindly(Target("planted", refuse_nan, list), 10, in_folder / "seeds")
    (left,) = in_folder.glob("crash-*")
    assert b"NaN" in left.read_bytes()


@pytest.mark.deep
def test_a_fault_behind_four_conditions_is_found_by_coverage(in_folder: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris isn't installed: it has no package for this system or Python")
    (in_folder / "planted.py").write_text(_PLANTED)
    (in_folder / "run.py").write_text(_SESSION)
    paths = os.pathsep.join((str(in_folder), str(REPOSITORY)))
    environment = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "run.py"], cwd=in_folder, env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    (left,) = in_folder.glob("crash-*")
    assert left.read_bytes().startswith(b"FUZZ"), done.stderr[-2000:]


def test_the_input_of_a_fault_is_kept_as_a_case_and_the_run_fails(
    in_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def left(folder: Path, name: str, options: list[str]) -> str:
        (folder / "crash-1").write_bytes(b"NaN")
        return "#7\tNEW cov: 1\n#12\tpulse\nNaN was read"

    monkeypatch.setattr(target, "CORPUS", in_folder / "corpus")
    monkeypatch.setattr(fuzzer, "REPOSITORY", in_folder)
    monkeypatch.setattr(fuzzer, "_session", left)
    monkeypatch.setitem(targets.TARGETS, "planted", Target("planted", refuse_nan, lambda: [b"1"]))
    result = fuzzer._fuzz("planted", 1.0, in_folder)
    (case,) = (in_folder / "corpus/planted").iterdir()
    assert (case.read_bytes(), result.n_runs) == (b"NaN", 12)
    assert fuzzer._report([result]) == 1
    assert "NaN was read" in capsys.readouterr().out


def test_a_target_whose_process_reads_nothing_fails_the_run_and_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzzer._report([fuzzer.Result("numbers", 0, 0, (), "No module")]) == 1
    assert "NOT TESTED: numbers" in capsys.readouterr().out
    assert fuzzer._report([fuzzer.Result("numbers", 7, 1, ())]) == 0


def test_inputs_are_kept_while_they_are_short_and_there_is_room(in_folder: Path) -> None:
    assert [fuzzer._keep(in_folder / "of", data) for data in (b"a", b"a", b"x" * 5_000)] == [True, False, False]
    kept = [fuzzer._keep(in_folder / "of", str(number).encode()) for number in range(100)]
    assert sum(kept) == fuzzer.MOST_KEPT - 1


def test_the_dictionary_has_words_of_the_seeds_as_libfuzzer_writes_them() -> None:
    lines = dictionary([b"JobState=PENDING"]).splitlines()
    assert '"' + "".join(f"\\x{byte:02X}" for byte in b"PENDING") + '"' in lines
    assert '"\\x4E\\x61\\x4E"' in lines
