"""Pages of the mapping: what waits for an entry, rules, what a change would do, versions; and who sees which of it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import NON_FIELD_ERRORS
from django.test import Client

from apps.accounts.models import Account, User
from apps.core import clock
from apps.mapping.models import Attachment, MappingRule
from apps.mapping.versions import version_of
from apps.policies.models import Policy
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from tests.examples import first
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page, read
from tests.sign_in import sign_in

PAGE = f"/policy/{SLUG}/mappings/"
HTMX = {"HX-Request": "true"}
KIM = "CN=Kim Svan,O=NorduGrid,C=SE"


@pytest.fixture
def grid(open_grid: Grid) -> Grid:
    send("Alice@example.org", "visitors", 100)
    send("guest7", "lqcd", 50)
    send("", "", 20, dn=KIM, fqan="/cms/Role=NULL/Capability=NULL")
    return open_grid


def send(user: str, group: str, cores: float, **names: Any) -> None:
    source, now = Source.objects.get(slug="cluster-a"), clock.now()
    row = RecordRow(
        job=f"{user}-{group}-{cores}",
        user=user,
        group=group,
        start_at=now - timedelta(hours=5),
        end_at=now - timedelta(hours=4),
        cpus=cores,
        **names,
    )
    ingest_batch(source=source, rows=[row], at=now)


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


@pytest.fixture
def lead(grid: Grid) -> Client:
    """Leads atlas."""
    user = User.objects.create_user("lena")
    make_grant(user, grid.uid("/atlas"), "lead", at=clock.now(), reason="test")
    return sign_in(Client(), user)


def account(**names: str) -> int:
    return int(Account.objects.get(**names).pk)


def version() -> int:
    return version_of(Policy.objects.get(slug=SLUG))


def hidden(text: str) -> dict[str, list[str]]:
    """The hidden fields of the form with which something is saved."""
    form = text[text.index('name="step" value="save"') :]
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="([\w-]+)"\s+value="([^"]*)"', form):
        found.setdefault(name, []).append(value)
    return {**found, "step": ["save"]}


def n_unmapped(page: Page) -> int:
    """Unmapped accounts, as the page counts them."""
    return int(page.item("n-unmapped").attributes["data-value"] or 0)


def stake_of(page: Page) -> tuple[int, int]:
    """How many accounts a change would move, and their core-hours, which are in the sentence too."""
    shown = page.item("plan-verdict").attributes
    hours = round(float(shown["data-core-s"] or 0) / 3600)
    assert f"{hours:,}" in page.text("[data-testid=plan-verdict]")
    return int(shown["data-value"] or 0), hours


def n_dropped(page: Page) -> int:
    return int(page.item("plan-dropped").attributes["data-value"] or 0)


def tags_of(answer: Any) -> list[str]:
    """Codes of the messages above a page."""
    return [message.extra_tags for message in answer.context["messages"]]


def test_unmapped_accounts_are_listed_first_with_usage_and_suggestion(admin: Client) -> None:
    page = read(admin.get(PAGE))
    assert n_unmapped(page) == 3
    assert "170" in page.text(".page-head p")
    assert page.texts("#unmapped .who b") == ["Alice@example.org", "guest7", "/C=SE/O=NorduGrid/CN=Kim Svan"]
    assert page.values("data-key", "#unmapped") == ["without_realm", "no_suggestion", "fqan_group"]


def test_a_suggested_mapping_is_accepted_after_its_preview(admin: Client, grid: Grid) -> None:
    number = account(user_name="Alice@example.org")
    given = {f"guess-{number}": str(grid.uid("/atlas/alice")), "one": str(number), "step": "preview"}
    shown = admin.post(f"{PAGE}assign/", given)
    assert stake_of(read(shown)) == (1, 100)
    assert not Attachment.objects.exists(), "shown, not done"
    fields = hidden(shown.content.decode())
    without = admin.post(f"{PAGE}assign/", fields)
    assert read(without, 422).error_codes() == ["reason_missing"]
    done = admin.post(f"{PAGE}assign/", {**fields, "reason": "It is Alice."})
    assert done.status_code == 303
    assert Attachment.objects.get().entry_uid == grid.uid("/atlas/alice")
    page = read(admin.get(PAGE))
    assert str(version()) in page.text("#problem .success")
    assert "It is Alice." in page.text("#attached")
    assert n_unmapped(page) == 2


def test_several_accounts_are_mapped_to_one_entry_or_each_to_its_own(admin: Client, grid: Grid) -> None:
    first, second = account(user_name="guest7"), account(dn="/C=SE/O=NorduGrid/CN=Kim Svan")
    chosen = {"account": [str(first), str(second)], "step": "preview"}
    wrong = admin.post(f"{PAGE}assign/", {**chosen, "to": "entry", "entry": "/nowhere"}, follow=True)
    assert tags_of(wrong) == ["no_such_entry"]
    unknown = admin.post(f"{PAGE}assign/", {**chosen, "to": "suggested"}, follow=True)
    assert tags_of(unknown) == ["nothing_suggested"]
    nothing = admin.post(f"{PAGE}assign/", {"step": "preview", "to": "suggested"}, follow=True)
    assert tags_of(nothing) == ["none_chosen"]
    assert not Attachment.objects.exists()
    shown = admin.post(f"{PAGE}assign/", {**chosen, "to": "entry", "entry": "/cms/dave"})
    assert stake_of(read(shown)) == (2, 70)
    text = shown.content.decode()
    before = version()
    assert admin.post(f"{PAGE}assign/", {**hidden(text), "reason": "Dave's guests."}).status_code == 303
    assert version() == before + 1, "one version for all of them"
    assert {row.entry_uid for row in Attachment.objects.all()} == {grid.uid("/cms/dave")}


def rule(**typed: Any) -> dict[str, Any]:
    return {"rule": "new", "kind": "glob", "entry": "/cms", "version": str(version()), "step": "preview", **typed}


def test_a_rule_is_previewed_and_saved_with_a_reason(admin: Client) -> None:
    url = f"{PAGE}rule/"
    assert admin.get(url).status_code == 200
    shown = admin.post(url, rule(user="guest*", suffix="/{user}", order="1"))
    assert stake_of(read(shown)) == (1, 50)
    assert "guest7" in read(shown).text("#plan")
    stated = shown.context["previewed"]
    other = admin.post(url, rule(user="gu*", step="save", previewed=stated, reason="x"))
    assert other.status_code == 200, "what wasn't shown is shown first"
    assert MappingRule.objects.count() == 1
    typed = rule(user="guest*", suffix="/{user}", order="1", step="save", previewed=stated)
    assert admin.post(url, typed).status_code == 422
    saved = admin.post(url, {**typed, "reason": "Guests of CMS."})
    assert saved.status_code == 303
    assert [row.user_pattern for row in MappingRule.objects.order_by("position")] == ["guest*", ""]
    page = read(admin.get(PAGE))
    assert "guest*" in page.text("tr[data-rule='0']")
    assert n_unmapped(page) == 2


@pytest.mark.parametrize(
    ("typed", "field", "code"),
    first(
        4,
        [
            ({"entry": "/nowhere"}, "entry", "no_such_entry"),
            ({"kind": "exact"}, None, "bad_rules"),
            ({"user": "x", "suffix": "/{nothing}"}, "suffix", "bad_rules"),
            ({"shares": "many", "kind": "each"}, "shares", "number"),
            ({"shares": "inherit", "kind": "each"}, "shares", "no_number"),
            ({"source": "cluster-a", "namespace": "cluster-a"}, "source", "bad_rules"),
            ({"user": "a\x07b"}, "user", "bad_rules"),
            ({"order": "0"}, "order", "min_value"),
        ],
    ),
)
def test_an_invalid_rule_is_refused_at_its_field(
    admin: Client, typed: dict[str, str], field: str | None, code: str
) -> None:
    answer = admin.post(f"{PAGE}rule/", rule(**typed))
    page = read(answer, 422)
    found = {name: [error.code for error in errors] for name, errors in answer.context["form"].errors.as_data().items()}
    assert found == {field or NON_FIELD_ERRORS: [code]}
    assert page.text(f"#id_{field}_error" if field else "form [role=alert]")
    assert MappingRule.objects.count() == 1


@pytest.mark.parametrize("number", ["99", "x"])
def test_an_unknown_rule_is_not_found(admin: Client, number: str) -> None:
    assert admin.post(f"{PAGE}rule/", rule(rule=number)).status_code == 404
    assert MappingRule.objects.count() == 1


def test_rules_are_changed_moved_and_removed_after_a_preview(admin: Client, grid: Grid) -> None:
    for pattern, entry in (("guest*", "/cms"), ("g*", "/biomed")):
        stated = admin.post(f"{PAGE}rule/", rule(user=pattern, entry=entry)).context["previewed"]
        admin.post(f"{PAGE}rule/", rule(user=pattern, entry=entry, step="save", previewed=stated, reason="r"))
    order = f"{PAGE}order/"
    answer = admin.post(order, {"rule": "2", "way": "up", "step": "preview"})
    shown, page = answer.content.decode(), read(answer)
    assert (hidden(shown)["rule"], hidden(shown)["way"]) == (["2"], ["up"])
    assert "user g*" in page.text(".page-head p"), "the rule by its conditions"
    assert stake_of(page) == (1, 50)
    assert page.texts("#plan .flows tbody tr > :not(.num)") == ["/cms", "/biomed"]
    assert admin.post(order, {**hidden(shown), "reason": "r"}).status_code == 303
    assert [row.user_pattern for row in MappingRule.objects.order_by("position")] == ["", "g*", "guest*"]
    change = admin.get(f"{PAGE}rule/?rule=1")
    assert 'value="g*"' in change.content.decode()
    typed = rule(rule="1", user="gu*", entry="/biomed")
    stated = admin.post(f"{PAGE}rule/", typed).context["previewed"]
    assert admin.post(f"{PAGE}rule/", {**typed, "step": "save", "previewed": stated, "reason": "r"}).status_code == 303
    shown = admin.post(order, {"rule": "1", "way": "remove", "step": "preview"}).content.decode()
    admin.post(order, {**hidden(shown), "reason": "r"})
    assert [row.user_pattern for row in MappingRule.objects.order_by("position")] == ["", "guest*"]
    assert admin.post(order, {"rule": "0", "way": "sideways"}).status_code == 404
    assert admin.post(order, {"rule": "7", "way": "up"}).status_code == 404
    assert admin.post(order, {"rule": "0", "way": "up", "step": "preview"}).status_code == 422


def test_a_stale_version_is_not_overwritten(admin: Client) -> None:
    answer = admin.post(f"{PAGE}order/", {"rule": "0", "way": "remove", "step": "preview"})
    shown = answer.content.decode()
    assert (stake_of(read(answer)), n_dropped(read(answer))) == ((4, 22_080), 4)
    typed = rule(user="guest*")
    stated = admin.post(f"{PAGE}rule/", typed).context["previewed"]
    admin.post(f"{PAGE}rule/", {**typed, "step": "save", "previewed": stated, "reason": "r"})
    late = admin.post(f"{PAGE}order/", {**hidden(shown), "reason": "r"})
    assert read(late, 412).error_codes() == ["stale"]
    assert MappingRule.objects.count() == 2


def test_versions_show_past_mappings_and_are_restored(admin: Client) -> None:
    before = version()
    typed = rule(user="guest*")
    stated = admin.post(f"{PAGE}rule/", typed).context["previewed"]
    admin.post(f"{PAGE}rule/", {**typed, "step": "save", "previewed": stated, "reason": "Guests of CMS."})
    page = read(admin.get(f"{PAGE}versions/"))
    newest = page.items("version-changes")[0].attributes
    assert (newest["data-added"], newest["data-removed"]) == ("1", "0")
    assert page.item("versions-of").attributes["data-state"] == "all"
    assert "Guests of CMS." in page.text("tbody tr:first-child")
    one = read(admin.get(f"{PAGE}versions/{before + 1}/"))
    assert "guest*" in one.text("main ul.list")
    assert not one.items("restore-version")
    assert read(admin.get(f"{PAGE}versions/{before}/")).items("restore-version")
    answer = admin.post(f"{PAGE}versions/{before}/", {"step": "preview"})
    shown = answer.content.decode()
    assert n_dropped(read(answer)) == 1
    assert admin.post(f"{PAGE}versions/{before}/", {**hidden(shown), "reason": "As before."}).status_code == 303
    assert MappingRule.objects.count() == 1
    newest = read(admin.get(f"{PAGE}versions/")).items("version-changes")[0].attributes
    assert (newest["data-added"], newest["data-removed"]) == ("0", "1")
    assert admin.get(f"{PAGE}versions/999/").status_code == 404


def test_an_attached_account_is_detached(admin: Client, grid: Grid) -> None:
    number = account(user_name="alice")
    text = admin.post(
        f"{PAGE}assign/", {"account": [str(number)], "to": "entry", "entry": "/cms/dave", "step": "preview"}
    ).content.decode()
    admin.post(f"{PAGE}assign/", {**hidden(text), "reason": "r"})
    shown = admin.post(f"{PAGE}detach/", {"account": str(number), "step": "preview"}).content.decode()
    assert "/atlas/alice" in shown
    assert admin.post(f"{PAGE}detach/", {**hidden(shown), "reason": "Not hers."}).status_code == 303
    assert not Attachment.objects.exists()
    assert admin.post(f"{PAGE}detach/", {"account": str(number), "step": "preview"}).status_code == 404


def test_a_lead_sees_own_accounts_and_cannot_move_those_of_others(lead: Client, grid: Grid) -> None:
    page = read(lead.get(PAGE))
    assert n_unmapped(page) == 1
    assert "guest7" not in page.text("main")
    assert page.each("[data-testid=rule]", "data-state") == ["of_others"]
    assert page.item("hidden-accounts").attributes["data-value"] == "2"
    typed = rule(user="carol", entry="/atlas")
    refused = lead.post(f"{PAGE}rule/", {**typed, "order": "1"})
    page = read(refused)
    assert page.has("[data-testid=plan-refused]")
    assert not page.has("[name=step][value=save]")
    assert page.has("[name=step][value=preview]")
    stated = refused.context["previewed"]
    saved = lead.post(f"{PAGE}rule/", {**typed, "order": "1", "step": "save", "previewed": stated, "reason": "r"})
    assert saved.status_code == 403
    assert MappingRule.objects.count() == 1
    number = account(user_name="Alice@example.org")
    given = {f"guess-{number}": str(grid.uid("/atlas/alice")), "one": str(number), "step": "preview"}
    shown = lead.post(f"{PAGE}assign/", given).content.decode()
    assert lead.post(f"{PAGE}assign/", {**hidden(shown), "reason": "Ours."}).status_code == 303
    page = read(lead.get(PAGE))
    assert page.item("none-unmapped").attributes["data-state"] == "visible", "two of others are still unmapped"
    assert page.text("h1") == page.text("[data-testid=none-unmapped]")
    assert page.item("hidden-accounts").attributes["data-value"] == "2"
    assert read(lead.get(f"{PAGE}versions/")).item("versions-of").attributes["data-state"] == "own"
    assert lead.get(f"{PAGE}versions/1/").status_code == 404


def test_a_user_without_a_role_sees_no_mapping(grid: Grid) -> None:
    client = sign_in(Client(), User.objects.create_user("nora"))
    number, before = Account.objects.earliest("pk").pk, Attachment.objects.count()
    given = {"account": str(number), "to": "entry", "entry": "/cms", "reason": "mine", "step": "save"}
    answers: list[Any] = [client.get(path) for path in (PAGE, f"{PAGE}versions/", f"{PAGE}rule/")]
    for answer in (*answers, client.post(f"{PAGE}assign/", given)):
        assert (answer.status_code, answer.context["refusal"].code) == (403, "not_allowed"), answer.wsgi_request.path
    assert Attachment.objects.count() == before


def test_fragments_are_included_in_the_page(admin: Client) -> None:
    for part in ("_unmapped", "_rules"):
        text = admin.get(f"{PAGE}{part}", headers=HTMX).content.decode()
        assert text.startswith('<section class="card"')
        assert admin.get(f"{PAGE}{part}").status_code == 303


def test_the_list_has_pages_of_fifty(admin: Client) -> None:
    Account.objects.bulk_create(
        Account(namespace="cluster-a", user_name=f"u{n:03}", first_seen_at=clock.now()) for n in range(60)
    )
    first = read(admin.get(PAGE))
    assert "after=50" in (first.item("next-page").attributes["href"] or "")
    names = first.texts("#unmapped .who b")
    assert (len(names), "u000" in names, "u059" in names) == (50, True, False)
    rest = read(admin.get(f"{PAGE}_unmapped?after=50", headers=HTMX))
    assert "u059" in rest.texts("#unmapped .who b")
    assert not rest.has("[data-testid=next-page]")
