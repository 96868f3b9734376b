"""Whose code is changed, and which tests should notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apps.core.code_paths import REPOSITORY
from tests.mutants.hits import digest


@dataclass(frozen=True, slots=True)
class Room:
    """code, tests: files and folders of the repository. goal: percent of mutants that tests notice."""

    code: tuple[str, ...]
    tests: tuple[str, ...]
    goal: int

    def paths(self) -> list[str]:
        return [path for path in _files(self.code) if path not in _UNCHANGED]

    def state(self) -> str:
        """Changes with the code and with the tests."""
        return digest({*_files(self.code), *_files(self.tests)})


_UNCHANGED = {
    "apps/engine/numerics/long_kernels.py",  # numba compiles it: exchanged code wouldn't run
    "apps/engine/fast.py",  # decides how that is compiled
    "apps/usage/parsers/swf_kernel.py",
}

ROOMS = {
    "engine": Room(("apps/engine",), ("tests/engine",), 95),
    "ingest": Room(
        ("apps/usage/records", "apps/usage/parsers"),
        ("tests/usage/records", "tests/usage/parsers", "tests/usage/test_clock_and_seal.py"),
        95,
    ),
    "access": Room(
        ("apps/policies/access", "apps/accounts/services.py", "apps/accounts/actor.py"),
        ("tests/policies/access", "tests/accounts/test_tokens.py"),
        95,
    ),
    "tokens": Room(
        tuple(f"apps/accounts/{name}.py" for name in ("token_cache", "token_files", "request_cache", "checks")),
        (
            *(f"tests/accounts/test_{name}.py" for name in ("tokens", "checks", "request_cache")),
            "tests/web/rest/test_restart_in_outage.py",
        ),
        85,
    ),
    "mapping": Room(("apps/mapping",), ("tests/mapping",), 85),
    "explain": Room(
        ("apps/explain",),
        ("tests/explain", "tests/pages/my_priority", "tests/priorities/selectors/test_selectors.py"),
        85,
    ),
    "series": Room(("apps/series",), ("tests/series",), 85),
    "starts": Room(
        ("apps/contrib/starts/prediction",),
        tuple(
            f"tests/contrib/starts/test_{name}.py"
            for name in ("bases", "learned_trees", "listed_facts", "plan", "promises", "reports", "source_waits")
        ),
        85,
    ),
    "advisor": Room(("apps/contrib/lab/advisor",), ("tests/contrib/lab/advisor",), 85),
}


def outcomes_file(room: str) -> Path:
    return REPOSITORY / ".pytest_cache" / "mutants" / f"{room}.json"


def _files(paths: tuple[str, ...]) -> Iterator[str]:
    for name in paths:
        path = REPOSITORY / name
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        yield from (str(file.relative_to(REPOSITORY)) for file in files if "migrations" not in file.parts)
