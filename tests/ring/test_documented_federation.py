"""docs/federation.md, word for word: a project, its VO and a site on loopback, of which two run instances.

The project (a principal investigator) is nothing but a file on a web server. Each command is the line of the docs, with
our addresses, folders and fingerprints in place of its examples.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from apps.core.code_paths import REPOSITORY
from tests.ring.instances import Failed, Instances, Server
from tests.ring.peers import file_server
from tests.ring.ring import START

PI, VO, SITE = "pi", "vo-a", "site-b"
HOUR_S = 3_600
MINUTE = timedelta(minutes=1)
DOCS = (REPOSITORY / "docs/federation.md").read_text(encoding="utf-8")
SITE_TREE = """
root:
  name: grid
  children:
    - name: VO-A
      kind: vo
      shares: 40
      children: [{name: P-A1, shares: 1, children: [{name: anna}, {name: ben}]}]
    - {name: kim, shares: 60}
"""
NO_AGING = "settings: {window: {length_s: null, aging: none}}\n"  # sums are plain
PI_TREE = """
root:
  name: P-A1
  children: [{name: anna, shares: 60}, {name: cara, shares: 40}]
"""
pytestmark = [pytest.mark.django_db, pytest.mark.deep, pytest.mark.timeout(600)]


def documented(begins: str, replaced: Mapping[str, str]) -> list[str]:
    """The arguments of the command of the docs that begins so; each example in them is replaced, and must be there."""
    text = DOCS.replace("\\\n", " ")
    found = re.findall(r"manage\.py (" + re.escape(begins) + r"[^`\n]*(?:\n--[^`\n]*)?)", text)
    assert found, begins
    arguments = shlex.split(found[0])
    assert replaced.keys() <= set(arguments), (begins, arguments)
    return [replaced.get(each, each) for each in arguments]


@dataclass
class World:
    instances: Instances
    folder: Path
    port: int
    minutes: float = 0.0

    def run(self, name: str, begins: str, replaced: Mapping[str, str] | None = None, *more: str) -> str:
        arguments = [*documented(begins, replaced or {}), *more]
        found: str = self.instances[name].request("manage", arguments=arguments)
        return found

    def file(self, name: str, text: str = "") -> str:
        path = self.folder / name
        if text:
            path.write_text(text, encoding="utf-8")
        return str(path)

    def key_of(self, name: str) -> str:
        return self.run(name, "federation keys").split()[-1]

    def pass_minutes(self, n: float) -> None:
        self.minutes += n
        for each in (PI, VO, SITE):
            self.instances[each].set_clock(START + self.minutes * MINUTE)

    def ran(self, name: str, number: int, user: str, hours: float) -> None:
        """A job of one core that has ended by now."""
        end_s = (START + self.minutes * MINUTE).timestamp()
        begin_s = end_s - hours * HOUR_S
        assert self.instances[name].request("take", rows=[[number, user, begin_s, begin_s, end_s, 1, None]]) == 1

    def core_hours(self, name: str, policy: str) -> dict[str, float]:
        found = self.instances[name].request("recompute", policy=policy)
        return {entry: round(core_s / HOUR_S, 3) for entry, (_rank, core_s) in found.items()}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("files")
    (folder / "www").mkdir()
    with file_server(folder / "www") as port:
        instances = Instances((PI, VO, SITE), server, web=(VO, SITE), ports=[port])
        try:
            instances.start(START)
            yield World(instances, folder, port)
        finally:
            instances.close()


def make_policy(world: World, name: str, policy: str, text: str) -> None:
    file = world.file(f"{policy}.yaml", text)
    world.run(name, "import_policy", {"vo-a": policy, "vo-a.yaml": file})


def publish(world: World, name: str, policy: str) -> None:
    """For the first time; later the line of the cron job does it."""
    replaced = {"vo-a": policy, "/srv/www/fairshare": str(world.folder / "www")}
    assert "version 1 (new)" in world.run(name, "federation publish --to /srv/www/fairshare --policy", replaced)


def publish_again(world: World, name: str) -> str:
    """As the line of the cron job does."""
    (line,) = re.findall(r"manage\.py ([^'`\n]*)' > /etc/cron\.d", DOCS)
    arguments = [each.replace("/srv/www/fairshare", str(world.folder / "www")) for each in line.split()]
    found: str = world.instances[name].request("manage", arguments=arguments)
    return found


def mount(world: World, name: str, policy: str, entry: str, of: str, publication: str, *more: str) -> str:
    replaced = {
        "https://vo-a.example/vo-a.fairshare": f"http://127.0.0.1:{world.port}/{publication}.fairshare",
        "grid": policy,
        "/VO-A": entry,
        "51d0…": world.key_of(of),
    }
    return world.run(name, "federation mount", replaced, *more)


def subscribe(world: World, name: str, policy: str, entry: str, of: str) -> None:
    """After the other site has made a token and read out its fingerprint."""
    there = world.instances[of]
    replaced = {
        "https://site-b.example/api/v1/feeds/vo-a": f"{there.address}/api/v1/feeds/vo-a",
        "grid": policy,
        "/VO-A": entry,
        "site-b.token": world.file(f"{of}.token", make_token(world, of, reader=name)),
        "9c3e…": world.key_of(of),
    }
    world.run(name, "federation subscribe", replaced)


def make_token(world: World, name: str, *, reader: str) -> str:
    world.instances[name].request("manage", arguments=["create_user", "admin", "--admin"])
    policy, entry = ("vo-a", "/") if name == VO else ("grid", "/VO-A")
    replaced = {"NAME": "admin", "vo-a": policy, "/VO-A": entry, "site-b": reader}
    return world.run(name, "create_token", replaced).strip()


def test_the_documented_commands_literally(world: World) -> None:
    vo, site = world.instances[VO], world.instances[SITE]

    # The site has a revision 1 and usage before anything is mounted.
    make_policy(world, SITE, "grid", SITE_TREE + NO_AGING)
    rules = [{"path": "/VO-A", "user_pattern": "*", "suffix": "/P-A1/{user}"}, {"path": "/kim", "user_pattern": "kim"}]
    site.request("lead", policy="grid", rules=rules[::-1])
    world.ran(SITE, 1, "anna", 5)
    world.ran(SITE, 2, "kim", 3)

    # A VO as static files, in five commands.
    (tree,) = re.findall(r"```yaml\n(# vo-a\.yaml\n.*?)```", DOCS, re.DOTALL)
    make_policy(world, VO, "vo-a", tree + NO_AGING)
    publish(world, VO, "vo-a")
    people = [{"path": f"/P-A1/{name}", "user_pattern": name} for name in ("anna", "ben")]
    vo.request("lead", policy="vo-a", rules=people)
    world.ran(VO, 1, "ben", 20)

    # The project divides its own share: PI → VO. What the VO's members used isn't lost.
    make_policy(world, PI, "p-a1", PI_TREE)
    publish(world, PI, "p-a1")
    with pytest.raises(Failed, match="--keep-usage"):
        mount(world, VO, "vo-a", "/P-A1", PI, "p-a1")
    found = mount(world, VO, "vo-a", "/P-A1", PI, "p-a1", "--keep-usage")
    assert "1 account becomes unmapped, and 20.0 core-hours" in found
    assert "applied" in world.run(VO, "federation fetch")
    assert world.core_hours(VO, "vo-a") == {"P-A1": 20, "P-A2": 0, "P-A3": 0, "anna": 0, "cara": 0}
    assert "version 2 (new)" in publish_again(world, VO)

    # VO → site, after revision 1.
    mount(world, SITE, "grid", "/VO-A", VO, "vo-a")
    assert "applied" in world.run(SITE, "federation fetch")
    assert "fresh  version 2 of 2" in world.run(SITE, "federation status")
    assert world.core_hours(SITE, "grid") == {
        "VO-A": 5, "kim": 3, "P-A1": 5, "P-A2": 0, "P-A3": 0, "anna": 5, "cara": 0,
    }  # fmt: skip

    # Another division by the project is in the site's tree after two fetches.
    make_policy(world, PI, "p-a1", PI_TREE.replace("60", "62").replace("40}", "38}"))
    assert "version 2 (new)" in publish_again(world, PI)
    assert "applied" in world.run(VO, "federation fetch")
    publish_again(world, VO)
    assert "applied" in world.run(SITE, "federation fetch")
    assert "version 3 of 3" in world.run(SITE, "federation status")

    # Usage both ways.
    feeds_at = {VO: {"grid": "vo-a", "/VO-A": "/", "4096": "100"}, SITE: {"4096": "100"}}
    for name, replaced in feeds_at.items():
        assert "by token" in world.run(name, "federation feeds --policy", replaced)
    subscribe(world, VO, "vo-a", "/", SITE)
    subscribe(world, SITE, "grid", "/VO-A", VO)
    for name in (VO, SITE):
        world.run(name, "federation fetch")
    assert world.core_hours(VO, "vo-a")["anna"] == 5, "what she ran at the site"
    here = world.core_hours(SITE, "grid")
    assert (here["P-A1"], here["anna"]) == (25, 5), "with what counts at P-A1 at the VO"
    assert (here["VO-A"], here["kim"]) == (5, 3), "the first level is compared by local usage"

    # The site goes, and comes back with more usage: it is fetched when it asks, long before the next try.
    site.kill_web()
    for minutes in (6, 6):
        world.pass_minutes(minutes)
        assert "unreachable" in vo.request("look").values()
    assert world.core_hours(VO, "vo-a")["anna"] == 5, "nothing is lost meanwhile"
    world.pass_minutes(1)
    world.ran(SITE, 3, "anna", 7)
    site.launch_web()
    site.await_web()
    assert "unreachable" not in vo.request("look").values(), "the next try isn't due"
    assert "late" in world.run(VO, "federation status")
    world.run(SITE, "federation fetch")
    vo.request("work")
    assert "late" not in world.run(VO, "federation status")
    assert world.core_hours(VO, "vo-a")["anna"] == 12
    assert [each.request("failed_runs") for each in (vo, site)] == [[], []]
