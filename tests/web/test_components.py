"""What each component renders."""

from __future__ import annotations

from typing import Any

import pytest
from django.template import Context, Template
from django.template.exceptions import TemplateSyntaxError


def rendered(text: str, **context: Any) -> str:
    return Template("{% load components %}" + text).render(Context(context))


def test_a_card_is_a_section_that_its_heading_names() -> None:
    assert rendered('{% card "why" "Reason" %}<p>{{ reason }}</p>{% endcard %}', reason="a < b") == (
        '<section class="card" aria-labelledby="why"><header><h2 id="why">Reason</h2></header><p>a &lt; b</p></section>'
    )


def test_the_first_part_of_a_card_follows_its_heading() -> None:
    card = rendered(
        '{% card "j" title id="jobs" classes="mt" %}<b>3</b>{% card_body %}<p/>{% endcard %}', title="A & B"
    )
    assert card == (
        '<section class="card mt" id="jobs" aria-labelledby="j">'
        '<header><h2 id="j">A &amp; B</h2><b>3</b></header><p/></section>'
    )


def test_a_head_has_its_actions_in_a_row_of_their_own() -> None:
    assert rendered("{% page_head %}<h1>A</h1>{% actions %}<a>B</a>{% endpage_head %}") == (
        '<div class="page-head"><div><h1>A</h1></div><div class="row wrap"><a>B</a></div></div>'
    )
    assert rendered("{% page_head %}<h1>A</h1>{% endpage_head %}") == (
        '<div class="page-head"><div><h1>A</h1></div></div>'
    )


def test_an_empty_state_has_its_icon_and_what_tests_look_for() -> None:
    empty = rendered('{% empty "check" shade="ok" testid="no-rows" key=key %}<p>None</p>{% endempty %}', key="none")
    assert empty.startswith('<div class="empty" data-testid="no-rows" data-key="none"><svg class="i ok"')
    assert empty.endswith("</svg><p>None</p></div>")


@pytest.mark.parametrize(("is_open", "attribute"), [(True, " open"), (False, ""), ("", ""), (["wrong"], " open")])
def test_a_disclosure_is_open_where_its_condition_holds(is_open: Any, attribute: str) -> None:
    shown = rendered('{% disclosure "More" is_open=is_open %}<p/>{% enddisclosure %}', is_open=is_open)
    assert shown.startswith(f'<details class="more"{attribute}><summary><svg')
    assert shown.endswith("More</summary><p/></details>")


def test_a_table_is_reached_and_scrolled_by_keys() -> None:
    assert rendered('{% scroll_table labelledby="jobs" classes="cards" %}<tr/>{% endscroll_table %}') == (
        '<div class="table-wrap" role="group" aria-labelledby="jobs" tabindex="0">'
        '<table class="cards"><tr/></table></div>'
    )


def test_values_of_attributes_are_escaped_and_empty_ones_left_out() -> None:
    shown = rendered('{% card "a" "A" data_name=name hidden=True id=none %}{% endcard %}', name='"><script>', none=None)
    assert shown.startswith('<section class="card" aria-labelledby="a" data-name="&quot;&gt;&lt;script&gt;" hidden>')


@pytest.mark.parametrize("text", ['{% card "a" %}{% endcard %}', '{% card "a" "A" "B" %}{% endcard %}'])
def test_a_card_without_its_two_values_is_refused(text: str) -> None:
    with pytest.raises(TemplateSyntaxError, match="card takes 2 values"):
        rendered(text)
