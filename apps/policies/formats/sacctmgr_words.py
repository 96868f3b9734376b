"""Words of `sacctmgr`: keys with their abbreviations, and lists of names.

A key may be cut short to a minimum number of letters; of several that fit, Slurm takes the first in its source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

from apps.core.errors import TooLarge
from apps.policies.tree.names import MOST_POLICY_ENTRIES

# (key, minimum number of letters) in Slurm's order
Keys = Sequence[tuple[str, int]]

FAIRSHARE, SHARES = "fairshare", "shares"

LIMITS: Keys = (
    ("fairshare", 1),
    ("shares", 1),
    ("grpcpumins", 7),
    ("grpcpurunmins", 7),
    ("grpcpus", 7),
    ("grpjobs", 4),
    ("grpjobsaccrue", 8),
    ("grpmemory", 4),
    ("grpnodes", 4),
    ("grpsubmitjobs", 4),
    ("grptres", 7),
    ("grptresmins", 8),
    ("grptresrunmins", 8),
    ("grpwall", 4),
    ("maxcpuminsperjob", 7),
    ("maxcpurunmins", 7),
    ("maxcpusperjob", 7),
    ("maxjobs", 4),
    ("maxjobsaccrue", 8),
    ("maxnodesperjob", 4),
    ("minpriothresh", 4),
    ("maxsubmitjobs", 4),
    ("maxtres", 7),
    ("maxtresperjob", 11),
    ("maxtrespernode", 11),
    ("maxtresminsperjob", 8),
    ("maxtresrunmins", 8),
    ("maxwalldurationperjob", 4),
    ("parent", 2),
    ("priority", 2),
    ("qoslevel", 1),
)
# Of a line Account or User in a file for `sacctmgr load`.
FILE_KEYS: Keys = (
    ("adminlevel", 2),
    ("coordinator", 2),
    ("classification", 2),
    ("defaultaccount", 8),
    ("defaultwckey", 8),
    ("defaultqos", 8),
    ("description", 3),
    ("organization", 1),
    ("partition", 1),
    ("wckeys", 2),
    ("comment", 2),
    *LIMITS,
    ("flags", 2),
)
_OF_ACCOUNT: Keys = (
    ("accounts", 1),
    ("acct", 4),
    ("names", 1),
    ("clusters", 1),
    ("description", 1),
    ("organization", 1),
)
_DEFAULTS: Keys = (("defaultaccount", 8), ("defaultqos", 8), ("defaultwckey", 8))
_OF_USER: Keys = (("acct", 4), ("adminlevel", 2), ("clusters", 1), *_DEFAULTS, ("names", 1), ("users", 1))
ADD_ACCOUNT: Keys = (
    *_OF_ACCOUNT,
    ("parent", 1),
    ("defaultqos", 8),
    ("flags", 2),
    *LIMITS,
)
ADD_USER: Keys = (
    ("accounts", 3),
    *_OF_USER,
    ("partitions", 1),
    ("wckeys", 1),
    ("comment", 2),
    *LIMITS,
)
WHICH_ACCOUNTS: Keys = (
    *_OF_ACCOUNT,
    ("parents", 4),
    ("defaultqos", 8),
    ("flags", 2),
    ("qoslevel", 1),
)
WHICH_USERS: Keys = (
    ("accounts", 2),
    *_OF_USER,
    ("partitions", 3),
    ("parents", 4),
    ("qoslevel", 1),
    ("wckeys", 1),
)
SET_ACCOUNT: Keys = (
    ("description", 1),
    ("organization", 1),
    ("parent", 1),
    ("rawusage", 7),
    ("defaultqos", 8),
    ("flags", 2),
    *LIMITS,
)
SET_USER: Keys = (
    ("adminlevel", 2),
    ("comment", 2),
    *_DEFAULTS,
    ("newname", 1),
    ("rawusage", 7),
    *LIMITS,
)
WHICH_CLUSTERS: Keys = (("clusters", 1), ("names", 1), ("classification", 3), ("federation", 3), *LIMITS)
_NAME = re.compile(r"(?:[^,\[]|\[[^\]]*+\])++")
_BRACKET = re.compile(r"\[([0-9,\- ]+)\]")
_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def key_of(word: str, keys: Keys) -> str | None:
    """Return the key that a word is, or is cut from, in any letter case; None if Slurm knows no such key."""
    typed = word.lower()
    return next((key for key, least in keys if len(typed) >= least and key.startswith(typed)), None)


def could_be_shares(word: str) -> bool:
    """Return whether an unknown key might be a mistyped one that decides shares or place."""
    typed = word.lower()
    return any(_is_near(typed, key) for key in (FAIRSHARE, SHARES, "parent", "partition"))


def _is_near(typed: str, key: str) -> bool:
    """Return whether a word differs from a key, or from its beginning, by one letter that is changed, missing or
    added."""
    if len(typed) < 3:
        return False
    starts = {key[: len(typed) + more] for more in (-1, 0, 1)} | {key}
    return any(_differs_by_one(typed, start) for start in starts)


def _differs_by_one(a: str, b: str) -> bool:
    if len(a) > len(b):
        a, b = b, a
    if len(b) - len(a) > 1:
        return False
    same = next((i for i, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), len(a))
    return a[same + (len(a) == len(b)) :] == b[same + 1 :]


def names_in(text: str) -> list[str]:
    """Return the names of a list: `a,b,node[1-3,07]`. Quotes and empty parts are dropped.

    Raises:
        TooLarge: a list has more names than a policy has entries.
    """
    plain = text.replace("'", "").replace('"', "")
    if "[" not in plain:
        return [name for part in plain.split(",") if (name := part.strip())]
    names: list[str] = []
    closed = plain.rfind("]") + 1  # an opening bracket behind it is an ordinary character
    parts, (end, *others) = _NAME.findall(plain[:closed]) or [""], plain[closed:].split(",")
    for part in filter(None, (*parts[:-1], parts[-1] + end, *others)):
        names += _expanded(part.strip(), MOST_POLICY_ENTRIES - len(names))
    return names


def _expanded(name: str, most: int) -> Iterator[str]:
    texts = _BRACKET.split(name)  # odd ones are what brackets contain
    choices, n = [], 1
    for i, text in enumerate(texts):
        spans = [_SPAN.fullmatch(part.strip()) for part in text.split(",")] if i % 2 else []
        if i % 2 and all(spans):
            numbers = [range(int(span[1]), int(span[2] or span[1]) + 1) for span in spans if span]
            n *= sum(map(len, numbers))
            if n > most:
                raise TooLarge(
                    f"{name[:60]!r} is a list of too many names: at most {MOST_POLICY_ENTRIES:,} are allowed."
                )
            widths = [len(span[1]) for span in spans if span]
            choices.append(
                [f"{number:0{w}d}" for one_span, w in zip(numbers, widths, strict=True) for number in one_span]
            )
        else:
            choices.append([f"[{text}]" if i % 2 else text])
    return ("".join(parts) for parts in product(*choices))
