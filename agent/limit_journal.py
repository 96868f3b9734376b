"""The host's own journal of limits: what each account had before, and what the agent set; and how it is restored.

It is part of the agent's table, on disk before the first command, so that a killed agent, and a host without the site,
restore exactly what was before. What an administrator changed since is left alone, and named.
"""

import json
import os
import time
from abc import ABC, abstractmethod
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence

from agent.limits import Accounts, Jobs, Settings
from agent.names import shown
from agent.records import Problem, Unreadable
from agent.state import Table

JOURNAL, RECENT, CONTACT, UNREPORTED = "limits", "limits_of_a_day", "limits_contact", "restored_limits"
STOP_FILE = "limits-ended"  # in the agent's folder; while it is there, the agent sets no limit
DAY_S = 86_400.0
INTENDED, SET = "intended", "set"
SETTLED = ("done", "already", "changed_meanwhile", "missing")
LATER = "later"  # not tried in this pass


class Entry(NamedTuple):
    """before, ours: settings, with "" for none. state: intended (the command may not have run), or set."""

    cluster: str
    account: str
    before: Settings
    ours: Settings
    reason: str
    since: str
    set_at: float
    state: str

    def is_as_before(self, there: Accounts) -> bool:
        """Whether the account has what it had before, so that nothing of ours is there."""
        account = there.rows.get(self.account)
        now = {} if account is None else account.settings
        return all(now.get(name, "") == value for name, value in self.before.items())


class RestoredLimit(NamedTuple):
    """code: done; already (nothing of ours is there); changed_meanwhile or missing (left alone); or a Problem's.

    cause: why it was restored: lifted, lapsed, ended_on_host, reset.
    """

    account: str
    cause: str
    code: str
    detail: str
    at: float


class SetsLimits(ABC):
    """The part of an adapter that limits use; a scheduler without limits of accounts returns None."""

    @abstractmethod
    def read_accounts(self, cluster: str = "") -> Optional[Accounts]:
        """Accounts with their own limits. cluster: "" for the one of this host. Raises: Unreadable."""

    @abstractmethod
    def read_account_jobs(self) -> Jobs:
        """Which accounts have jobs now. Raises: Unreadable."""

    @abstractmethod
    def set_limit(self, cluster: str, account: str, settings: Settings) -> Optional[Problem]:
        """Set these settings of an account, and clear those that are ""."""


def entries(table: Table) -> Dict[str, Entry]:
    """By account."""
    return {str(row["account"]): _read(row) for row in table.facts.get(JOURNAL, [])}


def store(table: Table, rows: Dict[str, Entry]) -> None:
    """Raises: OSError, and nothing may be set."""
    table.facts[JOURNAL] = [dict(row._asdict()) for _, row in sorted(rows.items())]
    if not rows:
        del table.facts[JOURNAL]
    table.save()


def settle_intended(table: Table, there: Accounts, now: float, is_sure: bool = True) -> None:
    """Confirm intended limits that the scheduler has; forget those that it still lacks after a day. Raises: OSError.

    is_sure: whether the clock is right.
    """
    rows = entries(table)
    for row in list(rows.values()):
        if row.state == INTENDED and not row.is_as_before(there):
            rows[row.account] = row._replace(state=SET)
        elif row.state == INTENDED and now - row.set_at >= DAY_S and is_sure:
            del rows[row.account]  # no command of that day is under way
    store(table, rows)


def _read(row: Dict[str, Any]) -> Entry:
    texts = {name: str(row[name]) for name in ("cluster", "account", "reason", "since", "state")}
    settings = {name: {str(key): str(value) for key, value in row[name].items()} for name in ("before", "ours")}
    return Entry(set_at=float(row["set_at"]), **texts, **settings)  # type: ignore[arg-type]


# --- Accounts limited within a day
def recent(table: Table, now: float) -> Dict[str, float]:
    """When accounts got their last limit, of the last 24 hours; times in the future count as now."""
    times = {str(name): min(float(at), now) for name, at in table.facts.get(RECENT, {}).items()}
    return {name: at for name, at in times.items() if now - at < DAY_S}


def note_recent(table: Table, accounts: Iterable[str], now: float) -> None:
    table.facts[RECENT] = {**recent(table, now), **dict.fromkeys(accounts, now)}


def forget_recent(table: Table, account: str, before: Dict[str, float]) -> None:
    """An account got no limit after all. before: what `recent` was."""
    table.facts[RECENT].pop(account, None)
    if account in before:
        table.facts[RECENT][account] = before[account]


# --- Last contact with the site
def note_contact(table: Table, as_of: str, lapse_s: float, now: float) -> None:
    """Note an order; the time since counts from when this host first saw what the site computed at that instant."""
    known = table.facts.get(CONTACT)
    if known is None or known["as_of"] != as_of:
        table.facts[CONTACT] = {"as_of": as_of, "lapse_s": lapse_s, "seen_at": now}
    else:
        known["lapse_s"] = lapse_s


def is_stale(table: Table, now: float) -> bool:
    """Whether the last order that the site computed is older than its owner allows."""
    lapses_at = _lapses_at(table, now)
    return lapses_at is not None and now >= lapses_at


def lapses_at(table: Table, now: float) -> Optional[float]:
    """When limits are restored unless the site computes newer ones; None without limits."""
    return _lapses_at(table, now) if table.facts.get(JOURNAL) else None


def _lapses_at(table: Table, now: float) -> Optional[float]:
    """None before the first order. If the clock was set back, the whole time counts from now."""
    contact = table.facts.get(CONTACT)
    if contact is None:
        return None
    contact["seen_at"] = min(float(contact["seen_at"]), now)
    return float(contact["seen_at"]) + float(contact["lapse_s"])


