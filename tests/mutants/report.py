"""What became of a sample of mutants: numbers for each part, and each survivor with its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.mutants.generated import Mutant
from tests.mutants.trees import Outcome, Result

_COLUMNS = {"killed": Outcome.FAILED, "timeouts": Outcome.TIMEOUT, "survived": Outcome.PASSED}


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    result: Result
    tests: int  # that execute its statement

    def __str__(self) -> str:
        return f"{self.mutant.path}:{self.mutant.line} {self.result} ({self.tests} tests)"


def table(verdicts: Sequence[Verdict]) -> str:
    counted = Counter((verdict.mutant.part, verdict.result.outcome) for verdict in verdicts)
    parts = list(dict.fromkeys(verdict.mutant.part for verdict in verdicts))
    lines = [f"{'part':12}{'mutants':>9}" + "".join(f"{name:>10}" for name in _COLUMNS) + f"{'noticed':>10}"]
    for name, within in [*((part, [part]) for part in parts), ("all", parts)]:
        numbers = {outcome: sum(counted[part, outcome] for part in within) for outcome in _COLUMNS.values()}
        everything = sum(numbers.values())
        noticed = (everything - numbers[Outcome.PASSED]) / max(everything, 1)
        lines.append(f"{name:12}{everything:9}" + "".join(f"{n:10}" for n in numbers.values()) + f"{noticed:10.1%}")
    return "\n".join(lines)


def written(verdicts: Sequence[Verdict]) -> str:
    survivors = [verdict for verdict in verdicts if verdict.result.outcome is Outcome.PASSED]
    others = [verdict for verdict in verdicts if verdict.result.outcome is not Outcome.PASSED]
    return "".join(
        [
            *(f"\n{'=' * 80}\n{verdict.mutant.part}: {verdict}\n{verdict.mutant.diff}\n" for verdict in survivors),
            f"\n{'=' * 80}\nNoticed\n",
            *(f"\n{verdict.mutant.part}: {verdict}\n{_changed_lines(verdict.mutant)}\n" for verdict in others),
        ]
    )


def _changed_lines(mutant: Mutant) -> str:
    return "\n".join(line for line in mutant.diff.splitlines()[2:] if line[0] in "+-")
