"""Count the jobs that were changed in the last minute, also over a restart: a scheduler pays for each."""

from typing import List

from agent.state import Table

MINUTE_S = 60.0
_FACT = "updates"


class Updates:
    """Kept in the table as [second since 1970, number] of each pass."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def of_last_minute(self, now: float) -> int:
        return sum(int(n) for _, n in self._recent(now))

    def add(self, n: int, now: float) -> None:
        if n:
            self._table.facts[_FACT] = [*self._recent(now), [now, n]]

    def _recent(self, now: float) -> List[List[float]]:
        """Those in the future count, too, up to a minute ahead: the clock went back."""
        return [each for each in self._table.facts.get(_FACT, []) if abs(now - each[0]) < MINUTE_S]
