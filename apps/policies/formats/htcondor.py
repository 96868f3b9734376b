"""HTCondor's accounting groups with quotas, as `condor_config_val -dump` prints them or a configuration file has them.

A group's quota becomes its share among the groups beside it: a fraction of the group above (GROUP_QUOTA_DYNAMIC_x), or
a number of slots (GROUP_QUOTA_x). Names have no case, as in HTCondor, and dots between groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from string import whitespace
from typing import NamedTuple

import numpy as np
from django.utils.translation import gettext_noop

from apps.policies.files.parsed_document import DocumentBuilder, ParsedDocument
from apps.policies.formats.base import Format, invalid_line, names_and_shares, refuse_many_lines, wrong_format
from apps.policies.formats.escaped_lines import logical_lines
from apps.policies.formats.whole_shares import plain_names
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns

LABEL = "configuration of HTCondor"
MOST_MACROS = 20  # one inside the other
LONGEST_VALUE = 4 * 1024**2
LONGEST_HALF_LIFE_S = 3_650 * 86_400.0
_SETTING = re.compile(r"\s*+([A-Za-z_][\w.$-]*+)\s*+[:=]\s*+(.*)", re.ASCII | re.DOTALL)
_BLOCK = re.compile(r"\s*+[A-Za-z_][\w.$-]*+\s*+@=\s*+(\w++)\s*+", re.ASCII)
_CONTINUED = re.compile(r"\\[ \t\r]*\n")
_MACRO = re.compile(r"\$\(\s*([A-Za-z_][\w.]*)\s*(?::([^()$]*))?\)", re.ASCII)
_BETWEEN = re.compile(r"[\s,]+", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,17})?|\.[0-9]{1,17}", re.ASCII)
_TREE = re.compile(r"^[^\S\n]*+GROUP_NAMES\s*+[:=]", re.IGNORECASE | re.MULTILINE)
_NOT_SHARES = ("GROUP_ACCEPT_SURPLUS", "GROUP_AUTOREGROUP", "GROUP_PRIO_FACTOR")
_SLOTS, _FRACTION = "GROUP_QUOTA_", "GROUP_QUOTA_DYNAMIC_"
_NO_GROUP = "<none>"


class _Setting(NamedTuple):
    name: str
    value: str
    line: int


_Settings = dict[str, _Setting]  # by name in lower case


def read(text: str) -> ParsedDocument:
    """Parse the groups. What isn't a share is named in `ignored`.

    Raises:
        Invalid: groups beside each other have slots and fractions, or a quota is no number that HTCondor takes.
    """
    refuse_many_lines(text, 20)
    settings = _settings(text)
    listed = settings.get("group_names")
    if listed is None:
        raise wrong_format(LABEL, 1, "it has no GROUP_NAMES")
    names = [name for name in _BETWEEN.split(_expanded(listed, settings)) if name and name != _NO_GROUP]
    builder = DocumentBuilder()
    builder.add(-1, "root", line=listed.line)
    rows: dict[str, int] = {}
    ignored: list[str] = []
    fractions: dict[int, dict[str, bool]] = {}  # by group above: whether each has a fraction
    for name in sorted(dict.fromkeys(names), key=lambda each: each.count(".")):
        above, own = _parts(name)
        if name.lower() in rows or (above and above not in rows):
            why = "repeated" if name.lower() in rows else f"{name.rpartition('.')[0]} isn't in GROUP_NAMES"
            ignored.append(f"{name}: {why}, so HTCondor ignores it")
            continue
        parent = rows[above] if above else 0
        row = builder.add(parent, own, line=listed.line, is_group=True)
        if row >= 0 and "." in own and own not in (".", ".."):  # those are refused as any name is
            builder.problem(row, "name", f"{name[:60]!r} has a part without a name")
        elif row >= 0:
            rows[name.lower()] = row
            is_fraction = _weigh(builder, row, name, settings)
            fractions.setdefault(parent, {})[name] = is_fraction
    _refuse_mixed(builder, fractions, settings, listed.line)
    ignored += _left_over(builder, fractions, rows)
    ignored += sorted(
        f"{setting.name} = {setting.value[:60]}: it isn't a share"
        for key, setting in settings.items()
        if setting.name.upper().startswith(_NOT_SHARES)
    )
    return builder.finish(carries=frozenset({"shares"}), ignored=tuple(ignored[:50]))


def half_life_s(text: str) -> float | None:
    """PRIORITY_HALFLIFE in seconds: None where it is missing, no number above 0, or so long that nothing decays."""
    setting = _settings(text).get("priority_halflife")
    value = "" if setting is None else _expanded(setting, _settings(text))
    seconds = float(value) if _NUMBER.fullmatch(value) else 0.0
    return seconds if 0 < seconds <= LONGEST_HALF_LIFE_S else None


def _parts(name: str) -> tuple[str, str]:
    """The group above in lower case, and the own name: from an empty part on, which makes it invalid."""
    above, _, own = name.rpartition(".")
    if ".." in f".{name}.":
        above = name[: f"{name}.".index("..")] if not name.startswith(".") else ""
        own = name[len(above) + 1 :] if above else name
    return above.lower(), own


def _settings(text: str) -> _Settings:
    """The last value of each setting; one that names itself has the value before inside."""
    settings: _Settings = {}
    ends_with = ""
    for line, whole in logical_lines(text):
        raw = _CONTINUED.sub(" ", whole).rstrip("\r")
        if ends_with:
            ends_with = "" if raw.strip() == ends_with else ends_with
            continue
        if not raw.strip() or raw.lstrip().startswith("#"):
            continue
        block = _BLOCK.fullmatch(raw)
        if block is not None:
            ends_with = f"@{block[1]}"
            continue
        match = _SETTING.fullmatch(raw)
        if match is None or match[1].lower() in ("use", "include", "if", "elif", "else", "endif", "error", "warning"):
            continue
        key, value = match[1].lower(), match[2].rstrip(whitespace)
        before = settings[key].value if key in settings else ""
        value = re.sub(rf"\$\(\s*{re.escape(key)}\s*\)", lambda _: before, value, flags=re.IGNORECASE)  # noqa: B023
        if len(value) > LONGEST_VALUE:
            raise invalid_line(line, f"{match[1]} has more than {LONGEST_VALUE // 1024} KB")
        settings[key] = _Setting(match[1], value, line)
    return settings


def _expanded(setting: _Setting, settings: _Settings) -> str:
    """The value with the macros that the file defines; others are empty, as in HTCondor."""
    value = setting.value

    def replaced(match: re.Match[str]) -> str:
        other = settings.get(match[1].lower())
        return other.value if other is not None else (match[2] or "")

    for _ in range(MOST_MACROS):
        if "$(" not in value:
            return value
        value = _MACRO.sub(replaced, value)
        if len(value) > LONGEST_VALUE:
            break
    raise invalid_line(setting.line, f"the macros in {setting.name} have no end, or are too long")


def _weigh(builder: DocumentBuilder, row: int, name: str, settings: _Settings) -> bool:
    """Set a group's share; returns whether it is a fraction. A group without a quota has 0, as in HTCondor."""
    for prefix, most in ((_SLOTS, 2.0**31 - 1), (_FRACTION, 1.0)):
        setting = settings.get(f"{prefix}{name}".lower())
        if setting is None:
            continue
        value = _expanded(setting, settings)
        if not _NUMBER.fullmatch(value) or float(value) > most:
            builder.problem(row, "quota", f"{value[:40]!r} is not a number from 0 to {most:.0f}", setting.line)
        else:
            builder.shares[row] = float(value)
        return prefix == _FRACTION
    builder.shares[row] = 0.0
    return True


