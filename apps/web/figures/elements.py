"""SVG and HTML elements of server-side drawings: everything is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe


def element(tag: str, inner: str = "", **attributes: str | float) -> SafeString:
    """Render one element; all values and texts are escaped. `_` in a name becomes `-`."""
    # A picture has thousands of elements; `format_html` and `flatatt` would take five times as long.
    named = "".join(f' {name.replace("_", "-")}="{escape(str(value))}"' for name, value in attributes.items())
    return mark_safe(f"<{tag}{named}>{conditional_escape(inner)}</{tag}>")  # noqa: S308 - escaped above


def joined(parts: Iterable[SafeString]) -> SafeString:
    return mark_safe("".join(map(conditional_escape, parts)))  # noqa: S308 - escaped here, unless it is safe already
