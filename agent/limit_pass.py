"""The part of a pass that carries limits of accounts: list, plan, set, restore, and what is reported of it."""

import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from agent import limit_journal as journal
from agent import turns
from agent.limit_journal import INTENDED, SET, Entry, RestoredLimit, SetsLimits, list_accounts
from agent.limit_plan import LimitPlan, State, Switches, make_limit_plan, state_of
from agent.limits import Accounts, Jobs, LimitLine, LimitOrder, Settings
from agent.names import MOST_DETAIL, shown
from agent.records import Problem, Unreadable
from agent.state import Table

MOST_RESTORED = 200  # accounts a pass
_NOT_RESTORED, _NOT_SET = "limits_not_restored", "limits_not_set"
Begin = Callable[[str], None]
Log = Callable[[str], object]


class LimitPass:
    """Limits of one agent; everything that lasts is in its table."""

    def __init__(self, table: Table, begin: Begin, log: Log, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._begin = begin
        self._log = log
        self._clock = clock

    @property
    def has_set(self) -> bool:
        return bool(journal.entries(self._table))

    def silence_ends_it(self) -> bool:
        """Whether limits are set although the site has computed none for longer than its owner allows."""
        lapses_at = journal.lapses_at(self._table, self._clock())
        return lapses_at is not None and self._clock() >= lapses_at

    def is_ended_on_host(self) -> bool:
        return journal.ended(self._table.folder) is not None

    def restore(self, adapter: SetsLimits, cause: str, rows: Optional[List[Entry]] = None) -> List[RestoredLimit]:
        """Restore what these accounts had before; all of them without rows. Raises: Unreadable, OSError."""
        self._begin("restore limits")
        chosen = list(journal.entries(self._table).values()) if rows is None else rows
        if not chosen:
            return []
        chosen = turns.sort(self._table, _NOT_RESTORED, chosen, lambda row: row.account)
        restored = journal.restore_limits(adapter, chosen, cause, MOST_RESTORED, self._clock)
        settled = [each.account for each in restored if each.code in journal.SETTLED]
        failed = [each.account for each in restored if each.code not in (*journal.SETTLED, journal.LATER)]
        turns.note(self._table, _NOT_RESTORED, failed, settled)
        journal.forget_settled(self._table, restored)
        journal.say(restored, self._log)
        return restored

    def run(
        self, adapter: SetsLimits, order: LimitOrder, switches: Switches, about: Dict[str, str], sets: bool
    ) -> "LimitReport":
        """Set and restore limits as ordered. sets: false for a dry run, which changes nothing.

        about: facts of the table that name the scheduler. Raises: Unreadable, OSError.
        """
        now = self._clock()
        if sets:
            journal.note_contact(self._table, order.as_of, order.lapse_s, now)
        ended = journal.ended(self._table.folder)
        if sets and (ended or self.silence_ends_it()):
            self.restore(adapter, "ended_on_host" if ended else "lapsed")
        self._begin("limits")
        there = list_accounts(adapter)
        if ended or journal.is_stale(self._table, now):
            code = "ended_on_host" if ended else "lapsed"
            states = {line.account: State(code, "") for line in order.lines}
            return self._report(order, there, LimitPlan([], [], states))
        if sets:
            journal.settle_intended(self._table, there, now, is_sure=not switches.clock_differs_s)
        rows = journal.entries(self._table)
        recent = list(journal.recent(self._table, now))
        lines = turns.sort(self._table, _NOT_SET, order.lines, lambda line: line.account)
        order = order._replace(lines=tuple(lines))
        plan = make_limit_plan(order, switches, there, self._jobs(adapter), rows, recent)
        if sets:
            if plan.to_restore:
                self._restore_lifted(adapter, plan)
            if plan.to_set:
                self._set(adapter, plan, there, about)
            there = list_accounts(adapter) if plan.to_set or plan.to_restore else there
        return self._report(order, there, plan)

    def _jobs(self, adapter: SetsLimits) -> Optional[Jobs]:
        """None if they can't be listed: limits are restored nevertheless."""
        try:
            return adapter.read_account_jobs()
        except Unreadable as error:
            self._log(str(error))
            return None

    def _restore_lifted(self, adapter: SetsLimits, plan: LimitPlan) -> None:
        for each in self.restore(adapter, "lifted", plan.to_restore):
            code = "lifted" if each.code in journal.SETTLED else each.code
            plan.states[each.account] = State(code, each.detail)

    def _set(self, adapter: SetsLimits, plan: LimitPlan, there: Accounts, about: Dict[str, str]) -> None:
        """Set limits. What was before is on disk before the first command."""
        self._begin("intend limits")
        now = self._clock()
        rows = journal.entries(self._table)
        for line in plan.to_set:
            was = there.rows[line.account].settings
            before = {name: was.get(name, "") for name in line.settings}
            rows[line.account] = Entry(
                there.cluster, line.account, before, line.settings, line.reason, line.since, now, INTENDED
            )
        self._table.facts.update(about)
        recent = journal.recent(self._table, now)
        journal.note_recent(self._table, [line.account for line in plan.to_set], now)
        journal.store(self._table, rows)
        self._begin("set limits")
        problems = self._send(adapter, there.cluster, plan.to_set)
        self._begin("confirm limits")
        after = list_accounts(adapter)
        for line in plan.to_set:
            rows[line.account], plan.states[line.account] = _confirmed(
                rows[line.account], after, problems.get(line.account)
            )
            if plan.states[line.account].code not in ("set", "timeout", "changed_meanwhile"):
                del rows[line.account]  # nothing was set
                journal.forget_recent(self._table, line.account, recent)
        turns.note(self._table, _NOT_SET, list(problems), [line.account for line in plan.to_set])
        journal.store(self._table, rows)

    def _send(self, adapter: SetsLimits, cluster: str, lines: List[LimitLine]) -> Dict[str, Problem]:
        problems: Dict[str, Problem] = {}
        stopped: Optional[Problem] = None
        for line in lines:
            if stopped is None and self.is_ended_on_host():
                stopped = Problem("refused", "Limits were ended on this host.")
            problem = stopped or adapter.set_limit(cluster, line.account, line.settings)
            if problem is not None:
                problems[line.account] = problem
                if problem.code in ("denied", "timeout"):
                    stopped = problem  # the next one would fail in the same way
        return problems

    def _report(self, order: LimitOrder, there: Accounts, plan: LimitPlan) -> "LimitReport":
        rows = journal.entries(self._table)
        lines = {line.account: line for line in order.lines}
        names = [*order.accounts, *(name for name in (*rows, *lines) if name not in order.accounts)]
        missing = State("missing", "The scheduler has no such account.")
        accounts = []
        for name in dict.fromkeys(names):
            account, row = there.rows.get(name), rows.get(name)
            state = plan.states.get(name) or (missing if account is None else State("free", ""))
            settings = {} if account is None else account.settings
            accounts.append(AccountState(name, state, row, settings, any(line.account == name for line in plan.to_set)))
        return LimitReport(
            there.cluster,
            accounts,
            journal.lapses_at(self._table, self._clock()),
            journal.ended(self._table.folder),
        )


class AccountState:
    """What holds for one account, as reported: its journal entry, and the settings that it has now."""

    def __init__(self, name: str, state: State, row: Optional[Entry], now: Settings, is_new: bool) -> None:
        self.name, self.state, self.row, self.now, self.is_new = name, state, row, now, is_new

    def document(self, instant: Callable[[Optional[float]], Optional[str]]) -> Dict[str, Any]:
        return {
            "account": self.name,
            "code": self.state.code,
            "detail": self.state.detail,
            "now": {name: shown(value, MOST_DETAIL) for name, value in self.now.items()},
            "before": {} if self.row is None else self.row.before,
            "ours": {} if self.row is None else self.row.ours,
            "set_at": None if self.row is None else instant(self.row.set_at),
        }


class LimitReport:
    def __init__(
        self, cluster: str, accounts: List[AccountState], lapses_at: Optional[float], ended: Optional[Dict[str, Any]]
    ) -> None:
        self.cluster, self.accounts, self.lapses_at, self.ended = cluster, accounts, lapses_at, ended

    def document(self, instant: Callable[[Optional[float]], Optional[str]]) -> Dict[str, Any]:
        return {
            "cluster": self.cluster,
            "accounts": [each.document(instant) for each in self.accounts],
            "lapses_at": instant(self.lapses_at),
            "ended_at": None if self.ended is None else instant(self.ended["at"]),
            "ended_by": "" if self.ended is None else self.ended["by"],
        }


def _confirmed(row: Entry, after: Accounts, problem: Optional[Problem]) -> Tuple[Entry, State]:
    if not row.is_as_before(after):  # also if it isn't what was sent: what is there stays in the journal
        return row._replace(state=SET), state_of(row, after)
    if problem is not None:
        return row, State(problem.code, problem.detail)
    return row, State("refused", "The command succeeded, and the scheduler has no limit.")
