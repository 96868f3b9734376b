"""What people read is written in the field's words: one word for one thing.

Texts are those that go through gettext in apps and templates, labels of choices, refusals, and the terminal client's.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
REFUSALS = {
    "BadDocument",
    "Conflict",
    "DomainError",
    "FieldProblem",
    "Invalid",
    "NotAllowed",
    "NotFound",
    "Refused",
    "Stale",
    "TooLarge",
    "Unavailable",
    "Unfit",
}

# Each pattern with the words to use instead.
PATTERNS = {
    r"tell(s|ing)?|told": "report, publish, send, show or list",
    r"in force": "active, current; to publish or apply; takes effect",
    r"good until": "valid until",
    # A start is promised, with a probability; hours are allocated.
    r"promis(e|es|ed|ing) ([\w-]+ ){0,3}(hours|shares?|targets?)|(hours|shares?|targets?) promised": "allocate; target",
    r"hand(s|ed|ing)? (out|on|in)|giv(e|es|en|ing) (away|back)": "allocate, redistribute, submit, credit",
    r"(its|your|their) part": "its share or target",
    r"(stands?|stood)": "is, is listed, is shown",
    r"fall(s|en)? back": "local-only fallback",
    r"holes?": "gap",
    r"(bring|brings|brought|take|takes|taken|took) (it |them )?back": "restore, withdraw, undo",
    r"(is|are|was|were|not) taken|taken in": "accepted, imported; rejected",
    r"odd": "data issue",
    r"laws?": "decay function",
    r"(take|takes|taken|tell|told) apart": "explain, breakdown",
    r"put(s)? off": "snooze",
    r"g(ive|ives|iven|ave)( \w+)? up": "discard, withdraw, give up only of a role",
    r"(let|lets)( \w+){0,3} go": "remove, release, detach",
    r"deeds?": "action",
    r"rhythm": "interval",
    r"(some|any|every|no)body|whoever": "the role: user, manager, administrator, reviewer, peer",
    r"kept back|left over": "reserved, unallocated",
    r"half-time": "half-life of the deviation",
    r"without a centre": "decentralised",
    r"weigh(s|ed|ing)?": "weighted; a verb for what is computed",
    r"(without|has no|have no) (an )?entry": "unmapped, of accounts",
    r"anew": "again, re-",
    r"lately": "recent, in the last days",
    r"(comes|come|came) to": "is, totals, amounts to",
    r"(lies|lay|lie) ": "is",
    r"by (itself|themselves)": "automatically",
    r"(is|are|was|were|be|been|\w+n’t) asked": "fetched, requested, required",
    r"(of|from) then": "of that time",
    r"by another way|by other ways": "over a separate channel",
    r"heard": "last contact; unreachable",
    r"(needs?|have|had) a look|looks? at|looked at|looking at": "check, fetch, review",
    r"thaw(s|ed)?": "unfreeze",
}

# Texts in which a word of the list is the field's own, with the reason. Each must still be there.
ALLOWED = {
    "tell your site’s support the time of the error": "a person tells a person",
    "A manager of the account’s group is asked to confirm": "a person is asked",
    "has no entry %(name)s": "a revision has no entry",
    "because the tree has no entr": "a tree has no entry",
}

PLACEHOLDERS = re.compile(r"%\(\w+\)[\w.]+|\{\{.*?\}\}|\{\w*\}|<[^>]*>")
TRANSLATE = re.compile(r"""(?:\{%\s*translate\s+|\b_\()("[^"]*"|'[^']*')""")
BLOCK = re.compile(r"\{%\s*blocktranslate\b[^%]*%\}(.*?)\{%\s*endblocktranslate\s*%\}", re.DOTALL)
PLURAL = re.compile(r"\{%\s*plural\s*%\}")


class Text(NamedTuple):
    """One text that people read: where it is, and its forms (singular, plural)."""

    place: str
    forms: tuple[str, ...]


class Program(NamedTuple):
    """What is checked of a module; the syntax trees of all would fill the memory."""

    texts: list[Text]  # that go through gettext
    refusals: list[Text]
    definitions: list[tuple[str, str]]  # (name, docstring) of the module, its classes and functions
    variables: list[tuple[int, str]]  # (line, name), with parameters
    glued: list[int]  # lines where words written in the code stand beside a translated text
    capitalises: bool


@cache
def read_program(path: Path) -> Program:
    source = path.read_text(encoding="utf-8")
    found, where = Program([], [], [], [], [], bool(CAPITALISED.search(source))), path.relative_to(ROOT)
    nodes = list(ast.walk(ast.parse(source)))
    names = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "django.utils.translation"
        for alias in node.names
        if "gettext" in alias.name
    }
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.definitions.append((getattr(node, "name", ""), ast.get_docstring(node) or ""))
        elif isinstance(node, ast.arg):
            found.variables.append((node.lineno, node.arg))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.variables.append((node.lineno, node.id))
        elif isinstance(node, ast.JoinedStr | ast.BinOp) and _is_glued(node):
            found.glued.append(node.lineno)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            place = f"{where}:{node.lineno}"
            if node.func.id in names and (forms := tuple(_strings(node.args))):
                found.texts.append(Text(place, forms))
            elif node.func.id in REFUSALS:
                parts = (part for given in node.args for part in ast.walk(given))
                found.refusals.extend(Text(place, (each,)) for each in _strings(parts) if " " in each)
    return found


