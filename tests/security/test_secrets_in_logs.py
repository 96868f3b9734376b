"""No line of a log has a secret: not of the settings, no token, no password of an address."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import celery
import pytest
from django.conf import settings as site_settings
from django.db import connections
from django.test import Client

from apps.core import masking
from apps.core.code_paths import REPOSITORY
from apps.core.masking import mask
from apps.runs import bell
from fairshare_web.log_formats import JsonLines, TextLines
from fairshare_web.settings_file import SECRET_NAMES
from tests.rest_site import Caller
from tests.security.test_logs import logged
from tests.small_site import Site

SECRETS = {
    "SECRET_KEY": "K9-of-sessions-and-seals",
    "SECRET_KEY_FALLBACKS": ["K8-of-yesterday"],
    "FAIRSHARE_TOKEN_PEPPERS": ["pepper-one-41", "pepper-two-42"],
    "FAIRSHARE_PSEUDONYM_KEY": "names-of-people-77",
    "EMAIL_HOST_PASSWORD": "mail'pass\"word",
    "FAIRSHARE_OIDC_CLIENT_SECRET": "oidc/secret+1",
    "FAIRSHARE_LDAP_BIND_PASSWORD": "ldap bind pässword",
    "CELERY_BROKER_URL": "redis://:br%2Foker-pass@127.0.0.1:9/0",
}
DATABASE_PASSWORD = "data@base:pass"
PLAIN = [*(value for value in SECRETS.values() if isinstance(value, str) and "://" not in value), "br/oker-pass"]
PLAIN += [*SECRETS["SECRET_KEY_FALLBACKS"], *SECRETS["FAIRSHARE_TOKEN_PEPPERS"], "br%2Foker-pass", DATABASE_PASSWORD]


@pytest.fixture
def secrets(settings: Any) -> Iterator[None]:
    for name, value in SECRETS.items():
        setattr(settings, name, value)
    settings.DATABASES["default"]["PASSWORD"] = DATABASE_PASSWORD
    yield
    settings.DATABASES["default"]["PASSWORD"] = ""


@pytest.fixture(params=[TextLines, JsonLines])
def formatter(request: pytest.FixtureRequest) -> logging.Formatter:
    made: logging.Formatter = request.param()
    return made


def secrets_in(text: str) -> list[str]:
    return [each for each in PLAIN if each in text]


@pytest.mark.usefixtures("secrets")
def test_each_value_is_masked_in_messages_arguments_and_tracebacks(formatter: logging.Formatter) -> None:
    log = logging.getLogger("apps.example")
    with logged(formatter) as text:
        for secret in PLAIN:
            log.warning(f"the library says {secret!r}")
            log.warning("the library says %s and %s", secret, {"given": secret})
            try:
                raise ValueError(secret)
            except ValueError:
                log.exception("failed")
    assert secrets_in(text.getvalue()) == []
    assert text.getvalue().count("***") >= len(PLAIN) * 3


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("GET /x?key=1 with fsh_0123456789ab_" + "ab12" * 16, "GET /x?key=1 with fsh_0123456789ab_***"),
        ("Authorization: Bearer abc.def-ghi_1", "Authorization: Bearer ***"),
        ("postgres://site:pw@db:5432/x refused", "postgres://site:***@db:5432/x refused"),
        ("amqp://guest:p:w%40@mq// refused", "amqp://guest:***@mq// refused"),
        ("conninfo host=db password=p user=x", "conninfo host=db password=*** user=x"),
        ("{'password': 'p', 'user': 'x'}", "{'password': '***', 'user': 'x'}"),
        ('{"client_secret": "p"}', '{"client_secret": "***"}'),
        ("sealed with whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "sealed with whsec_***"),
        ("Cookie: sessionid=abc; csrftoken=def", "Cookie: sessionid=***; csrftoken=***"),
        ("The password is too short. http://host:80/a", "The password is too short. http://host:80/a"),
    ],
)
def test_what_is_secret_by_its_form_is_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.django_db
def test_requests_with_secrets_leave_none_in_the_log(site: Site, formatter: logging.Formatter) -> None:
    token = site.token("priorities:read")
    secret = token.rpartition("_")[2]
    with logged(formatter) as text:
        logging.getLogger("django.request").setLevel(logging.INFO)
        for path in (f"policies/{token}", f"policies?token={token}", "policies/none/tree"):
            Caller(token=token).get(path)
        Client().post("/sign-in/", {"username": "admin", "password": "Sesame-open-1"})
        Client().post("/sign-in/", {"username": "Sesame-open-1", "password": "x" * 5000})
        Caller(token=f"{token}x").get("policies")
        Client().get(f"/nowhere/{token}/")
    assert secret not in text.getvalue()
    assert "password" not in text.getvalue().lower() or "Sesame-open-1" not in text.getvalue()


@pytest.mark.usefixtures("secrets")
def test_a_failing_broker_and_database_leave_no_password(
    formatter: logging.Formatter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bell, "_silent_until_s", 0.0)  # put back afterwards: other tests send
    app = celery.Celery("failing", broker=str(SECRETS["CELERY_BROKER_URL"]), set_as_current=False)
    monkeypatch.setattr(celery, "current_app", app)
    with logged(formatter) as text:
        bell.send_runs([(1, "recompute")])
        try:
            with app.connection_for_write(connect_timeout=0.1) as broker:
                broker.ensure_connection(max_retries=1, interval_start=0)
        except Exception:
            logging.getLogger("celery").exception("broker %s", SECRETS["CELERY_BROKER_URL"])
        database = connections.create_connection("default")
        options = {"host": "127.0.0.1", "port": 9, "password": DATABASE_PASSWORD, "connect_timeout": 1}
        try:
            database.get_new_connection({**database.get_connection_params(), **options})
        except Exception:
            logging.getLogger("apps.example").exception("database %s", options)
    assert "broker" in text.getvalue()
    assert "127.0.0.1" in text.getvalue()
    assert secrets_in(text.getvalue()) == []


def test_each_secret_setting_is_known_to_the_mask() -> None:
    """A setting that is added with such a name is added to the mask, too."""
    read = set(re.findall(r'env_\w+\(\s*"([A-Z_]+)"', Path(REPOSITORY / "fairshare_web/settings.py").read_text()))
    secret = {name for name in read if SECRET_NAMES.search(name)}
    known = {"SECRET_KEY", "SECRET_KEY_FALLBACKS", "FAIRSHARE_TOKEN_PEPPERS", "FAIRSHARE_PSEUDONYM_KEY"}
    assert secret - known == {name.replace("EMAIL_HOST", "FAIRSHARE_EMAIL") for name in masking.PASSWORDS}
    assert all(hasattr(site_settings, name) for name in masking.PASSWORDS)
