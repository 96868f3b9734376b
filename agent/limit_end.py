"""End limits at once on the host: beside a running agent, without the site, from the journal on disk alone."""

import os
import time
from typing import Callable, Dict, List, Optional

from agent import limit_journal as journal
from agent.limit_journal import RestoredLimit, SetsLimits
from agent.records import Refused
from agent.state import FILE, Table, lock, open_table, peek

ATTEMPTS = 5
PAUSE_S = 1.0  # an agent that runs may be in its last command


def kind_of(folder: str) -> Optional[str]:
    """The kind of scheduler in the journal. Raises: Refused if the journal can't be read."""
    kind = _read(folder).facts.get("kind")
    return None if kind is None else str(kind)


def stop(folder: str, by: str) -> None:
    """Keep the agent from setting limits, also where its journal can't be read."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    journal.end(folder, by, time.time())


def end_limits(
    folder: str,
    adapter: SetsLimits,
    say: Callable[[str], object],
    sleep: Callable[[float], object] = time.sleep,
) -> int:
    """Restore all limits after `stop`; returns how many are left.

    The agent reads the file that stops it before each command, so after one more attempt nothing is set any more.
    Raises: Refused, Unreadable, OSError.
    """
    outcomes: Dict[str, RestoredLimit] = {}
    left = 0
    for attempt in range(ATTEMPTS):
        rows = list(journal.entries(_read(folder)).values())
        restored = journal.restore_limits(adapter, rows, "ended_on_host", len(rows)) if rows else []
        new = [each for each in restored if each.account not in outcomes or each.code != "already"]
        outcomes.update({each.account: each for each in new})
        journal.say(new, say)
        left = sum(each.code not in journal.SETTLED for each in restored)
        is_quiet = not any(each.code == "done" for each in restored)
        if is_quiet and not left and attempt > 0:
            break
        sleep(PAUSE_S)
    _forget(folder, list(outcomes.values()))
    return left


def _forget(folder: str, restored: List[RestoredLimit]) -> None:
    """Forget what was restored, unless an agent runs, or as another user, whose table it couldn't read: its next pass
    forgets it."""
    if os.stat(folder).st_uid != os.geteuid():
        return
    try:
        handle = lock(folder)
    except Refused:
        return
    try:
        journal.forget_settled(open_table(folder), restored)
    finally:
        os.close(handle)


def _read(folder: str) -> Table:
    """The table, without a lock. Raises: Refused if it is there and can't be read: then nothing is known."""
    table = peek(folder)
    path = os.path.join(folder, FILE)
    if not table.facts and os.path.exists(folder) and not os.access(folder, os.R_OK | os.X_OK):
        raise Refused(f"{folder} can't be read: run this as the user of the agent, or as root.")
    if not table.facts and os.path.exists(path) and os.path.getsize(path):
        raise Refused(f"{path} can't be read: the site lists what the agent set, and the commands that undo it.")
    return table
