"""Accounting formats of packages: what is refused at start, and what is refused while a file is read."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from apps.core.errors import Invalid
from apps.usage.parsers import package_formats
from apps.usage.parsers.base import Parsed, Reading, RecordBatch
from tests.example_package.fairshare_example import Minutes

READING = Reading(at=datetime(2100, 1, 1, tzinfo=UTC))
LINES = b"# minutes\n" + b"".join(b"%d a g 1795000000 90 4\n" % n for n in range(10))


def changed(**members: Any) -> object:
    return type("Changed", (Minutes,), members)()


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"name": "hours"}, "calls itself"),
        ({"label": ""}, "label"),
        ({"needs_zone": None}, "needs_zone"),
        ({"extensions": [".x"]}, "extensions"),
        ({"fields": ("a",)}, "fields must be a tuple of FieldNote"),
        ({"parse": None}, "methods"),
        ({"sniff": lambda self, head: True}, "sniff"),
        ({"sniff": lambda self, head: 1 / 0}, "sniff"),
        ({"sample": "# minutes\n"}, "must have records"),
        ({"sample": "# minutes\n1 2\n"}, "no line that is rejected"),
        ({"parse": lambda self, stream, reading, resume=None: iter([7])}, "a int in place of"),
        ({"parse": lambda self, stream, reading, resume=None: 1 / 0}, "ZeroDivisionError"),
    ],
)
def test_an_incomplete_format_is_rejected(members: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        package_formats._check("minutes", changed(**members))


def test_the_example_is_complete() -> None:
    assert package_formats._check("minutes", Minutes()).label == "Minutes"


def broken_at_the_tenth(spoil: Callable[[RecordBatch], Any]) -> package_formats.PackageFormat:
    """Right for nine pieces, and then not."""

    class Late(Minutes):
        def parse(self, stream: Any, reading: Reading, *, resume: Any = None) -> Iterator[Parsed]:
            for n, line in enumerate(stream.read().splitlines(keepends=True)[1:], 1):
                (piece,) = super().parse(io.BytesIO(line), reading)
                yield piece if n < 10 else replace(piece, batch=spoil(piece.batch))

    return package_formats.PackageFormat(Late())


SPOILT = {
    "another type": lambda batch: [batch],
    "an exception": lambda batch: 1 / 0,
    "below 0": lambda batch: with_column(batch, cpus=-batch.cpus),
    "not a number": lambda batch: with_column(batch, mem_mb=batch.mem_mb * np.nan),
    "too short": lambda batch: with_column(batch, gpus=batch.gpus[:0]),
    "texts for numbers": lambda batch: with_column(batch, nodes=batch.nodes.astype(str)),
    "the year 9999": lambda batch: with_column(batch, end_us=batch.end_us * 100),
    "an end before the start": lambda batch: with_column(batch, start_us=batch.end_us + 1),
    "nobody": lambda batch: with_column(batch, who=batch.who + 5),
}


def with_column(batch: RecordBatch, **columns: Any) -> RecordBatch:
    return replace(batch, **columns)


@pytest.mark.parametrize("name", SPOILT)
def test_an_invalid_chunk_rejects_the_file_even_as_the_tenth(name: str) -> None:
    pieces = broken_at_the_tenth(SPOILT[name]).parse(io.BytesIO(LINES), READING)
    assert len([next(pieces) for _ in range(9)]) == 9
    with pytest.raises(Invalid) as error:
        next(pieces)
    assert error.value.code == "package_failed"
    assert "minutes" in error.value.message
