"""Pages of a policy's algorithm by request: what they say, what they refuse and keep, and who may decide."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.actor import COMMAND
from apps.core import clock
from apps.engine.algorithms import all_algorithms
from apps.engine.operators import all_operators
from apps.pages.algorithm import presenters
from apps.pages.algorithm.comparison import compare_algorithms
from apps.policies.models import Policy, Revision
from apps.policies.publishing.direct import publish_operations
from apps.policies.services import change_settings, change_shares
from apps.priorities.serving import store
from apps.priorities.tried_settings import TriedVector, check_tree
from tests.pages.grid import SLUG, Grid, make_grid
from tests.pages.page import read, text_of
from tests.sign_in import sign_in

ALGORITHM = reverse("pages:algorithm", kwargs={"policy": SLUG})
EFFECT = reverse("pages:algorithm-effect", kwargs={"policy": SLUG})


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


def page(client: Client, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status
    return answer.content.decode()


def send(client: Client, **data: Any) -> Any:
    return client.post(ALGORITHM, {"base_revision": 2, "reason": "as our scheduler", **data})


def publish(client: Client, **data: Any) -> Any:
    """Through both steps, as the page's own buttons do it."""
    shown = send(client, step="preview", **data)
    return send(client, step="publish", previewed=shown.context["stated"], **data)


def active() -> dict[str, Any]:
    return dict(Revision.objects.filter(policy__slug=SLUG).order_by("-number").values_list("settings", flat=True)[0])


@pytest.mark.parametrize("name", sorted(all_algorithms()))
def test_every_algorithm_is_shown_from_its_registry_and_can_be_set(admin: Client, grid: Grid, name: str) -> None:
    shown = all_algorithms()[name]
    text = page(admin, f"{ALGORITHM}?algorithm={name}")
    for found in (shown.label, *(parameter.label for parameter in shown.parameters)):
        assert found in text
    notes = [
        parameter.note for parameter in shown.parameters if len(parameter.choices) > 1 and parameter.name != "operator"
    ]
    assert all(note and note in text for note in notes), "what the words of a list mean"
    assert shown.reference.split(" (")[0].replace("&", "&amp;") in text
    data = {parameter.name: "" for parameter in shown.parameters}
    if name == "aequus":
        data["operator"] = "absolute"
    answer = publish(admin, algorithm=name, **data)
    assert answer.status_code == 303
    assert active()["algorithm"]["name"] == name
    grid.recompute()
    assert store.newest(SLUG).algorithm == active()["algorithm"]


def test_zero_shares_last_can_be_chosen_where_the_resolution_allows_it(admin: Client) -> None:
    assert publish(admin, algorithm="aequus", operator="relative", zero_shares="last").status_code == 303
    assert active()["algorithm"]["zero_shares"] == "last"
    assert "<option selected>last</option>" in page(admin, ALGORITHM)
    wrong = send(admin, algorithm="aequus", resolution="3", zero_shares="last", step="preview", base_revision=3)
    (field,) = read(wrong, 422).all('[aria-invalid="true"]')
    assert field.attributes["name"] == "zero_shares"
    coarse = publish(admin, algorithm="aequus", resolution="3", zero_shares="operator", base_revision=3)
    assert coarse.status_code == 303
    assert "zero_shares" not in active()["algorithm"]


def test_an_unusable_value_is_marked_at_its_field_and_kept(admin: Client) -> None:
    answer = send(admin, algorithm="aequus", operator="relative", resolution="1", step="preview")
    (field,) = read(answer, 422).all('[aria-invalid="true"]')
    assert (field.attributes["name"], field.attributes["value"]) == ("resolution", "1")
    assert re.findall(r"\d+", read(answer, 422).text("#id_resolution_hint")) == ["1", "2", "2147483648"]
    wrong = send(admin, algorithm="aequus", operator="relative", k="0,3", step="preview")
    (field,) = read(wrong, 422).all('[aria-invalid="true"]')
    assert (field.attributes["name"], field.attributes["value"]) == ("k", "0,3")
    assert "combined" in read(wrong, 422).text("#id_k_hint"), "the operator to which it applies"
    right = publish(admin, algorithm="aequus", operator="combined", k="0,3")
    assert right.status_code == 303
    assert active()["algorithm"]["k"] == 0.3


