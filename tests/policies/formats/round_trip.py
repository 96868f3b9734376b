"""Written and read back, laid over the tree it came from."""

from __future__ import annotations

from apps.policies.files.parsed_document import ParsedDocument
from apps.policies.formats.registry import get_format, read_file, write_file
from apps.policies.operations.apply import Operation
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.difference import operations_between
from apps.policies.tree.document_merge import merge_document

SETTINGS = PolicySettings()


def text_of_tree(name: str, tree: TreeColumns) -> str:
    return "".join(write_file(get_format(name), tree, SETTINGS))


def read(name: str, text: str | bytes) -> ParsedDocument:
    return read_file(get_format(name), text if isinstance(text, bytes) else text.encode())


def asked(name: str, text: str | bytes, tree: TreeColumns, *, keep_missing: bool = False) -> list[Operation]:
    """The operations that result from importing the text into the tree."""
    fitted = get_format(name).fit(tree)
    return operations_between(tree, merge_document(read(name, text), tree, fitted=fitted, keep_missing=keep_missing))


def summary_of(operations: list[Operation], tree: TreeColumns) -> list[tuple[str, str, object]]:
    """(operation, path or name, what it sets) of each."""
    found: list[tuple[str, str, object]] = []
    for operation in operations:
        i = next((i for i in range(len(tree)) if str(tree.uuid(i)) == operation.get("entry")), None)
        place = operation.get("name", "") if i is None else tree.path(i)
        found.append((operation["op"], place, operation.get("shares", operation.get("name", operation.get("kind")))))
    return found
