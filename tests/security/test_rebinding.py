"""DNS rebinding and chains of redirects against everything that goes outwards, with a real name server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from django.conf import LazySettings
from django.db import connection

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.core import clock
from apps.usage.sources.services import set_up_source
from tests.core.outbound_servers import make_certificate
from tests.instants import AT
from tests.security.rebinding_machine import HOST, METADATA, OWN, PUBLIC

UNSHARED = ["unshare", "--user", "--map-root-user", "--net", "--mount"]


def _works() -> bool:
    try:
        return subprocess.run([*UNSHARED, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not _works(), reason="network namespaces are not allowed here; allow user namespaces"),
]
# way, what the name leads to at each question, what becomes of it, who is connected to
PLAN = [
    ("webhook", [[PUBLIC]], "sent: ", {f"{PUBLIC}:443"}),
    ("webhook", [[OWN]], "failed: ", set()),
    ("webhook", [[METADATA]], "failed: ", set()),
    ("webhook", [[PUBLIC, OWN]], "failed: ", set()),
    ("webhook", [[PUBLIC], [OWN]], "sent: ", {f"{PUBLIC}:443"}),
    ("redirected webhook", [[PUBLIC], [OWN]], "failed: ", {f"{PUBLIC}:443"}),
    ("collector", [[PUBLIC], [OWN]], "", {f"{PUBLIC}:443"}),
    ("collector", [[OWN]], "", set()),
    ("collector", [[METADATA, PUBLIC]], "", set()),
    ("fetch", [[PUBLIC], [PUBLIC], [OWN]], "address_refused", {f"{PUBLIC}:443"}),
    ("fetch", [[PUBLIC], [METADATA]], "address_refused", {f"{PUBLIC}:443"}),
    ("fetch", [[PUBLIC]], "too_many_redirects", {f"{PUBLIC}:443"}),
]


@pytest.mark.product
def test_dns_rebinding_reaches_no_private_address(
    db: None, tmp_path: Path, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.contrib.notices.places import Place
    from apps.contrib.notices.webhooks import make_webhook

    public, _private = make_certificate(tmp_path, HOST)
    person = Actor(user=User.objects.create_user("ada", is_superuser=True), via="page")
    make_webhook(name="W", url=f"https://{HOST}/in", place=Place(), kinds=[], at=AT, actor=person)
    token = tmp_path / "slurm"
    token.write_text("secret\n")
    token.chmod(0o600)
    settings.FAIRSHARE_SECRETS_DIR = str(tmp_path)
    given = {"name": "S", "kind": "slurm-rest", "collecting": {"address": f"https://{HOST}"}}
    set_up_source(slug="slurm", new_settings=given, at=AT, actor=COMMAND)
    found = connection.settings_dict
    login = quote(found["USER"]) + (f":{quote(found['PASSWORD'])}" if found["PASSWORD"] else "")
    place = quote(str(found["HOST"]), safe="") + (f":{found['PORT']}" if found["PORT"] else "")
    environment = {
        **os.environ,
        "DATABASE_URL": f"postgresql://{login}@{place}/{quote(str(found['NAME']))}",
        "FAIRSHARE_OUTBOUND_CA_FILE": str(public),
        "FAIRSHARE_OUTBOUND_ALLOW": "",
        "FAIRSHARE_SECRETS_DIR": str(tmp_path),
        clock.VARIABLE: AT.isoformat(),
    }
    plan = json.dumps([(way, answers) for way, answers, *_ in PLAN])
    command = [*UNSHARED, sys.executable, "-m", "tests.security.rebinding_machine", str(tmp_path), plan]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for (way, answers, result, reached), got in zip(PLAN, json.loads(done.stdout.splitlines()[-1]), strict=True):
        assert (set(got["connected"]), got["result"].startswith(result)) == (reached, True), (way, answers, got)
        if way == "collector":
            assert got["result"].startswith(("failed", "queued")), got