def test_a_preview_shows_its_own_parameters(admin: Client) -> None:
    publish(admin, algorithm="aequus", operator="sigmoid-2", resolution="100")
    answer = send(admin, algorithm="aequus", operator="combined", resolution="50", k="0", step="preview")
    shown = {
        str(each.attributes["data-key"]): each.text().strip() for each in read(answer).all('[data-testid="parameter"]')
    }
    labels = {parameter.name: parameter.label for parameter in all_algorithms()["aequus"].parameters}
    assert shown == {
        labels["operator"]: "combined",
        labels["resolution"]: "50",
        labels["k"]: "0",
        labels["factor_from"]: "rank",
    }
    assert read(send(admin, algorithm="flux", step="preview")).all('[data-testid="parameter"]') == []


def test_publishing_needs_a_preview_and_a_reason(admin: Client) -> None:
    assert send(admin, algorithm="gridwide", step="publish").status_code == 200
    shown = send(admin, algorithm="gridwide", step="preview")
    silent = send(admin, algorithm="gridwide", step="publish", reason=" ", previewed=shown.context["stated"])
    assert [one.attributes["name"] for one in read(silent, 422).all('[aria-invalid="true"]')] == ["reason"]
    other = send(admin, algorithm="flux", step="publish", previewed=shown.context["stated"])
    assert other.status_code == 200
    assert active()["algorithm"]["name"] == "aequus"


def test_an_algorithm_without_inherited_shares_names_the_inheriting_entry(admin: Client, grid: Grid) -> None:
    change_shares(
        policy_slug=SLUG, entry_uid=grid.uid("/atlas/bob"), shares="parent", reason="x", at=clock.now(), actor=COMMAND
    )
    shown = read(admin.get(f"{ALGORITHM}?algorithm=flux"))
    assert "/atlas/bob" in shown.text('[data-testid="misfit"]')
    assert not shown.has('[name="step"]')
    assert "/atlas/bob" in read(publish(admin, algorithm="flux", base_revision=3), 422).text('[data-testid="misfit"]')


def test_concurrent_decisions_are_reported(admin: Client) -> None:
    settings = {"algorithm": {"name": "gridwide"}}
    change_settings(policy_slug=SLUG, settings=settings, reason="first", at=clock.now(), actor=COMMAND)
    answer = publish(admin, algorithm="flux")
    assert read(answer, 409).error_codes() == ["edit_conflict"]
    assert active()["algorithm"]["name"] == "gridwide"


def test_a_user_who_is_not_administrator_reads_but_cannot_change(grid: Grid, client: Client) -> None:
    sign_in(client, grid.alice)
    shown = read(client.get(f"{ALGORITHM}?algorithm=flux"))
    assert shown.has('[data-testid="may-not-change"]')
    assert not shown.has('[name="step"]')
    assert publish(client, algorithm="flux").status_code == 403
    assert active()["algorithm"]["name"] == "aequus"


def test_an_unknown_algorithm_is_not_found(admin: Client) -> None:
    shown = admin.get(ALGORITHM, {"algorithm": "nothing"})
    for answer in (shown, *(send(admin, algorithm="nothing", step=step) for step in ("preview", "publish"))):
        assert (answer.status_code, answer.context["refusal"].code) == (404, "not_found")
    assert Policy.objects.get(slug=SLUG).head_number == 2


def test_without_usage_the_comparison_is_empty_with_a_message(db: None, client: Client) -> None:
    grid = make_grid(clock.now(), with_usage=False)
    sign_in(client, grid.admin)
    shown = read(client.get(ALGORITHM))
    assert shown.has('[data-testid="nothing-to-compare"]')
    assert not shown.items("tried")
    assert publish(client, algorithm="flux").status_code == 303


