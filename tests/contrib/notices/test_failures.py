"""Failures of the core that notices name, and refused mail, which readiness and metrics name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.models import Mail, Notice
from apps.runs.models import Run
from tests.instants import AT
from tests.small_site import Site
from tests.web.rest.test_failure_metrics import BROKEN, FINE, MINUTE, clock_at, recompute_that, seen  # noqa: F401 - fixture


@pytest.mark.django_db(transaction=True)
def test_a_failed_recompute_has_a_notice_with_its_error_until_one_succeeds(
    computed: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    recompute_that(monkeypatch, computed, fails=True)
    evaluate(at=AT)
    assert "no such column" in Notice.objects.get(kind="recompute_failed", closed_at=None).facts["error"]
    Run.objects.filter(state=Run.State.QUEUED).delete()
    recompute_that(monkeypatch, computed, fails=False)
    evaluate(at=AT)
    assert not Notice.objects.filter(kind="recompute_failed", closed_at=None).exists()


@pytest.mark.django_db
def test_refused_mail(
    computed: Site,
    clock_at: Callable[[Any], None],  # noqa: F811
    settings: Any,
) -> None:
    metric = "fairshare_mail_failing"
    settings.FAIRSHARE_EMAIL = "smtp"
    given = {"user": computed.admin, "period": "2026-11-20", "due_at": AT, "created_at": AT}
    mail = Mail.objects.create(**given)
    assert seen("mail_failing", metric) == FINE, "not tried yet"
    for state in (Mail.State.WAITING, Mail.State.FAILED):
        Mail.objects.filter(pk=mail.pk).update(attempts=1, state=state, error="SMTPServerDisconnected")
        assert seen("mail_failing", metric) == BROKEN, state
    assert 'fairshare_mails{state="failed"} 1.0' in Client().get("/metrics").content.decode()
    sent = {**given, "user": computed.pia, "state": Mail.State.SENT, "sent_at": AT + MINUTE}
    Mail.objects.create(**sent)
    assert seen("mail_failing", metric) == FINE, "the server answers again"
    Mail.objects.filter(pk=mail.pk).update(state=Mail.State.WAITING)
    settings.FAIRSHARE_EMAIL = "off"
    assert seen("mail_failing", metric) == FINE, "nothing is sent on purpose"
