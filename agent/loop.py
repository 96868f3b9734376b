"""One pass: orders, queue, factors, plan, values to the scheduler, report. The loop runs passes at an interval."""

import threading
import time
from typing import Any, Callable, Dict, List, Optional

from agent import checks, first_values, former_shares
from agent import plan as planning
from agent.adapters import Adapter, Config
from agent.adapters.gridengine import GridEngine
from agent.adapters.slurm import Slurm
from agent.commands import Commands
from agent.first_values import FirstValues
from agent.orders import Orders
from agent.records import Finding, Frozen, Queue, Refused, ServerFailure, Unreadable
from agent.report import Report, queue_rows
from agent.rest import new_pass_id
from agent.sending import Sent
from agent.shares import apply_order, digest_of
from agent.source import Source, look_up_all
from agent.state import Table

ADAPTERS = {"slurm": Slurm, "gridengine": GridEngine}
QUEUE_EVERY_S, VALUES_EVERY_S, CHECKS_EVERY_S = 60.0, 300.0, 3600.0
SHARES_EVERY_S, SAME_SHARES_EVERY_S = 300.0, 3600.0
# Steps of a pass, in order. An agent that sets shares has its own step between the checks and the queue.
STEPS = (
    *("orders", "checks", "restore shares", "shares", "set shares", "queue", "look-up"),
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
        first_values: Optional[FirstValues] = None,
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
        self._config: Optional[Config] = None
        self._checks_pass = True  # whether the last checks found no error
        self._checked_revision = 0  # of the orders
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
            return self._finish(report, calls_before, is_sent=False)
        self._every_s = orders.every_s
        self._commands.calls_per_s = orders.limits.calls_per_s
        adapter = ADAPTERS[orders.kind](self._commands)
        try:
            self._work(report, orders, adapter)
        except ServerFailure as error:
            report.freeze(Frozen("server_unreachable", str(error)))
        except Unreadable as error:
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
        self._begin("checks")
        self._keep_checks(report, orders, adapter)
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
        if orders.sends and not self._dry_run:
            self._change_knob(report, orders, adapter)
        queue = self._read(report, orders, adapter)
        if report.frozen is None:
            self._steer(report, orders, adapter, queue)

    def _carry_shares(self, report: Report, orders: Orders, adapter: Adapter) -> None:
        """List jobs only, and set shares: the scheduler's own fair share orders the jobs."""
        if len(self._table) and not self._dry_run:
            self._log("Shares are carried instead of priorities: the values that were set are reset.")
            self._take_sent(report, self._reset_values(orders))
        self._table.facts["was_sending"] = False
        sets = orders.sets_shares and orders.share_order is not None and not self._dry_run
        if self._is_due("shares", SHARES_EVERY_S) or sets:
            self._read_shares(report, orders, adapter, sets)
        queue = self._read(report, orders, adapter)
        if self._is_due("queue", QUEUE_EVERY_S):
            report.queue = queue_rows(queue.jobs, {})
        if self._is_due("values", VALUES_EVERY_S):
            self._read_values(report, adapter)

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
        whole = adapter.read_queue(orders.knob, orders.weight)
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

    def _steer(self, report: Report, orders: Orders, adapter: Adapter, queue: Queue) -> None:
        self._begin("look-up")
        asked = sorted({job.asked for job in queue.jobs})
        report.looked_up = looked_up = look_up_all(self._source, orders, asked, adapter.names_of)
        differ = self._table.compare({job.id: job.current for job in queue.jobs if job.current is not None})
        if differ:
            self._log(f"{differ} values were changed in the scheduler since they were set; they are set again.")
        self._table.seen(queue.known)
        report.plan = plan = planning.make_plan(orders, queue, looked_up, self._table, self._accepts_changes(orders))
        report.n_due = len(plan.due)
        if plan.refused:
            report.error("refused", len(plan.refused), plan.refused[0])
        if plan.frozen is not None:
            report.freeze(plan.frozen)
        elif orders.sends and not self._dry_run:
            self._table.facts["basis"] = planning.basis_of(orders, looked_up)
            self._send(report, orders, adapter, queue, plan)
            self._accept_changes = False
            self._write_first_values(orders, queue, plan)
        if not orders.sends:
            self._table.facts["was_sending"] = False
        if self._is_due("queue", QUEUE_EVERY_S):
            report.queue = queue_rows(queue.jobs, plan.values)
        if self._is_due("values", VALUES_EVERY_S):
            self._read_values(report, adapter)
        if report.checks is not None:
            report.checks.append(checks.check_names(orders, plan))
            report.checks.append(checks.check_clocks(self._source.clock_offset_s(), queue, self._clock()))
            if orders.knob == "nice":
                report.checks.append(checks.check_floor(orders, queue))

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

    def _send(self, report: Report, orders: Orders, adapter: Adapter, queue: Queue, plan: planning.Plan) -> None:
        """Send values.

        Intended values are on disk before the first call, so that everything changed can be reset.
        """
        self._table.facts.update(kind=orders.kind, knob=orders.knob, scheduler=orders.name, was_sending=True)
        self._begin("intend")
        self._table.intend(plan.due)
        self._table.save()
        self._begin("send")
        if queue.running:
            self._take_problems(report, adapter.reset_values(orders.knob, list(queue.running)))
        sent = adapter.apply(orders.knob, plan.due)
        self._begin("confirm")
        self._table.confirm(sent.done)
        self._table.forget(sent.gone)
        self._take_sent(report, sent)
        self._table.save()

    def _write_first_values(self, orders: Orders, queue: Queue, plan: planning.Plan) -> None:
        """Write first values for the whole queue in mode on; a submit script doesn't know the scope of the orders."""
        if self._first_values is None:
            return
        whole = orders.mode == "on" and orders.partitions is None and orders.subtree == "/"
        values = {job.asked: plan.values[job.id] for job in queue.jobs if job.id in plan.values} if whole else {}
        self._table.facts["first_values"] = self._first_values.path
        try:
            self._first_values.update(values, self._clock())
        except OSError as error:
            self._log(f"{self._first_values.path} can't be written: {error.strerror}.")

    def _change_knob(self, report: Report, orders: Orders, adapter: Adapter) -> None:
        """Reset the values of another knob first: two knobs would count twice."""
        kept = (self._table.facts.get("kind"), self._table.facts.get("knob"))
        if len(self._table) and kept != (orders.kind, orders.knob):
            self._log(f"The knob changes from {kept[1]} to {orders.knob}: what was set is reset first.")
            self._take_problems(report, self._reset_values(orders))

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
            self._checks_pass = not any(check.severity == "error" for check in report.checks)
        report.restored = former_shares.unreported(self._table)
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
        return True

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
        """Check the configuration at the start, every hour, with new orders, and at each pass while it has an error."""
        if orders.mode == "off" and not orders.reset_values:
            return
        is_asked = not self._checks_pass or self._checked_revision != orders.revision
        if self._config is None or is_asked or self._is_due("checks", CHECKS_EVERY_S):
            self._config = None
            config = adapter.read_config()
            report.checks = adapter.check("shares" if orders.carries == "shares" else orders.knob, config)
            self._config = config
            self._last["checks"] = time.monotonic()
            self._checked_revision = orders.revision
        report.scheduler_version = adapter.version(self._config)

    def _is_due(self, what: str, every_s: float) -> bool:
        now = time.monotonic()
        if what in self._last and now - self._last[what] < every_s:
            return False
        self._last[what] = now
        return True


def reset_values(adapter: Adapter, table: Table, knob: str) -> Sent:
    """Reset the jobs in the table and forget those that were reset; failed ones stay for the next attempt."""
    queue = adapter.read_queue(knob, 0)
    ours = table.jobs()
    jobs = adapter.to_reset(knob, queue, ours)
    if table.facts.get("first_values"):
        first_values.write(str(table.facts.pop("first_values")), {}, 0.0)
    sent = adapter.reset_values(knob, jobs)
    table.forget(sent.done)
    table.forget(sent.gone)
    chosen = set(jobs)
    table.forget([job for job in ours if job not in chosen])
    table.save()
    return sent


def adapter_of(kind: str, commands: Commands) -> Adapter:
    if kind not in ADAPTERS:
        raise Refused("Which scheduler? The agent's table doesn't say: give --kind slurm or --kind gridengine.")
    return ADAPTERS[kind](commands)


def all_checks(adapter: Adapter, knob: str) -> List[Finding]:
    return adapter.check(knob, adapter.read_config())
