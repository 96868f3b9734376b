"""A bound of input stands once: in a column or service, or in a module of bounds; forms and REST take it from there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from apps.accounts import services
from apps.accounts.actor import Actor
from apps.accounts.models import Token, User
from apps.core.code_paths import REPOSITORY
from apps.core.column_bounds import most_characters
from apps.core.errors import Invalid
from apps.federation.mounts.services import SETTING_BOUNDS, clean_settings
from apps.pages.federation.api.mounts import MountSettingsSerializer
from apps.pages.federation.api.remotes import SettingsSerializer
from apps.pages.tokens.api import NewTokenSerializer
from apps.pages.tokens.forms import TokenForm
from apps.policies.models import Policy
from tests.instants import AT

_BOUNDS = frozenset({"max_length", "min_length", "max_value", "min_value", "max_digits"})
_HELPERS = {"name_field": 1, "reason_field": 0, "_optional": 1}  # of forms, with the place of their bound
_NO_CHOICE = ("0", "1", "2")  # none, one, and a pair


def literal_bounds(code: str) -> Iterator[tuple[int, str]]:
    """Line and text of each bound of a form or request that is a number, or a constant of its own module."""
    tree = ast.parse(code)
    constants = dict(_constants(tree))
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        bounds = [each.value for each in call.keywords if each.arg in _BOUNDS]
        place = _HELPERS.get(call.func.id) if isinstance(call.func, ast.Name) else None
        if place is not None and len(call.args) > place:
            bounds.append(call.args[place])
        for bound in bounds:
            value = constants.get(bound.id, bound) if isinstance(bound, ast.Name) else bound
            if _is_literal(value) and ast.unparse(value) not in _NO_CHOICE:
                yield bound.lineno, ast.unparse(bound)


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for each in tree.body:
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            yield each.targets[0].id, each.value
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.value is not None:
            yield each.target.id, each.value


def _is_literal(value: ast.expr) -> bool:
    parts = list(ast.walk(value))
    has_number = any(isinstance(part, ast.Constant) and isinstance(part.value, int | float) for part in parts)
    return has_number and not any(isinstance(part, ast.Name | ast.Attribute | ast.Call) for part in parts)


def declares_input(code: str) -> bool:
    return any(f"import {kind}" in code for kind in ("forms", "serializers", "name_field", "number_field"))


def test_no_form_or_request_has_a_bound_of_its_own() -> None:
    own = []
    for path in sorted((REPOSITORY / "apps").rglob("*.py")):
        code = path.read_text(encoding="utf-8")
        if path.name != "bounds.py" and declares_input(code):
            own += [f"{path.relative_to(REPOSITORY)}:{line}: {text}" for line, text in literal_bounds(code)]
    assert own == [], "Take the bound from its column or service, or from apps/web/bounds.py."


@pytest.mark.parametrize(
    ("code", "bounds"),
    [
        ("serializers.CharField(max_length=128)", ["128"]),
        ("forms.IntegerField(min_value=1, max_value=2**31 - 1)", ["2 ** 31 - 1"]),
        ("forms.FloatField(min_value=-1e15)", ["-1000000000000000.0"]),
        ("_MOST = 4_096\nname = forms.CharField(max_length=_MOST)", ["_MOST"]),
        ("_MOST: int = 40\nname = forms.CharField(max_length=_MOST)", ["_MOST"]),
        ("name_field(_('Name'), 128)", ["128"]),
        ("reason_field(2_000)", ["2000"]),
        ("forms.CharField(max_length=bounds.NAMESPACE, min_length=1)", []),
        ("from x import MOST\nforms.FloatField(max_value=MOST / 60)", []),
    ],
)
def test_a_bound_of_its_own_is_seen(code: str, bounds: list[str]) -> None:
    assert [text for _line, text in literal_bounds(code)] == bounds


def test_columns_have_their_bounds() -> None:
    assert most_characters(Token, "policy_slug") == 64
    assert most_characters(Token, "scopes") == 32, "of an array: of each of its texts"
    with pytest.raises(ValueError, match=r"Policy\.description has no bound"):
        most_characters(Policy, "description")


@pytest.mark.django_db
def test_the_name_of_a_token_has_one_bound_in_form_request_and_service() -> None:
    most = most_characters(Token, "name")
    user = User.objects.create_user("eva")
    fields = (TokenForm.base_fields["name"], NewTokenSerializer().fields["name"])
    assert [getattr(field, "max_length", None) for field in fields] == [most, most]
    longest = services.NewToken(name="n" * most, scopes=[Token.Scope.SELF_READ], user=user)
    token, _text = services.make_token(longest, at=AT, actor=Actor(user=user, via="page"))
    assert token.name == "n" * most
    longer = services.NewToken(name="n" * (most + 1), scopes=[Token.Scope.SELF_READ], user=user)
    with pytest.raises(Invalid, match=str(most)):
        services.make_token(longer, at=AT, actor=Actor(user=user, via="page"))


@pytest.mark.parametrize("name", SETTING_BOUNDS)
def test_settings_of_mounts_are_described_as_the_service_checks_them(name: str) -> None:
    least, most = SETTING_BOUNDS[name]
    for serializer in (MountSettingsSerializer(), SettingsSerializer()):
        if name in serializer.fields:
            assert serializer.fields[name].help_text == f"{least:,} to {most:,}"
    assert clean_settings({name: least}) == {name: least}
    assert clean_settings({name: most}) == {name: most}
    for value in (least - 1, most + 1):
        with pytest.raises(Invalid):
            clean_settings({name: value})
