"""Decide which accounts get a limit in a pass, and which are restored: pure, from orders, listing, jobs and journal.

Restoring has no bounds. Setting has all of them: only accounts that the owner named, only a part of them a day,
never the last account that runs, no setting that an administrator made, and no running job is ended.
"""

from typing import Dict, List, NamedTuple, Optional, Sequence, Set

from agent.limit_journal import INTENDED, Entry
from agent.limits import QOS, Accounts, Jobs, LimitLine, LimitOrder, Settings, at_and_below
from agent.names import shown

MOST_SET = 50  # accounts a pass


class State(NamedTuple):
    """What holds for an account now. code: see CODES of `docs/limits-out.md`."""

    code: str
    detail: str


class LimitPlan(NamedTuple):
    to_set: List[LimitLine]
    to_restore: List[Entry]
    states: Dict[str, State]


class Switches(NamedTuple):
    """mode: of the orders. spares_running: whether Slurm never ends a running job for GrpTRESMins.

    clock_differs_s: by how much the site's clock is ahead, if that is too much; else 0.
    """

    mode: str
    is_paused: bool
    spares_running: bool
    clock_differs_s: float = 0.0

    def sets(self, account: str, canary: Optional[str]) -> bool:
        return self.mode == "on" or (self.mode == "canary" and account == canary)


def make_limit_plan(
    order: LimitOrder,
    switches: Switches,
    there: Accounts,
    jobs: Optional[Jobs],
    journal: Dict[str, Entry],
    recent: Sequence[str],
) -> LimitPlan:
    """jobs: None if they can't be listed; then nothing is set. recent: accounts limited in the last 24 hours."""
    named = set(order.accounts)
    wanted = {line.account: line for line in order.lines if line.account in named}
    plan = LimitPlan([], [], {})
    journal = {name: entry for name, entry in journal.items() if not _was_never_sent(entry, there)}
    for name, entry in journal.items():
        line = wanted.get(name)
        stays = line is not None and line.settings == entry.ours and switches.sets(name, order.canary)
        if stays:
            plan.states[name] = state_of(entry, there)
        else:
            plan.to_restore.append(entry)
            plan.states[name] = State("lifting", "")
    bounds = _Bounds(order, switches, there, jobs, journal, recent)
    for line in order.lines:
        if line.account in journal:
            continue
        if line.account not in named:
            plan.states[line.account] = State("not_named", "The owner of the scheduler didn't name it.")
            continue
        refusal = bounds.refusal(line)
        if refusal is not None:
            plan.states[line.account] = refusal
        elif not switches.sets(line.account, order.canary):
            plan.states[line.account] = State("would_set", "")
            if switches.mode != "canary":
                bounds.count(line.account)
        elif switches.clock_differs_s:
            text = f"The site's clock differs from this host's by {switches.clock_differs_s:+.0f} s."
            plan.states[line.account] = State("paused", text)
        elif switches.is_paused:
            plan.states[line.account] = State("paused", "")
        elif len(plan.to_set) >= MOST_SET:
            plan.states[line.account] = State("later", f"A pass sets {MOST_SET} at most.")
        else:
            plan.to_set.append(line)
            plan.states[line.account] = State("setting", "")
            bounds.count(line.account)
    return plan


def _was_never_sent(entry: Entry, there: Accounts) -> bool:
    """Whether a killed agent intended it, and the account is as before: the bounds decide again."""
    return entry.state == INTENDED and entry.is_as_before(there)


def state_of(entry: Entry, there: Accounts) -> State:
    """Whether an account still has what the agent set."""
    account = there.rows.get(entry.account)
    if account is None:
        return State("missing", "The scheduler has no such account.")
    differing = [name for name, value in entry.ours.items() if account.settings.get(name, "") != value]
    if not differing:
        return State("set", "")
    text = ", ".join(f"{name}={account.settings.get(name) or 'none'}" for name in differing)
    return State("changed_meanwhile", shown(f"It was changed: {text}. It is left alone.", 200))


class _Bounds:
    """What a further limit must not exceed, while limits of this pass are counted."""

    def __init__(
        self,
        order: LimitOrder,
        switches: Switches,
        there: Accounts,
        jobs: Optional[Jobs],
        journal: Dict[str, Entry],
        recent: Sequence[str],
    ) -> None:
        self._order, self._switches, self._there, self._jobs = order, switches, there, jobs
        self._recent: Set[str] = set(recent)
        self._children = there.children()
        self._free = {name for name, row in there.rows.items() if row.has_users and name != "root"}
        for name in {*journal, *(row.name for row in there.rows.values() if _stops(row.settings))}:
            self._free -= at_and_below(name, self._children)

    def count(self, account: str) -> None:
        self._recent.add(account)
        self._free -= at_and_below(account, self._children)

    def refusal(self, line: LimitLine) -> Optional[State]:
        account = self._there.rows.get(line.account)
        if account is None:
            return State("missing", "The scheduler has no such account.")
        others = held_by_others(account.settings, line.settings)
        if others:
            return State("admin_limit", shown(f"It has {others}, which the agent didn't set.", 200))
        if line.account == "root":
            return State("last_running", "Everything runs below root.")
        if self._jobs is None:
            return State("paused", "The scheduler's jobs can't be listed.")
        covered = at_and_below(line.account, self._children)
        if not self._leaves_one_running(covered, self._jobs):
            return State("last_running", "No other account could run.")
        ends_jobs = not self._switches.spares_running and any(name != QOS for name in line.settings)
        if ends_jobs and covered & self._jobs.running:
            return State("jobs_running", "Slurm would end its running jobs: add safe to AccountingStorageEnforce.")
        if line.account not in self._recent and len(self._recent) >= self._order.most_a_day:
            return State("later", f"Limits a day: {self._order.most_a_day} at most.")
        return None

    def _leaves_one_running(self, covered: "frozenset[str]", jobs: Jobs) -> bool:
        """Whether an account without a limit, that has jobs if any has, is left."""
        busy = self._free & jobs.unfinished
        return any(name not in covered for name in busy or self._free)


def _stops(settings: Settings) -> bool:
    """Whether jobs can't start under an account with these settings: minutes of 0."""
    return any(value == "0" for name, value in settings.items() if name != QOS)


def held_by_others(now: Settings, wanted: Settings) -> str:
    """Settings of the same names that are there without the agent, as `name=value`; "" if there are none."""
    return ", ".join(f"{name}={now[name]}" for name in wanted if now.get(name))
