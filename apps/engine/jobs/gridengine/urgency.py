"""Urgency: what a job asks for, how long it has waited, how near its deadline is."""

from __future__ import annotations

from dataclasses import dataclass

from apps.engine.jobs.fields import plain
from apps.engine.jobs.gridengine.amounts import Amount, total_of
from apps.engine.jobs.gridengine.inputs.case import Job
from apps.engine.jobs.gridengine.inputs.config import Config

SLOTS = "slots"


@dataclass(frozen=True)
class Urgency:
    """The three contributions and their sum."""

    resources: Amount
    waiting: Amount
    deadline: Amount

    @property
    def total(self) -> Amount:
        parts = (self.resources, self.waiting, self.deadline)
        value = parts[0].value + parts[1].value + parts[2].value
        names = zip(parts, ("resources", "waiting", "deadline"), strict=True)
        return Amount(value, " + ".join(f"{plain(part.value)} ({name})" for part, name in names))


def find_urgency(job: Job, config: Config) -> Urgency:
    """rrcontr + wtcontr + dlcontr of one job, running or pending."""
    return Urgency(_of_resources(job, config), _of_waiting(job, config), _of_deadline(job, config))


def _of_resources(job: Job, config: Config) -> Amount:
    """slots·urgency(slots) + value·urgency·slots of each hard request; text counts its urgency once."""
    parts = []
    if of_slots := config.urgency.get(SLOTS, 0.0):
        parts.append(Amount(job.slots * of_slots, f"{job.slots} × {plain(of_slots)} (slots)"))
    for request in job.requests:
        weight = config.urgency.get(request.name, 0.0)
        if not weight:
            continue
        if request.is_per_slot:
            text = f"{plain(request.value)} × {plain(weight)} × {job.slots} ({request.name}, in every slot)"
            parts.append(Amount(request.value * weight * job.slots, text))
        else:
            parts.append(Amount(weight, f"{plain(weight)} ({request.name} as text, once)"))
    return total_of(parts, "nothing requested has an urgency")


def _of_waiting(job: Job, config: Config) -> Amount:
    weight = config.weight_waiting_time
    return Amount(weight * job.waited_s, f"{plain(weight)} × {plain(job.waited_s)} (seconds since submission)")


def _of_deadline(job: Job, config: Config) -> Amount:
    """weight_deadline over the seconds left, which count as at least one."""
    if job.deadline_in_s is None:
        return Amount(0.0, "0 (no deadline)")
    left_s = max(job.deadline_in_s, 1.0)
    return Amount(
        config.weight_deadline / left_s, f"{plain(config.weight_deadline)} / {plain(left_s)} (seconds to the deadline)"
    )
