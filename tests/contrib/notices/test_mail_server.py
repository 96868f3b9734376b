"""Mail through a real server that dies, refuses and hangs: nothing lost, nothing twice, no request waits long."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from apps.accounts.actor import Actor
from apps.contrib.notices import digests
from apps.contrib.notices.mail_preferences import set_preference
from apps.contrib.notices.models import Mail
from tests.contrib.notices.sending import send_notices
from tests.instants import AT
from tests.mail_server import MailServer, mail_server
from tests.small_site import Site

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
BOUND_S = 0.3  # twenty seconds in production
PATIENCE_S = 10.0  # of the test: a wait without bound takes for ever


@pytest.fixture
def server(settings: Any) -> Iterator[MailServer]:
    with mail_server() as found:
        settings.EMAIL_BACKEND = "apps.core.mail_server.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_TIMEOUT = "127.0.0.1", found.port, BOUND_S
        settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
        yield found


class Schedule:
    """The service's own tasks at the instants of its clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.at = AT

    def round(self, at: datetime) -> int:
        self.at = at
        self.monkeypatch.setenv("FAIRSHARE_CLOCK", at.isoformat())
        return send_notices()

    def go_on(self, duration: timedelta, step: timedelta = 10 * MINUTE) -> None:
        for _n in range(duration // step):
            self.round(self.at)
            self.at += step


@pytest.fixture
def schedule(monkeypatch: pytest.MonkeyPatch) -> Schedule:
    return Schedule(monkeypatch)


def news_in(messages: list[Any]) -> Counter[str]:
    """The links under *New* of all messages, by how often each came."""
    texts = [message.get_content().split("Still open")[0] for message in messages]
    return Counter(link for text in texts for link in re.findall(r"/notices/\d+/", text))


def assert_complete(server: MailServer) -> None:
    """Each person has each of the news once, in one message."""
    for name, n in (("admin", 2), ("pia", 1), ("ben", 0)):
        found = news_in(server.to(name))
        assert (len(found), set(found.values()) <= {1}) == (n, True), (name, found)
    ids = Counter(message["Message-ID"] for message in server.accepted)
    assert set(ids.values()) == {1}


@pytest.mark.parametrize("interval", [pytest.param("daily", marks=pytest.mark.deep), "at_once"])
def test_a_two_hour_outage(notified: Site, server: MailServer, schedule: Schedule, interval: str) -> None:
    set_preference(interval=interval, hour=8, muted=[], actor=Actor(notified.pia, "page"))
    server.stop()
    schedule.go_on(2 * HOUR)
    assert server.accepted == []
    server.start()
    schedule.go_on(2 * HOUR)
    assert_complete(server)


@pytest.mark.parametrize("code", [451, 550])
def test_refused_recipients_do_not_block_others(
    notified: Site, server: MailServer, schedule: Schedule, code: int
) -> None:
    server.refused = {"admin@example.org": code}
    assert schedule.round(AT) == 1
    assert [len(server.to(name)) for name in ("admin", "pia")] == [0, 1]
    schedule.go_on(HOUR)
    server.refused = {}
    schedule.go_on(HOUR)
    assert_complete(server)


def test_a_closing_server_is_contacted_once_per_round(notified: Site, server: MailServer, schedule: Schedule) -> None:
    """421 is no refusal of one message: it would be the answer to each."""
    server.refused = {"admin@example.org": 421, "pia@example.org": 421}
    assert schedule.round(AT) == 0
    assert server.n_conversations == 1


@pytest.mark.parametrize(
    ("command", "trickles"),
    [
        ("connection", False),
        ("RCPT", True),
        pytest.param("DATA", False, marks=pytest.mark.deep),
        ("end", True),
        pytest.param("connection", True, marks=pytest.mark.deep),
        pytest.param("RCPT", False, marks=pytest.mark.deep),
        pytest.param("DATA", True, marks=pytest.mark.deep),
        pytest.param("end", False, marks=pytest.mark.deep),
    ],
)
def test_a_hanging_server_times_out(
    notified: Site, server: MailServer, schedule: Schedule, command: str, trickles: bool
) -> None:
    server.hangs_at, server.trickles = command, trickles
    began_s = time.monotonic()
    assert schedule.round(AT) == 0
    assert time.monotonic() - began_s < PATIENCE_S
    assert server.n_conversations == 1, "the others would wait as long"
    assert server.accepted == []
    server.hangs_at = ""
    schedule.go_on(20 * MINUTE)
    assert_complete(server)


@pytest.mark.parametrize("trickles", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["silent", "trickles"])
def test_accepted_messages_count_as_sent_despite_later_errors(
    notified: Site, server: MailServer, schedule: Schedule, trickles: bool
) -> None:
    server.hangs_at, server.trickles = "QUIT", trickles
    schedule.go_on(20 * MINUTE)
    assert_complete(server)
    assert set(Mail.objects.exclude(state="empty").values_list("state", "attempts")) == {("sent", 0)}


def test_an_afternoon_of_mixed_failures(notified: Site, server: MailServer, schedule: Schedule) -> None:
    """Dead, then refusing one, then hanging, then dead for two hours: more than a message is tried for."""
    set_preference(interval="at_once", hour=8, muted=[], actor=Actor(notified.admin, "page"))
    server.stop()
    schedule.go_on(HOUR)
    server.refused = {"pia@example.org": 451, "admin@example.org": 451}
    server.start()
    schedule.go_on(HOUR)
    server.refused, server.hangs_at = {}, "DATA"
    schedule.go_on(HOUR, step=30 * MINUTE)
    server.stop()
    schedule.go_on(2 * HOUR)
    server.hangs_at = ""
    server.start()
    schedule.go_on(28 * HOUR, step=2 * HOUR)
    assert_complete(server)


def test_a_slow_server_gets_few_messages_per_round(
    notified: Site, server: MailServer, schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round holds a worker that also computes priorities."""
    monkeypatch.setattr(digests, "LONGEST_MAIL_RUN_S", 0.0)
    assert schedule.round(AT) == 0
    assert server.n_conversations == 0
    monkeypatch.undo()
    schedule.monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    assert send_notices() == 2
