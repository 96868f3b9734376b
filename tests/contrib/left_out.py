"""A process of a site that leaves out plug-ins: prints what it answers, as `python -m tests.contrib.left_out`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from django.db import connection

from apps.core.code_paths import REPOSITORY


def answers_without(plugins: Sequence[str], username: str, addresses: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Status and body by address, of a site with the database of this test. For tests that commit."""
    database = connection.settings_dict
    url = f"postgres://{quote(database['USER'])}:{quote(database['PASSWORD'])}@/{database['NAME']}"
    url += f"?host={quote(str(database['HOST']), safe='')}&port={database['PORT']}"
    ended = subprocess.run(
        [sys.executable, "-m", "tests.contrib.left_out", username, *addresses],
        cwd=REPOSITORY,
        env={
            **os.environ,
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "fairshare_web.settings",
            "FAIRSHARE_PLUGINS_LEFT_OUT": ",".join(f"apps.contrib.{name}" for name in plugins),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return {address: (status, body) for address, (status, body) in json.loads(ended.stdout).items()}


def main(username: str, *addresses: str) -> None:
    import django

    django.setup()
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.test import Client

    from apps.priorities.serving import store
    from tests.sign_in import sign_in

    call_command("check", stdout=sys.stderr)
    store.poll()
    client = sign_in(
        Client(SERVER_NAME="localhost", raise_request_exception=False), get_user_model().objects.get(username=username)
    )
    print(json.dumps({address: _answered(client.get(address)) for address in addresses}))


def _answered(answer: Any) -> tuple[int, str]:
    return answer.status_code, (b"".join(answer) if answer.streaming else answer.content).decode(errors="replace")


if __name__ == "__main__":
    main(*sys.argv[1:])
