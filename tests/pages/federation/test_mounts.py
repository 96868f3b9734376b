"""Pages of the federation: the table of peers, the way to a mount, and one mount."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client

from apps.accounts.models import AuditEvent
from apps.core.signing import SigningKey
from apps.federation.fetch_schedule import request_fetch
from apps.federation.models import Fetch, Mount, Publication, PublishedDocument, Reading
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.runs.services import work_run_now
from tests.federation.other_side import KEY, OtherSide, projects, serving
from tests.grants import make_grant
from tests.instants import AT
from tests.pages.federation.mounted import LIMITS, NEW, hidden, new_side, signed_in, walk
from tests.pages.page import Page, read, text_of
from tests.rest_site import computed, site  # noqa: F401 - fixtures
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

HOUR = timedelta(hours=1)
HTMX = {"HX-Request": "true"}


def codes_of(answer: Any, form: str = "form") -> dict[str, set[str]]:
    """What a refused form says is wrong: by field, "__all__" for the whole of it, the codes of its errors."""
    assert answer.status_code in (403, 409, 422), answer.status_code
    found = answer.context[form].errors.as_data()
    page = Page(answer.content.decode())
    for field in set(found) - {"__all__", "sure"}:
        assert page.text(f"#{answer.context[form][field].auto_id}_error"), field
    return {field: {error.code for error in errors} for field, errors in found.items()}


def step_of(answer: Any) -> str:
    """The step of the way to a mount that a page asks for."""
    return read(answer).item("mount-step").attributes["data-key"] or ""


def verdict(answer: Any) -> tuple[str | None, str | None]:
    """What the page of a mount says first: its key, and the current version."""
    title = read(answer).one("#verdict")
    return title.attributes["data-key"], title.attributes["data-value"]


def origin(answer: Any) -> str:
    """Where an entry's terms come from, as its page says it."""
    found = read(answer).item("origin")
    assert found.attributes["data-value"] == "1", "the version"
    return text_of(found)


def looks_of(page: Page) -> list[tuple[str | None, str | None]]:
    return [(each.attributes["data-state"], each.attributes["data-value"]) for each in page.items("fetch")]


@pytest.fixture
def side(settings: LazySettings) -> Iterator[OtherSide]:
    settings.FAIRSHARE_ISSUER = "site.example"
    with serving(new_side(AT)) as found:
        settings.FAIRSHARE_OUTBOUND_ALLOW = [f"127.0.0.1:{found.port}"]
        yield found


@pytest.fixture
def place(placed_site: Site, computed: Site) -> Site:  # noqa: F811
    """A site with an entry for VO-A."""
    return computed


@pytest.fixture
def admin(place: Site) -> Client:
    return signed_in(place.admin)


@pytest.fixture
def mount(mounted_site: Site, place: Site, side: OtherSide) -> Mount:
    """Mounted by the pages, and fetched once."""
    Mount.objects.update(url=side.url)
    return Mount.objects.select_related("policy").get()


def path_of(mount: Mount) -> str:
    return f"/federation/mounts/{mount.pk}/"


def test_without_peers_the_page_explains_itself_and_the_first_step(admin: Client) -> None:
    page = read(admin.get("/federation/"))
    assert page.item("peers-headline").attributes["data-key"] == "no_peers"
    assert page.item("mount-first").attributes["href"] == NEW
    assert page.item("publish-first").attributes["href"] == "/federation/published/"
    assert page.has("[data-testid=no-peers]")
    assert not page.has("[data-poll]")


