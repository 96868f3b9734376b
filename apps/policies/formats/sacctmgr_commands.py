"""Read scripts of `sacctmgr` commands: lines of its standard input, or of a shell script that calls it.

Commands are applied in their order, as Slurm applies them to an empty cluster. What changes shares or places and can't
be read is refused with its line; other things are listed as not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import PurePosixPath

from apps.core.errors import TooLarge
from apps.policies.files.parsed_document import ParsedDocument
from apps.policies.formats import sacctmgr_words as words
from apps.policies.formats.base import wrong_format
from apps.policies.formats.sacctmgr_words import Keys, key_of, names_in
from apps.policies.formats.slurm_tree import DEFAULT_SHARES, KEEPS_CASE, ROOT, SHARE_KEYS, Account, Associations, User
from apps.policies.tree.names import MOST_POLICY_ENTRIES
from apps.policies.tree.slurm_associations import association_name

LABEL = "script of sacctmgr commands"

# Full word and minimum number of letters, in Slurm's order.
_VERBS: Keys = (
    ("add", 3),
    ("create", 3),
    ("modify", 1),
    ("update", 1),
    ("delete", 3),
    ("remove", 3),
    ("archive", 3),
    ("clear", 3),
    ("dump", 3),
    ("load", 2),
    ("show", 3),
    ("list", 3),
    ("associations", 3),
    ("exit", 1),
    ("help", 1),
    ("ping", 4),
    ("quit", 1),
    ("reconfigure", 3),
    ("shutdown", 8),
    ("version", 1),
    ("quiet", 4),
    ("verbose", 4),
    ("oneliner", 2),
    ("parsable", 2),
    ("readonly", 4),
    ("!!", 2),
)
_SAME = {"create": "add", "update": "modify", "remove": "delete"}
_ONLY_SHOWN = frozenset(verb for verb, _least in _VERBS[6:]) - {"archive", "clear", "load"}
_KINDS: Keys = (
    ("accounts", 1),
    ("acct", 4),
    ("clusters", 2),
    ("coordinators", 2),
    ("events", 1),
    ("federations", 1),
    ("jobs", 1),
    ("qos", 1),
    ("resources", 1),
    ("runawayjobs", 2),
    ("stats", 1),
    ("users", 1),
    ("wckeys", 1),
)
# Programs of a shell script that change nothing in Slurm.
_HARMLESS = frozenset({"set", "echo", "printf", "exit", "true", ":", "yes", "cd", "sleep", "date", "export", "unset"})
_RUNNERS = frozenset({"sudo", "env", "time", "nice", "command", "exec"})


_TOKEN = re.compile(
    r"""(?:
    (?P<comment>\#.*)
    |(?P<operator>&&|\|\|?|;|&(?!>))
    |(?P<redirect>(?:\d|&)?(?:<<-?|>>|[<>])(?:&\d|[ \t]*+['"]?[^\s;|&<>'"]++['"]?))
    |(?P<word>(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\s'"\\;|&<>])+)
    |(?P<other>\S)
    )""",
    re.VERBOSE | re.DOTALL,
)
_PIECE = re.compile(r"""'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)|([^'"\\]+)""", re.DOTALL)
_ENDS_AT = re.compile(r"<<-?[ \t]*['\"]?(\w+)")
_PROMPT = re.compile(r"\s*(?:->|\$|sacctmgr:)\s+")  # of a copied session, and of the manual's examples
_SAYS_CASE = re.compile(rf"^[^\S\n]*+#.*\b{KEEPS_CASE}\b", re.MULTILINE)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_KEYS = {
    ("add", "accounts"): words.ADD_ACCOUNT,
    ("add", "users"): words.ADD_USER,
    ("add", "clusters"): words.WHICH_CLUSTERS,
    ("modify", "accounts"): words.WHICH_ACCOUNTS,
    ("modify", "users"): words.WHICH_USERS,
    ("delete", "accounts"): words.WHICH_ACCOUNTS,
    ("delete", "users"): words.WHICH_USERS,
}
_CHANGES: dict[tuple[str, str], Keys] = {
    ("modify", "accounts"): words.SET_ACCOUNT,
    ("modify", "users"): words.SET_USER,
}


@dataclass
class _Shell:
    """The words of one command of a shell line. unread: why it can't be read."""

    words: list[str] = field(default_factory=list)
    unread: str = ""
    reads_from: str = ""


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line, joined where a backslash ends it."""
    waiting, begin = list[str](), 0
    for line, raw in enumerate(text.split("\n"), 1):
        content = raw.rstrip("\r")
        n_backslashes = len(content) - len(content.rstrip("\\"))
        if n_backslashes % 2 and not (not begin and content.lstrip().startswith("#")):
            waiting.append(content[:-1])
            begin = begin or line
            continue
        yield begin or line, "".join((*waiting, content))
        waiting, begin = [], 0
    if begin:
        yield begin, "".join(waiting)


def _shell_commands(text: str) -> list[_Shell]:
    """Split a line into its commands, without prompt, comments, redirections and quotes."""
    commands = [_Shell()]
    for token in _TOKEN.finditer(text, prompt.end() if (prompt := _PROMPT.match(text)) else 0):
        now = commands[-1]
        if token["comment"]:
            break
        if token["operator"]:
            commands.append(_Shell(reads_from=token["operator"] if token["operator"] == "|" else ""))
        elif token["redirect"]:
            if "<" in token["redirect"]:
                now.reads_from = token["redirect"]
        elif token["word"]:
            word, is_expanded = _unquoted(token["word"])
            now.words.append(word)
            if is_expanded:
                now.unread = f"{token['word'][:60]!r} is filled in by the shell: write its value"
        else:
            now.unread = f"{text[token.start() : token.start() + 60].strip()!r} has a quote that isn't closed"
    return [command for command in commands if command.words or command.unread]


def _unquoted(word: str) -> tuple[str, bool]:
    """Return a word without the quotes of the shell and of Slurm, and whether the shell would expand it."""
    text, is_expanded = "", False
    for single, double, escaped, plain in _PIECE.findall(word):
        is_expanded |= bool(re.search(r"[$`]", double + plain)) or _has_choices(plain)
        text += single + double.replace('\\"', '"') + escaped + plain
    return text.replace("'", "").replace('"', ""), is_expanded


def _has_choices(text: str) -> bool:
    """Whether braces enclose a list, such as `node{1,2}`."""
    return any("," in part[part.find("{") :] for part in text.split("}")[:-1] if "{" in part)


def _without_program(command: list[str]) -> tuple[list[str], bool]:
    """Return the words of the command without program and options, and whether it names the program."""
    at = 0
    while at < len(command) and _ASSIGNMENT.match(command[at]) and at + 1 < len(command):
        at += 1
    if at < len(command) and PurePosixPath(command[at]).name in _RUNNERS:
        at = next((i for i, word in enumerate(command) if PurePosixPath(word).name == "sacctmgr"), at)
    is_named = PurePosixPath(command[at]).name.lower() == "sacctmgr"
    rest = command[at + 1 :] if is_named else command[at:]
    return [word for word in rest if not word.startswith("-")], is_named


@dataclass
class _Words:
    """Words of a command by key, with the number of its line. bare: names without a key."""

    line: int
    by_key: dict[str, str] = field(default_factory=dict)
    bare: list[str] = field(default_factory=list)

    def names(self, *keys: str) -> list[str] | None:
        """Return the names under these keys; None if none of them is there."""
        texts = [self.by_key[key] for key in keys if key in self.by_key]
        return [name for text in texts for name in names_in(text)] if texts else None


@dataclass
class _Command:
    """A command with its words: what to add, or which associations, and what to set."""

    verb: str
    kind: str
    which: _Words
    set: _Words

    @property
    def what(self) -> str:
        return f"{self.verb} {self.kind.removesuffix('s') if self.kind != 'qos' else 'qos'}"


def read(text: str) -> ParsedDocument:
    """Read a script.

    Raises:
        Invalid: it is no script, or has commands that can't be read, which are all listed.
    """
    associations = Associations()
    commands = list(_commands(text, associations))
    if not commands:
        raise wrong_format(LABEL, 1, "it contains no command")
    _Applied(associations, commands, keeps_case=bool(_SAYS_CASE.search(text))).apply()
    return associations.declared()


def looks_like(text: str) -> bool:
    """Return whether the first command of a text is one of sacctmgr."""
    for line, content in _logical_lines(text):
        if line > 200:
            return False
        for shell in _shell_commands(content):
            words, is_named = _without_program(shell.words) if shell.words else ([], False)
            if is_named:
                return True
            if words and words[0] not in _HARMLESS and not _ASSIGNMENT.match(words[0]):
                is_command = key_of(words[0], _VERBS) is not None
                return is_command and len(words) > 1 and key_of(words[1], _KINDS) is not None
    return False


def _commands(text: str, associations: Associations) -> Iterator[_Command | None]:
    """Yield the commands that concern accounts and users, and None for each other one."""
    ends_at, is_begun = "", False
    for line, content in _logical_lines(text):
        if not content.strip() or content.lstrip().startswith("#"):
            continue
        if content.strip() == ends_at:
            ends_at = ""
            continue
        for shell in _shell_commands(content):
            words, is_named = _without_program(shell.words) if shell.words else ([], False)
            here = _ENDS_AT.match(shell.reads_from)
            if here and is_named:
                ends_at, is_begun = here[1], True
                continue
            verb = key_of(words[0], _VERBS) if words else None
            if not is_named and words and (words[0] in _HARMLESS or _ASSIGNMENT.match(words[0])):
                continue
            if verb is None or shell.unread:
                message = shell.unread or _unread(words, is_named, shell)
                if not is_begun and not is_named:
                    raise wrong_format(LABEL, line, message)
                associations.problem("", message, line)
                continue
            is_begun = True
            yield _command(verb, words[1:], line, associations)


def _unread(words: Sequence[str], is_named: bool, shell: _Shell) -> str:
    if is_named and not words:
        return f"sacctmgr reads its commands from {shell.reads_from or 'its input'}: import these"
    return f"{' '.join(words)[:60]!r} isn't a command of sacctmgr such as add account"


def _command(verb: str, words: Sequence[str], line: int, associations: Associations) -> _Command | None:
    verb = _SAME.get(verb, verb)
    if verb in _ONLY_SHOWN:
        return None
    kind = key_of(words[0], _KINDS) if words else None
    kind = "accounts" if kind == "acct" else kind
    if verb in ("load", "clear"):
        associations.problem(verb, "changes the tree by what the script doesn't contain: import that instead", line)
        return None
    if kind == "clusters" and verb == "add":
        which = _split_options(words[1:], _KEYS["add", "clusters"], line, associations)[0]
        return _Command(verb, kind, which, _Words(line))
    if kind not in ("accounts", "users") or verb not in ("add", "modify", "delete"):
        name = (kind or (words[0].lower() if words else "")).removesuffix("s")
        associations.unread(f"{verb} {'qos' if kind == 'qos' else name}")
        if kind == "clusters" and verb == "delete":
            associations.problem("delete cluster", "removes its whole tree: remove it from the script", line)
        return None
    which, changes = _split_options(words[1:], _KEYS[verb, kind], line, associations, _CHANGES.get((verb, kind), ()))
    return _Command(verb, kind, which, changes)


def _split_options(
    arguments: Sequence[str], keys: Keys, line: int, associations: Associations, changes: Keys = ()
) -> tuple[_Words, _Words]:
    """Return the words before and after *set*; *where* and *set* come in any order, and repeated."""
    which, to_set = _Words(line), _Words(line)
    now = which
    for word in arguments:
        if word.lower() in ("where", "set"):
            now = to_set if word.lower() == "set" and changes else which
            continue
        typed, equals, value = word.partition("=")
        if not equals and now is which:
            which.bare += names_in(word)
            continue
        key = key_of(typed.rstrip("+-"), keys if now is which else changes) if equals else None
        if key is None:
            associations.problem(word[:60], "isn't a word of this command: Slurm would do nothing", line)
            continue
        if typed[-1:] in ("+", "-") and key in SHARE_KEYS:
            associations.note(f"line {line}: {typed}= is read as =; Slurm 25.11 and later refuse it")
        if key in SHARE_KEYS and not value:
            associations.note(f"line {line}: {typed}= without a value sets 0")
        now.by_key[key] = value or ("0" if key in SHARE_KEYS else "")
    return which, to_set


class _Applied:
    """Applies commands to an empty cluster."""

    def __init__(self, associations: Associations, commands: Sequence[_Command | None], *, keeps_case: bool) -> None:
        self._found = associations
        self._commands = [command for command in commands if command is not None]
        self._keeps_case = keeps_case or _keeps_case(self._commands, associations)

    def apply(self) -> None:
        self._read_clusters()
        for command in self._commands:
            if command.verb == "add" and command.kind == "accounts":
                self._add_accounts(command)
            elif command.verb == "add" and command.kind == "users":
                self._add_users(command)
            elif command.verb != "add" and command.kind == "accounts":
                self._change_accounts(command)
            elif command.verb != "add":
                self._change_users(command)

    def _read_clusters(self) -> None:
        """Set the cluster if the commands name only one; refuse commands for different ones."""
        first: frozenset[str] | None = None
        added: list[str] = []
        for command in self._commands:
            named = command.which.names("clusters")
            if command.kind == "clusters":
                self._count_unread(command.which, "clusters", "names")
                added += [name.lower() for name in command.which.names("names") or named or command.which.bare]
                continue
            wanted = frozenset(name.lower() for name in named or ())
            if not wanted:
                continue
            if first is not None and wanted != first:
                both = f"{', '.join(sorted(first))} and {', '.join(sorted(wanted))}"
                message = f"the commands are for different clusters, {both:.200}: import those of each separately"
                self._found.problem(command.what, message, command.which.line)
                break
            first = wanted
        known = first or frozenset(added)
        self._found.cluster = next(iter(known)) if len(known) == 1 else ""

    def _add_accounts(self, command: _Command) -> None:
        associations, which, line = self._found, command.which, command.which.line
        names = [*which.bare, *(which.names("accounts", "acct", "names") or ())]
        shares = associations.shares_of(which.by_key, line, ", ".join(names)[:140])
        self._count_unread(which, "accounts", "acct", "names", "clusters", "parent", "description", "organization")
        if not names:
            associations.problem(command.what, "has no names", line)
        parent = (which.names("parent") or [ROOT])[0]
        for name in names:
            if name.lower() in associations.accounts:
                self._is_there_already(f"account {name}", line)
            else:
                associations.account(name, parent, DEFAULT_SHARES if shares is None else shares, line)

    def _add_users(self, command: _Command) -> None:
        associations, which, line = self._found, command.which, command.which.line
        names = self._users([*which.bare, *(which.names("users", "names") or ())])
        accounts = which.names("accounts", "acct") or which.names("defaultaccount") or []
        shares = associations.shares_of(which.by_key, line, ", ".join(names)[:140])
        known = ("accounts", "acct", "users", "names", "clusters", "partitions", "defaultaccount")
        self._count_unread(which, *known)
        if not names:
            associations.problem(command.what, "has no names", line)
        partitions = which.names("partitions") or []
        if len(names) * len(accounts) * max(len(partitions), 1) > MOST_POLICY_ENTRIES:
            raise TooLarge(f"line {line}: a policy has at most {MOST_POLICY_ENTRIES:,} entries.")
        for name in names if not accounts else ():
            associations.problem(name, "is added without an account", line)
        for name, account, partition in product(names, accounts, partitions or [""]):
            there = associations.accounts.get(account.lower())
            if there is not None and association_name(name, partition) in there.users:
                limited = f", partition {partition}," if partition else ""
                self._is_there_already(f"user {name} in {account}{limited}", line)
            else:
                associations.user(name, account, DEFAULT_SHARES if shares is None else shares, line, partition)

    def _is_there_already(self, who: str, line: int) -> None:
        self._found.note(f"line {line}: {who} is there already, and stays as it is")

    def _users(self, names: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(name if self._keeps_case else name.lower() for name in names))

    def _count_unread(self, which: _Words, *known: str) -> None:
        self._found.unread(*(_typed(key) for key in which.by_key if key not in known and key not in SHARE_KEYS))

    def _change_accounts(self, command: _Command) -> None:
        associations, which, line = self._found, command.which, command.which.line
        shares, parents = self._changes(command)
        if command.verb == "modify" and shares is None and not parents:
            return
        if not self._is_known(command, "accounts", "acct", "names", "clusters", "parents"):
            return
        names = _of(which, "accounts", "acct", "names")
        above = which.names("parents")
        accounts = [
            account
            for name, account in associations.accounts.items()
            if name != ROOT
            and (names is None or name in {each.lower() for each in names})
            and (above is None or account.parent in {each.lower() for each in above})
        ]
        self._require_match(command, accounts, names)
        for account in accounts:
            if command.verb == "delete":
                if account.name in associations.accounts:
                    associations.remove_account(account)
                continue
            if shares is not None:
                account.shares = shares
            if parents and not (names is None and account.name == parents[0].lower()):
                associations.move(account, parents[0], line)

    def _change_users(self, command: _Command) -> None:
        associations, which = self._found, command.which
        shares, _parents = self._changes(command)
        new_name = next(iter(command.set.names("newname") or ()), "")
        if command.verb == "modify" and shares is None and not new_name:
            return
        if not self._is_known(command, "accounts", "acct", "users", "names", "clusters", "partitions"):
            return
        names = _of(which, "users", "names")
        named = None if names is None else self._users(names)
        among = which.names("accounts", "acct")
        if (named, among) == ([ROOT], [ROOT]) and ROOT not in associations.accounts[ROOT].users:
            associations.user(ROOT, ROOT, DEFAULT_SHARES, which.line)  # Slurm makes it together with the cluster
        # Without a partition, Slurm changes all of the user's associations; '' selects the one in all partitions.
        partitions = which.names("partitions")
        limited = None if partitions is None else {partition.lower() for partition in partitions or [""]}
        users = [
            (account, user)
            for account in self._among(among)
            for user in list(account.users.values())
            if (named is None or user.name in named) and (limited is None or user.partition in limited)
        ]
        self._require_match(command, users, named)
        for account, user in users:
            if command.verb == "delete":
                del account.users[user.entry]
            elif shares is not None:
                user.shares = shares
            if command.verb == "modify" and new_name:
                self._rename(account, user, new_name)

    def _among(self, accounts: Sequence[str] | None) -> list[Account]:
        known = self._found.accounts
        if accounts is None:
            return list(known.values())
        return [known[name] for account in dict.fromkeys(accounts) if (name := account.lower()) in known]

    def _rename(self, account: Account, user: User, name: str) -> None:
        del account.users[user.entry]
        former, user.name = user.name, self._users([name])[0]
        if user.entry in account.users:
            self._found.problem(former, f"{user.entry!r:.140} is a user of {account.name} already", user.line)
        account.users[user.entry] = user

    def _changes(self, command: _Command) -> tuple[float | str | None, list[str]]:
        """Return the shares and the parent to set; other changes are counted as not read."""
        self._count_unread(command.set, "parent", "newname")
        shares = self._found.shares_of(command.set.by_key, command.set.line, command.what)
        return shares, command.set.names("parent") or []

    def _is_known(self, command: _Command, *known: str) -> bool:
        unknown = [key for key in command.which.by_key if key not in known]
        for key in unknown:
            message = f"the script doesn't say which {command.kind} have this {key}: name them"
            self._found.problem(command.what, message, command.which.line)
        return not unknown

    def _require_match(self, command: _Command, chosen: Sequence[object], names: Sequence[str] | None) -> None:
        if not chosen and names is not None:
            message = f"{', '.join(names)[:140]!r} isn't declared before it"
            self._found.problem(command.what, message, command.which.line)


def _of(which: _Words, *keys: str) -> list[str] | None:
    """Return the names in a condition; None if it has none and concerns all."""
    named = which.names(*keys)
    return [*which.bare, *(named or ())] if named is not None or which.bare else None


def _typed(key: str) -> str:
    return "qos" if key == "qoslevel" else key


def _keeps_case(commands: Sequence[_Command], associations: Associations) -> bool:
    """Return whether the site distinguishes user names by letter case: one account gets both JDoe and jdoe.

    Otherwise Slurm stores user names in lower case.
    """
    seen: dict[tuple[str, str], str] = {}
    for command in commands:
        if (command.verb, command.kind) != ("add", "users"):
            continue
        names = [*command.which.bare, *(command.which.names("users", "names") or ())]
        accounts = command.which.names("accounts", "acct") or command.which.names("defaultaccount") or [""]
        if len(names) * len(accounts) > MOST_POLICY_ENTRIES:
            return False  # refused later
        for name, account in product(names, accounts):
            first = seen.setdefault((account.lower(), name.lower()), name)
            if first != name:
                associations.note(f"{first} and {name} are two users, as slurmdbd with {KEEPS_CASE} has them")
                return True
    return False
