"""The runner of mutants: what it changes, that a change is in effect, and that the accepted survivors still exist.

`python -m tests.mutants` tries them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import pytest_django

from apps.core.code_paths import REPOSITORY
from apps.engine.decay_functions import get_decay_function
from apps.engine.parameters import choice
from tests.databases import Databases
from tests.mutants.__main__ import main
from tests.mutants.accepted import accepted
from tests.mutants.changes import Mutant, constants_of, mutants_of, uses_of
from tests.mutants.forks import Result, SharedDatabases, in_fork
from tests.mutants.hits import Hits, Trace
from tests.mutants.outcomes import NOTICED, SURVIVED, Outcomes
from tests.mutants.rooms import ROOMS
from tests.mutants.swap import NotApplied, apply, functions_of, module_of

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


def test_sentences_assertions_annotations_and_class_bodies_stay() -> None:
    replaced = {change.partition(" → ")[0] for change in _changes(SOURCE)}
    assert replaced.isdisjoint({"value > 0", "value + 1", "2", "5", "7", '"x" * 2', '"five %d" % 5'})


def test_functions_that_are_compiled_to_machine_code_stay() -> None:
    function = "def half(value):\n    return value / 2\n"
    assert _changes(function)
    assert _changes(f"@compiled\n{function}") == _changes(f"@compiled_borrowing\n{function}") == []


def test_each_change_is_one_that_compiles_and_no_line_moves() -> None:
    mutants = mutants_of("module.py", SOURCE)
    assert len({mutant.name for mutant in mutants}) == len(mutants)
    for mutant in mutants:
        text = mutant.text(SOURCE)
        assert text != SOURCE
        assert len(text.splitlines()) == len(SOURCE.splitlines())
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(SOURCE))


FOLLOWING = """
LIMIT = 3
TWICE: int = LIMIT * 2
OTHER = 7


def within() -> bool:
    return OTHER < TWICE


class Default:
    of = {limit}
