"""Parts of pages that ask for themselves again: never with two requests at once."""

from __future__ import annotations

from apps.core.code_paths import REPOSITORY


def test_a_part_that_polls_drops_a_request_while_one_is_under_way() -> None:
    """Else htmx sends it after the answer, from an element that is another one by then, and the part goes into itself.

    The attribute stands right behind the trigger, so that each is seen beside the other.
    """
    n_polls, wrong = 0, []
    for path in sorted((REPOSITORY / "templates").rglob("*.html")):
        for after in path.read_text(encoding="utf-8").split('hx-trigger="every ')[1:]:
            n_polls += 1
            if not after.partition('"')[2].lstrip().startswith('hx-sync="this:drop"'):
                wrong.append(path.name)
    assert n_polls > 10
    assert wrong == []
