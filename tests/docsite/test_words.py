"""The documentation uses the field's standard words: what design notes call riddles doesn't come back."""

from __future__ import annotations

import re
from pathlib import Path

from apps.core.code_paths import REPOSITORY
from tests.each_case import each_case

# Generated from texts of the code, or kept by those who move modules.
ASIDE = {"commands.md", "algorithms.md", "architecture.md"}
PAGES = [path for path in sorted((REPOSITORY / "docs").rglob("*.md")) if path.name not in ASIDE]
RIDDLES = {
    r"\b(?:is|are|was|were|been) told\b": "shown, reported, published",
    r"\btells? (?:of|who|what|that|whether|how)\b": "reports, lists, shows",
    r"\bin force\b": "current, active",
    r"\bwhoever\b": "the role",
    r"\bsomebody\b": "the role",
    r"usage of everybody|everybody's usage": "global usage",
    r"\bheard\b": "last contact",
    r"\brhythms?\b": "interval",
    r"\bgood until\b": "valid until",
    r"\bhanded out\b": "sub-allocated",
    r"\blet go\b": "delete, remove",
    r"\btaken back\b": "undone, restored",
    r"\bsealed with\b": "encrypted with",
    r"\bput off\b": "snooze",
    r"\blooks? in a row\b": "fetches",
    r"\bown usage\b": "local usage, your usage",
    r"\bcenter|\borganization|\bnormalize|\bcolor\b": "British spelling",
}


@each_case("page", [*PAGES, REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"], ids=lambda p: p.name)
def test_unclear_phrases_are_not_used(page: Path) -> None:
    text = _prose(page.read_text(encoding="utf-8"))
    found = {
        f"{match[0]!r} → {better}"
        for pattern, better in RIDDLES.items()
        for match in re.finditer(pattern, text, re.IGNORECASE)
    }
    assert found == set()


PAPER_TERMS = (
    *("target deviation tuple", "policy engine", "runtime policy tree", "policy fetcher", "usage data source"),
    *("subgroup isolation", "resolving power", "virtual target", "effective priority"),
)


def test_terms_of_the_papers_are_in_the_glossary() -> None:
    """Each leads to our word, in a table of its own."""
    text = (REPOSITORY / "docs/appendices/papers.md").read_text(encoding="utf-8")
    ours = dict(re.findall(r"^\| ([a-z ,]+) \| (.+) \|$", text.partition("## The papers' words")[2], re.MULTILINE))
    assert [term for term in PAPER_TERMS if len(ours.get(term, "")) < 10] == []


def _prose(text: str) -> str:
    """Without code and tags, whose words are those of the code."""
    text = re.sub(r"^\s*```.*?^\s*```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`|<[a-z/][^>]*>", "", text)
