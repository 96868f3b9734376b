"""An instance whose database, broker and callers fail logs all of it, and none of its secrets."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request

import pytest

from apps.cli.stack import processes
from tests.faults.conftest import FirstStart
from tests.faults.stack import Stack, eventually

pytestmark = pytest.mark.faults
BROKER, MAIL, OIDC = "br0ker-password", "ma1l-password", "0idc-client-secret"
TOKEN = """
from django.core.management import call_command
call_command("create_token", "--user", "root", "--scope", "priorities:read", "--scope", "admin")
"""
ADMIN = """
from apps.accounts.models import User
User.objects.create_superuser("root", password="Sesame-open-1")
"""


def test_no_log_has_a_secret_of_an_instance_that_fails(first_start: FirstStart) -> None:
    stack = Stack(
        like=first_start.var,
        settings={
            "FAIRSHARE_LOG": "json",
            "CELERY_BROKER_URL": f"redis://:{BROKER}@127.0.0.1:9/0",
            "FAIRSHARE_EMAIL": "smtp",
            "FAIRSHARE_EMAIL_HOST": "127.0.0.1",
            "FAIRSHARE_EMAIL_PORT": "9",
            "FAIRSHARE_EMAIL_USER": "site",
            "FAIRSHARE_EMAIL_PASSWORD": MAIL,
            "FAIRSHARE_OIDC_ISSUER": "http://127.0.0.1:9",
            "FAIRSHARE_OIDC_CLIENT_ID": "site",
            "FAIRSHARE_OIDC_CLIENT_SECRET": OIDC,
        },
    )
    stack.secret_settings = {"broker": BROKER, "mail": MAIL, "oidc": OIDC, "password": "Sesame-open-1"}

    def ask(path: str, data: bytes | None = None, **headers: str) -> None:
        request = urllib.request.Request(f"http://127.0.0.1:{stack.port}/{path}", data, headers)
        try:
            urllib.request.urlopen(request, timeout=30).close()
        except urllib.error.HTTPError as error:
            error.close()

    def logged() -> str:
        return "".join(path.read_text(errors="replace") for path in (stack.var / "log").glob("*.log"))

    try:
        stack.launch()
        eventually(lambda: stack.answers("healthz"), "the web server answers", describe=stack.output_text)
        eventually(lambda: "127.0.0.1:9" in logged(), "workers log that the broker is away", describe=logged)
        stack.run(ADMIN)
        token = stack.run(TOKEN).strip()
        stack.secret_settings["token"] = token.rpartition("_")[2]
        authorization = f"Bearer {token}"
        for path in ("api/v1/policies", f"api/v1/policies?token={token}", f"api/v1/policies/{token}/tree"):
            ask(path, Authorization=authorization)
        ask("sign-in/", b"username=root&password=Sesame-open-1")
        (stack.var / "pg").rename(stack.var / "pg.away")
        for pid in stack.roles()["postgres"]:
            processes.send(pid, signal.SIGKILL)
        eventually(lambda: processes.working_in(stack.var / "pg.away", "postgres") == [], "the database is gone")
        ask("api/v1/policies", Authorization=authorization)
        eventually(lambda: "no database" in logged(), "the web server logs that the database is away", describe=logged)

        web = [json.loads(line) for line in (stack.var / "log" / "web.log").read_text().splitlines()]
        assert {"GET", "POST"} <= {line.get("method") for line in web}
        assert {200, 503} <= {line.get("status") for line in web}
        assert all(line["request_id"] for line in web if line["logger"] == "fairshare.access")
        assert stack.secrets_in_logs() == []
    finally:
        stack.remove()