def test_the_first_step_says_so_if_no_entry_is_free(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not read(admin.get(NEW)).items("no-place")
    monkeypatch.setattr("apps.pages.federation.views.list_mountable_groups", lambda *_args, **_more: [])
    assert read(admin.get(NEW)).items("no-place")


def test_a_mount_is_created_from_its_address_to_its_first_document(place: Site, side: OtherSide, admin: Client) -> None:
    assert step_of(admin.get(NEW)) == "address"
    seen = admin.post(NEW, {"step": "preview", "policy": "grid", "url": side.url, "token": "s3cret"})
    assert step_of(seen) == "key"
    page = read(seen)
    assert "vo-a.example" in text_of(page.item("mount-step"))
    assert "P-A1" in page.texts("table.excerpt .label")
    assert page.item("excerpt-of").attributes["data-value"] == "5"
    assert [text_of(page.item(name)) for name in ("n-entries", "n-levels")] == ["5", "2"]
    assert text_of(page.item("mounted-issuers")) == "project.example"
    assert page.texts(".fp span") == list(KEY.public.groups)
    assert "s3cret" not in seen.content.decode(), "the token goes from step to step sealed"
    assert side.asked[-1]["authorization"] == "Bearer s3cret"
    chosen = admin.post(NEW, {**hidden(seen), "step": "key", "fingerprint": " ".join(KEY.public.groups).upper()})
    assert step_of(chosen) == "place"
    assert "vo-a.example" in text_of(read(chosen).item("mount-step"))
    assert '<option value="/vo-a">' in chosen.content.decode()
    given = {**hidden(chosen), **LIMITS, "entry": "/vo-a", "reason": "We granted it.", "step": "place"}
    done = admin.post(NEW, {**given, "most_points": "7.5", "every": "10"})
    made = Mount.objects.get()
    assert (done.status_code, done["Location"]) == (303, path_of(made))
    assert (made.most_points, made.every_s, made.fingerprint) == (7.5, 600, KEY.public.fingerprint)
    assert made.sealed_token
    answer = admin.get(path_of(made))
    assert verdict(answer) == ("nothing_yet", "")
    assert read(answer).has("[data-testid=at-work]")
    work_run_now(request_fetch(made, at=AT).pk)
    answer = admin.get(path_of(made))
    assert verdict(answer) == ("confirmed", "1")
    assert all(part in read(answer).text("#verdict") for part in ("vo-a.example", "0 s"))
    tree = load_tree(Policy.objects.get(slug="grid"))
    assert tree.index_of_path("/vo-a/P-A1") is not None


def test_an_unconfirmed_or_different_key_stops_mounting(place: Site, side: OtherSide, admin: Client) -> None:
    seen = admin.post(NEW, {"step": "preview", "policy": "grid", "url": side.url})
    carried = {**hidden(seen), "step": "key"}
    assert codes_of(admin.post(NEW, carried)) == {"fingerprint": {"not_compared"}}
    groups = KEY.public.groups
    wrong = " ".join([*groups[:4], "0000", *groups[5:]])
    answer = admin.post(NEW, {**carried, "fingerprint": wrong})
    assert codes_of(answer) == {"fingerprint": {"key_differs"}}
    text = read(answer, 422).text("#id_fingerprint_error")
    assert all(part in text for part in ("5", "0000", groups[4])), "which group, as given, as found"
    assert wrong in html.unescape(answer.content.decode()), "what was typed stays"
    assert codes_of(admin.post(NEW, {**carried, "fingerprint": "abc"})) == {"fingerprint": {"invalid"}}
    assert step_of(admin.post(NEW, {**carried, "compared": "on"})) == "place"
    side.key = SigningKey(bytes(range(1, 33)))
    side.publish()
    assert codes_of(admin.post(NEW, {**carried, "compared": "on"})) == {"fingerprint": {"key_changed"}}
    assert not Mount.objects.exists()


def test_an_address_without_a_document_is_reported_at_its_field(place: Site, side: OtherSide, admin: Client) -> None:
    given = {"step": "preview", "policy": "grid", "url": side.url, "token": "s3cret"}
    side.status = 500
    answer = admin.post(NEW, given)
    assert set(codes_of(answer)) == {"url"}
    assert "500" in read(answer, 422).text("#id_url_error")
    assert side.url in answer.content.decode()
    assert hidden(answer)["sealed"], "the token needn't be typed again"
    side.status, side.serves = 200, b"{}\n"
    assert set(codes_of(admin.post(NEW, given))) == {"url"}
    answer = admin.post(NEW, {**given, "url": "http://127.0.0.1:1/x"})
    assert set(codes_of(answer)) == {"url"}
    assert "169.254" not in answer.content.decode()
    assert codes_of(admin.post(NEW, {**given, "url": ""})) == {"url": {"required"}}


def test_each_error_is_at_its_field_and_the_input_is_kept(place: Site, side: OtherSide, admin: Client) -> None:
    answer = walk(admin, side, entry="/nowhere", most_points="250", reason="Because of it")
    assert set(codes_of(answer)) in ({"entry"}, {"most_points"}, {"entry", "most_points"})
    assert 'value="/nowhere"' in answer.content.decode()
    assert 'value="Because of it"' in answer.content.decode()
    answer = walk(admin, side, most_points="250")
    assert set(codes_of(answer)) == {"most_points"}
    assert {"0", "100"} <= set(re.findall(r"\d+", read(answer, 422).text("#id_most_points_error")))
    answer = walk(admin, side, entry="/nowhere")
    assert set(codes_of(answer)) == {"entry"}
    assert "/nowhere" in read(answer, 422).text("#id_entry_error")
    assert codes_of(walk(admin, side, reason="")) == {"reason": {"required"}}
    assert not Mount.objects.exists()


def test_the_table_lists_peer_age_and_core_hours(mount: Mount, admin: Client) -> None:
    answer = admin.get("/federation/")
    page = read(answer)
    assert page.item("peers-headline").attributes["data-key"] == "in_order"
    assert {each["key"]: each["n"] for each in answer.context["choices"]} == {"": 1, "mount": 1}
    row = f"#peer-mount-{mount.pk}"
    assert "vo-a.example" in page.text(f"{row} [data-testid=peer-name]")
    assert page.one(f"{row} [data-testid=standing]").attributes["data-state"] == "fresh"
    assert "/vo-a" in page.texts(f"{row} td a")
    assert all(part in page.text(f"{row} [data-testid=peer-age]") for part in ("0 s", "24 h"))
    assert page.text(f"{row} [data-testid=peer-effect]") == "20.0 %"
    assert page.text(f"{row} [data-testid=peer-key]") == f"{mount.fingerprint[:4]} {mount.fingerprint[4:8]}"
    assert 'hx-trigger="every 30s"' in answer.content.decode()
    assert not read(admin.get("/federation/?direction=usage")).has("[data-testid=peer-name]")


def test_readers_of_our_data_are_listed_with_the_peers_we_read(mount: Mount, admin: Client, place: Site) -> None:
    found = Publication.objects.create(policy=place.policy, entry_uid=place.uid("/physics"), name="physics", made_at=AT)
    for version in (1, 2):
        PublishedDocument.objects.create(
            publication=found,
            version=version,
            digest="d",
            content_digest="c",
            revision_number=1,
            n_entries=3,
            issued_at=AT,
            expires_at=AT + HOUR,
            key_fingerprint="ab" * 32,
            data=b"",
        )
    Reading.objects.create(publication=found, reader="nsc.example", version=1, at=AT - HOUR)
    answer = admin.get("/federation/")
    page = read(answer)
    (row,) = (f"#{each.attributes['id']}" for each in page.all('tr[id^="peer-reads-"]'))
    assert "nsc.example" in page.text(f"{row} [data-testid=peer-name]")
    assert page.one(f"{row} [data-testid=standing]").attributes["data-state"] == "behind"
    assert page.one(f"{row} [data-testid=other-version]").attributes["data-value"] == "2"
    assert "2" in page.text(f"{row} [data-testid=other-version]")
    assert page.text(f"{row} [data-testid=peer-key]") == "abab abab"
    assert {each["key"]: each["n"] for each in answer.context["choices"]} == {"": 2, "mount": 1, "reads": 1}
    only = read(admin.get("/federation/?direction=reads"))
    assert only.has(row)
    assert not only.has(f"#peer-mount-{mount.pk}"), "the choice alone"


def test_a_held_version_links_to_its_review_and_difference(mount: Mount, side: OtherSide, admin: Client) -> None:
    side.publish(projects(90))
    work_run_now(request_fetch(mount, at=AT).pk)
    page = read(admin.get(path_of(mount)))
    assert page.item("held-version").attributes["data-value"] == "2"
    mount.refresh_from_db()
    assert mount.held is not None
    assert f"/changes/{mount.held.pk}/" in page.values("href", "[data-testid=held-version]")
    peers = read(admin.get("/federation/"))
    assert peers.item("peers-headline").attributes["data-key"] == "needs_a_look"
    assert peers.item("alarm").attributes["data-state"] == "held"
    page = read(admin.get(f"{path_of(mount)}difference/"))
    assert page.one("#would").attributes["data-value"] == "2"
    assert re.search(r"P-A1 vo-a \S+ 50 90", page.text("main")), page.text("main")
    # 90 of 140 shares of theirs are 64.3 %, and a fifth of our tree is the mount's; in our tree it still has 50 of 100.
    (row,) = (each for each in page.items("stated") if "/P-A1 90 " in text_of(each))
    assert re.search(r"/P-A1 90 64\.3 % 12\.9 % 10\.0 %", text_of(row)), text_of(row)
    assert row.attributes["data-state"] == "differs"
    assert not page.has("[data-testid=no-change]")


def test_applied_entries_equal_the_document(mount: Mount, admin: Client) -> None:
    page = read(admin.get(f"{path_of(mount)}difference/"))
    title = page.item("stated-verdict").attributes
    assert (title["data-value"], title["data-differing"]) == ("4", "0")
    assert page.has("[data-testid=no-change]")


def test_an_action_runs_once_with_a_reason_and_is_confirmed(mount: Mount, admin: Client) -> None:
    act = f"{path_of(mount)}act/"
    assert codes_of(admin.post(act, {"step": "pause", "reason": ""}), "action_form") == {"reason": {"required"}}
    states = [("pause", "paused"), ("resume", "active"), ("freeze", "frozen"), ("unfreeze", "active")]
    for step, state in states:
        answer = admin.post(act, {"step": step, "reason": f"because of {step}"})
        assert (answer.status_code, answer["Location"]) == (303, path_of(mount))
        mount.refresh_from_db()
        assert mount.state == state
        assert AuditEvent.objects.filter(verb__startswith="federation.", reason=f"because of {step}").exists()
    answer = admin.post(act, {"step": "fetch"}, follow=True)
    assert [message.level_tag for message in answer.context["messages"]][-1] == "success"
    assert AuditEvent.objects.filter(verb="federation.fetch_asked").exists()
    assert read(answer).has("[data-testid=at-work]")
    given = {"step": "settings", **LIMITS, "max_age": "0.5", "stale_action": "local", "reason": "nearer"}
    admin.post(act, given)
    mount.refresh_from_db()
    assert (mount.max_age_s, mount.stale_action) == (1800, "local")
    answer = admin.post(act, {**given, "every": "0"})
    assert set(codes_of(answer, "limits")) == {"every"}
    assert admin.post(act, {"step": "nonsense"}).status_code == 422


def test_a_new_key_needs_its_full_fingerprint_and_a_reason(mount: Mount, admin: Client) -> None:
    act, other = f"{path_of(mount)}act/", SigningKey(bytes(range(1, 33))).public
    answer = admin.post(act, {"step": "trust", "fingerprint": "12", "reason": "x"})
    assert (answer.status_code, codes_of(answer, "trust")) == (422, {"fingerprint": {"invalid"}})
    answer = admin.post(act, {"step": "trust", "fingerprint": KEY.public.fingerprint, "reason": "x"})
    assert (answer.status_code, codes_of(answer, "trust")) == (409, {"fingerprint": {"same_key"}})
    admin.post(act, {"step": "trust", "fingerprint": " ".join(other.groups), "reason": "They phoned."})
    mount.refresh_from_db()
    assert mount.fingerprint == other.fingerprint


def test_unmounting_explains_its_effect_and_keeps_the_entries(mount: Mount, admin: Client) -> None:
    act = f"{path_of(mount)}act/"
    effect = read(admin.get(path_of(mount))).item("unmount-effect")
    assert effect.attributes["data-value"] == "4"
    assert "4" in text_of(effect)
    assert codes_of(admin.post(act, {"step": "unmount", "reason": "over"}), "leave") == {"sure": {"required"}}
    answer = admin.post(act, {"step": "unmount", "reason": "over", "sure": "on"})
    assert answer["Location"] == "/federation/"
    assert not Mount.objects.exists()
    tree = load_tree(Policy.objects.get(slug="grid"))
    assert tree.index_of_path("/vo-a/P-A1") is not None
    assert not tree.mount


def test_the_fetch_log_is_paged_and_readable(mount: Mount, admin: Client) -> None:
    for n in range(60):
        Fetch.objects.create(
            mount=mount,
            at=AT - n * HOUR,
            outcome="unreachable" if n == 30 else "same",
            version=1,
            message="It didn’t answer within 60 s." if n == 30 else "",
            n_bytes=1234,
            duration_s=0.25,
        )
    page = read(admin.get(f"{path_of(mount)}fetches/"))
    assert ("same", "1") in looks_of(page)
    (failed,) = (each for each in page.items("fetch") if each.attributes["data-state"] == "unreachable")
    assert "It didn’t answer within 60 s." in text_of(failed)
    (older,) = (each for each in page.values("href") if "before=" in each)
    last = read(admin.get(f"{path_of(mount)}fetches/{older}"))
    assert ("applied", "1") in looks_of(last)
    assert not any("before=" in each for each in last.values("href"))
    assert looks_of(read(admin.get(path_of(mount)))) == [("same", "1")] * 8


def test_a_polled_fragment_redirects_to_its_page(mount: Mount, admin: Client) -> None:
    assert admin.get(f"{path_of(mount)}_now")["Location"] == path_of(mount)
    assert verdict(admin.get(f"{path_of(mount)}_now", headers=HTMX)) == ("confirmed", "1")
    assert admin.get("/federation/_peers")["Location"] == "/federation/"


def test_a_holder_of_the_mount_right_sees_only_mounts_there(mount: Mount, place: Site) -> None:
    pia = signed_in(place.pia)

    def is_offered() -> bool:
        return "/federation/" in read(pia.get("/policy/grid/decay/")).values("href", ".tabs")

    def headline() -> str | None:
        return read(pia.get("/federation/")).item("peers-headline").attributes["data-key"]

    assert pia.get("/federation/").status_code == 403
    assert not is_offered()
    grant = make_grant(place.pia, place.uid("/physics"), "admin", policy=place.policy, reason="test")
    assert headline() == "no_peers"
    assert pia.get(path_of(mount)).status_code == 404
    assert is_offered()
    grant.entry_uid = place.uid("/vo-a")  # below it she may mount; it is mounted itself by who decides about it
    grant.save()
    assert pia.get(path_of(mount)).status_code == 404
    assert headline() == "no_peers"
    grant.entry_uid = place.uid("/")
    grant.save()
    assert "vo-a.example" in text_of(read(pia.get("/federation/")).item("peer-name"))
    assert verdict(pia.get(path_of(mount))) == ("confirmed", "1")
