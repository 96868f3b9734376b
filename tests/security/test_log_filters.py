"""The log has the id of each refused request, and no stranger fills it with one cause."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from django.db import OperationalError

from apps.accounts import token_cache
from apps.accounts.token_cache import tokens
from fairshare_web import log_filters
from fairshare_web.log_filters import LimitRepeats, SayReason
from fairshare_web.log_formats import TextLines
from tests.rest_site import Caller
from tests.small_site import Site


@pytest.fixture
def log() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(TextLines())
    handler.addFilter(LimitRepeats())
    logger = logging.getLogger("django.request")
    logger.addHandler(handler)
    yield logger, text
    logger.removeHandler(handler)


class _Now:
    def __init__(self) -> None:
        self.s = 0.0

    def monotonic(self) -> float:
        return self.s


def fail(logger: logging.Logger, n: int) -> None:
    for i in range(n):
        try:
            raise ValueError(i)
        except ValueError:
            logger.exception("%s failed", f"/path/{i}")


def test_a_traceback_of_one_cause_is_logged_once_a_minute(
    log: tuple[logging.Logger, io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = _Now()
    monkeypatch.setattr(log_filters, "time", now)
    logger, text = log
    fail(logger, 5_911)
    shown = text.getvalue()
    assert (shown.count("Traceback"), shown.count("failed")) == (1, 600)
    assert len(shown) < 80_000  # 5 MB of tracebacks before
    now.s = 61
    fail(logger, 1)
    last = text.getvalue()[len(shown) :]
    assert last.count("Traceback") == 1
    assert "(and 5,311 more of this cause before)" in last


def test_another_cause_is_logged_beside_one_that_repeats(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, text = log
    fail(logger, 700)
    try:
        raise OSError("disk")
    except OSError:
        logging.getLogger("django.request").exception("another")
    assert text.getvalue().count("Traceback") == 2
    logger.setLevel(logging.INFO)
    for _ in range(700):
        logger.info("checked")
    assert text.getvalue().count("checked") == 700


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("get", "nowhere", 404), ("post", "policies", 400), ("put", "policies", 405), ("get", "policies?x=1", 400)],
)
def test_each_refused_request_is_in_the_log_by_its_id(
    site: Site, log: tuple[logging.Logger, io.StringIO], method: str, path: str, status: int
) -> None:
    caller = Caller(user=site.admin)
    answer = caller.client.generic(method.upper(), f"/api/v1/{path}", b"{", content_type="application/json")
    assert answer.status_code == status
    assert re.search(rf" \(request {answer.headers['X-Request-Id']}\)$", log[1].getvalue(), re.MULTILINE)
    assert answer.json()["request_id"] == answer.headers["X-Request-Id"]


def test_a_refusal_for_a_while_is_a_warning_with_its_reason(
    log: tuple[logging.Logger, io.StringIO], computed: Site
) -> None:
    logger, text = log
    logger.handlers[0].filters.insert(0, SayReason())
    caller = Caller(token=computed.token("priorities:read"))
    with (
        patch.object(token_cache, "look_up_token", side_effect=OperationalError("away")),
        patch.object(token_cache, "connection"),
    ):
        tokens.clear()
        answer = caller.get("policies/grid/priorities", {"account": "alice"})
    tokens.clear()
    assert answer.status_code == 503
    line = text.getvalue().splitlines()[-1]
    assert " WARNING " in line
    assert line.count("The database is unavailable, and this token was not used here recently.") == 1
