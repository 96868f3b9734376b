"""What a decision on a change set is sent with: the version that was read, words, and when it takes effect."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext as _

STEPS = ("propose", "approve", "request-changes", "publish", "schedule", "withdraw")
MOST_TEXT = 4_000


@dataclass(frozen=True, slots=True)
class DecisionForm:
    """As it was sent. `problem`: why it can't be done as it is; `problem_code` names it."""

    step: str
    version: int
    text: str
    typed_at: str
    effective_at: datetime | None
    problem: str = ""
    problem_code: str = ""


def read_decision(data: QueryDict) -> DecisionForm:
    step, text = data.get("step", ""), data.get("text", "").strip()[:MOST_TEXT]
    typed = data.get("effective_at", "").strip()[:40]
    number = data.get("version", "")
    version = int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else 0
    effective_at = read_local(typed)
    problem, code = "", ""
    if step == "request-changes" and not text:
        code, problem = "text_missing", _("Enter what should change: the author reads it.")
    elif step == "schedule" and effective_at is None:
        code, problem = "no_time", _("Enter a date and time, such as 2027-01-01 08:00.")
    return DecisionForm(step, version, text, typed, effective_at, problem, code)


def read_local(typed: str) -> datetime | None:
    """A date and time of the site's zone; at the change of clocks, the earlier of two, the later side of a gap."""
    try:
        naive = datetime.fromisoformat(typed)
    except ValueError:
        return None
    if naive.tzinfo is not None:
        return naive.astimezone(UTC)
    try:
        return timezone.make_aware(naive).astimezone(UTC)
    except OverflowError:
        return None
