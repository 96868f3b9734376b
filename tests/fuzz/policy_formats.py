"""Formats of policies: a file is read or refused; what is read, written and read again is the same tree."""

from __future__ import annotations

from dataclasses import replace

from apps.core.errors import DomainError
from apps.policies.formats.decoding import text_of
from apps.policies.formats.registry import get_format, guess_format, read_file, write_file
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import new_uids
from tests.fuzz.refusals import check_refusal


def check(name: str, data: bytes) -> bool:
    """Whether the file was read."""
    policy_format = get_format(name)
    try:
        guess_format(text_of(data))
        declared = read_file(policy_format, data)
        settings = PolicySettings.from_json(declared.settings)
    except DomainError as refusal:
        check_refusal(refusal)
        return False
    tree = replace(declared.tree, uid=new_uids(len(declared.tree)))
    fitted = policy_format.fit(tree)
    written = "".join(write_file(policy_format, tree, settings))
    again = read_file(policy_format, written.encode())
    assert not policy_format.has_settings or PolicySettings.from_json(again.settings) == settings
    assert rows_of(again.tree) == rows_of(fitted), "what it writes reads as another tree"
    if policy_format.against is not None:
        _check_against(name, tree, text_of(data))
    return True


def rows_of(tree: TreeColumns) -> dict[str, tuple[float, bool]]:
    """Paths with shares and whether they are inherited; without the root, whose name is that of the policy."""
    return {tree.path(i): (float(tree.shares[i]), bool(tree.inherit[i])) for i in range(1, len(tree))}


def _check_against(name: str, tree: TreeColumns, text: str) -> None:
    against = get_format(name).against
    assert against is not None
    try:
        difference = against(tree, text)
        "".join(difference.pieces())
    except DomainError:
        return
