"""docs/architecture.md: its modules exist, its walks follow imports, and each answer is found by its name."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
WALKS = ("A usage record, from file to page", "A share, from editor to REST")


def _walk(title: str) -> list[str]:
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\d+\. `([^`]+)`", section, flags=re.M)


def _imports(path: str) -> set[str]:
    """Files that a file imports, at any place of it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        else:
            continue
        for name in names:
            base = name.replace(".", "/")
            found |= {f"{base}.py", f"{base}/__init__.py"}
    return found


def test_every_module_of_the_page_exists() -> None:
    named = set(re.findall(r"`(apps/[^`]+\.py)`", PAGE))
    assert len(named) > 30
    assert sorted(path for path in named if not (ROOT / path).is_file()) == []


@pytest.mark.parametrize("title", WALKS)
def test_each_module_of_a_walk_is_linked_to_the_next(title: str) -> None:
    walk = _walk(title)
    assert len(walk) > 10
    assert len(set(walk)) == len(walk), "a walk that returns"
    apart = [(one, other) for one, other in pairwise(walk) if other not in _imports(one) and one not in _imports(other)]
    assert apart == []


def test_the_page_lists_the_existing_rooms() -> None:
    drawn = PAGE.partition("```\n")[2].partition("```")[0]
    rooms = {path.parent.name for path in (ROOT / "apps").glob("*/__init__.py")}
    assert sorted(room for room in rooms if not re.search(rf"\b{room}\b", drawn)) == []


def test_twenty_questions_have_their_own_answer() -> None:
    answers = re.findall(r"^\| [^|]+\? \| `([^`]+)` \|$", PAGE, flags=re.M)
    assert len(answers) >= 20
    assert len(set(answers)) == len(answers)


# Of somebody who is new here: words of a row of "Where is …?", of a path, or a text to search for; then the file with
# the answer, and what is read there.
NEWCOMER = (
    ("the default half-life", "apps/policies/settings.py", '"half_life_s": 604_800'),
    ("Which columns does the tree's table have", "apps/web/tree_listing.py", "TREE = Listing("),
    ("received twice", "apps/usage/records/versions.py", "def "),
    ("What sends mail", "apps/core/mail_server.py", "class "),
    ("Who may publish", "apps/policies/access/authority.py", "VERBS_OF_ROLE"),
    ("fields does a look-up's answer", "apps/priorities/serving/served_snapshot.py", "def lookup_json"),
    ("path: my_priority", "templates/pages/my_priority/priority.html", "{% extends"),
    ("what runs every minute", "fairshare_web/settings.py", "CELERY_BEAT_SCHEDULE"),
    ("Fair Tree", "apps/engine/algorithms/slurm_fair_tree.py", "class SlurmFairTree"),
    ("How long are snapshots kept", "apps/priorities/snapshot_retention.py", "HOURLY_FOR"),
    ("How long does a session last", "fairshare_web/settings.py", "SESSION_COOKIE_AGE"),
    ("Which place and tab", "apps/web/shell/places.py", "PLACES"),
    ("10 % from siblings", "apps/policies/operations/percent.py", "def own_shares_for_percent"),
    ("core-hours converted to shares", "apps/contrib/allocations/conversion.py", "def convert("),
    ("document verified", "apps/federation/documents/trust.py", "def check_document"),
    ("how often may one ask", "fairshare_web/settings.py", "DEFAULT_THROTTLE_RATES"),
    ("tries a recompute", "tests/priorities/recompute/test_pipeline.py", "def test_"),
    ("SAM's queue decide", "apps/contrib/jobs/gateway/services.py", "def decide("),
    ("CSS draws the tree's table", "static/css/tree.css", ".tg "),
    ("agent is silent", "apps/contrib/schedulers/agent_notice.py", "sends nothing"),
    ("how many siblings are ahead", "apps/priorities/sentences/path.py", "others are ahead."),
    ("draft of a first policy", "apps/contrib/onboarding/first_policy_draft.py", "def publish_draft("),
    ("What publishes a change set", "apps/policies/services.py", "def publish_change_set("),
    ("text: Waiting: demand, not usage.", "apps/pages/charges/presenters.py", "Waiting: demand, not usage."),
)


@pytest.mark.parametrize(("first", "path", "text"), NEWCOMER, ids=[first for first, *_ in NEWCOMER])
def test_a_newcomer_finds_the_answer_by_two_looks(first: str, path: str, text: str) -> None:
    kind, _, wanted = first.partition(": ") if first.startswith(("path: ", "text: ")) else ("row", "", first)
    if kind == "path":
        suffix = Path(path).suffix
        found = [file for file in (ROOT / "templates").rglob(f"*{suffix}") if wanted in str(file.parent)]
        assert [str(file.relative_to(ROOT)) for file in found if not file.name.startswith("_")] == [path]
    elif kind == "text":
        files = [file for file in (ROOT / "apps").rglob("*.py") if wanted in file.read_text(encoding="utf-8")]
        assert [str(file.relative_to(ROOT)) for file in files] == [path]
    else:
        (row,) = [line for line in PAGE.splitlines() if line.startswith("| ") and wanted in line.split("|")[1]]
        assert f"`{path}`" in row
    assert text in (ROOT / path).read_text(encoding="utf-8")
