"""Verbs of the audit log, found in the source by what is passed as `verb`: each has its sentence."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from django.apps import apps

from apps.accounts.models import AuditEvent
from apps.pages.audit.text import details, sentence_of, sentences, topics

_KINDS = (ast.Call, ast.Assign, ast.AnnAssign, ast.FunctionDef)
_VERB = re.compile(r"[a-z_]+\.[a-z_]+")
_WORDS = "pages/audit/words.py"  # names every verb, and writes none


class Verbs:
    """Of all apps of this project: those installed, whatever they are called."""

    def __init__(self) -> None:
        files = (
            file
            for app in apps.get_app_configs()
            if app.name.startswith("apps.")
            for file in sorted(Path(app.path).rglob("*.py"))
        )
        texts = [
            file.read_text(encoding="utf-8")
            for file in files
            if "migrations" not in file.parts and not file.as_posix().endswith(_WORDS)
        ]
        self._modules: dict[ast.Module, list[ast.AST]] = {}  # with the nodes that can write or take a verb
        self._parse(text for text in texts if "verb" in text)
        # Elsewhere a verb is only written by a call, without the word, of what takes one.
        names = "|".join(sorted(name for module, name in self._places if module is None))
        calls = re.compile(rf"\b({names})\s*\(")
        self._parse(text for text in texts if "verb" not in text and calls.search(text))

    def _parse(self, texts: Iterable[str]) -> None:
        for text in texts:
            module = ast.parse(text)
            self._modules[module] = [node for node in ast.walk(module) if isinstance(node, _KINDS)]

    @cached_property
    def written(self) -> set[str]:
        return {verb for module, nodes in self._modules.items() for node in nodes for verb in self._of(module, node)}

    @cached_property
    def refused(self) -> set[str]:
        """Written for attempts that failed: by `outcome="refused"`, or by what logs each refusal of a block."""
        return {
            verb for module, nodes in self._modules.items() for node in nodes for verb in self._refused(module, node)
        }

    @cached_property
    def _places(self) -> dict[tuple[ast.Module | None, str], int]:
        """Where each function takes a verb. Private ones are of their module: several have the same name."""
        found: dict[tuple[ast.Module | None, str], int] = {}
        for module, nodes in self._modules.items():
            for node in nodes:
                if isinstance(node, ast.FunctionDef):
                    names = [each.arg for each in node.args.args if each.arg != "self"]
                    if "verb" in names:
                        found[module if node.name.startswith("_") else None, node.name] = names.index("verb")
        return found

    def _of(self, module: ast.Module, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Call):
            yield from (verb for given in self._given(module, node) for verb in _verbs_of(given))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(getattr(each, "id", "") == "verb" for each in targets):
                yield from _verbs_of(node.value)

    def _given(self, module: ast.Module, call: ast.Call) -> Iterator[ast.expr]:
        yield from (each.value for each in call.keywords if each.arg == "verb")
        name = _name_of(call)
        at = self._places.get((module, name), self._places.get((None, name)))
        if at is not None:
            yield from call.args[at : at + 1]

    def _refused(self, module: ast.Module, node: ast.AST) -> Iterator[str]:
        if not isinstance(node, ast.Call):
            return
        outcome = next((each.value for each in node.keywords if each.arg == "outcome"), None)
        is_refusal = isinstance(outcome, ast.Constant) and outcome.value == "refused"
        if not is_refusal and not _name_of(node).endswith(("on_record", "_refusals")):
            return
        for given in self._given(module, node):
            if isinstance(given, ast.Attribute) and given.attr == "verb":  # whichever a class of this module says
                yield from (
                    verb
                    for each in self._modules[module]
                    if not isinstance(each, ast.Call)
                    for verb in self._of(module, each)
                )
            yield from _verbs_of(given)


def _name_of(call: ast.Call) -> str:
    return str(getattr(call.func, "id", getattr(call.func, "attr", "")))


def _verbs_of(given: ast.expr) -> Iterator[str]:
    for node in ast.walk(given):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _VERB.fullmatch(node.value):
            yield node.value


FORMER = {"changeset.people_notified", "pack.shared", "pack.link_revoked"}  # of events that earlier versions stored


def test_every_audit_verb_and_refusal_has_a_sentence() -> None:
    verbs = Verbs()
    done = verbs.written - {"request.refused"}  # only of refusals
    assert sorted(done ^ (set(sentences()) - FORMER)) == [], "each has one, and there is none that nobody writes"
    assert {"grant.given", "mapping.detached"} <= verbs.refused
    assert {verb.partition(".")[0] for verb in verbs.written} == set(topics()), "the filter offers each topic"


def test_an_alarm_that_is_recorded_as_failed_is_no_failed_action() -> None:
    def sentence(verb: str) -> str:
        return sentence_of(AuditEvent(verb=verb, outcome="failed"), what="peer")

    alarms = [sentence(verb) for verb in ("federation.usage_held", "federation.blocked")]
    assert not any(each.startswith("failed") for each in alarms)
    assert sentence("policy.automatic").startswith("failed")


def test_digests_and_counts_of_rows_are_left_to_rest() -> None:
    event = AuditEvent(verb="policy.published", details={"revision": 3, "n_closed": 4, "tree_digest": "ab" * 32})
    assert [value for _name, value in details(event)] == ["3"]
