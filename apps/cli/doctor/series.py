"""Check of the stored daily series: some of its days are computed again from the buckets, others in each run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from apps.cli.doctor.check import Finding
from apps.core.code_paths import command_name
from apps.core.counts import counted
from apps.series.day_audit import MOST_AUDITED_BUCKETS, Audit, audit_days

_MOST_NAMED_DIFFERENCES = 3  # differences of one policy


def check_series(at: datetime) -> Iterator[str | Finding]:
    n_policies = 0
    for audit in audit_days():
        n_policies += 1
        command = f"{command_name('rebuild_series')} {audit.policy}"
        remedy = f"Have it built again: `{command}`. See Examine it in docs/operate.md."
        if audit.damage:
            message = f"Stored days of the daily series of {audit.policy} can't be read: {audit.damage}."
            yield Finding("series_damaged", "bad", message, remedy)
            continue
        yield _compared(audit)
        for each in audit.differences[:_MOST_NAMED_DIFFERENCES]:
            more = len(audit.differences) - 1
            others = f"; {counted(more, 'other day')} of those compared {'differs' if more == 1 else 'differ'}"
            message = (
                f"The daily series of {audit.policy} is wrong on {each.on.isoformat()}: {each.path} has {each.name} "
                f"{each.stored:.9g}, and its usage gives {each.computed:.9g}{others if more else ''}."
            )
            yield Finding("series_differs", "bad", message, remedy)
    if not n_policies:
        yield "no days to compare"


def _compared(audit: Audit) -> str:
    first, last = audit.days[0].isoformat(), audit.days[-1].isoformat()
    span = first if first == last else f"from {first} to {last}"
    text = f"{audit.policy}: {len(audit.days)} of {counted(audit.n_stored, 'day')} compared with the usage, {span}"
    if audit.has_windows:
        return text
    return f"{text}, without decayed usage: more than {MOST_AUDITED_BUCKETS:,} sums by hour count in it"
