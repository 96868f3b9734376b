"""Claims of the papers as rooms: the functions that implement one (`claims.toml`), and the tests marked with it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from apps.core.code_paths import REPOSITORY
from docsite.marked_tests import function_of, marked_tests
from docsite.papers.claims import CLAIMS
from tests.mutants.changes import Mutant, is_within, mutants_of, places_of
from tests.mutants.hits import digest
from tests.mutants.rooms import ROOMS, Room, read_text

_FILE = Path(__file__).with_name("claims.toml")


@dataclass(frozen=True, slots=True)
class Claim(Room):
    """code: functions and constants as `path::name`. tests: as `path::name`; each should notice a mutant of them."""

    @property
    def is_claim(self) -> bool:
        return True

    @property
    def is_compiled(self) -> bool:
        """Whether numba compiles some of the code: its mutants need a process without machine code."""
        return self.places(with_compiled=True) != self.places(with_compiled=False)

    def paths(self) -> list[str]:
        return sorted({place.partition("::")[0] for place in self.code})

    def state(self) -> str:
        return digest({*self.paths(), *(test.partition("::")[0] for test in self.tests)})

    def mutants(self) -> list[Mutant]:
        """Without those that return nothing: to notice one, a test need only run the code of the claim."""
        texts = {path: read_text(path) for path in self.paths()}
        return [
            mutant
            for path, text in texts.items()
            for mutant in mutants_of(path, text, places=self.code, with_compiled=True)
            if not mutant.has_no_result
        ]

    def places(self, *, with_compiled: bool = True) -> set[str]:
        """Those of the code that have mutants, with functions in them."""
        places = (place for path in self.paths() for place in _places_of(path, with_compiled))
        return {place for place in places if any(is_within(place, named) for named in self.code)}

    def own(self, collected: Iterable[str]) -> set[str]:
        """A test whose parameters begin with claims counts for a claim by those of this one."""
        marked = {test for test in collected if function_of(test) in self.tests}
        by_claim = {function_of(test) for test in marked if _first_parameter(test) in CLAIMS}
        return {test for test in marked if function_of(test) not in by_claim or _first_parameter(test) == self.name}

    def stored(self) -> Path:
        return REPOSITORY / ".pytest_cache" / "mutants" / f"claim-{self.name}.json"


@cache
def _places_of(path: str, with_compiled: bool) -> set[str]:
    return places_of(path, read_text(path), with_compiled=with_compiled)


@cache
def claims_of_papers() -> Mapping[str, Claim]:
    listed = tomllib.loads(_FILE.read_text(encoding="utf-8"))["code"]
    tests = marked_tests("paper")
    return {name: Claim(name, tuple(places), tuple(tests.get(name, ()))) for name, places in listed.items()}


def claims_about_data() -> Mapping[str, str]:
    """By name, why there is no code to change."""
    about: dict[str, str] = tomllib.loads(_FILE.read_text(encoding="utf-8"))["data"]
    return about


def room_of(name: str) -> Room:
    """The room or the claim of this name."""
    return ROOMS[name] if name in ROOMS else claims_of_papers()[name]


def _first_parameter(test: str) -> str:
    return test.partition("[")[2].removesuffix("]").partition("-")[0]
