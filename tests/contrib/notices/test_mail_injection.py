"""Names that want to be headers, recipients or messages of their own, against a real mail server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from email import message_from_bytes
from typing import Any

import pytest

from apps.accounts.models import User
from apps.contrib.notices.digests import plan_mails, send_mails
from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.models import Mail, Notice
from apps.usage.models import Source
from tests.instants import AT
from tests.security.smtp_sink import Sink, smtp_sink
from tests.small_site import Site

EVIL = "evil@evil.example"
PAYLOADS = [
    f"x\r\nBcc: {EVIL}",
    f"x\nBcc: {EVIL}",
    f"x\rBcc: {EVIL}",
    f"x\r\n\r\nA body of their own\r\n.\r\nMAIL FROM:<{EVIL}>\r\nRCPT TO:<{EVIL}>\r\nDATA",
    f"x\n.\nMAIL FROM:<{EVIL}>\nRCPT TO:<{EVIL}>\nDATA\nSubject: smuggled\n\nhi\n.\n",
    f"x\r.\rRCPT TO:<{EVIL}>",
    f"x\u2028Bcc: {EVIL}",
    f"x\u0085Bcc: {EVIL}",
    f"x\x0b\x0cBcc: {EVIL}\x00",
    "=?utf-8?q?x=0D=0ABcc:_evil=40evil.example?=",
    "." * 600,
]
HEADERS = {
    "subject",
    "from",
    "to",
    "date",
    "message-id",
    "auto-submitted",
    "list-unsubscribe",
    "list-unsubscribe-post",
    "mime-version",
    "content-type",
    "content-transfer-encoding",
}
pytestmark = pytest.mark.django_db


@pytest.fixture
def sink(settings: Any) -> Iterator[Sink]:
    with smtp_sink() as sink:
        settings.EMAIL_BACKEND = "apps.core.mail_server.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", sink.port
        settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
        settings.FAIRSHARE_EMAIL, settings.FAIRSHARE_URL = "smtp", "https://fairshare.example.org"
        settings.FAIRSHARE_SITE, settings.DEFAULT_FROM_EMAIL = "abisko", "Fairshare <fairshare@example.org>"
        yield sink


def prepared(site: Site) -> None:
    User.objects.filter(pk=site.admin.pk).update(email="admin@example.org")
    Source.objects.update(expected_every_s=3600, last_received_at=AT - timedelta(hours=9))
    evaluate(at=AT)


def deliver() -> None:
    plan_mails(at=AT)
    send_mails(at=AT)


def assert_one_plain_message(sink: Sink) -> None:
    """For the one person, with the headers of every message, and nothing else said to the server."""
    (message,) = sink.messages
    assert message.recipients == ["admin@example.org"]
    verbs = [command[:4].upper() for command in sink.commands]
    assert verbs == ["EHLO", "MAIL", "RCPT", "DATA", "QUIT"]
    parsed = message_from_bytes(b"\r\n".join(message.lines))
    assert {name.lower() for name in parsed.keys()} <= HEADERS  # noqa: SIM118 - a message isn't a mapping
    assert [parsed.get_all(name) for name in ("To", "Bcc", "Cc")] == [["admin@example.org"], None, None]
    assert not parsed.is_multipart()


@pytest.mark.parametrize(
    "payload",
    [pytest.param(text, marks=() if n in (1, 3, 8) else pytest.mark.deep) for n, text in enumerate(PAYLOADS)],
    ids=lambda text: ascii(text)[:40],
)
def test_user_text_injects_no_mail_header_or_message(
    computed_site: Site, sink: Sink, settings: Any, payload: str
) -> None:
    """The site's name in the subject; a source's, a person's and a file's in the body."""
    prepared(computed_site)
    settings.FAIRSHARE_SITE = payload
    notice = Notice.objects.get(kind="late_source")
    notice.facts = {**notice.facts, "source": payload.replace("\0", "")}
    notice.save()
    User.objects.filter(pk=computed_site.admin.pk).update(first_name=payload.replace("\0", "")[:150])
    deliver()
    assert_one_plain_message(sink)


@pytest.mark.parametrize(
    "address",
    [
        f"admin@example.org\r\nRCPT TO:<{EVIL}>",
        f"admin@example.org, {EVIL}",
        pytest.param(f"admin@example.org> <{EVIL}", marks=pytest.mark.deep),
        pytest.param(f"admin@example.org\nBcc: {EVIL}", marks=pytest.mark.deep),
        pytest.param(f'"{EVIL}"@[127.0.0.1]\r\n', marks=pytest.mark.deep),
        pytest.param("admin@example.org\u2028", marks=pytest.mark.deep),
    ],
    ids=ascii,
)
def test_an_address_with_injected_recipients_gets_no_mail(computed_site: Site, sink: Sink, address: str) -> None:
    prepared(computed_site)
    User.objects.filter(pk=computed_site.admin.pk).update(email=address)
    deliver()
    assert sink.messages == []
    assert list(Mail.objects.values_list("state", flat=True)) == ["failed"]
