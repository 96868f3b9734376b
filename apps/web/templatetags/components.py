"""Components: what pages are put together from. A template names what it shows, not how that is marked up.

    {% card "facts-title" _("Facts") %}…{% endcard %}
    {% card "jobs-title" _("Jobs") id="jobs" %}<p>in the line of the title</p>{% card_body %}…{% endcard %}
    {% page_head %}<h1>…</h1><p>…</p>{% actions %}<a class="btn" …>…</a>{% endpage_head %}
    {% empty "calendar" testid="no-events" %}<h3>…</h3><p>…</p>{% endempty %}
    {% disclosure _("More") is_open=form.errors %}…{% enddisclosure %}
    {% scroll_table labelledby="jobs-title" %}<thead>…{% endscroll_table %}
    {% term "target" %}, {% term "points" _("Change") %}: a word that the glossary explains
    {% explaining "points" %}{{ sentence }}{% endexplaining %}: a sentence that may have such a word

Each takes `classes`, and further keywords as attributes of its element: hyphens in place of underscores, `testid` and
`key` as data-testid and data-key. None, False and "" leave an attribute out, True writes it without a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django import template
from django.template.base import FilterExpression, Node, NodeList, Parser, Token, token_kwargs
from django.template.context import Context
from django.template.exceptions import TemplateSyntaxError
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from apps.core.code_paths import command_name
from apps.web.templatetags.marks import icon
from apps.web.texts.glossary import Term, terms

register = template.Library()

_DATA = ("testid", "key", "state", "value")
_TAG = re.compile(r"(<[^>]*>)")
Markup = Callable[..., SafeString]


def attributes(values: dict[str, Any]) -> SafeString:
    """Attributes of an element, each behind a space."""
    shown = [
        (f"data-{name}" if name in _DATA else name.replace("_", "-"), value)
        for name, value in values.items()
        if value not in (None, False, "")
    ]
    return format_html_join("", " {}{}", ((name, "" if v is True else format_html('="{}"', v)) for name, v in shown))


def _with(always: str, classes: str) -> str:
    return f"{always} {classes}".rstrip()


@register.filter
def command(words: str) -> str:
    """A command as an operator types it here."""
    return command_name(words)


@register.simple_block_tag
def empty(content: str, name: str, *, shade: str = "", classes: str = "", **named: Any) -> SafeString:
    """Instead of a list without rows: an icon, its shade (ok), and what is missing with what to do about it."""
    start = format_html('<div class="{}"{}>{}', _with("empty", classes), attributes(named), icon(name, shade))
    return format_html("{}{}</div>", start, content)


@register.simple_block_tag
def disclosure(content: str, title: str, *, is_open: bool = False, classes: str = "", **named: Any) -> SafeString:
    """What few readers open, behind its title."""
    named = {"open": bool(is_open), **named}
    start = format_html('<details class="{}"{}>', _with("more", classes), attributes(named))
    return format_html("{}<summary>{}{}</summary>{}</details>", start, icon("chevron-right", "s"), title, content)


@register.simple_block_tag
def scroll_table(content: str, *, labelledby: str = "", label: str = "", classes: str = "", **named: Any) -> SafeString:
    """A table that scrolls sideways in its frame, also by keys. labelledby: id of its heading; label: without one.

    A group, not a landmark: the section around it has the same name.
    """
    frame = attributes({"role": "group", "aria_labelledby": labelledby, "aria_label": label, "tabindex": "0"})
    table = attributes({"class": classes, **named})
    return format_html('<div class="table-wrap"{}><table{}>{}</table></div>', frame, table, content)


@register.simple_tag(takes_context=True)
def term(context: Context, name: str, text: str = "") -> SafeString | str:
    """A word of the glossary: at its first use on a page a button that shows the meaning, then the word alone.

    text: the word as the page has it, with a capital for example. The meanings are at the end of the page, each once,
    wherever the word is: a column's heading stays one word for those who read it aloud or copy it. A fragment brings
    its own.
    """
    explained, meant = _explained_terms(context), terms()[name]
    text = text or name
    if name in explained:
        return text
    explained[name] = meant
    is_fragment = "HX-Request" in context["request"].headers
    anchor = f"{meant.anchor}-part" if is_fragment else meant.anchor
    button = format_html('<button class="term" type="button" popovertarget="{}">{}</button>', anchor, text)
    return format_html("{}{}", button, _meaning(meant, anchor)) if is_fragment else button


@register.simple_block_tag(takes_context=True)
def explaining(context: Context, content: str, name: str) -> SafeString:
    """What it contains, the first such word of its text as a term. Not in labels: a button would take their click."""
    parts = _TAG.split(content)
    for at in range(0, len(parts), 2):  # tags are between the texts
        if word := re.search(rf"\b{name}\b", parts[at], re.IGNORECASE):
            before, after = parts[at][: word.start()], parts[at][word.end() :]
            parts[at] = f"{before}{term(context, name, word[0])}{after}"
            break
    return mark_safe("".join(parts))  # noqa: S308 - as rendered, and a term


@register.simple_tag(takes_context=True)
def term_meanings(context: Context) -> SafeString:
    """The meanings of the terms that this page has used so far, which their buttons show."""
    used = _explained_terms(context).values()
    return format_html_join("\n", "{}", ((_meaning(each, each.anchor),) for each in used))


def _meaning(each: Term, anchor: str) -> SafeString:
    return format_html(
        '<span class="pop pop-term" id="{}" popover role="dialog" aria-label="{}"><span lang="en"><b>{}</b>: {}</span> '
        '<a href="{}">{}</a></span>',
        *(anchor, each.name, each.name, each.meaning, each.url, _("Glossary")),
    )


def _explained_terms(context: Context) -> dict[str, Term]:
    """By name, in the order of their use. The request keeps them: an included template has a context of its own."""
    request = context["request"]
    explained: dict[str, Term] = request.__dict__.setdefault("explained_terms", {})
    return explained


class TwoParts(Node):
    """A component with one part or two: {% x %}…{% between %}…{% endx %}."""

    def __init__(self, markup: Markup, values: list[Any], named: dict[str, Any], parts: list[NodeList]) -> None:
        self.markup, self.values, self.named, self.parts = markup, values, named, parts

    def render(self, context: Context) -> SafeString:
        named = {name: value.resolve(context) for name, value in self.named.items()}
        parts = [part.render(context) for part in self.parts]
        return self.markup(parts, *(value.resolve(context) for value in self.values), **named)


def _parts(markup: Markup, between: str, n_values: int) -> Callable[[Parser, Token], TwoParts]:
    def compile_tag(parser: Parser, token: Token) -> TwoParts:
        name, *bits = token.split_contents()
        values: list[FilterExpression] = [parser.compile_filter(bit) for bit in bits[:n_values]]
        rest = bits[n_values:]
        named = token_kwargs(rest, parser)
        if rest or len(values) < n_values:
            raise TemplateSyntaxError(f"{name} takes {n_values} values and then name=value, not {' '.join(bits)}.")
        parts = [parser.parse((between, f"end{name}"))]
        if parser.next_token().contents == between:
            parts.append(parser.parse((f"end{name}",)))
            parser.delete_first_token()
        return TwoParts(markup, values, named, parts)

    return compile_tag


def card(parts: list[SafeString], title_id: str, title: str, *, classes: str = "", **named: Any) -> SafeString:
    """A section with its heading. parts: what follows the heading in its line, if anything, and the body."""
    *beside, body = parts
    named = {"id": named.pop("id", ""), "aria_labelledby": title_id, **named}
    start = format_html('<section class="{}"{}>', _with("card", classes), attributes(named))
    heading = format_html('<header><h2 id="{}">{}</h2>{}</header>', title_id, title, beside[0] if beside else "")
    return format_html("{}{}{}</section>", start, heading, body)


def page_head(parts: list[SafeString], *, classes: str = "", **named: Any) -> SafeString:
    """The heading of a page and its sentence, and the page's own actions."""
    heading, *actions = parts
    beside = format_html('<div class="row wrap">{}</div>', actions[0]) if actions else ""
    start = format_html('<div class="{}"{}>', _with("page-head", classes), attributes(named))
    return format_html("{}<div>{}</div>{}</div>", start, heading, beside)


register.tag("card", _parts(card, "card_body", 2))
register.tag("page_head", _parts(page_head, "actions", 0))
