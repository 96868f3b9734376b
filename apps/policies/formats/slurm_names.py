"""Slurm's names: as entries of a policy, in a dump, and in commands.

Slurm's names may hold blanks, backslashes and /. A path has no /, so that an entry's name writes it as %2F, by which
the rule *association* finds it, too.
"""

from __future__ import annotations

import re

from apps.policies.formats.whole_shares import plain_word

_SLASH, _PERCENT = "%2F", "%25"
_ENCODED = re.compile(f"{_SLASH}|{_PERCENT}", re.IGNORECASE)
_ALSO_KEPT = " /%\\"  # in quotes
# A backslash with what it escapes for `sacctmgr load`; of any other, a dump means the backslash itself.
_BACKSLASH = re.compile(r"\\(\\|[#'\"]|[ \t\r]*(?:\n|\Z))?")


def entry_of_name(name: str) -> str:
    """The name of the entry for an account or user of Slurm."""
    return name.replace("%", _PERCENT).replace("/", _SLASH) if "/" in name else name


def name_of_entry(entry: str) -> str:
    """The name in Slurm of an entry; undoes `entry_of_name`."""
    if _SLASH not in entry.upper():
        return entry
    return _ENCODED.sub(lambda code: "/" if code.group().upper() == _SLASH else "%", entry)


def fitting_name(entry: str, *, is_lower: bool) -> str:
    """The nearest name of an entry that Slurm can store, as an entry's name."""
    name = "".join(char if char in _ALSO_KEPT else plain_word(char) for char in name_of_entry(entry))
    return entry_of_name(name.lower() if is_lower else name)


def in_dump(name: str) -> str:
    """A name in quotes as `sacctmgr load` reads it."""
    return "'" + name.replace("\\", "\\\\") + "'"


def in_command(name: str) -> str:
    """A name as a word of a command."""
    return name if plain_word(name) == name else f"'{name}'"


def is_literal_backslash(text: str, at: int) -> bool:
    """Whether the backslash there is one of a name or value: a dump prints them raw, and `sacctmgr load` drops it."""
    match = _BACKSLASH.match(text, at)
    return match is not None and match[1] is None


def loadable(text: str) -> str:
    """The text of a dump with each such backslash escaped, so that `sacctmgr load` reads what the dump means."""
    return _BACKSLASH.sub(lambda found: found[0] if found[1] is not None else "\\\\", text) if "\\" in text else text
