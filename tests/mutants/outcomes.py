"""What is known of a room's mutants, remembered from run to run: a stopped run goes on where it stopped.

A mutant that was noticed stays so while its file is the same and the test that noticed it is there. One that survived
is tried again as soon as the room's code or any of its tests changes. Of a claim all is tried again then: which of its
tests notice a mutant depends on all of them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from docsite.marked_tests import function_of
from tests.mutants import hits
from tests.mutants.changes import Mutant
from tests.mutants.rooms import Room

NOTICED, SURVIVED, NOT_APPLIED, ERROR = "noticed", "survived", "not applied", "error"


@dataclass(frozen=True, slots=True)
class Outcome:
    """line: of the file. note: what noticed it and why, or how many tests ran. tests: that noticed it; of a room the
    first one."""

    verdict: str
    note: str
    line: int
    tests: list[str]
    digest: str


@dataclass(slots=True)
class Outcomes:
    """state: the digest of the room's code and tests. by_name: those tried."""

    room: Room
    state: str
    by_name: dict[str, Outcome] = field(default_factory=dict)

    @classmethod
    def read(cls, room: Room, names: set[str]) -> Outcomes:
        """names: of the mutants that there are."""
        outcomes = cls(room, room.state())
        if room.stored().exists():
            stored = json.loads(room.stored().read_text(encoding="utf-8"))
            for name, values in stored.get("outcomes", {}).items():
                outcome = Outcome(**values)
                if name in names and outcome.digest == outcomes._digest(name, outcome.tests):
                    outcomes.by_name[name] = outcome
        return outcomes

    def add(self, mutant: Mutant, verdict: str, note: str, tests: list[str]) -> None:
        basis = self._digest(mutant.name, tests)
        self.by_name[mutant.name] = Outcome(verdict, note, mutant.lines.start, tests, basis)
        path = self.room.stored()
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        text = json.dumps({"outcomes": {name: asdict(outcome) for name, outcome in self.by_name.items()}})
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)

    def knows(self, mutant: Mutant, *, survivors: bool = True) -> bool:
        """Whether nothing is left to try; survivors: whether that holds for those, too."""
        outcome = self.by_name.get(mutant.name)
        return outcome is not None and outcome.verdict != ERROR and (survivors or outcome.verdict != SURVIVED)

    def noticing(self) -> set[str]:
        """The tests that noticed a mutant, without their parameters."""
        return {function_of(test) for outcome in self.by_name.values() for test in outcome.tests}

    def silent(self) -> list[str]:
        """The tests of a claim that noticed no mutant."""
        return sorted(set(self.room.tests) - self.noticing()) if self.room.is_claim else []

    def _digest(self, name: str, tests: list[str]) -> str:
        """Of what an outcome depends on; "" if one of the tests is gone."""
        if not tests or self.room.is_claim:
            return self.state
        return hits.digest([name.partition("::")[0]]) if all(map(_is_there, tests)) else ""


def _is_there(test: str) -> bool:
    path, _, function = test.partition("::")
    file = hits.of_repository(path)
    defined = f"def {function.partition('[')[0].rpartition('::')[2]}("
    return file.exists() and defined in file.read_text(encoding="utf-8")