"""


def test_a_constant_matters_where_functions_read_it_or_one_that_follows_from_it() -> None:
    source = FOLLOWING.format(limit="OTHER")
    names = {name for name, _statement in constants_of(2, source)}
    assert names == {"LIMIT", "TWICE"}
    assert uses_of(names, source) == {8}
    assert uses_of({"LIMIT"}, source) == set()


def test_a_constant_that_is_read_at_import_is_not_changed() -> None:
    with pytest.raises(ValueError, match="at import"):
        constants_of(2, FOLLOWING.format(limit="LIMIT"))


PATH = "apps/engine/decay_functions.py"


TEXT = (REPOSITORY / PATH).read_text(encoding="utf-8")


@pytest.fixture
def mutants() -> list[Mutant]:
    return mutants_of(PATH, TEXT)


def test_a_mutant_is_in_effect_in_its_fork_and_nowhere_else(mutants: list[Mutant]) -> None:
    functions = functions_of([PATH])
    mutant = next(each for each in mutants if each.function == "get_decay_function" and each.change.endswith("→ None"))

    def work() -> Result:
        names = apply(mutant, TEXT, functions)
        return {"names": names, "function": get_decay_function("none")}

    result = in_fork(work, processor_s=60, longest_s=60)
    assert result == {"names": ["get_decay_function"], "function": None}
    assert get_decay_function("none") is not None


def test_a_function_that_another_has_made_is_exchanged_too() -> None:
    path = "apps/engine/parameters.py"
    text = (REPOSITORY / path).read_text(encoding="utf-8")
    made = choice("word", "Word", "a", ("a",))
    functions = functions_of([path])
    refusal = next(each for each in mutants_of(path, text) if each.function == "choice.read" and "raise" in each.change)

    def work() -> Result:
        apply(refusal, text, functions)
        return {"read": made.read("c")}

    assert in_fork(work, processor_s=60, longest_s=60) == {"read": "c"}


def test_a_mutant_of_code_that_no_function_runs_is_refused(mutants: list[Mutant]) -> None:
    with pytest.raises(NotApplied):
        apply(next(each for each in mutants if each.function), TEXT, {})


@pytest.mark.deep
def test_a_constant_that_cannot_be_evaluated_is_refused() -> None:
    """A usual import would fail then, and with it every test."""
    path = "apps/usage/parsers/records_json.py"
    text = (REPOSITORY / path).read_text(encoding="utf-8")
    import_module(module_of(path))
    first = next(each for each in mutants_of(path, text) if each.change == "1 → 0" and "1970" in each.source)
    with pytest.raises(NotApplied, match="ValueError"):
        apply(first, text, {})


def test_what_never_ends_or_raises_has_no_result() -> None:
    def never() -> Result:
        while True:
            pass

    assert "processor" in in_fork(never, processor_s=0, longest_s=60)["over"]
    assert "ZeroDivisionError" in in_fork(lambda: {"x": 1 / 0}, processor_s=60, longest_s=60)["error"]


@pytest.fixture
def shared(databases: Databases, django_db_blocker: pytest_django.DjangoDbBlocker) -> Iterator[SharedDatabases]:
    with django_db_blocker.unblock():
        made = SharedDatabases(dict(databases.settings), suffix="forked", schemas=databases._schemas)
        made._create(made.empty)
        yield made
        made.drop_at_last()


def test_a_fork_leaves_no_database_of_its_own_and_its_process_goes_on(shared: SharedDatabases) -> None:
    def names() -> set[str]:
        like = "SELECT datname FROM pg_database WHERE datname LIKE %s"
        return {name for (name,) in shared._session("postgres").execute(like, [f"{shared.empty}%"]).fetchall()}

    def work() -> Result:
        shared._create(f"{shared.empty}_again")
        return {"names": sorted(names())}

    shared.leave_sessions()
    result = in_fork(work, processor_s=60, longest_s=60)
    assert result == {"names": [shared.empty, f"{shared.empty}_again"]}
    shared.end_sessions()
    shared.clean()
    assert names() == {shared.empty}


def test_lines_of_a_test_are_those_that_it_executes() -> None:
    trace = Trace([PATH])
    with trace.on():
        get_decay_function("none")
    lines = trace.take()[PATH]
    first = get_decay_function.__code__.co_firstlineno
    assert first in lines
    assert trace.take() == {}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tests.mutants.hits.REPOSITORY", tmp_path)
    (tmp_path / "module.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "test_module.py").write_text("def test_edges(): ...", encoding="utf-8")
    return tmp_path


def test_an_outcome_is_known_until_what_it_came_of_changes(folder: Path) -> None:
    first, second = mutants_of("module.py", SOURCE)[:2]
    names = {first.name, second.name}
    stored = folder / "outcomes.json"
    outcomes = Outcomes.read(stored, "state 1", names)
    outcomes.add(first, NOTICED, "why", "test_module.py::test_edges[1]")
    outcomes.add(second, SURVIVED, "2 tests pass")

    def known(state: str) -> set[str]:
        return set(Outcomes.read(stored, state, names).by_name)

    assert known("state 1") == names
    assert known("state 2") == {first.name}
    (folder / "test_module.py").write_text("def test_edge(): ...", encoding="utf-8")
    assert known("state 2") == set()
    (folder / "test_module.py").write_text("def test_edges(): ...", encoding="utf-8")
    (folder / "module.py").write_text(f"{SOURCE}#", encoding="utf-8")
    assert known("state 2") == set()


def test_hits_are_known_for_files_of_tests_that_are_the_same(folder: Path) -> None:
    (folder / "test_other.py").write_text("y = 1", encoding="utf-8")
    files = ["test_module.py", "test_other.py"]
    hits = Hits.read(folder / "hits.json", ["module.py"], files)
    hits.lines = {f"{file}::test": {"module.py": [1]} for file in files}
    hits.seconds = dict.fromkeys(hits.lines, 0.1)
    hits.write(folder / "hits.json")
    (folder / "test_other.py").write_text("y = 2", encoding="utf-8")
    assert list(Hits.read(folder / "hits.json", ["module.py"], files).lines) == ["test_module.py::test"]
    (folder / "module.py").write_text("", encoding="utf-8")
    assert not Hits.read(folder / "hits.json", ["module.py"], files).lines


def test_rooms_have_code_and_tests() -> None:
    for room in ROOMS.values():
        assert room.paths()
        assert all((REPOSITORY / path).exists() for path in room.tests)


def test_an_unknown_room_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--rooms", "engin", "--table"])
    assert "no such rooms: engin" in capsys.readouterr().err


@pytest.mark.deep
def test_each_accepted_survivor_is_still_a_mutant_and_has_a_reason() -> None:
    paths = {name.partition("::")[0] for name in accepted()}
    names = {
        mutant.name for path in paths for mutant in mutants_of(path, (REPOSITORY / path).read_text(encoding="utf-8"))
    }
    assert set(accepted()) <= names
    assert all(len(reason.split()) >= 3 and reason.endswith(".") for reason in accepted().values())
