"""Elements of a drawing that the server makes: everything is escaped, colours are names of design tokens."""

from __future__ import annotations

from collections.abc import Sequence

from django.forms.utils import flatatt
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

WHOLE = 1000.0  # width and height of what is stretched to the picture


def element(tag: str, inner: str = "", **attributes: str | float) -> SafeString:
    """One element; numbers and texts of people are escaped alike. `_` in a name stands for `-`."""
    named = {name.replace("_", "-"): str(value) for name, value in attributes.items()}
    return format_html("<{}{}>{}</{}>", tag, flatatt(named), inner, tag)


def joined(parts: Sequence[SafeString]) -> SafeString:
    return format_html_join("", "{}", ((part,) for part in parts))


def ink(token: str, what: str) -> dict[str, str]:
    """`$band/0.55` as attributes of an element: the browser resolves the token, so a change of theme needs nothing."""
    if not token.startswith("$"):
        return {what: token}
    name, _, part = token[1:].partition("/")
    return {what: f"var(--{name})"} | ({f"{what}_opacity": part} if part else {})
