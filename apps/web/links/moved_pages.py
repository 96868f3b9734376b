"""Addresses of pages that became part of another page: 301 to it, with their query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpResponse
from django.views.generic import RedirectView


def moved(route: str) -> Callable[..., HttpResponse]:
    """View of an old address. route: of the page that has its contents; its address takes the same parts."""
    view: Any = RedirectView.as_view(pattern_name=f"pages:{route}", permanent=True, query_string=True)
    return view  # type: ignore[no-any-return]
