"""Formats of usage: each file is read or refused, every refused line has its reason, every record could be stored."""

from __future__ import annotations

import io
import json
import re
from zoneinfo import ZoneInfo

import numpy as np

from apps.core.errors import DomainError
from apps.usage.parsers.base import FINISHED, FIRST_US, LAST_US, MOST_JOB_S, NO_TIME, Collector, Parsed, Reading
from apps.usage.parsers.registry import FORMATS
from tests.fuzz.refusals import check_refusal
from tests.instants import AT

READING = Reading(AT, ZoneInfo("Europe/Stockholm"))


def read(collector: Collector, data: bytes) -> list[Parsed] | DomainError:
    try:
        return list(collector.parse(io.BytesIO(data), READING))
    except DomainError as refusal:
        return refusal


def check(name: str, data: bytes) -> bool:
    """Whether any record was taken."""
    for collector in FORMATS.values():
        assert collector.sniff(data[:65536]) in (True, False)
    pieces = read(FORMATS[name], data)
    if isinstance(pieces, DomainError):
        check_refusal(pieces)
        return False
    assert_sound(pieces)
    return any(len(piece.batch) for piece in pieces)


def assert_sound(pieces: list[Parsed]) -> None:
    """Every refusal has its place and reason; every record could be stored and counted."""
    for piece in pieces:
        json.dumps(piece.resume, allow_nan=False)
        for rejection in piece.rejections:
            assert rejection.line >= 1
            assert re.fullmatch(r"[a-z][a-z0-9_]{1,63}", rejection.code)
            assert len(rejection.message) > 10
            assert "\n" not in rejection.excerpt
            assert not re.search("[\x00-\x08\ud800-\udfff]", rejection.message + rejection.excerpt)
        batch = piece.batch
        for amounts in (batch.cpus, batch.gpus, batch.nodes, batch.mem_mb, batch.billing):
            assert np.isfinite(amounts).all()
            assert (amounts >= 0).all()
            assert (amounts <= 1e12).all()
        for instants in (batch.submit_us, batch.start_us, batch.end_us):
            stated = instants[instants != NO_TIME]
            assert ((stated >= FIRST_US) & (stated <= LAST_US)).all()
        over = batch.state == FINISHED
        assert (batch.start_us[over] != NO_TIME).all()
        assert (batch.end_us[over] >= batch.start_us[over]).all()
        assert (batch.end_us[over] - batch.start_us[over] <= MOST_JOB_S * 10**6).all()
        assert (batch.submit_us != NO_TIME).all()
        assert ((batch.restart >= 0) & (batch.revision >= 0)).all()
        for texts in (batch.job, batch.array_task, batch.cluster, batch.site):
            assert all(b"\0" not in text and text.decode() is not None for text in texts.tolist())
        assert all(any(batch.people[who]) for who in set(batch.who.tolist()))
