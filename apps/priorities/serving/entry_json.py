"""Entries in answers to schedulers: their fields by column, and the JSON of each, written by columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from apps.priorities.entry_order import json_number

_ESCAPED = re.compile(r'["\\\x00-\x1f]')


class EntryColumns(NamedTuple):
    """JSON fields of entries in answers, a list for each field."""

    entry: list[str]
    factor: list[Any]
    rank: list[int | None]
    of: list[int]
    priorities: list[list[Any]]
    vector: Sequence[list[int] | None]
    key: list[str | None]

    def json(self) -> list[str]:
        """The fields of each entry as JSON, without braces."""
        columns = zip(
            texts_json(self.entry),
            _numbers(self.factor),
            _whole(self.rank),
            _whole(self.of),
            _lists(self.priorities),
            ["null"] * len(self.vector) if None in self.vector else _lists(self.vector),
            texts_json(self.key),
            strict=True,
        )
        return [
            f'"entry":{path},"factor":{factor},"rank":{rank},"of":{of},"priorities":{priorities},"vector":{vector},"key":{key}'
            for path, factor, rank, of, priorities, vector, key in columns
        ]


def dumps(value: Any) -> str:
    return orjson.dumps(value).decode()


def _text_json(text: str) -> str:
    return dumps(text) if _ESCAPED.search(text) else f'"{text}"'


def texts_json(texts: Sequence[str | None]) -> list[str]:
    if None in texts or _ESCAPED.search("".join(texts)):  # type: ignore[arg-type]  # none of them is None
        return ["null" if text is None else _text_json(text) for text in texts]
    return [f'"{text}"' for text in texts]


def _numbers(numbers: Sequence[float]) -> list[str]:
    text = dumps(numbers)
    if "null" in text:
        text = dumps([*map(json_number, numbers)])
    return text[1:-1].split(",")


def _whole(numbers: Sequence[int | None]) -> list[str]:
    return dumps(numbers)[1:-1].split(",")


def _lists(rows: Sequence[Any]) -> list[str]:
    """JSON of lists of numbers, or of infinity as text."""
    text = dumps(rows)
    if "null" in text:
        text = dumps([[*map(json_number, row)] for row in rows])
    return [f"[{row}]" for row in text[2:-2].split("],[")]
