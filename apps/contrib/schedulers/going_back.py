"""Lines of the scheduler's configuration to write again when it goes back to its own fair share.

Switching on demands some lines, above all PriorityWeightFairshare=0: resetting the jobs alone would leave a cluster
without any fair share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from django.utils.translation import gettext as _

from agent import former_lines
from agent.records import Finding
from apps.contrib.schedulers.models import Scheduler


@dataclass(frozen=True, slots=True)
class LineToRestore:
    """A line of the scheduler's configuration as it was before switching on."""

    name: str
    line: Annotated[str, "As it was before"]
    demanded: Annotated[str, "What switching on demands instead"]
    is_known: Annotated[bool, "false: it was already as demanded when it was first read, which is the default"]
    source: Annotated[Literal["agent", "setup"], "The agent's check, or the outputs of a set-up"]
    seen_at: Annotated[datetime, "When it was last read so"]
    is_back: Annotated[bool, "Whether the agent's last check read this line"]

    @property
    def needs_writing(self) -> bool:
        """Whether the known line differs from the present one."""
        return self.is_known and not self.is_back


def remember_lines(scheduler: Scheduler, checks: Sequence[Mapping[str, str]], seen_at: datetime) -> None:
    """Add lines that these checks of the agent demand to change, to the unsaved row."""
    scheduler.former_lines = former_lines.remember(
        scheduler.former_lines,
        [_finding(check) for check in checks],
        seen_at.isoformat(),
        former_lines.AGENT,
        is_sending=scheduler.mode in (Scheduler.Mode.CANARY, Scheduler.Mode.ON) and not scheduler.is_reset_requested,
    )


def lines_to_restore(scheduler: Scheduler) -> list[LineToRestore]:
    """Lines to write again, the scheduler's own fair share first; none if nothing was demanded of it."""
    now = {former_lines.found_line(_finding(check)) for check in scheduler.checks or ()}
    return [
        LineToRestore(
            name=each.name,
            line=each.line,
            demanded=each.demanded,
            is_known=each.is_known,
            source="setup" if each.source == former_lines.SETUP else "agent",
            seen_at=datetime.fromisoformat(each.seen_at),
            is_back=(each.name, each.line) in now,
        )
        for each in former_lines.lines_to_restore(scheduler.former_lines)
    ]


def is_line(check: Mapping[str, Any]) -> bool:
    """Whether a check is about a line of the scheduler's configuration."""
    return bool(former_lines.found_line(_finding(check))[0])


def where_seen(line: LineToRestore) -> str:
    """Where a line comes from, without its time; for an unknown one, what the default means."""
    if not line.is_known:
        return _(
            "What it was before is not known: it was so already when it was first read. This is the default, with"
            " which the scheduler’s own fair share orders no job: write the value that your site had."
        )
    if line.source == "setup":
        return _("As scontrol show config printed it for the set-up.")
    return _("As the agent last read it before it sent values.")


def _finding(check: Mapping[str, Any]) -> Finding:
    return Finding(*(str(check[name]) for name in Finding._fields))
