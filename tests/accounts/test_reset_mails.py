"""Links for new passwords through a real mail server, by the core alone: the task that beat rings."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as site_settings

from apps.accounts import tasks
from apps.accounts.models import PasswordReset, User
from apps.accounts.sign_in.passwords import request_reset
from apps.runs.queues import FEDERATION
from tests.instants import AT
from tests.mail_server import mail_server
from tests.worlds import fresh_process  # noqa: F401 - fixture

pytestmark = pytest.mark.django_db
NAMES = ("ana", "ben", "pia")
BOUND_S = 0.3  # twenty seconds in production


@pytest.fixture
def askers(settings: Any) -> None:
    settings.FAIRSHARE_EMAIL, settings.FAIRSHARE_URL = "smtp", "https://fairshare.example.org"
    for name in NAMES:
        user = User.objects.create_user(name, f"{name}@example.org", "a long one that nobody knows")
        request_reset(address=user.email, at=AT)


def test_links_are_sent_by_a_task_that_no_plug_in_schedules() -> None:
    entry = site_settings.CELERY_BEAT_SCHEDULE["send-password-resets"]
    assert entry["task"] == tasks.send_password_resets.name
    assert entry["options"] == {"queue": FEDERATION}, "it waits for another host, as the workers of this queue do"


def test_links_contact_a_hanging_server_once_a_round(
    askers: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mail_server() as server:
        settings.EMAIL_BACKEND = "apps.core.mail_server.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_TIMEOUT = "127.0.0.1", server.port, BOUND_S
        settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
        server.hangs_at = "connection"
        for n in (1, 2):
            assert tasks.send_password_resets() == 0
            assert server.n_conversations == n
        server.hangs_at = ""
        monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(minutes=2)).isoformat())
        assert tasks.send_password_resets() == len(NAMES)
        assert [len(server.to(name)) for name in NAMES] == [1] * len(NAMES)
    assert not PasswordReset.objects.filter(ended_at=None).exists()
