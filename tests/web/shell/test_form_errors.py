"""What a view holds is freed with it, also where a form has errors."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from weakref import ref

import pytest
from django import forms

from apps.web.shell.forms import Form, NumberField


class Shown:
    pass


class ThreeErrors(Form):
    reason = forms.CharField()
    number = NumberField()
    name = forms.SlugField()

    def clean(self) -> None:
        raise forms.ValidationError("together wrong")


@pytest.fixture
def _without_searches() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def view() -> tuple[list[str], ref[Shown]]:
    shown = Shown()
    form = ThreeErrors({"number": "1_0", "name": "not a slug"})
    return sorted(form.errors), ref(shown)


@pytest.mark.usefixtures("_without_searches")
def test_errors_of_a_form_do_not_hold_the_view() -> None:
    errors, kept = view()
    assert errors == ["__all__", "name", "number", "reason"]
    assert kept() is None
