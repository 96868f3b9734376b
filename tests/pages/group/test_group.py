"""My group: a lead's page, in a browser without scripts, and its fragments."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.accounts.models import User
from apps.core import clock
from apps.policies.models import ChangeSet, Grant, Policy, Revision
from apps.policies.services import change_settings
from apps.priorities.serving import store
from tests.examples import first
from tests.grants import make_grant
from tests.pages.grid import PASSWORD, SLUG, TRICKY, Grid, make_grid
from tests.pages.page import read, text_of
from tests.sign_in import sign_in

HTMX = {"HX-Request": "true"}


@pytest.fixture
def grid(closed_grid: Grid) -> Grid:
    return closed_grid


def give(grid: Grid, path: str, user: User, role: str = "lead", **more: Any) -> Grant:
    policy = Policy.objects.get(slug=SLUG)
    return make_grant(user, grid.uid(path), role, policy=policy, at=grid.at, **more)


@pytest.fixture
def lead(grid: Grid, client: Client) -> Client:
    """alice leads atlas."""
    give(grid, "/atlas", grid.alice)
    sign_in(client, grid.alice)
    return client


@pytest.fixture
def manager(grid: Grid) -> Client:
    maria = User.objects.create_user("maria", "", PASSWORD)
    give(grid, "/", maria, "manager")
    return sign_in(Client(), maria)


def page(grid: Grid, path: str = "/atlas") -> str:
    return f"/policy/{SLUG}/group/{grid.uid(path)}/"


def typed(grid: Grid, **more: Any) -> dict[str, Any]:
    shares = {f"shares-{grid.uid(f'/atlas/{name}')}": "1" for name in ("alice", "bob")}
    head = Policy.objects.get(slug=SLUG).head_number
    return {**shares, "base_revision": head, "reason": "", "names": "", "names_shares": "1", **more}


def key(grid: Grid, name: str, what: str = "shares") -> str:
    return f"{what}-{grid.uid(f'/atlas/{name}')}"


def field(grid: Grid, name: str, what: str = "shares") -> str:
    return f"#{key(grid, name, what)}"


def n_changes(answer: Any) -> int:
    return int(read(answer).one("#n-changes").attributes["data-value"] or -1)


def head() -> int:
    return Policy.objects.get(slug=SLUG).head_number


def note_of(answer: Any, level: str = "success") -> str:
    """The one notice of a page after something was done."""
    return read(answer).text(f"#problem .note.{level}")


def active(grid: Grid, path: str) -> Any:
    tree = grid.tree
    return tree.node(tree.index_of_path(path) or 0)


def test_leads_are_redirected_to_their_group_and_others_to_my_priority(grid: Grid, lead: Client) -> None:
    assert lead.get("/start/")["Location"] == "/group/"
    assert lead.get("/group/")["Location"] == page(grid)
    other = sign_in(Client(), User.objects.create_user("zoe"))
    assert other.get("/start/")["Location"] == "/me/priority/"
    assert read(other.get("/group/")).has('[data-testid="leads-nothing"]')
    assert not read(lead.get(page(grid))).has('[data-testid="leads-nothing"]')
    assert read(lead.get("/")).has(f'#nav a[href="/group/?policy={SLUG}"]')


def test_the_page_lists_members_with_shares_usage_and_balance(grid: Grid, lead: Client) -> None:
    shown = read(lead.get(page(grid)))
    assert shown.item("n-members").attributes["data-value"] == "2"
    for name, state, used in (("alice", "over", "75.0 %"), ("bob", "under", "25.0 %")):
        row = f"#m-{grid.uid(f'/atlas/{name}')}"
        assert shown.text(f"{row} th a") == name
        assert "25.0" in shown.text(f"{row} .bal.{state}")
        assert used in shown.text(row)
    assert shown.item("decides").attributes["data-state"] == "members"
    assert "SweGrid" in text_of(shown.item("decides"))


@pytest.mark.parametrize(("algorithm", "has_levels"), [("aequus", True), ("slurm-classic", False)])
def test_that_all_of_the_group_wait_is_shown_only_where_levels_decide(
    grid: Grid, lead: Client, algorithm: str, has_levels: bool
) -> None:
    settings = {"algorithm": {"name": algorithm}}
    if not has_levels:
        change_settings(policy_slug=SLUG, settings=settings, reason="x", at=clock.now(), actor=COMMAND)
        grid.recompute()
    assert read(lead.get(page(grid))).has('[data-testid="goes"]') == has_levels


def test_ranks_of_an_earlier_revision_are_named_and_not_explained_by_newer_targets(grid: Grid, lead: Client) -> None:
    def shown() -> list[tuple[bool, list[str | None]]]:
        """Whether the order among groups is explained, and the revision of the ranks: group, entry and tree page."""
        pages = (read(lead.get(address)) for address in (page(grid), entry, tree))
        return [
            (found.has('[data-testid="goes"]'), [one.attributes["data-value"] for one in found.items("earlier-ranks")])
            for found in pages
        ]

    tree = f"/policy/{SLUG}/"
    entry = f"{tree}n/{grid.uid('/atlas')}/atlas/"
    assert shown() == [(True, []), (True, []), (False, [])]
    change_settings(policy_slug=SLUG, settings={"fallback_factor": 0.25}, reason="x", at=clock.now(), actor=COMMAND)
    assert shown() == [(False, ["2"])] * 3
    assert "3" in text_of(read(lead.get(entry)).item("earlier-ranks"))
    for address in (entry, tree):
        assert not read(lead.get(address, {"at": 2})).has('[data-testid="earlier-ranks"]')
    grid.recompute()
    assert shown() == [(True, []), (True, []), (False, [])]


def test_typed_shares_are_previewed_without_publishing(grid: Grid, lead: Client) -> None:
    answer = lead.post(page(grid), typed(grid, step="effect", **{key(grid, "bob"): "3"}))
    assert n_changes(answer) == 1
    assert read(answer).text(f"#target-{grid.uid('/atlas/bob')} b") == "75.0 %"
    assert head() == 2


def test_several_changes_are_published_with_one_reason_and_undone(grid: Grid, lead: Client) -> None:
    until = (grid.at + timedelta(days=9)).date().isoformat()
    wanted = {key(grid, "bob"): "3,5", key(grid, "alice"): "2", key(grid, "alice", "until"): until}
    answer = lead.post(page(grid), typed(grid, step="publish", reason="Referee runs.", **wanted), follow=True)
    assert (head(), "3" in note_of(answer)) == (3, True)
    assert "Referee runs." in read(answer).text(f'li:has(form[action="{page(grid)}undo/"])')
    assert (active(grid, "/atlas/bob").shares, active(grid, "/atlas/alice").shares) == (3.5, 2.0)
    assert active(grid, "/atlas/alice").dates.at_end == 1.0
    undone = lead.post(f"{page(grid)}undo/", {"number": 3}, follow=True)
    assert "3" in note_of(undone)
    assert "4" in note_of(undone)
    assert Revision.objects.get(policy__slug=SLUG, number=4).change_set.reverts_number == 3
    assert (active(grid, "/atlas/bob").shares, active(grid, "/atlas/alice").dates) == (1.0, None)
    assert lead.post(f"{page(grid)}undo/", {"number": 1}).status_code == 404


def test_publishing_without_a_reason_keeps_the_input(grid: Grid, lead: Client) -> None:
    answer = lead.post(page(grid), typed(grid, step="publish", **{key(grid, "bob"): "7"}))
    shown = read(answer, 422)
    assert shown.one(field(grid, "bob")).attributes["value"] == "7"
    assert answer.context["typed"].codes == {"reason": "required"}
    assert shown.one("#reason").attributes["aria-describedby"] == shown.one('[role="alert"].bad').attributes["id"]
    assert head() == 2


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("shares", "many", "number"),
        ("shares", "-1", "negative"),
        ("until", "soon", "no_day"),
        ("until", "2020-01-01", "invalid"),
    ],
)
def test_invalid_input_is_reported_at_its_field(grid: Grid, lead: Client, name: str, value: str, code: str) -> None:
    more = {key(grid, "bob", name): value, key(grid, "bob", "open"): "1"}
    answer = lead.post(page(grid), typed(grid, step="publish", reason="r", **more))
    shown = read(answer, 422)
    assert answer.context["typed"].codes == {key(grid, "bob", name): code}
    wrong = shown.one('[aria-invalid="true"]')
    assert (wrong.attributes["name"], wrong.attributes["value"]) == (key(grid, "bob", name), value)
    assert shown.text(f"#{wrong.attributes['aria-describedby']}")
    assert head() == 2


def test_the_boost_button_proposes_twice_the_shares_for_two_weeks(grid: Grid, lead: Client) -> None:
    step = f"open:{grid.uid('/atlas/bob')}"
    answer = lead.post(page(grid), typed(grid, step=step))
    shown = read(answer)
    terms = shown.one(f"#terms-{grid.uid('/atlas/bob')}").attributes
    assert (terms["data-key"], terms["data-value"]) == ("returns", "1.0")
    shares = shown.one(field(grid, "bob")).attributes
    assert (shares["name"], shares["inputmode"], shares["value"]) == (key(grid, "bob"), "decimal", "2")
    until = shown.one(field(grid, "bob", "until")).attributes["value"]
    assert until == (clock.now().date() + timedelta(days=14)).isoformat()
    assert n_changes(answer) == 1
    closed = lead.post(page(grid), typed(grid, step=f"close:{grid.uid('/atlas/bob')}", **{key(grid, "bob"): "2"}))
    assert n_changes(closed) == 0


def test_equalise_sets_one_number_for_all_members(grid: Grid, lead: Client) -> None:
    lead.post(page(grid), typed(grid, step="publish", reason="r", **{key(grid, "bob"): "5"}))
    assert n_changes(lead.post(page(grid), typed(grid, step="equalise", **{key(grid, "bob"): "5"}))) == 1
    shown = typed(grid, step="publish", reason="r", **{key(grid, name): "5" for name in ("alice", "bob")})
    lead.post(page(grid), shown)
    assert active(grid, "/atlas/alice").shares == active(grid, "/atlas/bob").shares == 5.0


def test_a_boost_can_be_ended_early(grid: Grid, lead: Client) -> None:
    until = (grid.at + timedelta(days=9)).date().isoformat()
    boost = {key(grid, "bob"): "4", key(grid, "bob", "until"): until}
    lead.post(page(grid), typed(grid, step="publish", reason="r", **boost))
    opened = lead.post(page(grid), typed(grid, step=f"open:{grid.uid('/atlas/bob')}", **boost))
    end = read(opened).one(f"#end-{grid.uid('/atlas/bob')}").attributes
    ended = lead.post(page(grid), typed(grid, step=end["value"], **boost))
    assert n_changes(ended) == 1
    lead.post(page(grid), typed(grid, step="publish", reason="r"))
    assert (active(grid, "/atlas/bob").shares, active(grid, "/atlas/bob").dates) == (1.0, None)


def test_membership_changes_of_a_lead_need_a_decision_and_those_of_a_manager_do_not(
    grid: Grid, lead: Client, manager: Client
) -> None:
    answer = lead.post(page(grid), typed(grid, step="publish", reason="A student.", names="ada, grace"), follow=True)
    assert note_of(answer, "warn")
    assert head() == 2
    assert ChangeSet.objects.latest("pk").state == "proposed"
    assert active(grid, "/atlas").uid
    more = {key(grid, "bob", "leave"): "1", key(grid, "bob", "open"): "1"}
    done = manager.post(page(grid), typed(grid, step="publish", reason="r", names="ada", **more), follow=True)
    assert (head(), "3" in note_of(done)) == (3, True)
    tree = grid.tree
    assert [tree.name[j] for j in tree.children(tree.index_of_path("/atlas") or 0)] == ["ada", "alice"]


def test_a_lead_who_may_not_publish_sends_it_for_a_decision(grid: Grid, client: Client, manager: Client) -> None:
    grant = give(grid, "/atlas", grid.alice)
    grant.verbs = ["view_members", "edit_shares"]
    grant.save()
    sign_in(client, grid.alice)
    assert not client.get(page(grid)).context["page"].may_publish
    assert manager.get(page(grid)).context["page"].may_publish
    client.post(page(grid), typed(grid, step="publish", reason="Bob first.", **{key(grid, "bob"): "3"}))
    assert active(grid, "/atlas/bob").shares == 1.0
    assert "Bob first." in manager.get("/inbox/").content.decode()


def test_a_duplicate_name_is_reported_at_the_field(grid: Grid, manager: Client) -> None:
    answer = manager.post(page(grid), typed(grid, step="publish", reason="r", names="bob"))
    assert answer.context["typed"].codes == {"names": "name_taken"}
    assert read(answer, 422).one("#names").attributes["aria-invalid"] == "true"


def test_a_concurrent_publication_shows_both_numbers(grid: Grid, lead: Client, manager: Client) -> None:
    stale = typed(grid, step="publish", reason="r", **{key(grid, "bob"): "3"})
    manager.post(page(grid), typed(grid, step="publish", reason="r", **{key(grid, "bob"): "9"}))
    answer = lead.post(page(grid), stale)
    shown = read(answer, 409)
    assert "9" in shown.text("#conflict")
    assert "3" in shown.text("#conflict")
    assert shown.one(field(grid, "bob")).attributes["value"] == "3"
    base = shown.one("#group-form [name=base_revision]").attributes["value"]
    again = lead.post(page(grid), {**stale, "base_revision": base}, follow=True)
    assert (base, head(), "4" in note_of(again)) == ("3", 4, True)


def test_fragments_answer_htmx_and_redirect_other_requests(grid: Grid, lead: Client) -> None:
    for name in ("_form", "_effect", "_ask_effect"):
        assert lead.get(f"{page(grid)}{name}")["Location"] == page(grid)
    data = typed(grid, step="", **{key(grid, "bob"): "3"})
    effect = lead.post(f"{page(grid)}_effect", data, headers=HTMX)
    assert read(effect).has(f"#target-{grid.uid('/atlas/bob')}[hx-swap-oob=true]")
    assert n_changes(effect) == 1
    assert "1" in json.loads(effect.headers["HX-Trigger"])["announce"]
    form = lead.post(f"{page(grid)}_form", {**data, "step": "equalise"}, headers=HTMX)
    assert form.content.decode().lstrip().startswith("<form")
    assert read(form).has("form#group-form.members")
    assert head() == 2


def test_a_large_group_is_paged_and_equalised_as_a_whole(db: None, client: Client) -> None:
    store.forget()
    grid = make_grid(clock.now(), with_usage=False, extra_users=230)
    sign_in(client, grid.admin)
    shown = read(client.get(page(grid, "/cms")))
    assert shown.item("n-members").attributes["data-value"] == "232"
    assert len(shown.all("input.cell")) == 100
    assert shown.has('a[href="?cursor=100"]')
    assert len(read(client.get(f"{page(grid, '/cms')}?cursor=200")).all("input.cell")) == 32
    store.forget()


def test_only_leads_open_the_page_of_a_group(grid: Grid, lead: Client) -> None:
    stranger = sign_in(Client(), User.objects.create_user("zoe"))
    asked = (
        (lead, "/biomed", 404, "not_found"),
        (lead, "/", 403, "not_your_group"),
        (stranger, "/atlas", 404, "not_found"),
    )
    for client, path, status, code in asked:
        answer: Any = client.get(page(grid, path))
        assert (answer.status_code, answer.context["refusal"].code) == (status, code), path
    assert lead.get(page(grid, "/atlas")).status_code == 200


def test_percentages_are_accepted_like_shares(grid: Grid, lead: Client) -> None:
    """alice 75 % of atlas while bob keeps his 1: 3 shares; both at once; and what leaves nothing for the others."""
    alice, bob = (f"shares-{grid.uid(f'/atlas/{name}')}" for name in ("alice", "bob"))
    typed = read(lead.post(page(grid), {alice: "75 %", bob: "1", "step": "effect"}))
    assert typed.one(f"#{alice}").attributes["value"] == "3"
    published = lead.post(page(grid), {alice: "75%", bob: "1", "step": "publish", "reason": "More for alice."})
    assert published.status_code == 303
    assert (active(grid, "/atlas/alice").shares, active(grid, "/atlas/bob").shares) == (3, 1)
    for wrong in ("100 %", "-3 %", "x %"):
        refused = lead.post(page(grid), {alice: wrong, bob: "1", "step": "publish", "reason": "No."})
        assert read(refused, refused.status_code).one(f"#{alice}").attributes["aria-invalid"] == "true", wrong
    assert active(grid, "/atlas/alice").shares == 3


def test_shares_have_steps_of_one_point(grid: Grid, lead: Client) -> None:
    """alice and bob have 1 of 2 shares each: 51 % of the group beside bob's 1 is 1.04 shares; then 50 % again."""
    alice, bob = (grid.uid(f"/atlas/{name}") for name in ("alice", "bob"))
    typed = {f"shares-{alice}": "1", f"shares-{bob}": "1"}
    more = read(lead.post(page(grid), {**typed, "step": f"more:{alice}"}))
    assert more.text(f"#target-{alice} b") == "51.0 %"
    shares = more.one(f"#shares-{alice}").attributes["value"] or ""
    assert shares == "1.04"
    less = read(lead.post(page(grid), {**typed, f"shares-{alice}": shares, "step": f"less:{alice}"}))
    assert less.text(f"#target-{alice} b") == "50.0 %"
    least = read(lead.post(page(grid), {**typed, f"shares-{alice}": "0", "step": f"less:{alice}"}))
    assert least.text(f"#target-{alice} b") == "0.0 %"
    assert Revision.objects.count() == 2


