"""Blocks of ```sh in guides about several sites and about pipelines do what the page says."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.accounts.models import User
from apps.core.code_paths import REPOSITORY
from apps.federation.models import Mount, Subscription, UsageFeed
from apps.policies.models import ChangeSet, Policy
from apps.policies.services import make_policy, publish_document
from tests.docsite.consoles import manage
from tests.federation.conftest import VO
from tests.federation.other_side import KEY, OtherFeed, OtherSide, serving
from tests.federation.worlds import add_entry
from tests.instants import AT
from tests.material import missing

_SH = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, pattern: re.Pattern[str] = _SH) -> list[str]:
    return pattern.findall((REPOSITORY / "docs" / page).read_text(encoding="utf-8"))


def run(block: str, settings: dict[str, str], replaced: dict[str, str]) -> str:
    """What the lines of manage.py print; `replaced` are the reader's addresses and files, by the replaced text."""
    texts = []
    for line in re.sub(r" \\\n\s*", " ", block).splitlines():
        for shown, real in replaced.items():
            line = line.replace(shown, real)
        words = shlex.split(line, comments=True)
        if words[:2] == [".venv/bin/python", "manage.py"]:
            texts.append(manage(words[2:], with_errors=False, status=0, **settings))
    return "".join(texts)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())


@pytest.fixture
def site(transactional_db: None) -> Policy:
    """A site whose policy has an entry for the VO."""
    make_policy(slug="grid", name="Grid", at=AT, actor=COMMAND)
    publish_document(policy_slug="grid", document=VO, reason="The start.", at=AT, actor=COMMAND)
    add_entry("here")
    return Policy.objects.get(slug="grid")


@pytest.mark.django_db(transaction=True)
def test_a_vo_as_static_files_in_five_commands(tmp_path: Path) -> None:
    tree = tmp_path / "vo-a.yaml"
    tree.write_text(next(each for each in blocks("federation.md", _YAML) if "vo-a.yaml" in each))
    replaced = {"/srv/www/fairshare": str(tmp_path), " vo-a.yaml": f" {tree}"}
    done = run(blocks("federation.md")[0], {"FAIRSHARE_ISSUER": "vo-a.example"}, replaced)
    assert (tmp_path / "vo-a.fairshare").read_bytes()
    assert re.search(r"\b[0-9a-f]{64}\b", done), "the fingerprint to send to the sites"


def test_mounting_takes_an_address_and_a_fingerprint(site: Policy) -> None:
    with serving(OtherSide(at=AT)) as side:
        settings = {"FAIRSHARE_ISSUER": "site-b.example", "FAIRSHARE_OUTBOUND_ALLOW": f"127.0.0.1:{side.port}"}
        side.publish()
        found = {"https://vo-a.example/vo-a.fairshare": side.url, "51d0…": KEY.public.fingerprint, "/VO-A": "/here"}
        done = run(next(each for each in blocks("federation.md") if "federation mount" in each), settings, found)
    assert (Mount.objects.get().applied_version, "fresh" in done) == (1, True)


def test_one_site_publishes_a_feed_and_another_subscribes(site: Policy, tmp_path: Path) -> None:
    token = tmp_path / "site-b.token"
    token.write_text("their-secret\n")
    with serving(OtherFeed(at=AT, name="site-c.example")) as feed:
        settings: dict[str, Any] = {
            "FAIRSHARE_ISSUER": "site-b.example",
            "FAIRSHARE_OUTBOUND_ALLOW": f"127.0.0.1:{feed.port}",
        }
        publish = ["federation", "publish", "--to", str(tmp_path), "--open", "--policy", "grid", "--entry", "/VO-A"]
        manage([*publish, "--name", "vo-a"], status=0, **settings)
        feed.root = site.publications.get().entry_uid
        feed.tell({})
        found = {
            "https://site-b.example/api/v1/feeds/vo-a": feed.url,
            "9c3e…": KEY.public.fingerprint,
            "site-b.token": str(token),
        }
        run(next(each for each in blocks("federation.md") if "federation subscribe" in each), settings, found)
    assert (UsageFeed.objects.get().capacity_cores, Subscription.objects.count()) == (4096, 1)


@pytest.mark.django_db(transaction=True)
def test_a_pipeline_creates_reviews_and_proposes_a_policy(live_server: Any, tmp_path: Path) -> None:
    for program in ("curl", "jq", "git"):
        if not shutil.which(program):
            missing(f"{program} isn't here", f"apt-get install {program}")
    User.objects.create_superuser("eva")
    words = ["create_token", "--user", "eva", "--scope", "policies:read", "--scope", "policies:write"]
    token = manage(words, with_errors=False, status=0).strip()
    begin, review, command, deliver = blocks("policies-as-code.md")
    begin = begin.replace("https://fairshare.example", live_server.url)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "FAIRSHARE_TOKEN": token}
    names = [f"GIT_{who}_{what}=x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")]
    environment |= dict(each.split("=") for each in names)

    def bash(script: str) -> str:
        done = subprocess.run(
            ["bash", "-euc", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    bash(begin)
    variables = "\n".join(line for line in begin.splitlines() if re.match(r"\w+=", line))
    tree = tmp_path / "physics.yaml"
    alice = "children:\n    - name: alice\n      kind: user\n      shares: 2"
    tree.write_text(tree.read_text().replace("children: []", alice))
    body = json.loads(bash(f"{variables}\n{review}"))
    assert (body["is_same"], body["counts"]["added"]) == (False, 1)
    manage(shlex.split(command.replace("physics.yaml", str(tree)))[1:], status=3)
    bash("git init -q . && git add physics.yaml && git commit -qm 'A user'")
    bash(f"{variables}\n{deliver}")
    assert ChangeSet.objects.get(policy__slug="physics", state="proposed").operations
