"""Parse a `sacctmgr dump` into lines with the positions of names and shares, and into a tree.

A dump names a cluster and then, below each line Parent, the accounts and users in that account. Slurm identifies an
account by its name in the cluster, and a user by account and, for associations limited to a partition, by partition.

Lines are read as `sacctmgr load` reads them: abbreviated keys, `QOS+=`, comments, escapes, lines continued by a
backslash. Beyond that, values of typed TRES may be without quotes, as `sacctmgr dump` writes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from apps.policies.files.parsed_document import ParsedDocument
from apps.policies.formats import sacctmgr_commands
from apps.policies.formats.base import invalid_line, wrong_format
from apps.policies.formats.escaped_lines import logical_lines
from apps.policies.formats.sacctmgr_words import FILE_KEYS, could_be_shares, key_of
from apps.policies.formats.slurm_names import in_dump, is_literal_backslash, loadable
from apps.policies.formats.slurm_tree import DEFAULT_SHARES, ROOT, SHARE_KEYS, Associations, slurm_shares
from apps.policies.formats.whole_shares import plain_word

LABEL = "sacctmgr dump"

_WORDS = {
    "cluster": "Cluster",
    "machine": "Cluster",
    "parent": "Parent",
    "account": "Account",
    "project": "Account",
    "user": "User",
    "qos": "QOS",
}
_HIDDEN = "\0"  # replaces characters that Slurm drops, so that positions stay
_DASH = re.compile(r"([^-]*+)-[\s\0]*+")
_PLAIN_HEAD = re.compile(r"(Cluster|Parent|Account|User) - ('[^'\\#]*')(?::[A-Za-z]+=(?:'[^'\\#]*'|[^:'\"\\#\s]+))*")
_PLAIN_OPTION = re.compile(r":([A-Za-z]+)=('[^']*'|[^:]+)")
_PART = re.compile(r"(?:'[^']*'|\"[^\"]*\"|[^:'\"])*")
_OPTION = re.compile(r"[\s\0]*+([A-Za-z]++)[\s\0]*+([+-]?)=[\s\0]*+(?=(.*))", re.DOTALL)
_VALUE = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^'\"]*)")
_BLANK = f" \t\r\n{_HIDDEN}"
_TRES = ("grptres", "maxtres", "grpcpu", "maxcpu")
_OF_NAMES = ("defaultaccount", "coordinator", "parent")  # options whose values are names
_LINE_KEYS = {
    "Cluster": frozenset[str](),
    "Account": frozenset({"description", "organization"}),
    "User": frozenset({"defaultaccount"}),
}
Span = tuple[int, int]  # begin, end


def read_dump(text: str) -> ParsedDocument:
    """Read a dump as a tree.

    Raises:
        Invalid: it isn't a dump of one cluster, or has invalid lines, which are all listed.
    """
    associations = Associations()
    work = _Reader(associations)
    n_lines = text.count("\n") + 1
    for line, raw in logical_lines(text):
        if not raw.strip() or raw.lstrip().startswith("#"):
            continue
        if associations.cluster and line + raw.count("\n") == n_lines:
            message = "has no line end: the dump is cut off there (write it again), or was edited (end the line)"
            associations.problem("", message, line)
            break
        work.read(raw, line)
    if not associations.cluster:
        raise wrong_format(LABEL, 1, "there is no line Cluster - 'name'")
    return associations.declared()


class _Reader:
    """Reads the lines of a dump one by one."""

    def __init__(self, associations: Associations) -> None:
        self._found = associations
        self._parent = ROOT

    def read(self, raw: str, line: int) -> None:
        associations = self._found
        statement = read_line(raw, associations, line)
        if statement is None:
            _refuse_error_text(raw.strip(), line)
            if not associations.cluster:
                raise wrong_format(LABEL, line, f"{raw.strip()[:60]!r} isn't a line such as Cluster - 'name'")
            if "-" not in raw:
                associations.note(f"line {line}: {raw.strip()[:60]!r}, which Slurm skips, because it has no -")
            else:
                associations.problem(
                    "", f"{raw.strip()[:60]!r} is none of Cluster, Parent, Account, User and QOS", line
                )
            return
        word, name = statement.word, statement.name
        if word == "QOS":
            associations.unread("QOS lines")
        elif word == "Cluster":
            if associations.cluster:
                raise invalid_line(line, f"a second cluster, {name!r:.140}, begins; import each one separately")
            associations.cluster = name.lower()
            _count_unread(associations, statement)
        elif not associations.cluster:
            raise wrong_format(LABEL, line, "a dump begins with a line Cluster - 'name'")
        elif word == "Parent":
            self._parent = name
            if name.lower() not in associations.accounts:
                associations.problem("Parent", f"{name!r:.140} isn't declared before it", line)
        else:
            self._add(statement, line)

    def _add(self, statement: Statement, line: int) -> None:
        associations, options, name = self._found, statement.options, statement.name
        above = options.get("parent", "")
        if above and above.lower() != self._parent.lower():
            message = f"{above!r:.140} isn't the account of the line Parent above it: put the line below {above!r:.140}"
            associations.problem(f"Parent of {name}", message, line)
        _count_unread(associations, statement)
        if statement.word == "Account" and name.lower() == ROOT:
            return
        if self._parent.lower() not in associations.accounts:
            return  # reported at the line of the parent
        shares = associations.shares_of(options, line, name)
        shares = DEFAULT_SHARES if shares is None else shares
        if statement.word == "Account":
            associations.account(name, self._parent, shares, line)
        else:
            associations.user(name, self._parent, shares, line, options.get("partition", ""))


def _count_unread(associations: Associations, statement: Statement) -> None:
    known = (*_LINE_KEYS[statement.word], *SHARE_KEYS, "parent", "partition")
    associations.unread(*(word for key, word in statement.typed.items() if key not in known))


def _refuse_error_text(content: str, line: int) -> None:
    """Raise Invalid if the file contains the error message of a failed sacctmgr command."""
    if not re.match(r"sacctmgr: (error|fatal)|You are not running a supported accounting_storage", content):
        return
    if "accounting_storage" in content:
        what = "Slurm has no accounting database there (slurmdbd), so no tree: import users and shares as CSV instead"
    else:
        what = "write the dump again when slurmdbd answers"
    raise wrong_format(LABEL, line, f"sacctmgr failed: {content[:140]!r}; {what}")


def _without_comment(raw: str) -> tuple[str, str]:
    """Return the text of equal length with comments, escaping backslashes and continuations hidden.

    Slurm ends a line at # even in quotes, but its own dump writes such values: if the quote is closed after it, # is
    part of the value. It also drops a backslash that escapes nothing, which its dump writes, too. Returns the
    characters that so are part of values.
    """
    if "#" not in raw and "\\" not in raw:
        return raw, ""
    chars, quote, in_values, at = list(raw), "", set[str](), 0
    while at < len(raw):
        char = raw[at]
        if char == "\\" and is_literal_backslash(raw, at):
            in_values.add(char)
        elif char == "\\" and at + 1 < len(raw):
            chars[at] = _HIDDEN
            if raw[at + 1].isspace() and not raw[at + 1 :].split("\n", 1)[0].strip():
                blank = raw.index("\n", at) if "\n" in raw[at:] else len(raw) - 1
                chars[at : blank + 1] = _HIDDEN * (blank + 1 - at)
                at = blank
            else:
                at += 1
        elif char == "#":
            if quote and quote in raw[at:]:
                in_values.add(char)
            else:
                end = raw.find("\n", at) if "\n" in raw[at:] else len(raw)
                chars[at:end] = _HIDDEN * (end - at)
                at = end - 1
        elif char in "'\"" and quote in ("", char):
            quote = "" if quote else char
        at += 1
    return "".join(chars), "".join(in_values)


class Statement(NamedTuple):
    """Name and options of one line without quotes, and the position of each in the text, quotes included.

    options: by key in full. typed: how each key is written, in lower case. end: where the last value ends.
    """

    word: str
    name: str
    options: dict[str, str]
    typed: dict[str, str]
    name_at: Span
    values_at: dict[str, Span]
    end: int


def read_line(raw: str, associations: Associations, line: int) -> Statement | None:
    """Parse `Word - 'name':Option=value:Option='value'`; None if it is no such line."""
    return _read_plain_line(raw) or _read_any_line(raw, associations, line)


def _read_plain_line(raw: str) -> Statement | None:
    """Parse a line as `sacctmgr dump` writes most of them, five times faster; None if it is another."""
    begin = _PLAIN_HEAD.fullmatch(raw)
    if begin is None:
        return None
    options, typed, values_at = dict[str, str](), dict[str, str](), dict[str, Span]()
    for option in _PLAIN_OPTION.finditer(raw, begin.end(2)):
        key, value = _file_key(option[1]), option[2]
        if key is None or (key.startswith(_TRES) and "/" in value):
            return None
        options[key] = value.strip("'")
        typed[key] = option[1].lower()
        values_at[key] = option.span(2)
    name_at = begin.start(2), begin.end(2)
    return Statement(begin[1], begin[2][1:-1].strip(), options, typed, name_at, values_at, len(raw))


@lru_cache(maxsize=1024)
def _file_key(word: str) -> str | None:
    return key_of(word, FILE_KEYS)


def _read_any_line(raw: str, associations: Associations, line: int) -> Statement | None:
    text, in_values = _without_comment(raw)
    begin = _DASH.match(text)
    word = _WORDS.get(_clean(begin[1]).lower(), "") if begin else ""
    if begin is None or not word:
        return None
    if "#" in in_values:
        associations.note(f"line {line}: sacctmgr load ends it at #; to load it, write \\#")
    if "\\" in in_values:
        associations.note(f"line {line}: sacctmgr load drops its backslash; to load it, write \\\\")
    name, name_at = None, (begin.end(), begin.end())
    options, typed, values_at = dict[str, str](), dict[str, str](), dict[str, Span]()
    at, last, end = begin.end(), "", begin.end()
    while at <= len(text):
        part = _PART.match(text, at)
        after = part.end() if part else at
        piece = text[at:after]
        if after < len(text) and text[after] != ":":
            associations.problem(name or "", f"{raw[at : at + 60]!r} has a quote that isn't closed", line)
            break
        if _clean(piece):
            end = at + len(piece.rstrip(_BLANK))
            option = _OPTION.match(piece)
            if _is_unfinished(last, options):
                options[last] += ":" + _clean(piece)
                values_at[last] = values_at[last][0], end
            elif option is not None:
                last = _read_option(option, at, associations, line, (word, name or ""), options, typed, values_at)
            elif name is None:
                name, name_at = _read_name(piece, at, associations, line)
            else:
                associations.problem(name, f"{_clean(piece)[:60]!r} isn't an option such as :Fairshare=1", line)
        at = after + 1
    if name is None:
        associations.problem("", f"{raw[begin.end() : begin.end() + 60]!r} doesn't begin with a name in quotes", line)
    return Statement(word, "?" if name is None else name, options, typed, name_at, values_at, end)


def _read_option(
    option: re.Match[str],
    at: int,
    associations: Associations,
    line: int,
    what: tuple[str, str],
    options: dict[str, str],
    typed: dict[str, str],
    values_at: dict[str, Span],
) -> str:
    """Read one option into the dictionaries; return its key."""
    word, name = what
    key = option[1].lower() if word == "QOS" else _file_key(option[1])
    value = _VALUE.match(option[3])
    if key is None:
        key = option[1].lower()
        if could_be_shares(key):
            associations.problem(name, f"{option[1]!r:.60} is no option of Slurm: write it in full", line)
        else:
            associations.note(f"line {line}: option {option[1][:40]}, which Slurm doesn't know")
    if value is None:
        return key
    rest = _clean(option[3][value.end() :])
    if rest and value[3] is None:
        associations.problem(name, f"{rest[:60]!r} follows the closing quote of {option[1]}", line)
    if option[2] and key in SHARE_KEYS:
        associations.note(f"line {line}: {option[1]}{option[2]}= is read as =; Slurm 25.11 and later refuse it")
    content = next((part for part in value.groups() if part is not None), "")
    if value[3] is not None:
        content = option[3]
    options[key] = _clean(content).replace("'", "").replace('"', "")
    typed[key] = option[1].lower()
    start = at + option.end()
    values_at[key] = start, start + len((option[3] if value[3] is not None else value[0]).rstrip(_BLANK))
    return key


def _read_name(piece: str, at: int, associations: Associations, line: int) -> tuple[str, Span]:
    content = piece.strip(_BLANK)
    begin = at + piece.index(content)
    value = _VALUE.match(content)
    if value is None or value[3] is not None:
        return _clean(content).replace("'", "").replace('"', ""), (begin, begin + len(content))
    name = _clean(value[1] if value[1] is not None else value[2])
    if content[value.end() :]:
        associations.problem(
            name, f"{_clean(content[value.end() :])[:60]!r} follows the closing quote of the name", line
        )
    return name, (begin, begin + value.end())


def _is_unfinished(key: str, options: Mapping[str, str]) -> bool:
    """Return whether a value without quotes was split at the colon of a typed TRES, as in gres/gpu:a100=4."""
    item = options.get(key, "").rpartition(",")[2]
    return key.startswith(_TRES) and "/" in item and "=" not in item


def _clean(text: str) -> str:
    return text.replace(_HIDDEN, "").strip()


class Key(NamedTuple):
    """Identifies an association in a cluster. user: "" for the account itself; partition: "" for all others."""

    account: str
    user: str = ""
    partition: str = ""

    @property
    def in_all(self) -> Key:
        """The association of this user in all partitions."""
        return self._replace(partition="")


@dataclass(frozen=True)
class Line:
    """One line of the file, with lines that continue it. word: Cluster, Parent, Account, User, or "" for any other.

    above: the parent account. end: where more options can follow; None for the end of the text.
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
    end: int | None = None

    @property
    def key(self) -> Key:
        if self.word == "Account":
            return Key(self.name.lower())
        return Key(self.above.lower(), self.name, self.partition.lower())

    @property
    def is_association(self) -> bool:
        """Whether it is an account or a user."""
        return self.word in ("Account", "User")

    def with_values(self, values: Mapping[str, str], name: str = "") -> str:
        """Return the text with other option values and another name, which `sacctmgr load` reads as they are meant.

        Unchanged values keep their spelling.
        """
        changes = [] if name in ("", self.name) else [(self.name_at, in_dump(name))]
        end = len(self.text) if self.end is None else self.end
        added = ""
        for option, value in values.items():
            at = (self.values_at or {}).get(option.lower())
            if at is None:
                added += f":{option}={value}"
            elif (self.options or {})[option.lower()] != value.strip("'"):
                changes.append((at, value))
        text = self.text
        changed = {at for at, _ in changes}
        for at in (self.name_at, *((self.values_at or {}).get(key, (0, 0)) for key in _OF_NAMES)):
            if at not in changed and (spelled := loadable(text[slice(*at)])) != text[slice(*at)]:
                changes.append((at, spelled))
        for (begin, stop), value in sorted([*changes, ((end, end), added)], reverse=True):
            text = text[:begin] + value + text[stop:]
        return text


