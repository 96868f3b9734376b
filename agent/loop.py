"""One pass: orders, queue, factors, plan, values to the scheduler, report. The loop runs passes at an interval."""

import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple, Type

from agent import checks, first_values, former_lines, former_shares, former_values, limit_journal
from agent import plan as planning
from agent.adapters import Adapter, Config
from agent.adapters.gridengine import GridEngine
from agent.adapters.htcondor import HTCondor
from agent.adapters.slurm import Slurm
from agent.commands import Commands
from agent.last_known import Known, LastKnown
from agent.limit_pass import LimitPass
from agent.limit_plan import Switches
from agent.orders import Orders
from agent.records import Asked, Finding, Frozen, LookUp, Queue, Refused, ServerAway, ServerFailure, Unreadable
from agent.report import Report, instant, queue_rows
from agent.rest import new_pass_id
from agent.sending import Sent, send_in_turns
from agent.shares import apply_order, digest_of
from agent.source import Source, look_up_all
from agent.state import Table
from agent.updates import Updates

ADAPTERS: Dict[str, Type[Adapter]] = {"slurm": Slurm, "gridengine": GridEngine, "htcondor": HTCondor}
QUEUE_EVERY_S, VALUES_EVERY_S, CHECKS_EVERY_S = 60.0, 300.0, 3600.0
SHARES_EVERY_S, SAME_SHARES_EVERY_S = 300.0, 3600.0
# Steps of a pass, in order. Those of shares and limits are only of an agent that carries them.
STEPS = (
    *("orders", "checks", "restore shares", "restore limits", "shares", "set shares", "queue", "look-up"),
    *("limits", "intend limits", "set limits", "confirm limits"),
    *("intend", "send", "confirm", "report", "end"),
)
ALONE_EVERY_S = 30.0  # interval while there are no orders yet
Log = Callable[[str], object]


