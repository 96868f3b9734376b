"""Every form of every page, sent empty and with a text in each field: a refusal says at the field what is wrong.

The forms are those that an administrator finds on the pages of the rights matrix, and in the panels that they open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

import pytest
from django.test import Client
from selectolax.lexbor import LexborNode

from tests.every_page.test_every_page import PARTS, pages_of
from tests.examples import first
from tests.pages.page import Page
from tests.rights_world import World
from tests.test_idor_matrix import roll_back
from tests.worlds import fresh_process  # noqa: F401 - fixture

FORMS = "main form[method=post], #panel form[method=post]"
TEXTS = "input:not([type]), input[type=text], input[type=number], input[type=date], textarea"
TYPED = f":is({TEXTS}):not([readonly], [hidden])"
WRITTEN = "Kept £7"
IN_PLACE = {"X-In-Place": "1", "Accept": "text/html"}


def fields_of(form: LexborNode, text: str) -> dict[str, Any]:
    """What the form sends by its first button, with this text in each field that is typed in."""
    sent: dict[str, Any] = {}
    for node in form.css("input[type=hidden], input[checked], select, button[name][type=submit]"):
        name, value = node.attributes.get("name"), node.attributes.get("value") or ""
        if node.tag == "select":
            chosen = node.css_first("option[selected]") or node.css_first("option")
            value = (chosen.attributes.get("value") or chosen.text()) if chosen else ""
        if name and name not in sent:
            sent[name] = value
    return sent | dict.fromkeys(typed_names(form), text)


def typed_names(form: LexborNode) -> list[str]:
    return [name for node in form.css(TYPED) if (name := node.attributes.get("name"))]


def forms_of(world: World, client: Client, part: int) -> Iterator[tuple[str, LexborNode]]:
    """Address to send to, and the form, once for each action and set of fields."""
    seen = set()
    for _name, path, _row in pages_of(world, part):
        for form in Page(client.get(path).content.decode()).all(FORMS):
            action, names = form.attributes.get("action") or path, tuple(typed_names(form))
            if names and (action, names) not in seen:
                seen.add((action, names))
                yield urljoin(path, action.partition("#")[0]), form


def problems(answer: Any, form: LexborNode, text: str) -> Iterator[str]:
    """What is missing in the answer to a form that was sent with this text."""
    if answer.status_code >= 500 or answer.status_code in (400, 404, 405):
        yield f"is answered {answer.status_code}"
    if answer.status_code != 422:
        return
    page = Page(answer.content.decode())
    wrong = [node for node in page.all("[aria-invalid=true]") if node.tag in ("input", "textarea", "select")]
    if not wrong and not page.has(".note[role=alert], .note.bad"):
        yield "marks no field and says nothing"
    if not wrong and text == "" and len(typed_names(form)) == 1:
        yield "marks no field"
    for node in wrong:
        ids = (node.attributes.get("aria-describedby") or "").split()
        if not any(page.has(f"[id='{each}']") and page.text(f"[id='{each}']") for each in ids):
            yield f"has no message at {node.attributes.get('name')}"
    for name in typed_names(form) if text else ():
        shown = page.all(f"{FORMS.split(',')[0]} [name='{name}'], #panel [name='{name}']")
        if shown and not any((each.attributes.get("value") or each.text()).strip() == text for each in shown):
            yield f"loses what was typed in {name}"


@pytest.mark.product
@pytest.mark.parametrize("text", ["", WRITTEN])
@pytest.mark.parametrize("part", first(1, range(PARTS)))
def test_a_refused_form_says_at_its_field_what_is_wrong(world: World, part: int, text: str) -> None:
    client = world.client("admin")
    found = []
    for action, form in forms_of(world, client, part):
        with roll_back(world):
            answer = client.post(action, fields_of(form, text), headers=IN_PLACE)
            found += [f"{action} {typed_names(form)} {problem}" for problem in problems(answer, form, text)]
    assert not found, "\n".join(found)