def has_unquoted_types(line: Line) -> bool:
    """Return whether a value has the type of a TRES without quotes, at whose colon `sacctmgr load` splits it."""
    values = (line.options or {}).items()
    typed = (key for key, value in values if key.startswith(_TRES) and "/" in value and ":" in value)
    return any(line.text[(line.values_at or {})[key][0]] not in "'\"" for key in typed)


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
        """Users in accounts where they have associations of one partition."""
        return {line.key.in_all for line in self.lines if line.partition}

    @cached_property
    def divided(self) -> set[str]:
        """Accounts that have lines below them."""
        return {line.above.lower() for line in self.lines if line.word in ("Account", "User")}


def dump_of(text: str) -> Dump:
    """Parse a dump into its lines.

    Raises:
        Invalid: it isn't a dump of one cluster, has an invalid line, or is cut off.
    """
    if sacctmgr_commands.looks_like(text):
        raise wrong_format(LABEL, 1, "it is a script, not the output of sacctmgr dump")
    cluster = read_dump(text).policy
    if plain_word(cluster) != cluster:
        raise wrong_format(LABEL, 1, f"{cluster[:60]!r} is not a valid cluster name")
    lines: list[Line] = []
    parent, problems = ROOT, Associations()  # stays empty: all lines were read before
    for _line, raw in logical_lines(text.removesuffix("\n")):
        line = _line_of(raw, parent, problems)
        parent = line.name if line.word == "Parent" else parent
        lines.append(line)
    return Dump(cluster, lines)


def _line_of(raw: str, parent: str, problems: Associations) -> Line:
    is_comment = not raw.strip() or raw.lstrip().startswith("#")
    statement = None if is_comment else read_line(raw, problems, 0)
    if statement is None or statement.word == "QOS" or (statement.word, statement.name.lower()) == ("Account", ROOT):
        return Line(raw)
    is_association = statement.word in ("Account", "User")
    shares = next((statement.options[key] for key in SHARE_KEYS if statement.options.get(key)), "")
    return Line(
        raw,
        statement.word,
        statement.name,
        parent,
        statement.options.get("partition", ""),
        slurm_shares(shares) if is_association and shares else DEFAULT_SHARES,
        statement.options,
        statement.name_at,
        statement.values_at,
        statement.end,
    )
