"""What is known of a room's mutants, remembered from run to run: a stopped run goes on where it stopped.

A mutant that was noticed stays so while its file is the same and the test that noticed it is there. One that survived
is tried again as soon as the room's code or any of its tests changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.mutants import hits
from tests.mutants.changes import Mutant

NOTICED, SURVIVED, NOT_APPLIED, ERROR = "noticed", "survived", "not applied", "error"


@dataclass(frozen=True, slots=True)
class Outcome:
    """line: of the file. note: what noticed it and why, or how many tests ran."""

    verdict: str
    note: str
    line: int
    test: str
    digest: str


@dataclass(slots=True)
class Outcomes:
    """n_mutants: all that the room has. by_name: those tried."""

    path: Path
    state: str
    n_mutants: int = 0
    by_name: dict[str, Outcome] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, state: str, names: set[str]) -> Outcomes:
        """state: the digest of the room's code and tests. names: of the mutants that there are."""
        outcomes = cls(path, state, len(names))
        if path.exists():
            stored = json.loads(path.read_text(encoding="utf-8"))
            for name, values in stored["by_name"].items():
                outcome = Outcome(**values)
                if name in names and outcome.digest == _digest(name, outcome.test, state):
                    outcomes.by_name[name] = outcome
        return outcomes

    def add(self, mutant: Mutant, verdict: str, note: str, test: str = "") -> None:
        basis = _digest(mutant.name, test, self.state)
        self.by_name[mutant.name] = Outcome(verdict, note, mutant.lines.start, test, basis)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".draft")
        text = json.dumps({"n_mutants": self.n_mutants, "by_name": {n: asdict(o) for n, o in self.by_name.items()}})
        draft.write_text(text, encoding="utf-8")
        draft.replace(self.path)

    def knows(self, mutant: Mutant, *, survivors: bool = True) -> bool:
        """Whether nothing is left to try; survivors: whether that holds for those, too."""
        outcome = self.by_name.get(mutant.name)
        return outcome is not None and outcome.verdict != ERROR and (survivors or outcome.verdict != SURVIVED)

    def noticing(self) -> set[str]:
        """The tests that noticed a mutant."""
        return {outcome.test for outcome in self.by_name.values() if outcome.test}

    def survivors(self) -> Iterator[str]:
        return (name for name, outcome in self.by_name.items() if outcome.verdict == SURVIVED)


def _digest(name: str, test: str, state: str) -> str:
    """Of what an outcome depends on; "" if the test is gone."""
    if not test:
        return state
    path, _, function = test.partition("::")
    file = hits.of_repository(path)
    defined = f"def {function.partition('[')[0].rpartition('::')[2]}("
    is_there = file.exists() and defined in file.read_text(encoding="utf-8")
    return hits.digest([name.partition("::")[0]]) if is_there else ""
