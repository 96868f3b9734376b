"""A made-up language: each text in accented letters, 40 % longer, between ⟦ and ⟧.

What shows plain sentences in it can't be translated; what is cut or overflows in it would be in German.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.conf import settings
from django.utils import translation
from django.utils.translation import trans_real

LANGUAGE = "xa"
_LONGEST = 8  # letters of a word that is added: a line may end behind it
_ACCENTED = str.maketrans("aceinouyACEINOUY", "áçéíñóúýÁÇÉÍÑÓÚÝ")
# Placeholders, tags, entities, addresses, and what stands between backquotes stay as they are.
_KEPT = re.compile(r"(%\(\w+\)[-+#0 .\d]*[a-z]|%[sd%]|\{[^{}]*\}|<[^<>]*>|&#?\w+;|https?://\S+|`[^`]*`)")


def pseudo(text: str) -> str:
    if not text.strip():
        return text
    pieces = _KEPT.split(text)
    accented = "".join(piece if at % 2 else piece.translate(_ACCENTED) for at, piece in enumerate(pieces))
    n_more = 2 * sum(len(piece) for piece in pieces[::2]) // 5
    more = " ".join("·" * min(_LONGEST, n_more - at) for at in range(0, n_more, _LONGEST))
    return f"⟦{accented} {more}⟧" if n_more > _LONGEST else f"⟦{accented}{more}⟧"


_CONTEXT_END = "\x04"  # Django puts a context and this before the text


class PseudoTranslation:
    """What `gettext` has for this language: a catalog in which nothing is missing."""

    def gettext(self, message: str) -> str:
        return pseudo(message.rpartition(_CONTEXT_END)[2])

    def ngettext(self, singular: str, plural: str, number: int) -> str:
        return self.gettext(singular if number == 1 else plural)

    def to_language(self) -> str:
        return LANGUAGE


@contextmanager
def everything_translated() -> Iterator[None]:
    """For requests of this process, in each of its threads."""
    with pytest.MonkeyPatch.context() as patch:
        made = PseudoTranslation()
        patch.setitem(vars(trans_real)["_translations"], LANGUAGE, made)
        patch.setattr(trans_real, "_default", made)
        patch.setattr(settings, "LANGUAGE_CODE", LANGUAGE)  # what the product keeps by language it keeps by this one
        translation.deactivate()
        yield
