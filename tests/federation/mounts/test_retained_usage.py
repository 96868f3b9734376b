"""Entries that a mounted document removes: the usage of their accounts is named beforehand, and kept where wanted."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command

from apps.accounts.actor import COMMAND
from apps.accounts.models import Account, User
from apps.accounts.services import NewToken, make_token
from apps.federation.fetch_schedule import request_fetch
from apps.federation.models import Mount
from apps.federation.mounts.services import preview
from apps.mapping.attachments import key_of
from apps.mapping.rules.rule_set import load_rule_set
from apps.pages.changes.review.reviewed_change import get_review_page
from apps.policies.models import ChangeSet
from apps.policies.services import publish_change_set
from apps.policies.tree.columns import Node
from apps.policies.tree.stored import load_tree
from apps.priorities.serving import store
from apps.runs.services import work_run_now
from tests.federation.other_side import KEY, P1, ROOT, OtherSide, serving
from tests.federation.worlds import mount_side
from tests.pages.federation.mounted import LIMITS, NEW, signed_in
from tests.pages.page import read
from tests.priority_site import AS_OF, Site
from tests.rest_site import Caller

ALICE = [Node(P1, ROOT, "alice", "user", 1.0, is_group=False)]


@pytest.fixture
def pi(two_projects: Site, settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[OtherSide]:
    """The leader of physics publishes P-A1 … in place of our own alice (40 core-hours) and bob (15)."""
    monkeypatch.setenv("FAIRSHARE_CLOCK", AS_OF.isoformat())
    two_projects.map(
        *(two_projects.rule(f"/physics/{name}", user_pattern=name, suffix="") for name in ("alice", "bob"))
    )
    settings.FAIRSHARE_ISSUER = "site.example"
    with serving(OtherSide(at=AS_OF)) as side:
        settings.FAIRSHARE_OUTBOUND_ALLOW = [f"127.0.0.1:{side.port}"]
        side.publish()
        yield side


def mounted(pi: OtherSide, **settings: Any) -> Mount:
    return mount_side(pi, "/physics", settings=settings, at=AS_OF)


def fetch(mount: Mount) -> str:
    outcome: str = work_run_now(request_fetch(mount, at=AS_OF).pk).result["outcome"]
    mount.refresh_from_db()
    return outcome


def entry_of(user: str, site: Site) -> str | None:
    site.policy.refresh_from_db()
    tree = load_tree(site.policy)
    entry = load_rule_set(site.policy, tree).on(tree).resolve(key_of(Account.objects.get(user_name=user))).entry
    return None if entry < 0 else tree.path(entry)


def usage_of(path: str, site: Site) -> float:
    """Core-hours of an entry, as the next recompute has them."""
    site.recompute()
    snapshot = store.newest("grid")
    return float(snapshot.values.usage[snapshot.tree.index_of_path(path) or 0]) / 3_600


def test_the_preview_lists_usage_that_would_become_unmapped(pi: OtherSide) -> None:
    found = preview(url=pi.url, policy_slug="grid", entry="/physics", at=AS_OF, actor=COMMAND).unmapped
    assert found is not None
    assert (found.n_accounts, found.core_s / 3_600, found.n_peer_entries) == (2, 55, 0)
    assert preview(url=pi.url, policy_slug="grid", at=AS_OF, actor=COMMAND).unmapped is None, "at no entry yet"


def test_removed_entries_without_accounts_lose_no_usage(pi: OtherSide, two_projects: Site) -> None:
    two_projects.map(two_projects.rule(suffix="/{group}/{user}"))
    found = preview(url=pi.url, policy_slug="grid", entry="/physics", at=AS_OF, actor=COMMAND).unmapped
    assert not found, "another rule keeps them at /physics"


def test_usage_of_removed_entries_is_unmapped_by_default(pi: OtherSide, two_projects: Site) -> None:
    assert fetch(mounted(pi)) == "applied"
    assert entry_of("alice", two_projects) is None
    assert usage_of("/physics", two_projects) == 0


def test_retained_usage_counts_at_the_mount(pi: OtherSide, two_projects: Site) -> None:
    assert fetch(mounted(pi, keep_usage=True)) == "applied"
    assert [entry_of(user, two_projects) for user in ("alice", "bob")] == ["/physics", "/physics"]
    assert usage_of("/physics", two_projects) == 55


def test_a_reviewed_later_version_retains_usage_of_removed_entries(pi: OtherSide, two_projects: Site) -> None:
    mount = mounted(pi, keep_usage=True)
    fetch(mount)
    two_projects.policy.refresh_from_db()
    two_projects.map(two_projects.rule("/physics/P-A1/anna", user_pattern="carol", suffix=""))
    assert entry_of("carol", two_projects) == "/physics/P-A1/anna"
    pi.publish(ALICE)
    assert fetch(mount) == "held"
    assert mount.held is not None
    check = unmapped_check(mount.held)
    assert (check.state, "45" in check.text, "/physics" in check.text) == ("ok", True, True)
    publish_change_set(id=mount.held.pk, version=mount.held.version, at=AS_OF, actor=COMMAND)
    assert entry_of("carol", two_projects) == "/physics"


def test_the_review_of_a_held_version_warns(pi: OtherSide, two_projects: Site) -> None:
    mount = mounted(pi, most_entries=1)
    assert fetch(mount) == "held"
    assert mount.held is not None
    check = unmapped_check(mount.held)
    assert (check.state, "55" in check.text) == ("warn", True)


def unmapped_check(change_set: ChangeSet) -> Any:
    page = get_review_page(id=change_set.pk, actor=COMMAND, at=AS_OF)
    return next(check for check in page.checks if check.code == "unmapped")


def command(pi: OtherSide, *more: str) -> str:
    out = StringIO()
    given = ("mount", pi.url, "--policy", "grid", "--entry", "/physics", "--yes", *more)
    call_command("federation", *given, stdout=out)
    return out.getvalue()


def test_the_command_confirms_before_usage_becomes_unmapped(pi: OtherSide, two_projects: Site) -> None:
    with pytest.raises(CommandError, match="--keep-usage"):
        command(pi)
    assert not Mount.objects.exists()
    assert "2 accounts become unmapped, and 55.0 core-hours" in command(pi, "--keep-usage")
    assert Mount.objects.get().keep_usage


def test_the_command_drops_usage_on_request(pi: OtherSide) -> None:
    command(pi, "--drop-usage")
    assert not Mount.objects.get().keep_usage


def test_the_page_offers_to_retain_usage_before_mounting(pi: OtherSide, two_projects: Site) -> None:
    browser = signed_in(User.objects.create_superuser("eva", "eva@example.org", "a long pass phrase"))
    head = {"issuer": "vo-a.example", "publication": "vo-a", "version": 1, "n_entries": 5}
    carried = {"step": "place", "policy": "grid", "url": pi.url, "fingerprint": KEY.public.fingerprint, **head}
    given = {**carried, **LIMITS, "entry": "/physics", "reason": "Physics divides its own share."}
    page = read(browser.post(NEW, given))
    assert float(page.item("unmapped-usage").attributes["data-value"] or "") == 55 * 3_600
    assert not Mount.objects.exists()
    assert "checked" in page.one("input[name=keep_usage]").attributes
    answer = browser.post(NEW, {**given, "usage_seen": "/physics", "keep_usage": "on"})
    assert answer.status_code == 303
    assert Mount.objects.get().keep_usage


def test_rest_previews_and_retains_usage_on_request(pi: OtherSide, two_projects: Site) -> None:
    eva = User.objects.create_superuser("eva", "eva@example.org", "a long pass phrase")
    _, token = make_token(NewToken(name="t", scopes=["admin"], user=eva), at=AS_OF, actor=COMMAND)
    caller = Caller(token=token)
    asked = {"policy": "grid", "url": pi.url}
    assert caller.post("federation/mounts/preview", asked).json()["unmapped"] is None
    found = caller.post("federation/mounts/preview", {**asked, "entry": "/physics"}).json()["unmapped"]
    assert found == {"n_accounts": 2, "core_s": 55 * 3_600, "n_peer_entries": 0}
    made = mounted(pi)
    assert caller.get(f"federation/mounts/{made.pk}").json()["keep_usage"] is False
    changed = caller.patch(f"federation/mounts/{made.pk}", {"keep_usage": True, "reason": "It is theirs."})
    assert (changed.status_code, changed.json()["keep_usage"]) == (200, True)
    fetch(made)
    assert entry_of("alice", two_projects) == "/physics"
