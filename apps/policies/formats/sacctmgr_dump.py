"""Parse a `sacctmgr dump` into lines with the positions of names and shares, and into a tree.

A dump names a cluster and then, below each line Parent, the accounts and users in that account. Slurm identifies an
account by its name in the cluster, and a user by account and, for associations limited to a partition, by partition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from apps.policies.files.parsed_document import ParsedDocument
from apps.policies.formats import slurm_tree
from apps.policies.formats.base import invalid_line, wrong_format
from apps.policies.formats.slurm_tree import ROOT, Associations, slurm_shares
from apps.policies.formats.whole_shares import plain_word

LABEL = "sacctmgr dump"

_LINE = re.compile(r"(Cluster|Parent|Account|User)\s*-\s*(.*)", re.IGNORECASE)
_WORD = re.compile(r"\s*(?:Cluster|Parent|Account|User)\s*-\s*", re.IGNORECASE)
_NAME = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^:'\"]+)")
_OPTION = re.compile(r"\s*:\s*([A-Za-z]+)\s*=\s*('[^']*'|\"[^\"]*\"|[^:]*)")


# --- Reading as a tree ------------------------------------------------------------------------------------------------
def read_dump(text: str) -> ParsedDocument:
    """Read a dump as a tree.

    Raises:
        Invalid: it isn't a dump of one cluster, or has invalid lines, which are all listed.
    """
    found = Associations()
    parent, cluster = "", ""
    lines = text.split("\n")
    for line, raw in enumerate(lines, 1):
        content = raw.strip()
        if not content or content.startswith("#"):
            continue
        if cluster and line == len(lines):
            message = "has no line end: the dump is cut off there (write it again), or was edited (end the line)"
            found.problem(-1, "", message, line)
            break
        match = _LINE.fullmatch(content)
        if match is None:
            _refuse_error_text(content, line)
            if not cluster:
                raise wrong_format(LABEL, line, f"{content[:60]!r} isn't a line such as Cluster - 'name'")
            found.problem(-1, "", f"{content[:60]!r} is none of Cluster, Parent, Account and User", line)
            continue
        word = match[1].capitalize()
        statement = _read_line(content, found, line)
        name, options = statement.name, statement.options
        if not cluster and word != "Cluster":
            raise wrong_format(LABEL, line, "a dump begins with a line Cluster - 'name'")
        if word == "Cluster":
            if cluster:
                raise invalid_line(line, f"a second cluster, {name!r:.140}, begins; import each one separately")
            cluster = found.cluster = name
            found.not_read(options, frozenset())
        elif word == "Parent":
            parent = name
            if name.lower() not in found.accounts:
                found.problem(-1, "Parent", f"{name!r:.140} isn't declared before it", line)
        elif not parent:
            found.problem(-1, word, "is before the first line Parent - 'name'", line)
        else:
            _add_association(found, word, name, options, parent, line)
    if not cluster:
        raise wrong_format(LABEL, 1, "there is no line Cluster - 'name'")
    return found.declared()


def _refuse_error_text(content: str, line: int) -> None:
    """Raise Invalid if the file contains the error message of a failed sacctmgr command."""
    if not re.match(r"sacctmgr: (error|fatal)|You are not running a supported accounting_storage", content):
        return
    if "accounting_storage" in content:
        what = "Slurm has no accounting database there (slurmdbd), so no tree: import users and shares as CSV instead"
    else:
        what = "write the dump again when slurmdbd answers"
    raise wrong_format(LABEL, line, f"sacctmgr failed: {content[:140]!r}; {what}")


def _add_association(
    found: Associations, word: str, name: str, options: Mapping[str, str], parent: str, line: int
) -> None:
    if options.get("partition"):
        found.of_partition(name, parent, options["partition"])
        return
    if parent.lower() not in found.accounts:
        return  # reported at the line of the parent
    shares = found.shares_of(options, line, name)
    if word == "Account":
        found.not_read(options, frozenset({"description", "organization"}))
        found.account(name, parent, shares, line)
    else:
        found.not_read(options, frozenset({"defaultaccount"}))
        found.user(name, parent, shares, line)


Span = tuple[int, int]  # begin, end


class _ParsedLine(NamedTuple):
    """Name and options of one line without quotes, and the position of each in the text, quotes included."""

    name: str
    options: dict[str, str]
    name_at: Span
    values_at: dict[str, Span]


def _read_line(text: str, found: Associations, line: int) -> _ParsedLine:
    """Parse `'name':Option=value:Option='value'` after an optional `Word - `; quoted colons belong to the value."""
    start = word.end() if (word := _WORD.match(text)) else 0
    match = _NAME.match(text, start)
    if match is None:
        found.problem(-1, "", f"{text[start : start + 60]!r} doesn't begin with a name in quotes", line)
        return _ParsedLine("?", {}, (start, start), {})
    name, at = next(part for part in match.groups() if part is not None).strip(), match.end()
    options: dict[str, str] = {}
    values_at: dict[str, Span] = {}
    while at < len(text):
        option = _OPTION.match(text, at)
        if option is None:
            found.problem(-1, name, f"{text[at : at + 60]!r} isn't an option such as :Fairshare=1", line)
            break
        options[option[1].lower()] = option[2].strip().strip("'\"")
        values_at[option[1].lower()] = option.span(2)
        at = option.end()
    return _ParsedLine(name, options, match.span(), values_at)


# --- Lines ------------------------------------------------------------------------------------------------------------
class Key(NamedTuple):
    """Identifies an association in a cluster. user: "" for the account itself."""

    account: str
    user: str = ""


@dataclass(frozen=True)
class Line:
    """One line of the file. word: Cluster, Parent, Account, User, or "" for any other.

    key: of the account or user; for an association limited to a partition, that of the user. above: the parent account.
    """

    text: str
    word: str = ""
    name: str = ""
    above: str = ""
    partition: str = ""
    shares: float | str = 1
    options: Mapping[str, str] | None = None
    name_at: Span = (0, 0)
    values_at: Mapping[str, Span] | None = None

    @property
    def key(self) -> Key:
        return Key(self.name.lower()) if self.word == "Account" else Key(self.above.lower(), self.name)

    @property
    def is_association(self) -> bool:
        """Whether it is an account, or a user in all partitions: associations for which a policy has entries."""
        return self.word in ("Account", "User") and not self.partition

    def with_values(self, values: Mapping[str, str], name: str = "") -> str:
        """Return the text with other option values and another name; unchanged values keep their spelling."""
        changes = [] if name in ("", self.name) else [(self.name_at, f"'{name}'")]
        added = ""
        for option, value in values.items():
            at = (self.values_at or {}).get(option.lower())
            if at is None:
                added += f":{option}={value}"
            elif (self.options or {})[option.lower()] != value.strip("'"):
                changes.append((at, value))
        text = self.text
        for (begin, end), value in sorted(changes, reverse=True):
            text = text[:begin] + value + text[end:]
        return text + added


@dataclass(frozen=True)
class Dump:
    """The lines of a dump of one cluster, in the order of the file."""

    cluster: str
    lines: list[Line]

    @cached_property
    def associations(self) -> dict[Key, Line]:
        return {line.key: line for line in self.lines if line.is_association}

    @cached_property
    def in_partitions(self) -> set[Key]:
        """Users in accounts where they also have associations limited to a partition."""
        return {line.key for line in self.lines if line.partition}

    @cached_property
    def divided(self) -> set[str]:
        """Accounts that have lines below them."""
        return {line.above.lower() for line in self.lines if line.word in ("Account", "User")}


def dump_of(text: str) -> Dump:
    """Parse a dump into its lines.

    Raises:
        Invalid: it isn't a dump of one cluster, has an invalid line, or is cut off.
    """
    if slurm_tree.looks_like(text):
        raise wrong_format(LABEL, 1, "it is a script, not the output of sacctmgr dump")
    cluster = read_dump(text).policy
    if plain_word(cluster) != cluster:
        raise wrong_format(LABEL, 1, f"{cluster[:60]!r} is not a valid cluster name")
    lines: list[Line] = []
    parent, problems = ROOT, Associations()  # stays empty: all lines were read before
    for raw in text.split("\n")[:-1]:
        line = _line_of(raw, parent, problems)
        parent = line.name if line.word == "Parent" else parent
        lines.append(line)
    return Dump(cluster, lines)


def _line_of(raw: str, parent: str, problems: Associations) -> Line:
    match = _LINE.fullmatch(raw.strip())
    if match is None:
        return Line(raw)
    statement = _read_line(raw, problems, 0)
    shares = next((statement.options[key] for key in slurm_tree.SHARES if key in statement.options), "1")
    return Line(
        raw,
        match[1].capitalize(),
        statement.name,
        parent,
        statement.options.get("partition", ""),
        slurm_shares(shares) if match[1].capitalize() in ("Account", "User") else 1,
        statement.options,
        statement.name_at,
        statement.values_at,
    )