def _strings(nodes: Iterable[ast.AST]) -> Iterator[str]:
    return (each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _programs(*rooms: str) -> Iterator[tuple[Path, Program]]:
    for path in sorted(each for room in rooms for each in (ROOT / room).rglob("*.py")):
        if "migrations" not in path.parts:
            yield path.relative_to(ROOT), read_program(path)


def _template_texts(path: Path) -> Iterator[Text]:
    source = path.read_text(encoding="utf-8")
    for match in TRANSLATE.finditer(source):
        yield Text(_place(path, source, match), (match[1][1:-1],))
    for match in BLOCK.finditer(source):
        yield Text(_place(path, source, match), tuple(" ".join(each.split()) for each in PLURAL.split(match[1])))


def _place(path: Path, source: str, match: re.Match[str]) -> str:
    return f"{path.relative_to(ROOT)}:{source[: match.start()].count(chr(10)) + 1}"


@cache
def translated() -> tuple[Text, ...]:
    found = [text for _path, program in _programs("apps") for text in program.texts]
    return (*found, *(text for path in sorted((ROOT / "templates").rglob("*.html")) for text in _template_texts(path)))


def _unmarked(label: ast.expr) -> ast.expr:
    """A label without its mark for translation."""
    return label.args[0] if isinstance(label, ast.Call) else label


def _choice_labels() -> Iterator[Text]:
    for path in sorted((ROOT / "apps").rglob("models.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and any("Choices" in ast.unparse(base) for base in node.bases):
                for each in node.body:
                    if isinstance(each, ast.Assign) and isinstance(each.value, ast.Tuple):
                        label = ast.literal_eval(_unmarked(each.value.elts[-1]))
                        yield Text(f"{path.relative_to(ROOT)}:{each.lineno}", (label,))


def refusals() -> tuple[Text, ...]:
    """Texts of refusals, where they are raised."""
    return tuple(text for _path, program in _programs("apps") for text in program.refusals)


def _terminal_texts() -> Iterator[Text]:
    """All texts of the programs but their comments, the docstrings of their functions, and codes without a blank."""
    for path in sorted((ROOT / "terminal").glob("*.py")):
        yield from _texts_of_program(path)


def _texts_of_program(path: Path) -> Iterator[Text]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    docstrings = {id(node.body[0].value) for node in documented if isinstance(node.body[0], ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in docstrings:
            continue
        if " " in node.value.strip():
            yield Text(f"{path.relative_to(ROOT)}:{node.lineno}", (node.value,))


def found_in(texts: Iterator[Text] | tuple[Text, ...]) -> list[str]:
    """Places of words to replace, each with its text and what to use."""
    patterns = [(re.compile(rf"(?<![\w/-])(?:{each})(?![\w-])", re.IGNORECASE), use) for each, use in PATTERNS.items()]
    any_of_them = re.compile("|".join(pattern.pattern for pattern, _use in patterns), re.IGNORECASE)
    forms = ((text.place, form, PLACEHOLDERS.sub(" ", form)) for text in texts for form in text.forms)
    return [
        f"{place}: “{match[0]}” in “{form}”; use: {use}"
        for place, form, words in forms
        if any_of_them.search(words) and not any(part in form for part in ALLOWED)
        for pattern, use in patterns
        if (match := pattern.search(words))
    ]


# Words that docstrings and names of the code don't use, as whole words; the allowed places follow.
VAGUE_WORDS = re.compile(
    r"\b(told|tells?|whoever|somebody|everybody|anew|heard|lies|lain|stands|stood|comes? to|goes on|go on|rests|"
    r"handed|in force|deeds?|in thought|rhythm|of then|let go|lets go|brought back|taken back|as it was then)\b",
    re.IGNORECASE,
)
VAGUE_NAMES = re.compile(
    r"(^|_)(told|tells?|said|whoever|nobody|somebody|anew|heard|stands|deeds?|thaw|crowd|"
    r"rulebook|census|someone|wished|givable|nudge|stake|rhythm|owing)(_|$)|[a-z](?<!in)_words$"
)
FORMER_NAMES = {  # each with the name that replaced it
    "Census": "MembershipState",
    "Concern": "AttentionItem",
    "Dealt": "TicketResult",
    "Gone": "ArchivedEntry",
    "Ground": "GrantBasis",
    "HandedOver": "NeedsWorkerThread",
    "Joining": "UserToAdd",
    "Landing": "AppliedDocument",
    "Judgement": "EntryVerdict",
    "LedGroup": "ManagedGroup",
    "LookBack": "PastDayPicker",
    "Newcomers": "NewUsers",
    "Owing": "PendingSecondFactor",
    "PlayForm": "CalculatorForm",
    "Remembered": "RightsCache",
    "Rulebook": "RuleSet",
    "Settled": "ResolvedConflicts",
    "Sides": "MergeSides",
    "Skeleton": "MinimalTree",
    "Someone": "SignInUser",
    "Standing": "EntryNumbers",
    "StatedEdit": "ReviewedEdit",
    "Story": "AccountExplanation",
    "Tally": "ImportTotals",
    "Wanted": "ProposedMapping",
    "Wish": "RequestedShares",
    "ask_upward": "request_shares",
    "folded": "normalise_name",
    "judge": "assess_entries",
    "keep_version": "store_version",
    "let_records_go": "remove_old_records",
    "look_alikes": "find_confusable_names",
    "make_story": "build_account_explanation",
    "moves_to_nowhere": "moves_to_unmapped",
    "no_place_for_accounts": "refuse_unmappable_entry",
    "plant": "build_share_tree",
    "see": "load_visibility",
    "see_then": "load_past_visibility",
    "settle": "resolve_conflicts",
    "skeleton": "build_minimal_tree or confusable_form",
    "state_capacity": "add_capacity",
    "take_back_claim": "cancel_claim",
    "take_census": "load_membership_state",
    "take_own_accounts": "assign_own_accounts",
    "walk_down": "list_conversion_steps",
    "where_password_lives": "password_location_text",
    "who_sees_me": "list_viewers",
    "who_took": "get_attaching_user",
}
VAGUE_VARIABLES = re.compile(
    r"(^|_)(told|said(?!_at$)|(?<!is_)odd|heard|anew|thaw|landing|landed|newcomers?|laws?|rests|concerns)(_|$)|(^|_)in_force$"
)
VAGUE_NAMES_ALLOWED = {
    "apps/engine/numerics/long_quotients.py: _divide_words": "machine words",
    "apps/core/tables.py: tell": "the method of files in Python",
    "apps/usage/sources/growing_files.py: tell": "the method of files in Python",
}


def _definitions() -> Iterator[tuple[str, str, str]]:
    """Place, name and docstring of each module, class and function."""
    for path, program in _programs("apps", "agent"):
        for name, docstring in program.definitions:
            yield f"{path}: {name}", name, docstring


@pytest.mark.deep
def test_docstrings_use_standard_words() -> None:
    found = {place: match[0] for place, _name, text in _definitions() if (match := VAGUE_WORDS.search(text))}
    assert found == {}


def test_names_use_standard_words() -> None:
    found = sorted(place for place, name, _text in _definitions() if VAGUE_NAMES.search(name))
    assert found == sorted(VAGUE_NAMES_ALLOWED)


def test_variables_use_standard_words() -> None:
    found = (
        f"{path}:{line}: {name}"
        for path, program in _programs("apps", "agent", "bench", "terminal")
        for line, name in program.variables
        if VAGUE_VARIABLES.search(name)
    )
    assert list(found) == []


def test_names_of_tests_use_standard_words() -> None:
    named = re.compile(r"\b(?:def +|for |as )?(\w*(?<![a-z])(?:told|said(?!_at))(?![a-z])\w*)(?: *[:=][^=]| in |\()")
    found = (
        f"{path.relative_to(ROOT)}: {match[1]}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path.name != "test_words.py"
        for match in re.finditer(named, path.read_text(encoding="utf-8"))
    )
    assert list(found) == []


def test_former_names_do_not_come_back() -> None:
    assert {place: FORMER_NAMES[name] for place, name, _text in _definitions() if name in FORMER_NAMES} == {}


def test_no_docstring_refers_to_the_one_before() -> None:
    assert [place for place, _name, text in _definitions() if text.startswith("The same")] == []


def test_interface_texts_use_the_words_of_the_field() -> None:
    assert found_in(translated()) == []


def test_labels_of_choices_use_the_words_of_the_field() -> None:
    assert found_in(tuple(_choice_labels())) == []


def test_the_terminal_client_uses_the_words_of_the_field() -> None:
    assert found_in(tuple(_terminal_texts())) == []


def test_refusals_use_the_words_of_the_field() -> None:
    assert found_in(refusals()) == []


def test_a_listed_word_is_found() -> None:
    for text in ("Usage of %(told)s", "{{ told }} records", "Look up an account", "A token", "untold"):
        assert found_in((Text("here", (text,)),)) == [], text
    for text in ("Nothing is told to %(name)s", "All of it, put in force", "Whoever leads it", "It isn’t asked"):
        assert found_in((Text("here", ("fine", text)),)), text


def test_all_kinds_of_texts_are_read() -> None:
    places = {text.place.partition("/")[0] for text in translated()}
    assert places == {"apps", "templates"}
    assert len(list(_choice_labels())) > 50
    assert len(list(_terminal_texts())) > 50
    assert len(refusals()) > 200


def test_each_exception_is_still_needed() -> None:
    forms = [form for text in (*translated(), *refusals()) for form in text.forms]
    assert [part for part in ALLOWED if not any(part in form for form in forms)] == []


# Sentences are whole: a translator sees each with its words, its order and its capital letter.
LABEL_FILTER = re.compile(r"\|\s*(?:capfirst|lower|upper|title)\b")
FRAGMENT = re.compile(r"[,;:.)]|(?:and|or|but|while)\b")
LIST_ENDS = re.compile(r"and (?:%\(n\)s|\{\{ \w+ \}\}|one) more(?: entry| entries)?")  # each on a line of its own
FRAGMENTS_ALLOWED = {
    "and": "label of the third algorithm of a comparison",
    "or enter this key:": "a line of its own below the code",
    "or with a local account": "a heading of its own",
    "or {{ place }}, {{ sure }}: {{ why }}": "a line of its own: a second suggestion",
}
TRANSLATED_END = r"""(?:endblocktranslate|translate\s+(?:"[^"]*"|'[^']*'))\s*%\}"""
BETWEEN = r"(?:\s|</?\w[^>]*>|\{%\s*(?:if|else|elif|endif)\b[^%]*%\})*"
GLUED_IN_TEMPLATE = re.compile(
    TRANSLATED_END + BETWEEN + r"[,;:(]" + BETWEEN + r"\{%\s*(?:translate|blocktranslate)\b[^%]*%\}"
)
GETTEXT = {"_", "gettext", "gettext_lazy", "ngettext", "ngettext_lazy", "pgettext"}
JOINT = re.compile(r"[^\W\d_]|[,;:(]")  # beside a translated text; blanks and marks may join sentences
JOINTS_ALLOWED = {
    "apps/pages/tokens/presenters.py": "the comment of a shell command",
}
CAPITALISED = re.compile(r"\bcapfirst\b|\.capitalize\(\)|\[:1\]\.upper\(\)|\[0\]\.upper\(\)")
CAPITALISED_ALLOWED = {
    "apps/accounts/grid_names.py": "an attribute of a distinguished name",
    "apps/core/errors.py": "problems of fields follow the field’s name, or are shown beside it",
    "apps/contrib/jobs/algorithms/slurm_multifactor.py": "names of Slurm’s factors, which have no translation",
    "apps/web/texts/glossary.py": "meanings are texts of the documentation, which has no translation",
    "apps/web/rest/schema.py": "summaries of the API's description, which has no translation",
    "apps/web/templatetags/marks.py": "kinds of entries are words of the policy",
}


def _template_sources() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "templates").rglob("*.html")):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def _is_gettext(node: ast.AST) -> bool:
    """Whether the value of an expression is a translated text, with or without its values filled in."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return _is_gettext(node.left)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in GETTEXT


def _parts(node: ast.AST) -> list[ast.AST]:
    """Parts of an f-string or of a sum of strings."""
    if isinstance(node, ast.JoinedStr):
        return [each.value if isinstance(each, ast.FormattedValue) else each for each in node.values]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_parts(node.left), *_parts(node.right)]
    return [node]


def _is_glued(node: ast.AST) -> bool:
    """Whether words or a comma written in the code stand beside a translated text."""
    parts = _parts(node)
    written = [each.value for each in parts if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return any(map(_is_gettext, parts)) and any(JOINT.search(re.sub("<[^>]*>", "", text)) for text in written)


def test_no_filter_changes_the_letters_of_a_text() -> None:
    assert [place for place, source in _template_sources() if LABEL_FILTER.search(source)] == []


def test_no_program_capitalises_a_text() -> None:
    found = {str(path) for path, program in _programs("apps") if program.capitalises}
    assert found == set(CAPITALISED_ALLOWED)


def test_no_translated_text_is_the_second_half_of_a_sentence() -> None:
    found = [
        f"{text.place}: “{form}”"
        for text in translated()
        for form in text.forms
        if FRAGMENT.match(form) and not LIST_ENDS.fullmatch(form) and form not in FRAGMENTS_ALLOWED
    ]
    assert found == []


def test_no_template_glues_translated_texts() -> None:
    found = [
        f"{place}:{source[: match.start()].count(chr(10)) + 1}"
        for place, source in _template_sources()
        for match in GLUED_IN_TEMPLATE.finditer(source)
    ]
    assert found == []


def test_no_program_glues_translated_texts() -> None:
    found = {str(path) for path, program in _programs("apps") if program.glued}
    assert found == set(JOINTS_ALLOWED)


def test_glued_texts_are_found() -> None:
    assert GLUED_IN_TEMPLATE.search('{% translate "Undo" %}, {% translate "Revision" %}')
    assert GLUED_IN_TEMPLATE.search("{% endblocktranslate %}</b>{% if n %}: {% blocktranslate with n=n %}")
    assert not GLUED_IN_TEMPLATE.search('{% translate "Undone." %} {% translate "Nothing is saved." %}')
    for code in ("f\"{x}, {_('not shown')}\"", 'text + _("more") + ", and"', '_("%(n)s") % {"n": 1} + ": " + x'):
        assert _is_glued(ast.parse(code, mode="eval").body), code
    for code in ("f\"{first} {_('One more sentence.')}\"", 'f"[{x}, {y}]"', '_("Saved.") + " " + _("Go on.")'):
        assert not _is_glued(ast.parse(code, mode="eval").body), code
