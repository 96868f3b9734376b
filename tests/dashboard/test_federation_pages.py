"""Pages of the federation: the table of peers, the way to a mount, one mount, and where an entry's terms come from."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client

from apps.accounts.actor import SYSTEM
from apps.accounts.models import AuditEvent, User
from apps.federation.fetching import ask_for
from apps.federation.models import Fetch, Mount, Publication, PublishedDocument, Reading
from apps.policies.at_once import publish_operations
from apps.policies.models import Grant, Policy
from apps.policies.roles import VERBS_OF_ROLE
from apps.policies.trees import load_tree
from apps.runs.services import work_run_now
from apps.signing import SigningKey
from tests.api.conftest import AT, _fresh_process, computed, site  # noqa: F401 - fixtures
from tests.api.small_site import Site
from tests.federation.other_side import KEY, OtherSide, projects, serving

HOUR = timedelta(hours=1)
HTMX = {"HX-Request": "true"}
NEW = "/federation/mount/"
LIMITS = {
    "every": "5", "max_age": "24", "most_points": "5", "most_entries": "10000", "most_levels": "32",
    "stale_action": "keep",
}  # fmt: skip


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def text_of(answer: Any, status: int = 200) -> str:
    assert answer.status_code == status, answer.content[:2000]
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))
    return html.unescape(text).replace("\N{NO-BREAK SPACE}", " ")


def hidden(answer: Any) -> dict[str, str]:
    """What a form of the page carries along, as a browser would send it."""
    pairs = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', answer.content.decode())
    return {name: html.unescape(value) for name, value in pairs if name != "csrfmiddlewaretoken"}


@pytest.fixture
def side(settings: LazySettings) -> Iterator[OtherSide]:
    settings.FAIRSHARE_ISSUER = "site.example"
    with serving(OtherSide(at=AT)) as found:
        settings.FAIRSHARE_OUTBOUND_ALLOW = [f"127.0.0.1:{found.port}"]
        found.publish(issuers=("project.example",))
        yield found


@pytest.fixture
def place(computed: Site) -> Site:  # noqa: F811
    """A site with an entry for VO-A."""
    add = {"op": "add", "parent": "/", "name": "vo-a", "kind": "vo", "shares": 25}
    publish_operations(policy_slug="grid", operations=[add], reason="granted", at=AT, actor=SYSTEM)
    return computed


@pytest.fixture
def admin(place: Site) -> Client:
    return signed_in(place.admin)


@pytest.fixture
def mount(place: Site, side: OtherSide, admin: Client) -> Mount:
    """Mounted by the pages, and looked at once."""
    walk(admin, side)
    made = Mount.objects.get()
    work_run_now(ask_for(made, at=AT).pk)
    made.refresh_from_db()
    return made


def walk(client: Client, side: OtherSide, **last: str) -> Any:
    """Every step of the way, each form sent as the page before wrote it."""
    seen = client.post(NEW, {"step": "look", "policy": "grid", "url": side.url, "token": "s3cret"})
    chosen = client.post(NEW, {**hidden(seen), "step": "key", "told": KEY.public.fingerprint})
    given = {**hidden(chosen), **LIMITS, "entry": "/vo-a", "reason": "We granted it.", "step": "place"}
    return client.post(NEW, {**given, **last})


def path_of(mount: Mount) -> str:
    return f"/federation/mounts/{mount.pk}/"


def test_without_peers_the_page_says_what_it_is_and_where_to_begin(admin: Client) -> None:
    text = text_of(admin.get("/federation/"))
    assert "Nothing of others is mounted here" in text
    assert "Mount their policy" in text
    assert "Publish yours" in text
    assert "data-poll" not in admin.get("/federation/").content.decode()


def test_the_way_to_a_mount_from_its_address_to_its_first_document(place: Site, side: OtherSide, admin: Client) -> None:
    assert "Where does it lie?" in text_of(admin.get(NEW))
    seen = admin.post(NEW, {"step": "look", "policy": "grid", "url": side.url, "token": "s3cret"})
    text = text_of(seen)
    for part in ("Is this really vo-a.example?", "P-A1", "5 of 5 entries", "Levels 2", "project.example"):
        assert part in text, part
    assert " ".join(KEY.public.groups) in text
    assert "s3cret" not in seen.content.decode(), "the token goes from step to step sealed"
    assert side.asked[-1]["authorization"] == "Bearer s3cret"
    chosen = admin.post(NEW, {**hidden(seen), "step": "key", "told": " ".join(KEY.public.groups).upper()})
    text = text_of(chosen)
    assert "Where does vo-a.example go, and how far?" in text
    assert '<option value="/vo-a">' in chosen.content.decode()
    given = {**hidden(chosen), **LIMITS, "entry": "/vo-a", "reason": "We granted it.", "step": "place"}
    done = admin.post(NEW, {**given, "most_points": "7.5", "every": "10"})
    made = Mount.objects.get()
    assert (done.status_code, done["Location"]) == (303, path_of(made))
    assert (made.most_points, made.every_s, made.fingerprint) == (7.5, 600, KEY.public.fingerprint)
    assert made.sealed_token
    assert "being looked at" in text_of(admin.get(path_of(made)))
    work_run_now(ask_for(made, at=AT).pk)
    assert "Version 1 of vo-a.example is in force, confirmed 0 s ago" in text_of(admin.get(path_of(made)))
    tree = load_tree(Policy.objects.get(slug="grid"))
    assert tree.index_of_path("/vo-a/P-A1") is not None


def test_a_key_that_was_not_compared_or_differs_goes_no_further(place: Site, side: OtherSide, admin: Client) -> None:
    seen = admin.post(NEW, {"step": "look", "policy": "grid", "url": side.url})
    carried = {**hidden(seen), "step": "key"}
    assert "tick that you compared it" in text_of(admin.post(NEW, carried), 422)
    groups = KEY.public.groups
    wrong = " ".join([*groups[:4], "0000", *groups[5:]])
    answer = admin.post(NEW, {**carried, "told": wrong})
    assert f"Group 5 differs: you were told 0000, the document has {groups[4]}" in text_of(answer, 422)
    assert wrong in html.unescape(answer.content.decode()), "what was typed stays"
    assert "64 hexadecimal digits" in text_of(admin.post(NEW, {**carried, "told": "abc"}), 422)
    assert "Where does vo-a.example go" in text_of(admin.post(NEW, {**carried, "compared": "on"}))
    side.key = SigningKey(bytes(range(1, 33)))
    side.publish()
    assert "has changed since you saw it" in text_of(admin.post(NEW, {**carried, "compared": "on"}), 422)
    assert not Mount.objects.exists()


def test_an_address_that_brings_no_document_is_told_at_its_field(place: Site, side: OtherSide, admin: Client) -> None:
    given = {"step": "look", "policy": "grid", "url": side.url, "token": "s3cret"}
    side.status = 500
    answer = admin.post(NEW, given)
    assert "answers with status 500" in text_of(answer, 422)
    assert 'id="id_url_error"' in answer.content.decode()
    assert side.url in answer.content.decode()
    assert hidden(answer)["sealed"], "the token needn't be typed again"
    side.status, side.serves = 200, b"{}\n"
    text_of(admin.post(NEW, given), 422)
    assert "169.254" not in text_of(admin.post(NEW, {**given, "url": "http://127.0.0.1:1/x"}), 422)
    assert "This field is required" in text_of(admin.post(NEW, {**given, "url": ""}), 422)


def test_each_error_of_the_place_is_at_its_field_and_the_input_stays(
    place: Site, side: OtherSide, admin: Client
) -> None:
    answer = walk(admin, side, entry="/nowhere", most_points="250", reason="Because of it")
    text = text_of(answer, 422)
    assert 'value="/nowhere"' in answer.content.decode()
    assert 'value="Because of it"' in answer.content.decode()
    assert "There is no entry" in text or "from 0 to 100" in text
    assert "from 0 to 100" in text_of(walk(admin, side, most_points="250"), 422)
    assert "There is no entry '/nowhere'" in text_of(walk(admin, side, entry="/nowhere"), 422)
    assert "This field is required" in text_of(walk(admin, side, reason=""), 422)
    assert not Mount.objects.exists()


def test_the_table_says_who_how_old_and_what_it_comes_to(mount: Mount, admin: Client) -> None:
    text = text_of(admin.get("/federation/"))
    assert "What others tell us is in order" in text
    assert "We mount 1 subtree, take usage of 0 sites, 0 read ours." in text
    for part in ("vo-a.example", "fresh", "we mount", "/vo-a", "0 s of 24 h", "20.0 %"):
        assert part in text, part
    assert f"{mount.fingerprint[:4]} {mount.fingerprint[4:8]}" in text
    assert 'hx-trigger="every 30s"' in admin.get("/federation/").content.decode()
    assert "vo-a.example" not in text_of(admin.get("/federation/?direction=usage"))


def test_who_reads_ours_stands_beside_whom_we_read(mount: Mount, admin: Client, place: Site) -> None:
    told = Publication.objects.create(policy=place.policy, entry_uid=place.uid("/physics"), name="physics", made_at=AT)
    for version in (1, 2):
        PublishedDocument.objects.create(
            publication=told, version=version, digest="d", content_digest="c", revision_number=1, n_entries=3,
            issued_at=AT, expires_at=AT + HOUR, key_fingerprint="ab" * 32, data=b"",
        )  # fmt: skip
    Reading.objects.create(publication=told, reader="nsc.example", version=1, at=AT - HOUR)
    text = text_of(admin.get("/federation/"))
    for part in ("they read ours", "nsc.example", "behind", "ours is 2", "abab abab", "1 reads ours"):
        assert part in text, part
    assert text_of(admin.get("/federation/?direction=reads")).count("we mount") == 1, "the choice alone"


def test_a_held_version_is_told_with_its_review_and_its_difference(
    mount: Mount, side: OtherSide, admin: Client
) -> None:
    side.publish(projects(90))
    work_run_now(ask_for(mount, at=AT).pk)
    page = admin.get(path_of(mount))
    text = text_of(page)
    assert "Version 2 waits for a decision." in text
    mount.refresh_from_db()
    assert mount.held is not None
    assert f'href="/changes/{mount.held.pk}/"' in page.content.decode()
    assert "1 of 1 needs a look" in text_of(admin.get("/federation/"))
    text = text_of(admin.get(f"{path_of(mount)}difference/"))
    assert "What version 2 would change" in text
    assert re.search(r"P-A1 vo-a shares 50 90", text), text
    # 90 of 140 shares of theirs are 64.3 %, and a fifth of our tree is the mount's; in our tree it still has 50 of 100.
    assert re.search(r"/P-A1 90 64\.3 % 12\.9 % 10\.0 % differs", text), text


def test_what_landed_is_in_our_tree_as_the_document_says(mount: Mount, admin: Client) -> None:
    text = text_of(admin.get(f"{path_of(mount)}difference/"))
    assert "All 4 entries are in our tree as it says" in text
    assert "Nothing: what is in force is what the newest document says." in text


def test_what_is_done_about_it_is_done_once_with_a_reason_and_said(mount: Mount, admin: Client) -> None:
    act = f"{path_of(mount)}act/"
    assert "This field is required" in text_of(admin.post(act, {"step": "pause", "reason": ""}), 422)
    states = [("pause", "paused"), ("resume", "active"), ("freeze", "frozen"), ("thaw", "active")]
    for step, state in states:
        answer = admin.post(act, {"step": step, "reason": f"because of {step}"})
        assert (answer.status_code, answer["Location"]) == (303, path_of(mount))
        mount.refresh_from_db()
        assert mount.state == state
        assert AuditEvent.objects.filter(verb__startswith="federation.", reason=f"because of {step}").exists()
    assert "A look is asked for." in text_of(admin.post(act, {"step": "fetch"}, follow=True))
    given = {"step": "settings", **LIMITS, "max_age": "0.5", "stale_action": "local", "reason": "nearer"}
    admin.post(act, given)
    mount.refresh_from_db()
    assert (mount.max_age_s, mount.stale_action) == (1800, "local")
    answer = admin.post(act, {**given, "every": "0"})
    assert "from 10 to" in text_of(answer, 422)
    assert admin.post(act, {"step": "nonsense"}).status_code == 422


def test_a_new_key_is_trusted_only_whole_and_with_a_reason(mount: Mount, admin: Client) -> None:
    act, other = f"{path_of(mount)}act/", SigningKey(bytes(range(1, 33))).public
    assert "64 hexadecimal digits" in text_of(admin.post(act, {"step": "trust", "told": "12", "reason": "x"}), 422)
    answer = admin.post(act, {"step": "trust", "told": KEY.public.fingerprint, "reason": "x"})
    assert "trusted already" in text_of(answer, 409)
    admin.post(act, {"step": "trust", "told": " ".join(other.groups), "reason": "They phoned."})
    mount.refresh_from_db()
    assert mount.fingerprint == other.fingerprint


def test_unmounting_says_what_happens_and_leaves_the_entries(mount: Mount, admin: Client) -> None:
    act = f"{path_of(mount)}act/"
    assert "The 4 entries below stay as they are now and become yours" in text_of(admin.get(path_of(mount)))
    assert "This field is required" in text_of(admin.post(act, {"step": "unmount", "reason": "over"}), 422)
    answer = admin.post(act, {"step": "unmount", "reason": "over", "sure": "on"})
    assert answer["Location"] == "/federation/"
    assert not Mount.objects.exists()
    tree = load_tree(Policy.objects.get(slug="grid"))
    assert tree.index_of_path("/vo-a/P-A1") is not None
    assert not tree.mount


def test_looks_are_paged_and_told_in_words(mount: Mount, admin: Client) -> None:
    for n in range(60):
        Fetch.objects.create(
            mount=mount, at=AT - n * HOUR, outcome="unreachable" if n == 30 else "same", version=1,
            message="It didn’t answer within 60 s." if n == 30 else "", n_bytes=1234, duration_s=0.25,
        )  # fmt: skip
    page = admin.get(f"{path_of(mount)}looks/")
    text = text_of(page)
    assert "Nothing new, version 1" in text
    assert "It didn’t answer within 60 s." in text
    older = re.search(r"\?before=\d+", page.content.decode())
    assert older is not None
    last = admin.get(f"{path_of(mount)}looks/{older[0]}")
    assert "Put in force, version 1" in text_of(last)
    assert 'href="?before=' not in last.content.decode()
    assert text_of(admin.get(path_of(mount))).count("Nothing new, version 1") == 8


def test_a_part_that_is_polled_leads_to_its_page(mount: Mount, admin: Client) -> None:
    assert admin.get(f"{path_of(mount)}_now")["Location"] == path_of(mount)
    assert "Version 1 of vo-a.example" in text_of(admin.get(f"{path_of(mount)}_now", headers=HTMX))
    assert admin.get("/federation/_peers")["Location"] == "/federation/"


def test_who_may_mount_somewhere_sees_those_mounts_alone(mount: Mount, place: Site) -> None:
    pia = signed_in(place.pia)
    assert pia.get("/federation/").status_code == 403
    assert "Federation" not in text_of(pia.get("/policy/grid/"))
    grant = Grant.objects.create(
        policy=place.policy, entry_uid=place.uid("/physics"), user=place.pia, role="admin",
        verbs=list(VERBS_OF_ROLE["admin"]), created_at=AT, reason="test",
    )  # fmt: skip
    assert "Nothing of others is mounted here" in text_of(pia.get("/federation/"))
    assert pia.get(path_of(mount)).status_code == 404
    assert "Federation" in text_of(pia.get("/policy/grid/"))
    grant.entry_uid = place.uid("/vo-a")  # below it she may mount; it is mounted itself by who decides about it
    grant.save()
    assert pia.get(path_of(mount)).status_code == 404
    assert "Nothing of others is mounted here" in text_of(pia.get("/federation/"))
    grant.entry_uid = place.uid("/")
    grant.save()
    assert "vo-a.example" in text_of(pia.get("/federation/"))
    assert "Version 1 of vo-a.example" in text_of(pia.get(path_of(mount)))


def test_the_tree_and_its_entries_say_whose_terms_they_are(mount: Mount, admin: Client, place: Site) -> None:
    Mount.objects.filter(pk=mount.pk).update(good_at=AT - timedelta(minutes=3), n_failed=0)
    tree = admin.get("/policy/grid/")
    assert 'title="from vo-a.example, version 1, 3 min old"' in tree.content.decode().replace("\N{NO-BREAK SPACE}", " ")
    for path in ("/vo-a", "/vo-a/P-A1", "/vo-a/P-A1/anna"):
        page = admin.get(f"/policy/grid/n/{place.uid(path)}/x/", follow=True)
        assert "from vo-a.example, version 1, 3 min old" in text_of(page), path
        assert f'href="{path_of(mount)}"' in page.content.decode(), path
    assert "from vo-a.example" not in text_of(admin.get(f"/policy/grid/n/{place.uid('/physics')}/physics/"))
    panel = admin.get(f"/policy/grid/_panel?entry={place.uid('/vo-a/P-A1')}", headers=HTMX)
    assert "from vo-a.example, version 1, 3 min old" in text_of(panel)


def test_what_is_too_old_is_told_with_what_holds_meanwhile(mount: Mount, admin: Client, place: Site) -> None:
    Mount.objects.filter(pk=mount.pk).update(good_at=AT - timedelta(hours=30), stale_action="local")
    assert "vo-a.example, stale" in text_of(admin.get("/policy/grid/"))
    page = text_of(admin.get(f"/policy/grid/n/{place.uid('/vo-a/P-A1')}/p-a1/"))
    assert "from vo-a.example, version 1, 30 h old stale Its entries are compared by this site’s usage alone" in page


def test_a_member_reads_where_terms_come_from_and_gets_no_link_that_fails(mount: Mount, place: Site) -> None:
    Policy.objects.filter(slug="grid").update(visibility=Policy.Visibility.TREE)
    page = signed_in(place.alice).get(f"/policy/grid/n/{place.uid('/vo-a/P-A1')}/p-a1/")
    assert "from vo-a.example, version 1" in text_of(page)
    assert path_of(mount) not in page.content.decode()


def test_the_tree_by_rest_tells_of_its_mounts(mount: Mount, admin: Client) -> None:
    Mount.objects.filter(pk=mount.pk).update(good_at=AT - timedelta(minutes=3))
    told = admin.get("/api/v1/policies/grid/tree?depth=2").json()
    found = {each["path"]: each["mount"] for each in told["children"]}
    assert found["/vo-a"] == {"issuer": "vo-a.example", "publication": "vo-a", "version": 1, "age_s": 180.0}
    assert found["/physics"] is None
    past = admin.get("/api/v1/policies/grid/tree?at=4").json()
    of_then = {each["path"]: each["mount"] for each in past["children"]}
    assert of_then["/vo-a"] == {"issuer": "vo-a.example", "publication": "vo-a", "version": None, "age_s": None}
