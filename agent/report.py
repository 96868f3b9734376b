"""The report of one pass, in the server's format."""

import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from agent import VERSION, queue_state
from agent.former_shares import Restored
from agent.limit_journal import RestoredLimit
from agent.limit_pass import LimitReport
from agent.names import MOST_DETAIL, shown
from agent.orders import Orders
from agent.plan import Plan
from agent.queue_state import QueueState
from agent.records import Finding, Frozen, Job, LookUp, Size
from agent.shares import Outcome, Shares

MOST_PRIORITIES = 100  # of a job
COUNTS = ("pending", "mapped", "unmapped", "due", "sent", "failed", "calls")


class Report:
    """Filled during a pass; steps that weren't reached stay empty."""

    def __init__(self, pass_id: str, host: str, started_at: float) -> None:
        self.pass_id = pass_id
        self.host = host
        self.started_at = started_at
        self.orders: Optional[Orders] = None
        self.looked_up: Optional[LookUp] = None
        self.scheduler_version = ""
        self.n_pending = 0
        self.plan: Optional[Plan] = None
        self.n_due = 0
        self.n_sent = 0
        self.n_failed = 0
        self.n_calls = 0
        self.frozen: Optional[Frozen] = None
        self.checks: Optional[List[Finding]] = None
        self.lists_queue = False  # whether this pass lists the queue
        self.queue: Optional[List[Dict[str, Any]]] = None
        self.queue_state: Optional[QueueState] = None
        self.values: Optional[List[Dict[str, object]]] = None
        self.shares: Optional[Shares] = None
        self.outcomes: Optional[Tuple[int, List[Outcome]]] = None  # of a share order
        self.restored: List[Restored] = []  # former shares
        self.limits: Optional[LimitReport] = None
        self.restored_limits: List[RestoredLimit] = []  # limits
        self._errors: Dict[str, Tuple[int, str]] = {}

    def error(self, code: str, count: int, detail: str) -> None:
        """Count an error; the first message of each code is stored."""
        n, first = self._errors.get(code, (0, detail))
        self._errors[code] = (n + count, first)

    def freeze(self, frozen: Frozen) -> None:
        self.frozen = frozen._replace(detail=shown(frozen.detail, MOST_DETAIL))

    def document(self, ended_at: float) -> Dict[str, Any]:
        plan, looked_up = self.plan, self.looked_up
        unmapped = plan.unmapped if plan else []
        return {
            "pass": self.pass_id,
            "agent": VERSION,
            "host": self.host,
            "orders_revision": self.orders.revision if self.orders else None,
            "started_at": instant(self.started_at),
            "ended_at": instant(ended_at),
            "mode": self.orders.mode if self.orders else "off",
            "snapshot": looked_up.snapshot if looked_up else None,
            "snapshot_age_s": round(looked_up.age_s, 3) if looked_up else None,
            "scheduler_version": self.scheduler_version,
            "jobs": {
                "pending": self.n_pending,
                "mapped": plan.n_mapped if plan else 0,
                "unmapped": plan.n_unmapped if plan else 0,
                "due": self.n_due,
                "sent": self.n_sent,
                "failed": self.n_failed,
                "calls": self.n_calls,
            },
            "frozen": self.frozen._asdict() if self.frozen else None,
            "errors": [
                {"code": code, "count": n, "detail": shown(detail, MOST_DETAIL)}
                for code, (n, detail) in sorted(self._errors.items())
            ],
            "unmapped": [{"user": user, "group": group, "jobs": n} for (user, group), n in unmapped],
            "checks": None if self.checks is None else [dict(check._asdict()) for check in self.checks],
            "queue": self.queue,
            "values": self.values,
            **self._of_queue_state(),
            **self._of_shares(),
            **self._of_limits(),
        }

    def _of_queue_state(self) -> Dict[str, Any]:
        """Running jobs and capacity, only if the server takes them."""
        if self.queue_state is None or self.orders is None:
            return {}
        return {"queue_state": queue_state.document(self.queue_state, self.orders.partitions, instant)}

    def _of_shares(self) -> Dict[str, Any]:
        """Fields of shares, only those that there are, because older servers don't know them."""
        fields: Dict[str, Any] = {}
        if self.shares is not None:
            fields["shares"] = self.shares.document()
        if self.outcomes is not None:
            id, outcomes = self.outcomes
            fields["share_order"] = {
                "id": id,
                "outcomes": [
                    {"line": each.line, "code": each.code, "detail": shown(each.detail, MOST_DETAIL)}
                    for each in outcomes
                ],
            }
        if self.restored:
            fields["restored_shares"] = [
                {**each._asdict(), "detail": shown(each.detail, MOST_DETAIL)} for each in self.restored
            ]
        return fields

    def _of_limits(self) -> Dict[str, Any]:
        """Fields of limits, only if limits are carried, because older servers don't know them."""
        fields: Dict[str, Any] = {}
        if self.limits is not None:
            fields["account_limits"] = self.limits.document(instant)
        if self.restored_limits:
            fields["restored_limits"] = [
                {**each._asdict(), "at": instant(each.at), "detail": shown(each.detail, MOST_DETAIL)}
                for each in self.restored_limits
            ]
        return fields


def queue_rows(
    jobs: Sequence[Job], values: Dict[str, int], lists_priorities: bool = False, takes_queue_state: bool = False
) -> List[Dict[str, Any]]:
    """lists_priorities: all of a job's, of at most MOST_PRIORITIES, as the server takes them. takes_queue_state: sizes
    of jobs, too.
    """
    return [
        {
            "job": job.id,
            "array_task": job.array_task,
            "user": job.user,
            "group": job.group,
            "partition": ",".join(job.partitions),
            "qos": job.qos,
            "cpus": job.cpus,
            "submit_at": instant(job.submit_at),
            "eligible_at": instant(job.size.eligible_at) if job.size else None,
            "state": "held" if job.is_held else "pending",
            "reason": job.reason,
            "priority": job.priority,
            "terms": job.terms,
            "value": values.get(job.id),
            **(
                {"priorities": [each._asdict() for each in job.priorities[:MOST_PRIORITIES]]}
                if lists_priorities and job.priorities
                else {}
            ),
            **(_size(job.size) if takes_queue_state and job.size else {}),
        }
        for job in jobs
    ]


def _size(size: Size) -> Dict[str, Any]:
    """Without what is unknown: most jobs have few of these."""
    fields = {
        "nodes": size.nodes,
        "gpus": dict(size.gpus) or None,
        "limit_s": size.limit_s,
        "planned_at": instant(size.planned_at),
        "dependency": size.has_dependency or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def instant(at: Optional[float]) -> Optional[str]:
    """RFC 3339 in UTC; None if it is outside the calendar."""
    if at is None or not 0 <= at < 253402300800:
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