# --- Ended on this host
def ended(folder: str) -> Optional[Dict[str, Any]]:
    """When and by whom limits were ended on this host; None if they weren't. A file that can't be read counts, too."""
    path = os.path.join(folder, STOP_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
            return {"at": float(content["at"]), "by": shown(str(content["by"]))}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return {"at": 0.0, "by": ""}


def end(folder: str, by: str, now: float) -> None:
    """Write the file that stops a running agent before its next command."""
    path, owner = os.path.join(folder, STOP_FILE), os.stat(folder)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump({"at": now, "by": by}, file)
        file.flush()
        os.fsync(file.fileno())
        if os.geteuid() == 0:
            os.fchown(file.fileno(), owner.st_uid, owner.st_gid)  # the agent reads it


def allow(folder: str) -> bool:
    """Remove that file; returns whether it was there."""
    try:
        os.unlink(os.path.join(folder, STOP_FILE))
    except FileNotFoundError:
        return False
    return True


# --- Restoring
def restore_limits(
    adapter: SetsLimits,
    rows: Sequence[Entry],
    cause: str,
    most: int,
    clock: Callable[[], float] = time.time,
) -> List[RestoredLimit]:
    """Set again what these accounts had before, and verify it by a new listing. Changes no journal.

    The cluster is that of the journal, so that it needs no controller. Raises: Unreadable if the accounts can't be
    listed; the next attempt continues.
    """
    restored: List[RestoredLimit] = []
    for cluster in sorted({row.cluster for row in rows}):
        of_cluster = [row for row in rows if row.cluster == cluster]
        restored += _restore(adapter, cluster, of_cluster, cause, most - len(restored), clock)
    return restored


def _restore(
    adapter: SetsLimits, cluster: str, rows: Sequence[Entry], cause: str, most: int, clock: Callable[[], float]
) -> List[RestoredLimit]:
    there = list_accounts(adapter, cluster)
    restored: Dict[str, RestoredLimit] = {}
    sent: Dict[str, Optional[Problem]] = {}
    stopped: Optional[Problem] = None
    for row in rows:
        ours = _still_ours(row, there)
        if not ours:
            restored[row.account] = _without_sending(row, there, cause, clock())
        elif stopped is not None or len(sent) >= most:
            problem = Problem(LATER, "The next pass continues." if stopped is None else stopped.detail)
            restored[row.account] = RestoredLimit(row.account, cause, problem.code, problem.detail, clock())
        else:
            problem_now = adapter.set_limit(cluster, row.account, {name: row.before[name] for name in ours})
            sent[row.account] = problem_now
            if problem_now is not None and problem_now.code in ("denied", "timeout"):
                stopped = problem_now  # the next one would fail in the same way
    if sent:
        there = list_accounts(adapter, cluster)
    for row in rows:
        if row.account in sent:
            restored[row.account] = _verified(row, there, sent[row.account], cause, clock())
    return [restored[row.account] for row in rows]


def forget_settled(table: Table, restored: Sequence[RestoredLimit]) -> None:
    """Forget what is settled, and note it for the next report. Raises: OSError."""
    rows = entries(table)
    settled = [each for each in restored if each.code in SETTLED]
    for each in settled:
        rows.pop(each.account, None)
    table.facts[UNREPORTED] = [list(each) for each in [*unreported(table), *settled]]
    if not table.facts[UNREPORTED]:
        del table.facts[UNREPORTED]
    store(table, rows)


def unreported(table: Table) -> List[RestoredLimit]:
    return [RestoredLimit(*row) for row in table.facts.get(UNREPORTED, [])]


def reported(table: Table) -> None:
    table.facts.pop(UNREPORTED, None)


def say(restored: Sequence[RestoredLimit], log: Callable[[str], object]) -> None:
    for each in restored:
        log(f"Limit of {each.account}: {each.code} ({each.cause}). {each.detail}".rstrip())


def list_accounts(adapter: SetsLimits, cluster: str = "") -> Accounts:
    """cluster: "" for the one of this host. Raises: Unreadable, also for a scheduler without limits of accounts."""
    there = adapter.read_accounts(cluster)
    if there is None:
        raise Unreadable("The scheduler has no limits of accounts.")
    return there


def _still_ours(row: Entry, there: Accounts) -> List[str]:
    """Names of settings that are as the agent set them."""
    account = there.rows.get(row.account)
    if account is None:
        return []
    now = account.settings
    return [name for name, value in row.ours.items() if now.get(name, "") == value != row.before[name]]


def _changed(row: Entry, there: Accounts) -> str:
    """Settings that are neither ours nor those of before, as `name=value`; "" if there are none."""
    account = there.rows.get(row.account)
    now = {} if account is None else account.settings
    others = [name for name in row.ours if now.get(name, "") not in (row.ours[name], row.before[name])]
    return ", ".join(f"{name}={now.get(name) or 'none'}" for name in others)


def _without_sending(row: Entry, there: Accounts, cause: str, at: float) -> RestoredLimit:
    if row.account not in there.rows:
        return RestoredLimit(row.account, cause, "missing", "", at)
    changed = _changed(row, there)
    if changed:
        return RestoredLimit(row.account, cause, "changed_meanwhile", shown(f"It has {changed}.", 200), at)
    return RestoredLimit(row.account, cause, "already", "", at)


def _verified(row: Entry, there: Accounts, problem: Optional[Problem], cause: str, at: float) -> RestoredLimit:
    if _still_ours(row, there):
        why = problem or Problem("refused", "The scheduler still has the limit.")
        return RestoredLimit(row.account, cause, why.code, why.detail, at)
    after = _without_sending(row, there, cause, at)
    return after._replace(code="done") if after.code == "already" else after