def _refuse_mixed(
    builder: DocumentBuilder, fractions: dict[int, dict[str, bool]], settings: _Settings, line: int
) -> None:
    for beside in fractions.values():
        with_quota = {
            name: is_fraction
            for name, is_fraction in beside.items()
            if any(f"{prefix}{name}".lower() in settings for prefix in (_SLOTS, _FRACTION))
        }
        if len(set(with_quota.values())) > 1:
            slots = next(name for name, is_fraction in with_quota.items() if not is_fraction)
            fraction = next(name for name, is_fraction in with_quota.items() if is_fraction)
            message = (
                f"{slots} has slots and {fraction} a fraction: write both as fractions, as N slots of all are N/all"
            )
            builder.problem(-1, "GROUP_QUOTA", message, line)


def _left_over(builder: DocumentBuilder, fractions: dict[int, dict[str, bool]], rows: dict[str, int]) -> Iterator[str]:
    """What fractions leave to the jobs of the group above itself."""
    for parent, beside in fractions.items():
        left = 1.0 - sum(builder.shares[rows[name.lower()]] for name in beside)
        if all(beside.values()) and left > 1e-9:
            where = builder.path(parent) if parent else "the pool"
            yield f"{left:.4g} of {where} is no group's: jobs without one of its groups have it"


def fit(tree: TreeColumns) -> TreeColumns:
    """Fit the tree: names without dots and blanks, of which none differ by case alone, and fractions of the level."""
    plain = names_and_shares(tree)
    words = [_word(name) for name in plain.name]
    lower = plain_names(plain, [word.lower() for word in words], np.zeros(len(plain), dtype=np.bool_))
    names = [word if word.lower() == unique else unique for word, unique in zip(words, lower, strict=True)]
    names[0] = "root"
    parent = np.maximum(plain.parent, 0)
    raw = plain.shares.copy()
    raw[0] = 0.0
    total = np.bincount(parent, weights=raw, minlength=len(plain))[parent]
    shares = np.where(total > 0, raw / np.where(total > 0, total, 1.0), 0.0)
    shares = np.array([float(f"{share:.15f}") for share in shares.tolist()])
    shares[0] = plain.shares[0]
    return replace(plain, name=names, shares=shares, is_group=np.ones(len(plain), dtype=np.bool_))


def _word(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name) or "_"


def write(tree: TreeColumns, settings: PolicySettings) -> Iterator[str]:
    """Write a fitted tree, groups above first."""
    paths, listed = [""] * len(tree), []
    for parent in np.flatnonzero(tree.n_children).tolist():
        for i in tree.listed_children(parent):
            paths[i] = f"{paths[parent]}.{tree.name[i]}" if parent else tree.name[i]
            listed.append(paths[i])
    yield "GROUP_NAMES = " + ", ".join(listed) + "\n"
    for i, share in enumerate(tree.shares.tolist()):
        if i:
            yield f"{_FRACTION}{paths[i]} = {share:.15f}\n"


def _looks_like(text: str) -> bool:
    return bool(_TREE.search(text))


FORMAT = Format(
    name="htcondor",
    label=gettext_noop("HTCondor accounting groups"),
    reference="https://htcondor.readthedocs.io/en/latest/admin-manual/user-priorities-negotiation.html",
    sample="""\
GROUP_NAMES = group_physics, group_physics.hep, group_chem
GROUP_QUOTA_DYNAMIC_group_physics = 0.6
GROUP_QUOTA_DYNAMIC_group_physics.hep = 0.5
GROUP_QUOTA_DYNAMIC_group_chem = 0.4
GROUP_ACCEPT_SURPLUS = True
""",
    media_type="text/x-condor-config",
    suffix=".condor",
    carries=("name", "shares"),
    read=read,
    write=write,
    looks_like=_looks_like,
    fit=fit,
    maps_by="each",
)