def test_the_preview_lists_rank_changes_before_publishing(grid: Grid, lead: Client) -> None:
    """alice used 300 of 400 with half the shares: at 80 % bob is the one over, and the two change places."""
    alice = f"shares-{grid.uid('/atlas/alice')}"
    snapshot = store.newest(SLUG)
    ranks = {snapshot.tree.name[i]: int(snapshot.values.rank[i]) for i in range(len(snapshot.tree))}
    note_of = read(lead.post(f"{page(grid)}_effect", {alice: "80 %"}, headers=HTMX)).text("#rank-effect")
    assert note_of.startswith("2 ranks in SweGrid change:")
    assert f"alice {ranks['alice']} → {ranks['bob']}" in note_of
    assert f"bob {ranks['bob']} → {ranks['alice']}" in note_of
    same = read(lead.post(page(grid), {alice: "51 %", "step": "effect"}))
    assert same.one("#rank-effect").attributes["data-value"] == "0"
    assert same.has("#rank-effect [data-key=levels_above]")
    assert read(lead.get(page(grid))).one("#rank-effect").attributes.keys() >= {"hidden"}


def test_a_larger_share_is_requested_and_its_state_shown(grid: Grid, lead: Client) -> None:
    ask = {"amount": "75", "unit": "shares", "until": "2099-06-30", "reason": "Two new postdocs."}
    answer = lead.post(f"{page(grid)}ask/", ask, follow=True)
    shown = read(answer)
    assert note_of(answer)
    (card,) = answer.context["requests"]
    assert (card.state, card.entry_name, card.asked_shares, card.asked_until) == ("open", "atlas", "75", "2099-06-30")
    title = text_of(shown.item("request-title"))
    for part in ("atlas", "75", "30 June 2099", "60"):
        assert part in title, part
    assert "60.0 %" in text_of(shown.item("request-target"))
    assert shown.has('#ask button[value="withdraw"]')
    assert not shown.has("[name=amount]")  # one request at a time
    assert Revision.objects.filter(policy__slug=SLUG).count() == 2


