"""Notice kinds of other packages: checked when they are loaded, and isolated if they fail."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from django.utils.functional import Promise
from django.utils.translation import gettext as _

from apps.engine.installed import Installed, load_installed, require_name
from apps.notices.kinds.base import Finding, Kind, Level, Sentence, Term

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader

logger = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "fairshare.notice_kinds"
# Places that a kind may check, and pages that its notices may link to.
LEADS = {"policy": ("policy", "entry", "algorithm"), "source": ("source",), "site": ("site",)}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_LONGEST_KEY = 200
_MOST_FACTS = 20_000


@cache
def package_kinds(ours: tuple[str, ...]) -> Installed[Kind]:
    """Kinds of packages, and rejected ones. ours: names of built-in kinds, which are reserved."""
    return load_installed(ENTRY_POINT_GROUP, _check, is_taken=lambda name: name in ours)


def _check(name: str, given: Any) -> Kind:
    """The kind if it is complete, else raises ValueError."""
    if type(given) is not Kind:
        raise ValueError(f"it must be a Kind, not a {type(given).__name__}")
    require_name(given, name)
    if not _NAME.fullmatch(name):
        raise ValueError("its name must be 1–32 of a–z, 0–9 and _, beginning with a letter")
    for each in ("title", "about"):
        value = getattr(given, each)
        if not isinstance(value, str | Promise) or not str(value).strip():
            raise ValueError(f"its {each} must be a text that isn't empty")
    if given.watches not in LEADS:
        raise ValueError(f"its watches must be one of {', '.join(LEADS)}")
    if given.leads_to not in LEADS[given.watches]:
        raise ValueError(f"its leads_to must be one of {', '.join(LEADS[given.watches])}")
    terms: object = given.terms
    if not isinstance(terms, tuple) or not all(isinstance(term, Term) for term in terms):
        raise ValueError("its terms must be a tuple of Term")
    if any(not term.lowest <= term.default <= term.highest for term in given.terms):
        raise ValueError("the default of a term must lie between its lowest and its highest value")
    if not all(callable(each) for each in (given.find, given.is_for, given.describe)):
        raise ValueError("it needs the functions find, is_for and describe")
    return _guarded(given)


def _guarded(given: Kind) -> Kind:
    """The kind with each finding checked.

    A notice that the package can't describe gets a general text; one whose readers it can't determine is shown to no
    one.
    """

    def find(place: Any) -> Iterator[Finding]:
        found: Iterable[object] = given.find(place)
        for each in found:
            if problem := _problem(each):
                raise ValueError(f"The package of the notices {given.name} gave {problem}.")
            assert isinstance(each, Finding)  # noqa: S101 - checked above
            yield each

    def is_for(reader: Reader, notice: Notice) -> bool:
        try:
            return given.is_for(reader, notice) is True
        except Exception:
            logger.exception("The package of the notices %s can't say for whom one is.", given.name)
            return False

    def describe(facts: Mapping[str, Any]) -> Sentence:
        try:
            found: object = given.describe(facts)
            if isinstance(found, Sentence) and isinstance(getattr(found, "text", None), str):
                return found
            logger.error("The package of the notices %s gave a %s for a Sentence.", given.name, type(found).__name__)
        except Exception:
            logger.exception("The package of the notices %s can't describe one.", given.name)
        text = _("%(title)s: the package of this notice fails to describe it.") % {"title": given.title}
        return Sentence(given.name, facts, text)

    return replace(given, find=find, is_for=is_for, describe=describe)


def _problem(finding: object) -> str:
    """What is wrong with a finding; "" if nothing."""
    if not isinstance(finding, Finding):
        return f"a {type(finding).__name__} in place of a Finding"
    key: object = finding.key
    if not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY:
        return f"a key that is no text of 1 to {_LONGEST_KEY} characters"
    if finding.level not in get_args(Level):
        return f"the level {finding.level!r}"
    try:
        if len(json.dumps(dict(finding.facts), allow_nan=False)) > _MOST_FACTS:
            return f"facts of more than {_MOST_FACTS} characters"
    except (TypeError, ValueError):
        return "facts that are no JSON"
    return ""
