"""Pages of members, of accounts that are mine, and of corrections of usage."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import Account, User
from apps.core import clock
from apps.mapping.membership_plan import apply_membership_rules
from apps.mapping.models import Attachment, Claim
from apps.policies.models import Adjustment, ChangeSet
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read, text_of
from tests.sign_in import sign_in

HTMX = {"HX-Request": "true"}


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


def page_of(grid: Grid, path: str, what: str = "members") -> str:
    return f"/policy/{SLUG}/{what}/{grid.uid(path)}/"


def rule(**typed: Any) -> dict[str, Any]:
    return {"rule": "new", "shares": "1", "kind": "user", **typed}


def test_a_membership_rule_is_previewed_published_and_applied(admin: Client, grid: Grid) -> None:
    page = page_of(grid, "/atlas")
    assert read(admin.get(page)).has('[data-testid="no-rules"]')
    seen = admin.get(page).context["seen"]
    typed = rule(group="biom*", shares="2,5", days="30", seen=seen)
    preview = admin.post(f"{page}rules/", {**typed, "step": "publish", "reason": "The call of May."})
    assert preview.status_code == 200, "what wasn't previewed is previewed first"
    effect = preview.context["effect"]
    assert (effect.n_joined, effect.n_back, effect.n_taken, effect.n_matched) == (2, 0, 2, 2)
    shown = read(preview)
    assert shown.one("#rule-effect").attributes["data-value"] == "2 0 2"
    assert "carol" in shown.text("#rule-effect .note")
    stated = preview.context["stated"]
    missing = admin.post(f"{page}rules/", {**typed, "step": "publish", "previewed": stated})
    assert read(missing, 422).has("#id_reason_error")
    assert missing.context["rule_form"].has_error("reason", code="required")
    done = admin.post(f"{page}rules/", {**typed, "step": "publish", "previewed": stated, "reason": "The call of May."})
    assert done.status_code == 303
    answer = admin.get(page)
    (made,) = answer.context["page"].rules
    assert (made.group, made.shares, made.kind, made.archive_after_days) == ("biom*", 2.5, "user", 30)
    for part in ("biom*", "2.5", "user", "30"):
        assert part in text_of(read(answer).item("rule"))
    apply_membership_rules(at=clock.now())
    assert grid.tree.index_of_path("/atlas/carol") is not None
    done_by_rule = read(admin.get(page)).items("by-rule")
    assert {one.attributes["data-key"] for one in done_by_rule} == {"joined"}
    assert any("carol" in text_of(one) for one in done_by_rule)
    card = read(admin.get(f"/policy/{SLUG}/n/{grid.uid('/atlas')}/_members", headers=HTMX))
    assert card.item("by-rule").attributes["data-key"] == "joined"


def test_a_membership_rule_is_changed_and_removed_without_lost_updates(admin: Client, grid: Grid) -> None:
    page = page_of(grid, "/atlas")
    first = admin.get(page).context["seen"]
    typed = rule(group="g1", seen=first, step="publish", reason="x")
    stated = admin.post(f"{page}rules/", typed).context["stated"]
    admin.post(f"{page}rules/", {**typed, "previewed": stated})
    late = admin.post(f"{page}rules/", {**typed, "group": "g2", "previewed": stated})
    assert read(late, 409).error_codes() == ["rules_changed"]
    shown = admin.get(page, {"rule": "0"})
    assert read(shown).one("#id_group").attributes["value"] == "g1"
    seen = shown.context["seen"]
    assert admin.get(page, {"rule": "7"}).status_code == 404
    refused = admin.post(f"{page}rules/", {"step": "remove", "rule": "0", "seen": seen})
    assert refused.status_code == 422
    done = admin.post(f"{page}rules/", {"step": "remove", "rule": "0", "seen": seen, "reason": "over"})
    assert done.status_code == 303
    assert not grid.tree.members


def test_an_invalid_membership_rule_is_reported_at_its_field(admin: Client, grid: Grid) -> None:
    page = page_of(grid, "/atlas")
    seen = admin.get(page).context["seen"]
    nothing = admin.post(f"{page}rules/", rule(seen=seen))
    assert read(nothing, 422).text('#rules [role="alert"]')
    errors = nothing.context["rule_form"].errors.as_data()
    assert {name: [error.code for error in found] for name, found in errors.items()} == {"__all__": ["no_rule"]}
    wrong = admin.post(f"{page}rules/", rule(seen=seen, group="x", shares="many", days="0"))
    assert wrong.status_code == 422
    assert set(wrong.context["rule_form"].errors) == {"shares", "days"}
    assert admin.get(f"{page}rules/").status_code == 303


def test_names_need_the_right_to_see_members_and_rules_the_right_to_divide(grid: Grid, client: Client) -> None:
    sign_in(client, grid.alice)
    offers = 'a[href="?rule=new#rules"]', "#attach"
    shown = read(client.get(page_of(grid, "/biomed")))
    assert shown.has('[data-testid="names-hidden"]')
    assert "cluster-a:carol" not in shown.text("html")
    assert not any(shown.has(offer) for offer in offers)
    sign_in(client, grid.admin)
    shown = read(client.get(page_of(grid, "/biomed")))
    assert not shown.has('[data-testid="names-hidden"]')
    assert "cluster-a:carol" in shown.text("#people")
    assert all(shown.has(offer) for offer in offers)
    sign_in(client, grid.alice)
    answer = client.post(
        f"{page_of(grid, '/biomed')}attach/",
        {
            "namespace": "cluster-a",
            "user_name": "carol",
            "entry": grid.uid("/biomed/carol"),
            "reason": "x",
        },
    )
    assert answer.status_code == 403


@pytest.fixture
def lead(grid: Grid) -> Client:
    user = User.objects.create_user("lena")
    make_grant(user, grid.uid("/atlas"), "lead", at=grid.at - timedelta(days=3), reason="test")
    return sign_in(Client(), user)


def test_a_lead_attaches_and_detaches_an_account(lead: Client, grid: Grid) -> None:
    page = page_of(grid, "/atlas")
    typed = {"namespace": "cluster-a", "group_name": "atlas", "entry": str(grid.uid("/atlas/bob")), "reason": "Ours."}
    taken = lead.post(f"{page}attach/", {**typed, "user_name": "carol", "group_name": "biomed"})
    assert read(taken, 422).has("#id_user_name_error")
    assert set(taken.context["attach_form"].errors) == {"user_name"}
    assert not Attachment.objects.exists()
    assert lead.post(f"{page}attach/", {**typed, "user_name": "alice"}).status_code == 303
    shown = text_of(read(lead.get(page)).item("attachment"))
    for part in ("cluster-a:alice", "/atlas/bob", "lena", "Ours."):
        assert part in shown
    made = Attachment.objects.get()
    assert lead.post(f"{page}detach/", {"attachment": made.pk}).status_code == 303
    assert not Attachment.objects.exists()


def test_a_user_claims_an_account_and_the_group_lead_confirms(lead: Client, grid: Grid) -> None:
    me = sign_in(Client(), User.objects.create_user("rob"))
    assert read(me.get("/me/priority/_accounts")).has('#accounts form[action^="/me/accounts/claim/"]')
    bad = me.post("/me/accounts/claim/", {"namespace": "", "user_name": "bob"})
    assert bad.status_code == 422
    assert me.post("/me/accounts/claim/", {"namespace": "cluster-a", "user_name": "bob"}).status_code == 303
    account = read(me.get("/me/priority/_accounts")).item("account")
    assert (account.attributes["data-state"], "cluster-a:bob" in text_of(account)) == ("claimed", True)
    page = page_of(grid, "/atlas")
    asked = read(lead.get(page)).text("#claims li")
    assert ("rob" in asked, "cluster-a:bob" in asked) == (True, True)
    claim = Claim.objects.get()
    assert lead.post(f"{page}claim/", {"claim": claim.pk, "step": "confirm"}).status_code == 303
    assert Account.objects.get(user_name="bob").person == User.objects.get(username="rob")
    assert read(me.get("/me/priority/_accounts")).item("account").attributes["data-state"] == "mine"
    assert str(read(me.get("/me/priority/")).one("#verdict").attributes["data-rank"]).isdigit()


def test_only_its_author_can_withdraw_a_claim(lead: Client, grid: Grid) -> None:
    me = sign_in(Client(), User.objects.create_user("rob"))
    me.post("/me/accounts/claim/", {"namespace": "cluster-a", "user_name": "bob"})
    claim = Claim.objects.get()
    assert lead.post("/me/accounts/withdraw/", {"claim": claim.pk}).status_code == 404
    assert me.post("/me/accounts/withdraw/", {"claim": claim.pk}).status_code == 303
    assert not Claim.objects.exists()


def correction(grid: Grid, **typed: Any) -> dict[str, Any]:
    day = (grid.at - timedelta(days=1)).astimezone(UTC).date().isoformat()
    return {
        "direction": "back",
        "amount": "100",
        "resource": "cpu_s",
        "day": day,
        "hour": "",
        "note": "b-cn0417",
        **typed,
    }


def test_usage_is_credited_after_a_preview_and_shown_wherever_it_counts(
    admin: Client, grid: Grid, client: Client
) -> None:
    page = page_of(grid, "/atlas/alice", "adjustments")
    untouched = read(admin.get(page))
    assert untouched.has('[data-testid="no-adjustments"]')
    assert untouched.has("#adjust")
    assert not untouched.has('#effect button[value="publish"], [data-testid="adjusted-sum"]')
    typed = correction(grid, amount="2400,0")
    fragment = admin.get(f"{page}_preview", typed, headers=HTMX)
    assert read(fragment).has('#effect button[value="publish"]')
    assert not Adjustment.objects.exists()
    preview = admin.post(page, {**typed, "step": "publish", "reason": "Node failure."})
    assert read(preview).has("table#adjusted")
    stated = preview.context["stated"]
    assert admin.post(page, {**typed, "step": "publish", "previewed": stated}).status_code == 422
    done = admin.post(page, {**typed, "step": "publish", "previewed": stated, "reason": "Node failure."})
    assert done.status_code == 303
    made = Adjustment.objects.get()
    assert (made.amount_s, made.note, made.reason, made.author_name) == (
        -8_640_000.0,
        "b-cn0417",
        "Node failure.",
        "admin",
    )
    grid.recompute()
    shown = read(admin.get(page))
    assert shown.item("adjustment").attributes["data-state"] == "active"
    assert "\N{MINUS SIGN}2,400 " in shown.text('[data-testid="adjustment"] th')
    assert "\N{MINUS SIGN}" in text_of(shown.item("adjusted-sum"))
    above = read(admin.get(f"/policy/{SLUG}/n/{grid.uid('/atlas')}/_adjustments", headers=HTMX))
    assert "b-cn0417" in text_of(above.item("adjustment"))
    marked = read(admin.get(f"/policy/{SLUG}/")).all('[role="row"]:has(.adjusted)')
    assert [row.attributes["id"] for row in marked] == [f"e-{grid.uid('/atlas/alice')}"]
    sign_in(client, grid.alice)
    answer = read(client.get("/me/priority/")).items("adjustment")
    assert "\N{MINUS SIGN}2,400 " in text_of(answer[-1])
    assert "b-cn0417" in text_of(answer[-1])
    assert not read(client.get(page)).has("#adjust")


def test_an_adjustment_is_revoked_with_a_reason_by_another_change_set(admin: Client, grid: Grid) -> None:
    page = page_of(grid, "/atlas/alice", "adjustments")
    typed = correction(grid, direction="add", hour="3")
    stated = admin.post(page, {**typed, "step": "preview"}).context["stated"]
    admin.post(page, {**typed, "step": "publish", "previewed": stated, "reason": "Forgotten."})
    made = Adjustment.objects.get()
    assert made.amount_s == 360_000.0
    revoke = {"step": "revoke", "adjustment": str(made.uid)}
    assert admin.post(page, revoke).status_code == 422
    assert admin.post(page, {**revoke, "reason": "Counted twice."}).status_code == 303
    made.refresh_from_db()
    assert made.until is not None
    assert read(admin.get(page)).item("adjustment").attributes["data-state"] == "revoked"
    assert admin.post(page, {**revoke, "reason": "again"}).status_code == 404
    assert ChangeSet.objects.latest("pk").reason == "Counted twice."


def test_an_invalid_adjustment_is_reported_at_its_field(admin: Client, grid: Grid) -> None:
    page = page_of(grid, "/atlas/alice", "adjustments")
    for amount in ("0", "-3", "many", "1e999", "nan"):
        answer = admin.post(page, correction(grid, amount=amount))
        assert answer.status_code == 422, amount
        assert answer.context["form"].has_error("amount", code="number")
    assert admin.get(f"{page}_preview", correction(grid, amount="x"), headers=HTMX).status_code == 422
    assert admin.get(f"{page}_preview").status_code == 303


def test_adjustments_need_the_right_to_correct_usage_above(lead: Client, grid: Grid) -> None:
    page = page_of(grid, "/atlas/alice", "adjustments")
    shown = read(lead.get(page))
    assert shown.has('[data-testid="may-not-adjust"]')
    assert not shown.has("#adjust")
    for step in ("preview", "publish"):
        assert lead.post(page, {**correction(grid), "step": step, "reason": "Mine."}).status_code == 403
    assert lead.get(f"{page}_preview", correction(grid), headers=HTMX).status_code == 403
    assert not Adjustment.objects.exists()


def test_a_draft_created_by_an_adjustment_has_its_reason(admin: Client, grid: Grid) -> None:
    page = page_of(grid, "/atlas/alice", "adjustments")
    typed = {**correction(grid), "reason": "Node b-cn0417 was broken."}
    stated = admin.post(page, {**typed, "step": "preview"}).context["stated"]
    assert admin.post(page, {**typed, "step": "draft", "previewed": stated}).status_code == 303
    assert ChangeSet.objects.latest("pk").reason == "Node b-cn0417 was broken."


def test_rules_and_adjustments_can_be_added_to_a_draft(admin: Client, grid: Grid) -> None:
    members, adjustments = page_of(grid, "/atlas"), page_of(grid, "/atlas/alice", "adjustments")
    typed = rule(group="biom*", seen=admin.get(members).context["seen"], step="draft")
    stated = admin.post(f"{members}rules/", typed).context["stated"]
    first = admin.post(f"{members}rules/", {**typed, "previewed": stated})
    stated = admin.post(adjustments, {**correction(grid), "step": "preview"}).context["stated"]
    second = admin.post(adjustments, {**correction(grid), "step": "draft", "previewed": stated})
    draft = ChangeSet.objects.latest("pk")
    assert [operation["op"] for operation in draft.operations] == ["set_members", "adjust_usage"]
    assert (first.status_code, second.status_code, second["Location"]) == (303, 303, first["Location"])
    assert admin.get(second["Location"]).status_code == 200
    assert draft.state == "draft"
    assert not grid.tree.members