@pytest.mark.parametrize(
    ("ask", "code", "where"),
    first(
        3,
        [
            ({"amount": "60", "reason": "r"}, "nothing_to_change", "shares"),
            ({"amount": "10", "reason": "r"}, "not_a_request", "shares"),
            ({"amount": "", "reason": "r"}, "required", "amount"),
            ({"amount": "70", "reason": ""}, "required", "reason"),
            ({"amount": "100", "unit": "percent", "reason": "r"}, "not_a_request", "shares"),
        ],
    ),
)
def test_an_invalid_request_is_refused_at_its_field(
    grid: Grid, lead: Client, ask: dict[str, str], code: str, where: str
) -> None:
    answer = lead.post(f"{page(grid)}ask/", ask)
    shown = read(answer, 422)
    form, refusal = answer.context["ask"], answer.context["ask_refusal"]
    refused = [(error.code, name) for name, errors in form.errors.as_data().items() for error in errors]
    refused += [(refusal.code, problem.where) for problem in refusal.fields] if refusal else []
    assert refused == [(code, where)]
    assert shown.text('#ask form [role="alert"]')
    assert shown.one("#amount").attributes["value"] == ask["amount"]
    assert not ChangeSet.objects.filter(origin="request").exists()


def test_the_target_of_a_typed_amount_is_previewed(grid: Grid, lead: Client) -> None:
    asked = lead.get(f"{page(grid)}_ask_effect?amount=70&unit=percent", headers=HTMX)
    assert text_of(read(asked).item("ask-target")) == "70.0 %"
    assert read(lead.get(f"{page(grid)}_ask_effect?amount=x", headers=HTMX)).error_codes() == ["number"]


def test_a_lead_of_several_groups_can_switch_between_them(grid: Grid, lead: Client) -> None:
    assert not read(lead.get(page(grid))).has('[data-testid="led-groups"]')
    give(grid, "/cms", grid.alice)
    shown = read(lead.get(page(grid)))
    assert shown.values("href", '[data-testid="led-groups"]') == [page(grid), page(grid, "/cms")]


def test_member_names_are_escaped(grid: Grid, client: Client) -> None:
    give(grid, "/biomed", grid.alice)
    sign_in(client, grid.alice)
    shown = read(client.get(page(grid, "/biomed")))
    assert shown.text(f"#m-{grid.uid(f'/biomed/{TRICKY}')} th a") == TRICKY
    assert not shown.has("img")


@pytest.mark.parametrize(("path", "has_groups"), [("/atlas", False), ("/", True)])
def test_a_list_with_groups_is_not_called_users(grid: Grid, manager: Client, path: str, has_groups: bool) -> None:
    answer = manager.get(page(grid, path))
    assert answer.context["has_groups"] is has_groups
    assert read(answer).text("#members-title") == ("Groups and users" if has_groups else "Users")
