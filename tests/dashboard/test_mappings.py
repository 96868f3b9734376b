"""Pages of the mapping: what waits for an entry, rules, what a change would do, versions; and who sees which of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from apps import clock
from apps.accounts.models import Account, User
from apps.policies.models import Grant, Policy
from apps.policies.roles import VERBS_OF_ROLE
from apps.priorities import served
from apps.priorities.mapping_versions import version_of
from apps.priorities.models import Attachment, MappingRule
from apps.usage.collectors.base import RecordRow
from apps.usage.ingest import ingest_batch
from apps.usage.models import Source
from tests.dashboard.grid import SLUG, Grid, make_grid

PAGE = f"/policy/{SLUG}/mappings/"
HTMX = {"HX-Request": "true"}
KIM = "CN=Kim Svan,O=NorduGrid,C=SE"


@pytest.fixture
def grid(db: None) -> Iterator[Grid]:
    served.forget()
    made = make_grid(datetime.now(UTC))
    send("Alice@example.org", "visitors", 100)
    send("guest7", "lqcd", 50)
    send("", "", 20, dn=KIM, fqan="/cms/Role=NULL/Capability=NULL")
    yield made
    served.forget()


def send(user: str, group: str, cores: float, **names: Any) -> None:
    source, now = Source.objects.get(slug="cluster-a"), clock.now()
    row = RecordRow(
        job=f"{user}-{group}-{cores}", user=user, group=group, start_at=now - timedelta(hours=5),
        end_at=now - timedelta(hours=4), cpus=cores, **names,
    )  # fmt: skip
    ingest_batch(source=source, rows=[row], at=now)


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    client.force_login(grid.admin)
    return client


@pytest.fixture
def lead(grid: Grid) -> Client:
    """Leads atlas."""
    user = User.objects.create_user("lena")
    Grant.objects.create(
        policy=Policy.objects.get(slug=SLUG), entry_uid=grid.uid("/atlas"), user=user, role="lead",
        verbs=list(VERBS_OF_ROLE["lead"]), created_at=clock.now(), reason="test",
    )  # fmt: skip
    client = Client()
    client.force_login(user)
    return client


def account(**names: str) -> int:
    return int(Account.objects.get(**names).pk)


def version() -> int:
    return version_of(Policy.objects.get(slug=SLUG))


def hidden(text: str) -> dict[str, list[str]]:
    """The hidden fields of the form with which something is saved."""
    form = text[text.index('name="step" value="save"') :]
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="([\w-]+)" value="([^"]*)"', form):
        found.setdefault(name, []).append(value)
    return {**found, "step": ["save"]}


def test_accounts_without_an_entry_stand_first_with_usage_and_suggestion(admin: Client) -> None:
    text = admin.get(PAGE).content.decode()
    assert "3 accounts have no entry" in text
    assert "170 core-hours of the last 30 days count for nobody" in text
    assert text.index("Alice@example.org") < text.index("guest7") < text.index("/C=SE/O=NorduGrid/CN=Kim Svan")
    assert "the same name but for case" not in text
    assert "the same name without what follows the @" in text
    assert "the group of its FQAN has the same name" in text
    assert "none, please choose" in text


def test_the_suggestion_of_an_account_is_accepted_after_it_is_shown(admin: Client, grid: Grid) -> None:
    number = account(user_name="Alice@example.org")
    given = {f"guess-{number}": str(grid.uid("/atlas/alice")), "one": str(number), "step": "preview"}
    shown = admin.post(f"{PAGE}assign/", given)
    text = shown.content.decode()
    assert shown.status_code == 200
    assert "1 account would count elsewhere; 100 core-hours" in text
    assert not Attachment.objects.exists(), "shown, not done"
    fields = hidden(text)
    without = admin.post(f"{PAGE}assign/", fields)
    assert without.status_code == 422
    assert "must say why" in without.content.decode()
    done = admin.post(f"{PAGE}assign/", {**fields, "reason": "It is Alice."})
    assert done.status_code == 303
    assert Attachment.objects.get().entry_uid == grid.uid("/atlas/alice")
    page = admin.get(PAGE).content.decode()
    assert "Saved as version" in page
    assert "It is Alice." in page
    assert "2 accounts have no entry" in page


def test_several_are_assigned_to_one_entry_or_each_to_its_own(admin: Client, grid: Grid) -> None:
    first, second = account(user_name="guest7"), account(dn="/C=SE/O=NorduGrid/CN=Kim Svan")
    chosen = {"account": [str(first), str(second)], "step": "preview"}
    wrong = admin.post(f"{PAGE}assign/", {**chosen, "to": "entry", "entry": "/nowhere"}, follow=True)
    assert "There is no such entry" in wrong.content.decode()
    unknown = admin.post(f"{PAGE}assign/", {**chosen, "to": "suggested"}, follow=True)
    assert "For some of these nothing is suggested" in unknown.content.decode()
    nothing = admin.post(f"{PAGE}assign/", {"step": "preview", "to": "suggested"}, follow=True)
    assert "Choose at least one account." in nothing.content.decode()
    text = admin.post(f"{PAGE}assign/", {**chosen, "to": "entry", "entry": "/cms/dave"}).content.decode()
    assert "Assign 2 accounts?" in text
    before = version()
    assert admin.post(f"{PAGE}assign/", {**hidden(text), "reason": "Dave's guests."}).status_code == 303
    assert version() == before + 1, "one version for all of them"
    assert {row.entry_uid for row in Attachment.objects.all()} == {grid.uid("/cms/dave")}


def rule(**typed: Any) -> dict[str, Any]:
    return {"rule": "new", "kind": "glob", "entry": "/cms", "version": str(version()), "step": "preview", **typed}


def test_a_rule_is_shown_with_what_it_does_and_saved_with_a_reason(admin: Client) -> None:
    url = f"{PAGE}rule/"
    assert admin.get(url).status_code == 200
    shown = admin.post(url, rule(user="guest*", suffix="/{user}", order="1"))
    text = shown.content.decode()
    assert "1 account would count elsewhere; 50 core-hours" in text
    assert "guest7" in text
    stated = shown.context["previewed"]
    other = admin.post(url, rule(user="gu*", step="save", previewed=stated, reason="x"))
    assert other.status_code == 200, "what wasn't shown is shown first"
    assert MappingRule.objects.count() == 1
    typed = rule(user="guest*", suffix="/{user}", order="1", step="save", previewed=stated)
    assert admin.post(url, typed).status_code == 422
    saved = admin.post(url, {**typed, "reason": "Guests of CMS."})
    assert saved.status_code == 303
    assert [row.user_pattern for row in MappingRule.objects.order_by("position")] == ["guest*", ""]
    page = admin.get(PAGE).content.decode()
    assert "user guest*" in page
    assert "2 accounts have no entry" in page


@pytest.mark.parametrize(
    ("typed", "status", "word"),
    [
        ({"entry": "/nowhere"}, 422, "There is no such entry"),
        ({"kind": "exact"}, 422, "an exact rule names a user"),
        ({"user": "x", "suffix": "/{nothing}"}, 422, "knows {user}, {group} and {project} alone"),
        ({"shares": "many", "kind": "each"}, 422, "Write a number"),
        ({"source": "cluster-a", "namespace": "cluster-a"}, 422, "give one of the two"),
        ({"rule": "99"}, 404, ""),
        ({"rule": "x"}, 404, ""),
        ({"user": "a\x07b"}, 422, ""),
        ({"order": "0"}, 422, ""),
    ],
)
def test_a_rule_that_can_t_be_is_refused_at_its_place(
    admin: Client, typed: dict[str, str], status: int, word: str
) -> None:
    answer = admin.post(f"{PAGE}rule/", rule(**typed))
    assert answer.status_code == status
    assert word in answer.content.decode().replace("&#x27;", "'")
    assert MappingRule.objects.count() == 1


def test_rules_are_changed_moved_and_removed_and_each_is_shown_first(admin: Client, grid: Grid) -> None:
    for pattern, entry in (("guest*", "/cms"), ("g*", "/biomed")):
        stated = admin.post(f"{PAGE}rule/", rule(user=pattern, entry=entry)).context["previewed"]
        admin.post(f"{PAGE}rule/", rule(user=pattern, entry=entry, step="save", previewed=stated, reason="r"))
    order = f"{PAGE}order/"
    shown = admin.post(order, {"rule": "2", "way": "up", "step": "preview"}).content.decode()
    assert "Ask rule 3 earlier?" in shown
    assert "1 account would count elsewhere; 50 core-hours" in shown
    assert "/cms" in shown
    assert "/biomed" in shown
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


def test_nobody_saves_over_what_they_have_not_seen(admin: Client) -> None:
    shown = admin.post(f"{PAGE}order/", {"rule": "0", "way": "remove", "step": "preview"}).content.decode()
    assert "would have no entry" in shown
    typed = rule(user="guest*")
    stated = admin.post(f"{PAGE}rule/", typed).context["previewed"]
    admin.post(f"{PAGE}rule/", {**typed, "step": "save", "previewed": stated, "reason": "r"})
    late = admin.post(f"{PAGE}order/", {**hidden(shown), "reason": "r"})
    assert late.status_code == 412
    assert "Somebody changed the mapping meanwhile" in late.content.decode()
    assert MappingRule.objects.count() == 2


def test_versions_say_what_was_mapped_when_and_are_brought_back(admin: Client) -> None:
    before = version()
    typed = rule(user="guest*")
    stated = admin.post(f"{PAGE}rule/", typed).context["previewed"]
    admin.post(f"{PAGE}rule/", {**typed, "step": "save", "previewed": stated, "reason": "Guests of CMS."})
    text = admin.get(f"{PAGE}versions/").content.decode()
    assert "1 rule added" in text
    assert "Guests of CMS." in text
    one = admin.get(f"{PAGE}versions/{before + 1}/").content.decode()
    assert "user guest*" in one
    assert "This is in force" in one
    shown = admin.post(f"{PAGE}versions/{before}/", {"step": "preview"}).content.decode()
    assert "would have no entry" in shown
    assert admin.post(f"{PAGE}versions/{before}/", {**hidden(shown), "reason": "As before."}).status_code == 303
    assert MappingRule.objects.count() == 1
    assert "1 rule removed" in admin.get(f"{PAGE}versions/").content.decode()
    assert admin.get(f"{PAGE}versions/999/").status_code == 404


def test_an_attached_account_is_let_go(admin: Client, grid: Grid) -> None:
    number = account(user_name="alice")
    text = admin.post(
        f"{PAGE}assign/", {"account": [str(number)], "to": "entry", "entry": "/cms/dave", "step": "preview"}
    ).content.decode()
    admin.post(f"{PAGE}assign/", {**hidden(text), "reason": "r"})
    shown = admin.post(f"{PAGE}let-go/", {"account": str(number), "step": "preview"}).content.decode()
    assert "/atlas/alice" in shown
    assert admin.post(f"{PAGE}let-go/", {**hidden(shown), "reason": "Not hers."}).status_code == 303
    assert not Attachment.objects.exists()
    assert admin.post(f"{PAGE}let-go/", {"account": str(number), "step": "preview"}).status_code == 404


def test_a_lead_sees_what_may_be_theirs_and_saves_nothing_that_moves_others(lead: Client, grid: Grid) -> None:
    text = lead.get(PAGE).content.decode()
    assert "1 account has no entry" in text
    assert "guest7" not in text
    assert "a rule of others" in text
    assert "2 more accounts have no entry" in text
    typed = rule(user="carol", entry="/atlas")
    refused = lead.post(f"{PAGE}rule/", {**typed, "order": "1"})
    assert "Not yours to save." in refused.content.decode()
    assert 'value="save"' not in refused.content.decode()
    stated = refused.context["previewed"]
    saved = lead.post(f"{PAGE}rule/", {**typed, "order": "1", "step": "save", "previewed": stated, "reason": "r"})
    assert saved.status_code == 403
    assert MappingRule.objects.count() == 1
    number = account(user_name="Alice@example.org")
    given = {f"guess-{number}": str(grid.uid("/atlas/alice")), "one": str(number), "step": "preview"}
    shown = lead.post(f"{PAGE}assign/", given).content.decode()
    assert lead.post(f"{PAGE}assign/", {**hidden(shown), "reason": "Ours."}).status_code == 303
    assert "Your own changes" in lead.get(f"{PAGE}versions/").content.decode()
    assert lead.get(f"{PAGE}versions/1/").status_code == 404


def test_who_leads_nothing_reads_nothing(grid: Grid) -> None:
    client = Client()
    client.force_login(User.objects.create_user("nora"))
    number, before = Account.objects.earliest("pk").pk, Attachment.objects.count()
    given = {"account": str(number), "to": "entry", "entry": "/cms", "reason": "mine", "step": "save"}
    answers: list[Any] = [client.get(path) for path in (PAGE, f"{PAGE}versions/", f"{PAGE}rule/")]
    for answer in (*answers, client.post(f"{PAGE}assign/", given)):
        assert (answer.status_code, answer.context["refusal"].code) == (403, "not_allowed"), answer.wsgi_request.path
    assert Attachment.objects.count() == before


def test_fragments_are_parts_of_the_page(admin: Client) -> None:
    for part in ("_unmapped", "_rules"):
        text = admin.get(f"{PAGE}{part}", headers=HTMX).content.decode()
        assert text.startswith('<section class="card"')
        assert admin.get(f"{PAGE}{part}").status_code == 303


def test_the_list_goes_on_after_fifty(admin: Client) -> None:
    Account.objects.bulk_create(
        Account(namespace="cluster-a", user_name=f"u{n:03}", first_seen_at=clock.now()) for n in range(60)
    )
    text = admin.get(PAGE).content.decode()
    assert "Next 50" in text
    assert "u000" in text
    assert "u059" not in text
    rest = admin.get(f"{PAGE}_unmapped?after=50", headers=HTMX).content.decode()
    assert "u059" in rest
    assert "Next 50" not in rest
