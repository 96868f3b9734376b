"""Lines with random errors: none is lost silently, and nothing that a parser lets pass breaks an import.

What a parser does with any bytes is shown by tests/fuzz.
"""

from __future__ import annotations

import io
import random

import pytest

from apps.accounts.actor import COMMAND
from apps.core.errors import DomainError
from apps.runs.services import work_run_now
from apps.usage.models import Import, Source
from apps.usage.parsers.registry import FORMATS
from apps.usage.services import NewImport, start_import
from tests.examples import first
from tests.fuzz.mutations import mutated
from tests.fuzz.usage_formats import read
from tests.instants import AT

N_LINES = 300


def mutants(name: str, n: int) -> list[bytes]:
    """The format's sample with one of its records, or its head, changed; the same ones in every run."""
    rng = random.Random(f"{name} 2026")
    lines = FORMATS[name].sample.encode().splitlines(keepends=True)
    made = []
    for _ in range(n):
        at = rng.randrange(len(lines)) if rng.random() < 0.2 else len(lines) - 1 - rng.randrange(min(len(lines), 12))
        changed = mutated(rng, lines[at].rstrip(b"\n"))
        made.append(b"".join([*lines[:at], changed + b"\n", *lines[at + 1 :]]))
    return made


@pytest.mark.parametrize("name", ["gridengine", "gridengine-jsonl", "ndjson", "swf"])
def test_no_line_is_lost_silently(name: str) -> None:
    """Of formats with one record a line: accepted, refused, or counted among the notes."""
    rng = random.Random(7)
    line = FORMATS[name].sample.encode().splitlines()[-1]
    head = b"; UnixStartTime: 1767225600\n" if name == "swf" else b""
    changed = [mutated(rng, line).replace(b"\r", b"") for _ in range(N_LINES)]
    lines = [one for each in changed for one in each.split(b"\n") if one.strip() and not one.startswith((b"#", b";"))]
    found = read(FORMATS[name], head + line + b"\n" + b"\n".join(lines) + b"\n")
    assert not isinstance(found, DomainError)
    skipped = sum(n for piece in found for note, n in piece.notes.items() if note.endswith("_skipped"))
    taken = sum(len(piece.batch) + len(piece.rejections) for piece in found)
    assert taken + skipped == len(lines) + 1


@pytest.mark.parametrize("name", first(4, sorted(FORMATS)))
@pytest.mark.django_db(transaction=True)
@pytest.mark.fault("F29")
def test_an_import_of_mutated_lines_succeeds_or_reports_a_reason(name: str, source: Source) -> None:
    """Through the database: nothing that a parser lets pass may break there."""
    pieces = mutants(name, 60)
    results = [read(FORMATS[name], data) for data in pieces]
    hurt = [isinstance(each, DomainError) or any(piece.rejections for piece in each) for each in results]
    assert sum(hurt) > 3, "the mutations hardly hurt: they test nothing"
    documents = [data for data, each in zip(pieces, results, strict=True) if not isinstance(each, DomainError)]
    is_document = name in ("gridengine-queue", "ogf-ur", "sacct-json", "squeue-json")
    for data in documents[:12] if is_document else [b"".join(documents)]:
        if not data.strip():
            continue
        made = start_import(
            NewImport(source_slug="cluster", format=name, file=io.BytesIO(data), file_name="x", time_zone="UTC"),
            at=AT,
            actor=COMMAND,
        )
        run = work_run_now(made.run_id)
        if run.state != "succeeded":
            assert run.error_code not in ("", "failed"), run.error
            assert run.error
        done = Import.objects.get(pk=made.pk)
        assert done.rejected_lines.filter(message="").count() == 0