@pytest.mark.parametrize(("name", "has_levels"), [("aequus", True), ("slurm-depth-oblivious", False)])
def test_the_page_says_that_a_whole_group_waits_only_if_levels_decide(
    admin: Client, grid: Grid, name: str, has_levels: bool
) -> None:
    if name != "aequus":
        publish(admin, algorithm=name, damping_factor="1")
        grid.recompute()
    entry = read(admin.get(f"/policy/{SLUG}/n/{grid.uid('/atlas')}/atlas/"))
    assert entry.has("#verdict + p")
    assert entry.has('[data-testid="goes"]') == has_levels


def test_the_page_of_an_entry_names_the_usage_its_children_are_compared_by(admin: Client, grid: Grid) -> None:
    atlas = grid.uid("/atlas")
    page = f"/policy/{SLUG}/n/{atlas}/atlas/"
    assert not read(admin.get(page)).has('[data-testid="scope"]'), "by local usage, as everything is"
    scope = {"op": "set_scope", "entry": str(atlas), "scope": "global", "sources": ["cluster"]}
    publish_operations(policy_slug=SLUG, operations=[scope], reason="x", at=clock.now(), actor=COMMAND)
    shown = read(admin.get(page)).item("scope")
    assert shown.attributes["data-value"] == "global"
    assert "cluster" in text_of(shown)
    assert not read(admin.get(f"/policy/{SLUG}/n/{grid.uid('/atlas/bob')}/bob/")).has('[data-testid="scope"]')


@pytest.mark.paper("4.18")
def test_tree_entry_pages_and_rest_agree_on_the_usage_compared_by(admin: Client, grid: Grid) -> None:
    atlas, bob = grid.uid("/atlas"), grid.uid("/atlas/bob")
    tree = f"/policy/{SLUG}/"
    assert not read(admin.get(tree)).has('[data-testid="scope-badge"]')
    scopes: list[dict[str, Any]] = [
        {"op": "set_scope", "entry": str(atlas), "scope": "global", "sources": ["cluster-a"]},
        {"op": "set_scope", "entry": str(grid.uid("/cms")), "scope": "global"},
        {"op": "set_scope", "entry": str(bob), "scope": "global"},
    ]
    publish_operations(policy_slug=SLUG, operations=scopes, reason="x", at=clock.now(), actor=COMMAND)
    shown = read(admin.get(f"{tree}?entry={bob}"))
    badges = {
        path: text_of(shown.one(f'#e-{grid.uid(path)} [data-testid="scope-badge"]')) for path in ("/atlas", "/cms")
    }
    assert badges == {"/atlas": "only cluster-a", "/cms": "Global"}
    assert len(shown.all('[data-testid="scope-badge"]')) == 2, "without children a scope has no effect"
    assert shown.item("panel-compared-by").attributes["data-value"] == "global"
    assert "cluster-a" in text_of(shown.item("panel-compared-by"))
    assert not shown.has('[data-testid="panel-scope"]')
    panel = read(admin.get(f"{tree}?entry={atlas}"))
    values = [panel.item(name).attributes["data-value"] for name in ("panel-compared-by", "panel-scope")]
    assert values == ["local", "global"]
    assert "cluster-a" in text_of(read(admin.get(f"{tree}n/{bob}/bob/")).item("compared-by"))
    root = read(admin.get(f"{tree}n/{grid.tree.uuid(0)}/swegrid/"))
    assert len(root.all('#children [data-testid="scope-badge"]')) == 2
    assert not root.has('[data-testid="compared-by"]')
    body = {each["name"]: each for each in admin.get(f"/api/v1/policies/{SLUG}/tree?depth=2").json()["children"]}
    assert (body["atlas"]["scope"], body["atlas"]["scope_sources"]) == ("global", ["cluster-a"])
    assert (body["cms"]["scope"], body["cms"]["scope_sources"]) == ("global", [])


