"""Options of the picture of a tree, parsed from the page's query: entry, kind of picture, sizes and colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast
from uuid import UUID

from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.web.figures.figure import Choice, Control, with_changes

Kind = Literal["icicle", "treemap"]
Size = Literal["target", "actual"]
Color = Literal["balance", "share"]
KINDS: tuple[Kind, ...] = ("treemap", "icicle")
SIZES: tuple[Size, ...] = ("target", "actual")
COLORS: tuple[Color, ...] = ("balance", "share")
ENTRY_PARAMETER = "entry"
_LEVELS: dict[Kind, int] = {"icicle": 5, "treemap": 3}
_SMALLEST: dict[Kind, float] = {"icicle": 1 / 100, "treemap": 1 / 1000}


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """entry: the chosen one; None is the root."""

    entry: UUID | None
    kind: Kind
    size: Size
    color: Color

    @property
    def levels(self) -> int:
        return _LEVELS[self.kind]

    @property
    def smallest(self) -> float:
        """Fraction of the whole below which entries are combined."""
        return _SMALLEST[self.kind]


def read_tree_options(query: QueryDict) -> TreeOptions:
    """Parse the options. Raises Invalid, with the parameter's name, for options that can't be drawn."""
    return TreeOptions(
        read_entry(query.get(ENTRY_PARAMETER, "")),
        cast("Kind", _one_of(query, "kind", KINDS)),
        cast("Size", _one_of(query, "size", SIZES)),
        cast("Color", _one_of(query, "color", COLORS)),
    )


def read_entry(text: str) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        message = _("This address can’t name an entry. Open the figure again and choose it there.")
        raise Invalid(message, fields=[FieldProblem(ENTRY_PARAMETER, text[:64])]) from None


def _one_of(query: QueryDict, name: str, known: Sequence[str]) -> str:
    text = query.get(name, known[0])
    if text in known:
        return text
    values = {"name": name, "text": text[:40], "known": ", ".join(known)}
    message = _("“%(text)s” is not one of %(known)s.") % values
    raise Invalid(message, fields=[FieldProblem(name, message)])


def tree_controls(options: TreeOptions, query: QueryDict) -> list[Control]:
    """Links to the same entry with other options; default values are not in the address."""
    kinds = {"treemap": _("Treemap"), "icicle": _("Icicle")}
    sizes = {"target": _("Target"), "actual": _("Actual")}
    colors = {"balance": _("Balance"), "share": _("Share of parent")}
    return [
        _control(_("Picture"), "kind", kinds, options.kind, query),
        _control(_("Size shows"), "size", sizes, options.size, query),
        _control(_("Colour shows"), "color", colors, options.color, query),
    ]


def _control(label: str, name: str, choices: dict[str, str], chosen: str, query: QueryDict) -> Control:
    first = next(iter(choices))
    return Control(
        label,
        [
            Choice(f"{name}-{key}", values, with_changes(query, **{name: None if key == first else key}), key == chosen)
            for key, values in choices.items()
        ],
        caption=True,
    )
