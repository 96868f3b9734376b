"""Controls of a figure are links: each leads to the address of the page with one part of its state changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from django.http import QueryDict


@dataclass(frozen=True, slots=True)
class Choice:
    """query: the whole query string of the page with this choice. swatch: a token, for chips of a series.

    alone: the query that shows this series and no other, by double click or Shift+Enter. drop: the query without it.
    """

    key: str
    label: str
    query: str
    is_chosen: bool
    swatch: str = ""
    note: str = ""
    alone: str = ""
    drop: str = ""


@dataclass(frozen=True, slots=True)
class Slider:
    """A number of the page's query. text: the value in words. rest: the other names of the query, for a form."""

    name: str
    value: float
    low: float
    high: float
    step: float
    text: str
    rest: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Control:
    """kind: `seg` is one of several; `chips` any of several; `path` the way from the root; `range` a slider, without
    choices.

    drop_label: the verb of the links that drop one. caption: whether the label is shown before the choices.
    """

    label: str
    choices: Sequence[Choice]
    kind: Literal["seg", "chips", "path", "range"] = "seg"
    drop_label: str = ""
    slider: Slider | None = None
    caption: bool = False


def changed(query: QueryDict, **changes: str | Sequence[str] | None) -> str:
    """The query string with some names set anew, None takes one out; the order of the others stays."""
    copy = query.copy()
    for name, value in changes.items():
        if value is None:
            copy.pop(name, None)
        elif isinstance(value, str):
            copy[name] = value
        else:
            copy.setlist(name, list(value))
    return str(copy.urlencode())
