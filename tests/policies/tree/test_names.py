"""Which names are refused for new entries, and which siblings a reviewer is warned of."""

from __future__ import annotations

import sys
import unicodedata
from uuid import UUID

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.core import invisible
from apps.pages.changes.review.reviewed_change import get_review_page
from apps.policies import services
from apps.policies.changesets.checks import Check, confusable_form, find_confusable_names
from apps.policies.formats.separated_table import escape_formula, unescape_formula
from apps.policies.models import Policy
from apps.policies.records import NewChangeSet
from apps.policies.tree.columns import Node
from apps.policies.tree.names import clean_name, read_name
from apps.policies.tree.working_tree import columns_of
from tests.instants import AT

DRAWN = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x13430, 0x13440)}


def test_every_undrawn_format_character_is_invisible() -> None:
    of_unicode = {one for one in range(sys.maxunicode + 1) if unicodedata.category(chr(one)) == "Cf"}
    found = {one for one in of_unicode if invisible.first_invisible(chr(one))}
    assert of_unicode - found == of_unicode & DRAWN


@pytest.mark.parametrize("name", ["a\u200bb", "\ufeffa", "a\u00ad", "\u2060", "a\ufe0f", "\u3164", ".", ".."])
def test_names_with_invisible_characters_are_read_but_never_created(name: str) -> None:
    assert read_name(name) == name
    with pytest.raises(ValueError, match=r"invisible|folder"):
        clean_name(name)


@pytest.mark.parametrize("name", ["...", ".a", "a.", "é", "ünï", "日本", "مجموعة", "a b", "p_1-2", "ﬁ"])
def test_other_names_are_accepted(name: str) -> None:
    assert clean_name(name) == name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("atlas", "Atlas"),
        ("atlas", "аtlas"),
        ("cms", "сms"),
        ("PHYSICS", "РНYSICS"),
        ("alpha", "ａlpha"),
        ("lhcb", "1hcb"),
        ("lhcb", "Ihcb"),
        ("ops", "0ps"),
        ("x", "𝐱"),
        ("fi", "ﬁ"),
        ("zoe", "zo\u200be"),
    ],
)
def test_similar_names_have_one_skeleton(one: str, other: str) -> None:
    assert confusable_form(one) == confusable_form(other)


@pytest.mark.parametrize(("one", "other"), [("atlas", "cms"), ("p1", "p2"), ("ALI", "all"), ("a-b", "a_b"), ("é", "e")])
def test_different_names_have_different_skeletons(one: str, other: str) -> None:
    assert confusable_form(one) != confusable_form(other)


def test_the_warning_names_the_existing_similar_sibling() -> None:
    root, group, other = (UUID(int=n) for n in range(1, 4))
    names = [("atlas", root), ("аtlas", root), ("Atlas", group), ("cms", group)]
    tree = columns_of(
        [Node(root, None, "r"), Node(group, root, "g"), Node(other, root, "h")]
        + [Node(UUID(int=10 + n), parent, name) for n, (name, parent) in enumerate(names)]
    )
    at = {(tree.name[i], tree.uuid(int(tree.parent[i]))): i for i in range(1, len(tree))}
    latin, cyrillic = at["atlas", root], at["аtlas", root]
    assert find_confusable_names(tree, [cyrillic, at["Atlas", group], at["cms", group]]) == [(cyrillic, latin)]
    assert find_confusable_names(tree, [at["cms", group]]) == []


@pytest.mark.parametrize("cell", ["\u200b=1+1", "'\ufeff=1", "\u00ad+x", "'\u200b'=x", "a\u200b=b", "\x00=1"])
def test_a_formula_after_invisible_characters_round_trips_as_text(cell: str) -> None:
    assert unescape_formula(escape_formula(cell)) == cell


def test_a_formula_after_invisible_characters_is_rejected_in_a_table() -> None:
    with pytest.raises(ValueError, match="formula"):
        unescape_formula("\u200b=1+1")


def checks(operation: dict[str, object], actor: Actor) -> dict[str, Check]:
    made = services.make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=[operation], reason="x"), at=AT, actor=actor
    )
    return {check.code: check for check in get_review_page(id=made.pk, at=AT, actor=actor).checks}


@pytest.mark.django_db
def test_a_reviewer_is_warned_of_a_similar_sibling_name(policy: Policy) -> None:
    found = checks({"op": "add", "parent": "/", "name": "рhysics", "shares": 1}, COMMAND)
    assert found["names"].state == "warn"
    assert "/physics" in found["names"].text
    assert "names" not in checks({"op": "add", "parent": "/", "name": "chemistry", "shares": 1}, COMMAND)
    assert checks({"op": "rename", "entry": "/biology", "name": "Physics"}, COMMAND)["names"].state == "warn"