def test_level_fairshare_is_shown_as_over_or_under_on_every_page(admin: Client, grid: Grid) -> None:
    publish(admin, algorithm="slurm-fair-tree", ties="as-slurm")
    grid.recompute()
    bob = grid.uid("/atlas/bob")
    tree = read(admin.get(f"/policy/{SLUG}/?entry={bob}"))
    assert tree.one("th.c-own").attributes["title"] == "level_fs"
    for place in (f"#e-{bob} .c-own", '#panel [data-testid="own-number"][data-key="level_fs"]'):
        found = tree.one(f'{place} [data-testid="balance"]')
        assert (found.attributes["data-state"], text_of(found).split()[0]) == ("under", "2"), place
    answer = admin.get(f"/policy/{SLUG}/n/{grid.uid('/cms/dave')}/dave/")
    unused = read(answer).one('[data-testid="own-number"][data-key="level_fs"] [data-testid="balance"]')
    assert unused.attributes["data-state"] == "idle"
    assert "Infinity" not in answer.content.decode()
    assert not read(admin.get(f"/policy/{SLUG}/n/{grid.uid('/atlas')}/atlas/")).has('[data-testid="no-rank"]')
    robots = {"op": "add", "parent": str(grid.uid("/atlas")), "name": "robots", "kind": "service", "shares": 1.0}
    publish_operations(policy_slug=SLUG, operations=[robots], reason="x", at=clock.now(), actor=COMMAND)
    grid.recompute()
    unranked = read(admin.get(f"/policy/{SLUG}/n/{grid.uid('/atlas/robots')}/robots/"))
    assert "robots" in unranked.text('[data-testid="no-rank"]')
    sign_in(admin, grid.alice)
    mine = read(admin.get("/me/priority/_details"))
    assert mine.item("scheduler-number").attributes["data-key"] == "number.fair_tree"
    assert "level_fs" in [one.attributes["data-key"] for one in mine.items("own-number")]


def test_the_form_describes_each_operator_and_the_effect_of_the_resolution(admin: Client) -> None:
    shown = read(admin.get(ALGORITHM))
    names = shown.each('input[type="radio"][name="operator"]', "value")
    assert names == [operator.name for operator in all_operators()]
    assert shown.each('input[type="radio"][checked]', "value") == ["relative"]
    assert all(node.attributes["title"] for node in shown.all(".operators-pick label"))
    assert len(shown.all(".operators-pick polyline")) == len(names)
    assert not shown.has('[data-testid="resolution-check"]'), "rounding changes no rank"
    previewed = read(send(admin, algorithm="aequus", operator="absolute", resolution="2", step="preview"))
    coarse = check_tree(policy_slug=SLUG, tried=TriedVector("absolute", 2), actor=COMMAND)
    assert coarse.n_misplaced > 0
    assert previewed.item("resolution-check").attributes["data-value"] == str(coarse.n_misplaced)
    assert previewed.has('[data-testid="moves"]'), "the operator's part and that of rounding"
    assert not read(admin.get(f"{ALGORITHM}?algorithm=flux")).has('[data-testid="resolution-check"]')


def test_a_power_outside_the_list_can_be_typed(admin: Client) -> None:
    answer = publish(admin, algorithm="aequus", operator="absolute", operator_named="relative-7")
    assert answer.status_code == 303
    assert active()["algorithm"]["operator"] == "relative-7"
    shown = read(admin.get(ALGORITHM))
    assert shown.one("#id_operator").attributes["value"] == "relative-7"
    assert not shown.has('input[type="radio"][checked]')
    wrong = read(send(admin, algorithm="aequus", operator_named="cosine", base_revision=3, step="preview"), 422)
    (field,) = wrong.all('[aria-invalid="true"]')
    assert (field.attributes["id"], field.attributes["value"]) == ("id_operator", "cosine")


@pytest.mark.paper("A8")
def test_a_coarse_resolution_moves_leaves_by_rounding_alone(grid: Grid) -> None:
    fine, coarse, other = (
        {"name": "aequus", "operator": operator, "resolution": resolution}
        for operator, resolution in (("relative", 2**31), ("relative", 2), ("absolute", 2**31))
    )
    comparison = compare_algorithms(policy_slug=SLUG, algorithms=[fine, coarse, other], actor=COMMAND)
    _first, by_rounding, by_operator = comparison.sides
    assert by_rounding.n_moved == by_rounding.n_by_rounding > 0 == by_rounding.n_by_operator
    assert by_operator.n_moved == by_operator.n_by_operator > 0 == by_operator.n_by_rounding


