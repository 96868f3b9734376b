"""The values that a scheduler's own had before the agent first set them: kept in its table, and restored by a reset.

For schedulers in which a value can't be cleared, such as HTCondor's priority factors. They are on disk before the
first command, so that a killed agent can restore whatever it set. A value that was changed since is left alone.
"""

from typing import Callable, Dict, List, Sequence, Tuple

from agent.sending import Sent
from agent.state import Table

FACT = "former_values"
_OURS = 2  # values that a killed agent may have left: the last one, and the one before
_Rows = Dict[str, Tuple[str, List[int]]]
Number = Callable[[str], int]
Restore = Callable[[Dict[str, str]], Sent]


def keep(table: Table, due: Sequence[Tuple[str, int]], listed: Dict[str, str]) -> None:
    """Store what these values will replace, and the values. listed: the present ones, as the scheduler prints them."""
    rows = _rows(table)
    for holder, value in due:
        former, ours = rows.get(holder, (listed.get(holder, ""), []))
        rows[holder] = (former, [*(each for each in ours if each != value), value][-_OURS:])
    _store(table, rows)


def count(table: Table) -> int:
    return len(table.facts.get(FACT, {}))


def restore(table: Table, listed: Dict[str, str], number: Number, send: Restore) -> Sent:
    """Set former values again. Those that are settled are forgotten, the rest stays for the next attempt.

    listed: the present values. number: what the table has for a printed value. send: sets and verifies. Left alone, and
    reported as gone: a value that was set by others, or whose holder is no longer known.
    """
    rows = _rows(table)
    due: Dict[str, str] = {}
    left: List[str] = []
    for holder, (former, ours) in rows.items():
        current = listed.get(holder)
        if current is None or not former:
            left.append(holder)
        elif number(current) in ours:
            due[holder] = former
        elif number(current) != number(former):
            left.append(holder)
    sent = send(due)
    open_ = {holder for holder in due if holder not in sent.done}
    _store(table, {holder: row for holder, row in rows.items() if holder in open_})
    problems = dict(sent.problems)
    if left:
        now = listed.get(left[0])
        detail = f"{left[0]} was set to {now} meanwhile." if now is not None else f"{left[0]} is no longer known."
        problems["job_gone"] = (len(left), detail)
    settled = [holder for holder in rows if holder not in open_ and holder not in left]
    return sent._replace(done=settled, gone=left, problems=problems)


def _rows(table: Table) -> _Rows:
    return {
        str(holder): (str(former), [int(each) for each in ours])
        for holder, (former, ours) in table.facts.get(FACT, {}).items()
    }


def _store(table: Table, rows: _Rows) -> None:
    table.facts[FACT] = {holder: [former, ours] for holder, (former, ours) in sorted(rows.items())}
    if not rows:
        del table.facts[FACT]
