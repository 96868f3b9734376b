"""Whose code is changed, and which tests should notice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from apps.core.code_paths import REPOSITORY
from tests.mutants.changes import Mutant, mutants_of
from tests.mutants.hits import digest


@dataclass(frozen=True, slots=True)
class Room:
    """code, tests: files and folders of the repository. goal: percent of mutants that tests notice."""

    name: str
    code: tuple[str, ...]
    tests: tuple[str, ...]
    goal: int = 0

    @property
    def is_claim(self) -> bool:
        return False

    def paths(self) -> list[str]:
        return [path for path in files_of(self.code) if path not in _UNCHANGED]

    def state(self) -> str:
        """Changes with the code and with the tests."""
        return digest({*files_of(self.code), *files_of(self.tests)})

    def mutants(self) -> list[Mutant]:
        return [mutant for path in self.paths() for mutant in mutants_of(path, read_text(path))]

    def own(self, collected: Iterable[str]) -> set[str]:
        """The tests that should notice, of those that a process has collected."""
        return set(collected)

    def stored(self) -> Path:
        """Where outcomes are remembered."""
        return REPOSITORY / ".pytest_cache" / "mutants" / f"{self.name}.json"


_UNCHANGED = {
    "apps/engine/numerics/long_kernels.py",  # numba compiles it: exchanged code wouldn't run
    "apps/engine/fast.py",  # decides how that is compiled
    "apps/usage/parsers/swf_kernel.py",
}

_ROOMS = (
    Room("engine", ("apps/engine",), ("tests/engine",), 95),
    Room(
        "ingest",
        ("apps/usage/records", "apps/usage/parsers"),
        ("tests/usage/records", "tests/usage/parsers", "tests/usage/test_clock_and_seal.py"),
        95,
    ),
    Room(
        "access",
        ("apps/policies/access", "apps/accounts/services.py", "apps/accounts/actor.py"),
        ("tests/policies/access", "tests/accounts/test_tokens.py"),
        95,
    ),
    Room(
        "tokens",
        tuple(f"apps/accounts/{name}.py" for name in ("token_cache", "token_files", "request_cache", "checks")),
        (
            *(f"tests/accounts/test_{name}.py" for name in ("tokens", "checks", "request_cache")),
            "tests/web/rest/test_restart_in_outage.py",
        ),
        85,
    ),
    Room("mapping", ("apps/mapping",), ("tests/mapping",), 85),
    Room(
        "explain",
        ("apps/explain",),
        ("tests/explain", "tests/pages/my_priority", "tests/priorities/selectors/test_selectors.py"),
        85,
    ),
    Room("series", ("apps/series",), ("tests/series",), 85),
    Room(
        "starts",
        ("apps/contrib/starts/prediction",),
        tuple(
            f"tests/contrib/starts/test_{name}.py"
            for name in ("bases", "learned_trees", "listed_facts", "plan", "promises", "reports", "source_waits")
        ),
        85,
    ),
    Room("advisor", ("apps/contrib/lab/advisor",), ("tests/contrib/lab/advisor",), 85),
)
ROOMS = {room.name: room for room in _ROOMS}


def files_of(paths: tuple[str, ...]) -> Iterator[str]:
    for name in paths:
        path = REPOSITORY / name
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        yield from (str(file.relative_to(REPOSITORY)) for file in files if "migrations" not in file.parts)


@cache
def read_text(path: str) -> str:
    return (REPOSITORY / path).read_text(encoding="utf-8")
