"""Checks of names, clocks and priorities in one pass; those of the scheduler's configuration are its adapter's."""

from typing import Optional

from agent.adapters import Config
from agent.names import shown
from agent.orders import Orders
from agent.plan import Plan
from agent.records import Finding, Queue

MOST_CLOCK_OFFSET_S = 60.0
MOST_NAMED_USERS = 10


def check_names(orders: Orders, plan: Plan) -> Finding:
    n_jobs = plan.n_mapped + plan.n_unmapped
    percent = 100.0 * plan.n_unmapped / n_jobs if n_jobs else 0.0
    text = f"{plan.n_unmapped} of {n_jobs} pending jobs belong to unmapped accounts."
    if not plan.n_unmapped:
        return Finding("names_unmapped", "ok", text, "")
    severity = "error" if percent > orders.limits.unmapped_percent else "warning"
    named = [account for account, _ in plan.unmapped if account in plan.without_entry]
    if named:
        users = ", ".join(f"{user} in {group or '-'}" for user, group in named[:MOST_NAMED_USERS])
        more = ", …" if len(named) > MOST_NAMED_USERS else ""
        text += f" Only the scheduler knows these users, who wait as new users without usage: {users}{more}."
        remedy = "Import the scheduler's accounts and shares again, or add these users to the policy."
        return Finding("names_unmapped", severity, text, remedy)
    user, group = plan.unmapped[0][0]
    remedy = f"Add a mapping rule, above all for user {user}, group {group or '-'}."
    return Finding("names_unmapped", severity, text, remedy)


def clock_difference(offset_s: Optional[float]) -> float:
    """By how much the site's clock is ahead, if it is too much to set limits: numbers a day, and what is reported,
    would be of another day. 0 where it is right, or unknown."""
    return offset_s if offset_s is not None and abs(offset_s) > MOST_CLOCK_OFFSET_S else 0.0


def check_clocks(offset_s: Optional[float], queue: Queue, now: float) -> Finding:
    future = [job.id for job in queue.jobs if job.submit_at is not None and job.submit_at > now + MOST_CLOCK_OFFSET_S]
    remedy = "Let chrony or ntpd set the clock of this host."
    if offset_s is not None and abs(offset_s) > MOST_CLOCK_OFFSET_S:
        text = f"The server's clock differs from this host's by {offset_s:+.0f} s."
        return Finding("clock", "warning", text, remedy)
    if future:
        text = f"Jobs submitted in the future: {len(future)}, the first is {future[0]}."
        return Finding("clock", "warning", text, remedy)
    return Finding("clock", "ok", "The clocks agree." if offset_s is not None else "The server sends no time.", "")


def check_floor(orders: Orders, queue: Queue, config: Config) -> Finding:
    """Slurm's priority is at least 1: if nice subtracts more than the other terms add, all jobs are equal."""
    low = [job.id for job in queue.jobs if not job.is_held and job.priority <= 1]
    weight = shown(config.get("PriorityWeightPartition", "0"))
    text = f"PriorityWeightPartition={weight}: pending jobs with the lowest priority, 1: {len(low)}."
    remedy = f"PriorityWeightPartition={orders.weight:d} gives every job enough to take nice from."
    return Finding("nice_floor", "error" if low else "ok", text, remedy)
