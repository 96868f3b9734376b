"""`python -m tests.cli.release_fixture`: makes a small instance of this build, for the upgrade tests of later ones.

`releases/<version>.backup` is its backup, with keys that are used nowhere else; `<version>.json` is what it answered at
a fixed instant; `<version>.agent.pyz.gz` is its agent, which later servers have to work with. Once the version is
published, they are never made again.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

FOLDER = Path(__file__).parent / "releases"
AGENT = ".agent.pyz.gz"
ALL = "/api/v1/policies/grid/priorities/all"


def main() -> int:
    from apps.core.release import __version__

    target = FOLDER / f"{__version__}.backup"
    if target.exists():
        print(f"{target} is there already: a fixture of a release is made once.", file=sys.stderr)
        return 1
    var = Path(tempfile.mkdtemp(prefix="fairshare-fixture-"))
    os.environ |= {"FAIRSHARE_VAR": str(var), "FAIRSHARE_ISSUER": "hpc.example.org", "FAIRSHARE_TESTING": "1"}
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")
    os.environ.pop("DATABASE_URL", None)
    from apps.cli.stack.postgres import PostgresServer

    server = PostgresServer(var)
    try:
        server.start()
        _make(target)
    finally:
        server.stop()
        shutil.rmtree(var, ignore_errors=True)
    print(f"{target}: {target.stat().st_size:,} bytes")
    return 0


def _make(target: Path) -> None:
    import django

    django.setup()
    from django.core.management import call_command
    from django.test import Client

    from agent.build import build
    from apps.accounts.actor import COMMAND
    from apps.accounts.models import User
    from apps.cli.backup.making import make_backup
    from apps.federation.publishing import make_publication
    from tests.priority_site import AS_OF, make_month_of_days

    now = AS_OF + timedelta(seconds=2)
    os.environ["FAIRSHARE_CLOCK"] = now.isoformat()
    call_command("migrate", interactive=False, verbosity=0)
    User.objects.create_superuser("root")
    site = make_month_of_days()
    site.recompute()
    make_publication(policy_slug="grid", entry="/", name="grid", at=now, actor=COMMAND)
    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.get(username="root"))
    response = client.get(ALL)
    assert response.status_code == 200, response.content
    content = b"".join(response) if response.streaming else response.content
    target.parent.mkdir(exist_ok=True)
    make_backup(target, at=now)
    target.with_suffix(AGENT).write_bytes(gzip.compress(build(), mtime=0))
    recorded = {"at": now.isoformat(), "path": ALL, "lines": [json.loads(line) for line in content.splitlines()]}
    target.with_suffix(".json").write_text(f"{json.dumps(recorded, indent=1)}\n", encoding="ascii")


if __name__ == "__main__":
    sys.exit(main())
