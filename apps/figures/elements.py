"""Elements of a drawing that the server makes: everything is escaped, colours are names of design tokens."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe

WHOLE = 1000.0  # width and height of what is stretched to the picture


def element(tag: str, inner: str = "", **attributes: str | float) -> SafeString:
    """One element; numbers and texts of people are escaped alike. `_` in a name stands for `-`."""
    # A picture has thousands of elements: this takes a fifth of the time of `format_html` and `flatatt`.
    named = "".join(f' {name.replace("_", "-")}="{escape(str(value))}"' for name, value in attributes.items())
    return mark_safe(f"<{tag}{named}>{conditional_escape(inner)}</{tag}>")  # noqa: S308 - escaped above


def joined(parts: Iterable[SafeString]) -> SafeString:
    return mark_safe("".join(map(conditional_escape, parts)))  # noqa: S308 - escaped here, unless it is safe already


def ink(token: str, what: str) -> dict[str, str]:
    """`$band/0.55` as attributes of an element: the browser resolves the token, so a change of theme needs nothing."""
    if not token.startswith("$"):
        return {what: token}
    name, _, part = token[1:].partition("/")
    return {what: f"var(--{name})"} | ({f"{what}_opacity": part} if part else {})
