from __future__ import annotations

import re
from pathlib import Path

from django.conf import settings

from apps.usage.import_notes import Note, note_lines

COLLECTORS = Path(settings.BASE_DIR) / "apps" / "usage" / "parsers"


def test_notes_are_sentences_with_the_most_frequent_first() -> None:
    notes = {"never_ran": 2, "slave_tasks_skipped": 7, "steps_skipped": 0, "service_level SITE-A hepscore23 12.5": 3}
    found = note_lines(notes)
    assert [(each.key, each.n) for each in found] == [
        ("slave_tasks_skipped", 7),
        ("service_level SITE-A hepscore23 12.5", 3),
        ("never_ran", 2),
    ]
    assert "SITE-A hepscore23 12.5" in found[1].words
    assert not {each.words for each in found} & {each.key for each in found}
    assert note_lines({"something_new": 1}) == [Note("something_new", "something new", 1)]


def test_every_note_of_a_parser_has_its_own_sentence() -> None:
    named = set()
    for path in COLLECTORS.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r'notes\["([a-z_]+)"\]|note\((?:notes, )?"([a-z_]+)"', text))
    names = {one or other for one, other in named}
    assert len(names) > 15
    assert [name for name in sorted(names) if note_lines({name: 1})[0].words == name.replace("_", " ")] == []