def test_rank_changes_by_operator_and_by_rounding_are_counted_separately(admin: Client) -> None:
    for operator in ("sigmoid-2", "slurm", "relative-7", "absolute"):
        effect = admin.get(f"{ALGORITHM}?algorithm=aequus&operator={operator}").context["effect"].sides[1]
        assert (effect.n_by_operator == 0) is (operator != "absolute"), operator
        assert effect.n_moved <= effect.n_by_operator + effect.n_by_rounding


def test_who_would_move_is_the_comparison_with_the_typed_settings_largest_first(admin: Client, grid: Grid) -> None:
    change_shares(
        policy_slug=SLUG, entry_uid=grid.uid("/biomed/carol"), shares=30, reason="x", at=clock.now(), actor=COMMAND
    )
    htmx, n_moved = {"HX-Request": "true"}, 0
    tried: tuple[dict[str, Any], ...] = (
        {"name": "slurm-classic"},
        {"name": "aequus", "operator": "absolute", "resolution": 3},
    )
    for settings in tried:
        wanted = compare_algorithms(policy_slug=SLUG, algorithms=[{}, settings], actor=COMMAND)
        typed = {"algorithm": settings["name"], **{key: value for key, value in settings.items() if key != "name"}}
        shown = read(admin.get(EFFECT, typed, headers=htmx))
        assert shown.item("moved").attributes["data-value"] == str(wanted.n_moved)
        ranks = [(leaf.name, leaf.ranks[1].moved or 0) for leaf in wanted.leaves if leaf.spread]
        assert shown.texts("table.movers tbody a") == [name for name, _moved in ranks]
        moves = [abs(moved) for _name, moved in ranks]
        assert moves == sorted(moves, reverse=True)
        n_moved += len(moves)
    assert n_moved
    assert admin.get(EFFECT, {"algorithm": "flux"})["Location"] == ALGORITHM, "without htmx it is the page"
    assert admin.get(EFFECT, {"algorithm": "nothing"}, headers=htmx).status_code == 404
    wrong = read(admin.get(EFFECT, {"algorithm": "aequus", "operator": "relative", "resolution": "1"}, headers=htmx))
    assert not wrong.has('[name="step"]')


def test_each_other_choice_says_how_many_it_would_move(admin: Client, grid: Grid) -> None:
    shown = read(admin.get(ALGORITHM))
    choices = presenters.other_choices(active()["algorithm"])
    assert len(choices) == len(all_algorithms()) + len(all_operators()) - 2, "all but the policy's own"
    links = [str(each.attributes["href"]) for each in shown.all('[data-testid="tried"] a')]
    assert links == [f"?{presenters.choice_query(choice)}" for choice in choices]
    for choice, row in zip(choices, shown.items("tried"), strict=True):
        wanted = compare_algorithms(policy_slug=SLUG, algorithms=[{}, choice], actor=COMMAND).sides[1]
        assert text_of(row).split()[-1] == str(wanted.n_moved), choice
    Policy.objects.filter(slug=SLUG).update(visibility="path")
    sign_in(admin, grid.alice)
    few = read(admin.get(ALGORITHM)).items("tried")
    assert {text_of(row).split()[-1] for row in few} <= {"0", "1"}, "of visible users alone"
    assert admin.get(f"{ALGORITHM}?algorithm=slurm-classic").context["effect"].n_leaves == 1


def test_large_trees_are_tried_one_choice_at_a_time(admin: Client, grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.pages.algorithm.comparison.MOST_COUNTED_ENTRIES", len(grid.tree) - 1)
    assert {text_of(row).split()[-1] for row in read(admin.get(ALGORITHM)).items("tried")} == {"–"}
