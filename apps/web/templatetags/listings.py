"""Tables of a `Listing`: the whole table, the cells of one row, and how a cell is marked up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from django import template
from django.template.base import Parser, Token
from django.template.context import Context
from django.template.loader import get_template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from apps.web.listings.listing import Column, Table
from apps.web.templatetags.components import attributes, scroll_table

register = template.Library()


class CellNode(template.Node):
    """`{% cell %}`: rendered for each row of a table, not in its own place."""

    def __init__(self, name: str, nodelist: template.NodeList) -> None:
        self.name, self.nodelist = name, nodelist

    def render(self, context: Context) -> SafeString:
        return template.NodeList().render(context)


@register.tag
def cell(parser: Parser, token: Token) -> CellNode:
    """{% cell who %}<td data-label="{{ column.title }}">{{ value }}</td>{% endcell %}: a column's cell, whole.

    Beside the page's variables it has `row`, `column` and `value`, which is text. A cell `default` is for all columns
    of the list without one.
    """
    try:
        _tag, name = token.split_contents()
    except ValueError:
        raise template.TemplateSyntaxError("cell needs the name of a column") from None
    nodelist = parser.parse(("endcell",))
    parser.delete_first_token()
    return CellNode(name, nodelist)


@register.simple_tag(takes_context=True)
def table(context: Context, table: Table, labelledby: str) -> SafeString:
    """{% table charges labelledby="charges-title" %}: rows of a list under their headings."""
    rows = [(cells(context, table.cells, table.columns, row),) for row in table.rows]
    headings = ((_class(column), column.title) for column in table.columns)
    content = format_html(
        "<thead>\n<tr>{}</tr></thead>\n<tbody>{}</tbody>",
        format_html_join("", '\n<th scope="col"{}>{}</th>', headings),
        format_html_join("", "\n<tr>{}</tr>", rows),
    )
    return scroll_table(content, labelledby=labelledby, classes="cards")


@register.simple_tag(takes_context=True)
def cells(context: Context, name: str, columns: Sequence[Column], row: Any) -> SafeString:
    """{% cells "pages/tree/_cells.html" shown line %}: cells of one row, by the `{% cell %}`s of a template."""
    marked = _marked(get_template(name).template) if name else {}  # type: ignore[attr-defined]  # of Django's engine
    drawn = []
    with context.push(row=row):
        for column in columns:
            nodelist = marked.get(column.name) or marked.get("default")
            if nodelist is None:
                text = column.text_of(row)
                drawn.append(format_html('\n<td{} data-label="{}">{}</td>', _class(column), column.title, text))
            else:
                context["column"], context["value"] = column, partial(column.text_of, row)
                drawn.append(nodelist.render(context))
    return format_html_join("", "{}", ((each,) for each in drawn))


def _class(column: Column) -> SafeString | str:
    return attributes({"class": "num"}) if column.is_number else ""


@lru_cache(maxsize=64)
def _marked(cells: template.Template) -> dict[str, template.NodeList]:
    return {
        node.name: node.nodelist for node in cells.nodelist.get_nodes_by_type(CellNode) if isinstance(node, CellNode)
    }
