"""What a view hands to a template is freed with the response."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from weakref import ref

import pytest
from django.http import HttpRequest
from django.template import engines
from django.test import RequestFactory


class Shown:
    def __str__(self) -> str:
        return "shown"


@pytest.fixture
def _without_searches() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def rendered(text: str, request: HttpRequest | None) -> tuple[str, ref[Shown]]:
    shown = Shown()
    return engines.all()[0].from_string(text).render({"shown": shown}, request), ref(shown)


@pytest.mark.usefixtures("_without_searches")
@pytest.mark.parametrize("has_request", [True, False])
def test_a_context_does_not_wait_for_the_garbage_collector(*, has_request: bool) -> None:
    text, kept = rendered("{% with a=shown %}{{ a }}{% endwith %}", RequestFactory().get("/") if has_request else None)
    assert text == "shown"
    assert kept() is None
