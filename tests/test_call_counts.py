"""Work is counted, not timed: a test that asserts seconds fails on a slow machine under load."""

from __future__ import annotations

from apps.core.code_paths import REPOSITORY
from tests.call_counts import count_calls

# They limit or report it. Two deep tests compare it: a hashed password and a pass of the agent are no count of calls.
MAY_READ_PROCESSOR_TIME = {
    "fuzz/target.py",
    "mutants/forks.py",
    "mutants/plugin.py",
    "real_schedulers/test_agent_many_jobs.py",
    "security/test_anonymous_cost.py",
    "simulation/test_seeds.py",
    "simulation/test_taken_back.py",
}


def test_calls_of_python_and_c_are_counted() -> None:
    def work() -> list[int]:
        return [abs(-n) for n in range(1_000)]

    result, calls = count_calls(work)
    assert result == list(range(1_000))
    assert 1_000 <= calls < 1_010
    assert count_calls(lambda: None)[1] < 10, "counting ends with the work"


def test_no_test_asserts_processor_seconds() -> None:
    tests = REPOSITORY / "tests"
    readers = {
        path.relative_to(tests).as_posix()
        for path in tests.rglob("*.py")
        if "process_time" in path.read_text(encoding="utf-8") and path.name != "test_call_counts.py"
    }
    assert readers == MAY_READ_PROCESSOR_TIME
