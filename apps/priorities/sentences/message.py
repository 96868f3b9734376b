"""A message for pages, REST and terminals: a stable key, the values, and the text made of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from apps.priorities.sentences import numbers
from apps.priorities.sentences.catalogue import TEXTS

# How a value is written is decided by its name, so that one name means one thing in every sentence.
_WRITTEN: Mapping[str, Callable[[Any], str]] = {
    "target": numbers.percent,
    "actual": numbers.percent,
    "other_target": numbers.percent,
    "other_actual": numbers.percent,
    "limit": numbers.percent,
    "points": lambda points: numbers.points_phrase(points / 100),
    "rank": numbers.count,
    "of": numbers.count,
    "other_rank": numbers.count,
    "n": numbers.count,
    "n_ahead": numbers.count,
    "n_siblings": numbers.count,
    "levels": numbers.count,
    "resolution": numbers.count,
    "factor": numbers.factor,
    "other_factor": numbers.factor,
    "week_factor": numbers.factor,
    "month_factor": numbers.factor,
    "ratio": numbers.ratio,
    "above": numbers.ratio,
    "own_ratio": numbers.ratio,
    "k": numbers.ratio,
    "priority": numbers.signed_exact,
    "other_priority": numbers.signed_exact,
    "vector": numbers.signed_list,
    "deviations": lambda values: numbers.signed_list(values, 1),
    "parts": lambda values: f"({', '.join(map(str, values))})",
    "at": numbers.day_and_time,
    "since_at": numbers.day_and_time,
    "on": numbers.day,
    "earliest": numbers.day,
    "latest": numbers.day,
    "hours": numbers.amount,
    "shares": numbers.amount,
    "wished_shares": numbers.amount,
    "share": numbers.percent,
    "other_share": numbers.percent,
    "in_s": numbers.span,
    "soonest_s": numbers.span,
    "latest_s": numbers.span,
    "horizon_s": numbers.span,
    "window_s": numbers.span,
    "problems": lambda problems: ", ".join(problems),
}


@dataclass(frozen=True, slots=True)
class Message:
    """One sentence. Values are numbers, names and instants as they are; `n`, or else `n_siblings`, makes it plural."""

    key: str
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """In the active language."""
        words: dict[str, Any] = {
            name: numbers.UNKNOWN if value is None else _WRITTEN.get(name, str)(value)
            for name, value in self.values.items()
        }
        words["count"] = int(self.values.get("n", self.values.get("n_siblings", 1)))
        return str(TEXTS[self.key] % words)

    def __str__(self) -> str:
        return self.text

    def json(self) -> dict[str, Any]:
        """As REST sends it."""
        return {"key": self.key, "values": {n: _plain(v) for n, v in self.values.items()}, "text": self.text}


def say(key: str, **values: Any) -> Message:
    """A sentence of the catalogue."""
    return Message(key, values)


def text_of(sentences: Sequence[Message]) -> str:
    """One after the other."""
    return " ".join(one.text for one in sentences)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