class Agent:
    """The agent. Its state is in its table, so it may be killed at any step and started again."""

    def __init__(
        self,
        source: Source,
        commands: Commands,
        table: Table,
        host: str,
        log: Log,
        dry_run: bool = False,
        accept_changes: bool = False,
        first_values: Optional[str] = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._commands = commands
        self._table = table
        self._host = host
        self._log = log
        self._dry_run = dry_run
        self._accept_changes = accept_changes
        self._first_values = first_values
        self._clock = clock
        self._updates = Updates(table)
        self._last_known = LastKnown(table.folder)
        self._limits = LimitPass(table, lambda step: self._begin(step), log, clock)
        self._config: Optional[Config] = None
        self._checks_pass = True  # whether the last checks found no error
        self._checked_revision = 0  # of the orders
        self._is_back = True  # whether the last checks found every line as it was before values were sent
        self._last: Dict[str, float] = {}
        self._every_s = ALONE_EVERY_S
        self._shares_reported = ""  # digest of the shares
        self.was_reported = False  # report of the last pass

    def run(self, ends: threading.Event) -> None:
        """Run until `ends` is set; a pass that takes longer than the interval is followed by the next immediately."""
        while not ends.is_set():
            began = time.monotonic()
            self.run_pass()
            ends.wait(max(self._every_s - (time.monotonic() - began), 0.0))

    def run_pass(self) -> Dict[str, Any]:
        """Run one pass and return its report, which is sent, and stored for `status` in any case."""
        report = Report(new_pass_id(), self._host, self._clock())
        calls_before = self._commands.n_calls
        self._begin("orders")
        try:
            report.orders = orders = self._source.orders()
        except ServerFailure as error:
            report.freeze(Frozen("server_unreachable", str(error)))
            self._end_unattended_limits(report)
            if isinstance(error, ServerAway):
                self._set_first_values(report, error, self._last_known.orders)
            return self._finish(report, calls_before, is_sent=False)
        self._every_s = orders.every_s
        self._commands.calls_per_s = orders.limits.calls_per_s
        adapter = ADAPTERS[orders.kind](self._commands)
        try:
            self._work(report, orders, adapter)
        except ServerFailure as error:
            report.freeze(Frozen("server_unreachable", str(error)))
            if isinstance(error, ServerAway):
                self._set_first_values(report, error, orders)
        except Unreadable as error:
            self._config = None  # it may have restarted: read again
            report.freeze(Frozen("scheduler_unreadable", str(error)))
        except OSError as error:
            self._config = None
            detail = f"The agent's table can't be written: {error}. Nothing was sent after that."
            report.freeze(Frozen("scheduler_unreadable", detail))
        return self._finish(report, calls_before, is_sent=not self._dry_run)

    # --- Steps
    def _begin(self, step: str) -> None:
        """Start one of STEPS; tests kill the agent at each."""

    def _work(self, report: Report, orders: Orders, adapter: Adapter) -> None:
        if not self._dry_run:
            self._last_known.take_orders(orders)
        report.lists_queue = self._is_over("queue", QUEUE_EVERY_S)
        self._begin("checks")
        self._keep_checks(report, orders, adapter)
        if self._limits.has_set and not self._dry_run and _ends_limits(orders):
            self._restore_limits(report, adapter, "reset" if orders.reset_values else "lifted")
        if orders.reset_values:
            if not self._dry_run and (len(self._table) or self._is_due("reset", float("inf"))):
                self._take_sent(report, self._reset_values(orders))
            if not self._dry_run and former_shares.count(self._table):
                self._restore_shares(report, adapter)
            self._table.facts["was_sending"] = False
            return
        if orders.mode == "off":
            self._table.facts["was_sending"] = False
            return
        if orders.carries == "shares":
            self._carry_shares(report, orders, adapter)
            return
        if orders.carries == "limits":
            self._carry_limits(report, orders, adapter)
            return
        if orders.sends and not self._dry_run:
            self._change_knob(report, orders, adapter)
        queue = self._read(report, orders, adapter)
        if report.frozen is None:
            self._steer(report, orders, adapter, queue)

    def _carry_shares(self, report: Report, orders: Orders, adapter: Adapter) -> None:
        """List jobs only, and set shares: the scheduler's own fair share orders the jobs."""
        self._leave_priorities(report, orders)
        sets = orders.sets_shares and orders.share_order is not None and not self._dry_run
        if self._is_due("shares", SHARES_EVERY_S) or sets:
            self._read_shares(report, orders, adapter, sets)
        queue = self._read(report, orders, adapter)
        self._list_queue(report, orders, queue, {})
        if self._is_due("values", VALUES_EVERY_S):
            self._read_values(report, adapter)

    def _leave_priorities(self, report: Report, orders: Orders) -> None:
        if len(self._table) and not self._dry_run:
            self._log(f"{orders.carries} are carried instead of priorities: the values that were set are reset.")
            self._take_sent(report, self._reset_values(orders))
        self._table.facts["was_sending"] = False

    def _carry_limits(self, report: Report, orders: Orders, adapter: Adapter) -> None:
        """List jobs and shares, and set limits of accounts; whatever keeps a pass from setting still restores."""
        self._leave_priorities(report, orders)
        try:
            queue = self._read(report, orders, adapter)
            self._list_queue(report, orders, queue, {})
        except Unreadable as error:
            report.freeze(Frozen("scheduler_unreadable", str(error)))
        if orders.limit_order is None:
            report.error("unreadable", 1, "The site sends no limits.")
            self._end_unattended_limits(report)
            return
        has_errors = not self._checks_pass if report.checks is None else _have_errors(report.checks)
        switches = Switches(
            mode=orders.mode,
            is_paused=orders.paused or has_errors or report.frozen is not None,
            spares_running=self._config is not None and not adapter.ends_running_jobs(self._config),
            clock_differs_s=checks.clock_difference(self._source.clock_offset_s()),
        )
        about = {"kind": orders.kind, "knob": orders.knob, "scheduler": orders.name}
        report.limits = self._limits.run(adapter, orders.limit_order, switches, about, sets=not self._dry_run)
        for each in report.limits.accounts:
            if each.state.code in ("denied", "timeout", "refused", "unreadable"):
                report.error(each.state.code, 1, f"{each.name}: {each.state.detail}")
                report.n_failed += 1
            report.n_sent += each.state.code == "set" and each.is_new
        if self._is_due("shares", SHARES_EVERY_S):
            self._read_shares(report, orders, adapter, sets=False)

    def _restore_limits(self, report: Report, adapter: Adapter, cause: str) -> None:
        for each in self._limits.restore(adapter, cause):
            report.n_sent += each.code == "done"
            if each.code not in limit_journal.SETTLED:
                code = "refused" if each.code == limit_journal.LATER else each.code
                report.error(code, 1, f"{each.account}: {each.detail}")
                report.n_failed += 1

    def _end_unattended_limits(self, report: Report) -> None:
        """Restore limits where the site is silent for too long, or where they were ended on this host."""
        is_ended = self._limits.is_ended_on_host()
        if self._dry_run or not self._limits.has_set or not (is_ended or self._limits.silence_ends_it()):
            return
        try:
            adapter = adapter_of(str(self._table.facts.get("kind")), self._commands)
            self._restore_limits(report, adapter, "ended_on_host" if is_ended else "lapsed")
        except (Unreadable, OSError) as error:
            report.error("unreadable", 1, f"Limits are not restored yet: {error}")

    def _read_shares(self, report: Report, orders: Orders, adapter: Adapter, sets: bool) -> None:
        self._begin("shares")
        shares = adapter.read_shares()
        if shares is None:
            report.error("unreadable", 1, "The scheduler has no shares of its own.")
            return
        if sets and orders.share_order is not None:
            self._begin("set shares")
            cluster = shares.cluster
            self._table.facts.update(kind=orders.kind, knob=orders.knob, scheduler=orders.name)
            outcomes, shares = apply_order(
                adapter,
                orders.share_order,
                shares,
                before_setting=lambda lines: former_shares.keep(self._table, cluster, lines),
            )
            report.outcomes = (orders.share_order.id, outcomes)
        if digest_of(shares) != self._shares_reported or self._is_due("same shares", SAME_SHARES_EVERY_S):
            report.shares = shares

    def _list_associations(self, report: Report, orders: Orders, adapter: Adapter) -> None:
        """List accounts and users, which the site follows. Priorities need none of it, so that no failure is one."""
        try:
            self._read_shares(report, orders, adapter, sets=False)
        except Unreadable as error:
            self._log(f"Accounts and users can't be listed, so the site can't follow them: {error}")

    def _restore_shares(self, report: Report, adapter: Adapter) -> None:
        self._begin("restore shares")
        restored, report.shares = former_shares.restore(adapter, self._table)
        former_shares.say(restored, self._log)
        report.n_sent += sum(each.code == "done" for each in restored)
        report.n_failed += former_shares.count(self._table)  # the next pass goes on
        for each in restored:
            if each.code not in former_shares.SETTLED:
                report.error(each.code, 1, each.detail)

    def _read(self, report: Report, orders: Orders, adapter: Adapter) -> Queue:
        self._begin("queue")
        if report.lists_queue and orders.takes_queue_state:
            whole = adapter.read_queue_state(orders.knob, orders.weight, self._config or {})
        else:
            whole = adapter.read_queue(orders.knob, orders.weight)
        if whole.state is not None and whole.state.problem:
            report.error("unreadable", 1, whole.state.problem)
        queue = whole._replace(jobs=planning.in_scope(orders, whole.jobs))
        report.n_pending = len(queue.jobs)
        if queue.skipped:
            report.error("unreadable", len(queue.skipped), queue.skipped[0])
        frozen = planning.too_much_damaged(whole)
        if frozen is None and planning.named_partitions(orders):
            frozen = planning.unknown_partitions(orders, adapter.read_partitions())
        if frozen is not None:
            report.freeze(frozen)
        return queue

    def _list_queue(self, report: Report, orders: Orders, queue: Queue, values: Dict[str, int]) -> None:
        if report.lists_queue:
            self._last["queue"] = time.monotonic()
            report.queue = queue_rows(queue.jobs, values, orders.lists_priorities, orders.takes_queue_state)
            report.queue_state = queue.state if orders.takes_queue_state else None

    def _steer(self, report: Report, orders: Orders, adapter: Adapter, queue: Queue) -> None:
        self._begin("look-up")
        asked = sorted({job.asked for job in queue.jobs})
        report.looked_up = looked_up = look_up_all(self._source, orders, asked, adapter.names_of)
        if orders.sends and not self._dry_run:
            self._remember_answers(orders, adapter, asked, looked_up)
        listed = {job.holder: job.current for job in queue.jobs if job.current is not None}
        differ = self._table.compare(listed, self._is_restarted())
        if differ:
            self._log(f"{differ} values were changed in the scheduler since they were set; they are set again.")
        self._table.seen(queue.known)
        now = self._clock()
        room = orders.limits.updates_per_min - self._updates.of_last_minute(now)
        accepts = self._accepts_changes(orders)
        report.plan = plan = planning.make_plan(orders, queue, looked_up, self._table, accepts, max(room, 0), now)
        report.n_due = len(plan.due) + plan.n_later
        if plan.refused:
            report.error("refused", len(plan.refused), plan.refused[0])
        if plan.frozen is not None:
            report.freeze(plan.frozen)
        elif orders.sends and not self._dry_run:
            self._table.facts["basis"] = planning.basis_of(orders, looked_up)
            self._table.note_stays(plan.stays, now)
            wanted = plan.values if plan.by_holder is None else plan.by_holder
            self._send(report, orders, adapter, queue, plan.due, wanted)
            self._accept_changes = False
            self._write_first_values(orders)
        if not orders.sends:
            self._table.facts["was_sending"] = False
        self._list_queue(report, orders, queue, plan.values)
        if self._is_due("values", VALUES_EVERY_S):
            self._read_values(report, adapter)
        if orders.kind == "slurm" and orders.takes_accounts and self._is_due("shares", SHARES_EVERY_S):
            self._list_associations(report, orders, adapter)
        if report.checks is not None:
            report.checks.append(checks.check_names(orders, plan))
            report.checks.append(checks.check_clocks(self._source.clock_offset_s(), queue, self._clock()))
            if orders.knob == "nice":
                report.checks.append(checks.check_floor(orders, queue, self._config or {}))

    def _is_restarted(self) -> bool:
        """Whether the scheduler restarted since the last pass, as far as its configuration says when it started."""
        before, boot = self._table.facts.get("boot_time"), (self._config or {}).get("BOOT_TIME")
        if boot is not None:
            self._table.facts["boot_time"] = boot
        return None not in (before, boot) and before != boot

    def _accepts_changes(self, orders: Orders) -> bool:
        """Whether any change is expected: sending was switched on or resumed, also if the pause was never seen."""
        facts = self._table.facts
        was_sending = facts.get("was_sending", False) and "basis" in facts
        return self._accept_changes or not was_sending or facts["basis"]["resumes"] != orders.resumes

    def _read_values(self, report: Report, adapter: Adapter) -> None:
        try:
            report.values = adapter.read_values()
        except Unreadable as error:
            report.error("unreadable", 1, str(error))

    def _send(
        self,
        report: Report,
        orders: Orders,
        adapter: Adapter,
        queue: Queue,
        due: List[Tuple[str, int]],
        wanted: Dict[str, int],
    ) -> None:
        """Send values. wanted: what the site wants for each job, also for those that stay.

        Intended values are on disk before the first call, so that everything changed can be reset.
        """
        self._table.facts.update(kind=orders.kind, knob=orders.knob, scheduler=orders.name, was_sending=True)
        self._begin("intend")
        self._table.intend(due)
        self._table.note_wanted(wanted)
        if queue.listed is not None:
            former_values.keep(self._table, due, queue.listed)
        self._table.save()
        self._begin("send")
        if queue.running:
            self._take_problems(report, adapter.reset_values(orders.knob, list(queue.running)))
        sent = send_in_turns(self._table, due, lambda some: adapter.apply(orders.knob, some))
        self._updates.add(sent.n_updates, self._clock())
        self._begin("confirm")
        self._table.confirm(sent.done)
        self._table.forget(sent.gone)
        self._take_sent(report, sent)
        self._table.save()

    def _remember_answers(self, orders: Orders, adapter: Adapter, asked: List[Asked], looked_up: LookUp) -> None:
        """Keep answers for when the site is away, also of accounts that have no job at present."""
        now = self._clock()
        others = self._last_known.others(asked, now)
        try:
            more = look_up_all(self._source, orders, others, adapter.names_of) if others else None
            self._last_known.take(looked_up, asked, now)
            if more is not None:
                self._last_known.take(more, [], now)
        except OSError as error:
            self._log(f"What the site said can't be kept for when it is away: {error.strerror}.")
        self._table.facts.pop("away", None)

    def _set_first_values(self, report: Report, error: ServerAway, orders: Optional[Orders]) -> None:
        """The site is away: give new jobs values from what it last said, as long as that isn't too old."""
        if orders is None or not orders.sends or self._dry_run or self._has_other_knob(orders):
            return
        now = self._clock()
        usable = self._last_known.usable(orders.limits.snapshot_age_s, now)
        away = self._table.facts.setdefault("away", {"since": now, "n_set": 0})
        away.update(snapshot=self._last_known.snapshot, until=_until(orders, usable), n_unknown=0)
        try:
            adapter = ADAPTERS[orders.kind](self._commands)
            queue = self._read(report, orders, adapter)
            if report.frozen is not None and report.frozen.code == "scheduler_unreadable":
                raise Unreadable(report.frozen.detail)
            answers = {asked: known.answer for asked, known in usable.items()}
            room = max(orders.limits.updates_per_min - self._updates.of_last_minute(now), 0)
            plan = planning.plan_first_values(orders, queue, answers, self._table, room, now)
            report.n_due, away["n_unknown"] = len(plan.due), plan.n_unknown
            if plan.due:
                n_before = report.n_sent
                self._send(report, orders, adapter, queue._replace(running={}), plan.due, {})
                away["n_set"] += report.n_sent - n_before
        except (Unreadable, OSError) as failure:
            report.error("unreadable", 1, f"New jobs get no first values: {failure}")
        report.freeze(Frozen("server_unreachable", f"{error} {describe_away(away)}"))

    def _write_first_values(self, orders: Orders) -> None:
        """Write first values for the whole queue in mode on; a submit script doesn't know the scope of the orders."""
        if self._first_values is None:
            return
        now = self._clock()
        whole = orders.mode == "on" and orders.partitions is None and orders.subtree == "/"
        usable = self._last_known.usable(orders.limits.snapshot_age_s, now) if whole else {}
        values = planning.values_of({asked: known.answer for asked, known in usable.items()}, orders)
        self._table.facts["first_values"] = self._first_values
        try:
            first_values.write(self._first_values, values, now, _until(orders, usable))
        except OSError as error:
            self._log(f"{self._first_values} can't be written: {error.strerror}.")

    def _change_knob(self, report: Report, orders: Orders, adapter: Adapter) -> None:
        """Reset the values of another knob first: two knobs would count twice."""
        if self._has_other_knob(orders):
            before = self._table.facts.get("knob")
            self._log(f"The knob changes from {before} to {orders.knob}: what was set is reset first.")
            self._take_problems(report, self._reset_values(orders))

    def _has_other_knob(self, orders: Orders) -> bool:
        facts = self._table.facts
        return len(self._table) > 0 and (facts.get("kind"), facts.get("knob")) != (orders.kind, orders.knob)

    def _reset_values(self, orders: Orders) -> Sent:
        """Reset with the kind and knob by which the values were set."""
        kind = str(self._table.facts.get("kind", orders.kind))
        return reset_values(ADAPTERS[kind](self._commands), self._table, self._table.facts.get("knob", orders.knob))

    def _take_sent(self, report: Report, sent: Sent) -> None:
        report.n_sent += len(sent.done)
        self._take_problems(report, sent)

    def _take_problems(self, report: Report, sent: Sent) -> None:
        report.n_failed += sent.n_failed
        for code, (n, detail) in sent.problems.items():
            report.error(code, n, detail)

    def _finish(self, report: Report, calls_before: int, is_sent: bool) -> Dict[str, Any]:
        report.n_calls = self._commands.n_calls - calls_before
        if report.checks is not None:
            self._checks_pass = not _have_errors(report.checks)
            self._remember_lines(report)
        report.restored = former_shares.unreported(self._table)
        report.restored_limits = limit_journal.unreported(self._table)
        document = report.document(self._clock())
        if report.frozen is not None:
            self._log(f"Nothing is sent ({report.frozen.code}): {report.frozen.detail}")
        for error in document["errors"]:
            self._log("{code} (jobs: {count}): {detail}".format(**error))
        self.was_reported = is_sent and self._send_report(report, document)
        self._begin("end")
        self._remember(document)
        return document

    def _send_report(self, report: Report, document: Dict[str, Any]) -> bool:
        self._begin("report")
        try:
            self._source.report(document)
        except ServerFailure as error:
            self._log(f"The report of this pass is not sent: {error}")
            self._last.pop("shares", None)  # sent again with the next report
            if report.checks is not None:
                self._config = None  # checked again, for the same reason
            return False
        if report.shares is not None:
            self._shares_reported = digest_of(report.shares)
        former_shares.reported(self._table)
        limit_journal.reported(self._table)
        return True

    def _remember_lines(self, report: Report) -> None:
        """Keep lines of the configuration that the checks demand to change; the table is written with the pass."""
        facts, is_sending = self._table.facts, bool(self._table.facts.get("was_sending"))
        facts[former_lines.FACT] = former_lines.remember(
            facts.get(former_lines.FACT, {}),
            report.checks or (),
            instant(report.started_at) or "",
            former_lines.AGENT,
            is_sending=is_sending,
        )
        self._is_back = former_lines.are_back(facts[former_lines.FACT], report.checks or ())

    def _remember(self, document: Dict[str, Any]) -> None:
        if self._dry_run:
            return
        kept = ("pass", "ended_at", "mode", "jobs", "frozen", "errors", "snapshot_age_s")
        self._table.facts["last_pass"] = {name: document[name] for name in kept}
        try:
            self._table.save()
        except OSError as error:
            self._log(f"The agent's table can't be written: {error.strerror}.")

    # --- Checks
    def _keep_checks(self, report: Report, orders: Orders, adapter: Adapter) -> None:
        """Check the configuration at the start, every hour, with new orders, and at each pass while it has an error.

        After a reset it is checked at each pass until its lines are written as they were.
        """
        if orders.mode == "off" and not orders.reset_values:
            return
        awaits = not self._is_back if orders.reset_values else not self._checks_pass
        is_asked = awaits or self._checked_revision != orders.revision
        if self._config is None or is_asked or self._is_due("checks", CHECKS_EVERY_S):
            self._config = None
            config = adapter.read_config()
            report.checks = adapter.check(orders.knob if orders.carries == "priorities" else orders.carries, config)
            self._config = config
            self._last["checks"] = time.monotonic()
            self._checked_revision = orders.revision
        report.scheduler_version = adapter.version(self._config)

    def _is_due(self, what: str, every_s: float) -> bool:
        if not self._is_over(what, every_s):
            return False
        self._last[what] = time.monotonic()
        return True

    def _is_over(self, what: str, every_s: float) -> bool:
        """Whether the interval since it was last done is over."""
        return what not in self._last or time.monotonic() - self._last[what] >= every_s


def _ends_limits(orders: Orders) -> bool:
    """Whether every limit is restored; in other modes the plan says which."""
    return orders.reset_values or orders.carries != "limits" or orders.mode == "off"


def _until(orders: Orders, usable: Dict[Asked, Known]) -> Optional[float]:
    """Until when all of these may be used; None without any."""
    return min((known.as_of + orders.limits.snapshot_age_s for known in usable.values()), default=None)


def describe_away(away: Dict[str, Any]) -> str:
    """What the agent does while the site is away, from the table's facts."""
    n_set, n_unknown, until = away["n_set"], away["n_unknown"], away["until"]
    since = f"The site is away since {instant(away['since'])}; first values of new jobs: {n_set} set"
    if until is None:
        return f"{since}. None is set any more: what it last said is older than its owner allows (snapshot_age_s)."
    unknown = f", {n_unknown} jobs of unknown accounts have none" if n_unknown else ""
    return f"{since} from snapshot {away['snapshot']}{unknown}. It may be used until {instant(until)}."


def _have_errors(findings: List[Finding]) -> bool:
    return any(finding.severity == "error" for finding in findings)


def reset_values(adapter: Adapter, table: Table, knob: str) -> Sent:
    """Reset the jobs in the table and forget those that were reset; failed ones stay for the next attempt."""
    queue = adapter.read_queue(knob, 0)
    ours = table.jobs()
    jobs = adapter.to_reset(knob, queue, ours)
    if table.facts.get("first_values"):
        first_values.write(str(table.facts.pop("first_values")), {}, 0.0)
    if queue.listed is not None:
        sent = former_values.restore(
            table, queue.listed, adapter.value_of, lambda former: adapter.restore_values(knob, former)
        )
    else:
        sent = send_in_turns(
            table, [(job, 0) for job in jobs], lambda some: adapter.reset_values(knob, [job for job, _ in some])
        )
    table.forget(sent.done)
    table.forget(sent.gone)
    chosen = set(jobs)
    table.forget([job for job in ours if job not in chosen])
    table.save()
    return sent


def adapter_of(kind: str, commands: Commands) -> Adapter:
    if kind not in ADAPTERS:
        raise Refused("Which scheduler? The agent's table doesn't say: give --kind slurm, gridengine or htcondor.")
    return ADAPTERS[kind](commands)


def all_checks(adapter: Adapter, knob: str) -> List[Finding]:
    return adapter.check(knob, adapter.read_config())
