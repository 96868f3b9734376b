"""Answers to look-ups of priorities, built from a snapshot in memory without REST framework and database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
import orjson
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

from apps.core.errors import FieldProblem, NotFound, TooLarge
from apps.priorities.recompute.comparison import matching_indexes
from apps.priorities.serving import store
from apps.priorities.serving.leaf_lines import LeafNames, blocks_of_leaves
from apps.priorities.serving.lookup import Readable, group_names
from apps.priorities.serving.served_snapshot import AccountQuery, Query, ServedSnapshot
from apps.web.rest.body_limits import MOST_LOOKUP_ACCOUNTS, limit_of
from apps.web.rest.errors import Refusal
from apps.web.rest.inputs import field_refusal
from apps.web.rest.parsing import loads, read_json
from apps.web.rest.rendering import dumps

_FIELDS = frozenset(AccountQuery._fields)
_LONGEST_LOOKUP_TEXT = 1024
_NAMES = frozenset({"user", "group", "dn"})
_DIGEST_BYTES = 16
_FLAGS = {"0": False, "1": True, "false": False, "true": True}
Answer = TypeVar("Answer", bound=HttpResponseBase)

Mask = np.ndarray[Any, np.dtype[np.bool_]]


def queries_of_address(request: HttpRequest) -> list[Query]:
    names = request.GET.getlist("account")
    if not names:
        raise Refusal("Name at least one account: ?account=alice.", fields=[FieldProblem("account", "is missing")])
    _refuse_too_many(len(names))
    given = request.GET.keys() & {"group", "namespace", "partition"}
    if not given:
        return list(names)
    fields = {name: request.GET.get(name, "") for name in given}
    return [AccountQuery(user=name, **fields) for name in names]


def queries_of_body(request: HttpRequest) -> list[Query]:
    if request.META.get("HTTP_CONTENT_ENCODING", "identity").lower() != "identity":
        raise Refusal("Send look-ups plain, not encoded.", code="unsupported_encoding", status=415)
    if request.content_type != "application/json":
        raise Refusal("Send application/json.", code="unsupported_media_type", status=415)
    body = read_json(request, limit_of(request.path_info))
    return _fast_queries(body) or _validated_queries(body)


def _fast_queries(body: bytes) -> list[Query] | None:
    """Parse a body that is certainly valid, with a fast parser; None for all other bodies and for empty lists."""
    try:
        data = orjson.loads(body)
    except ValueError:
        return None
    accounts = data.get("accounts") if type(data) is dict and len(data) == 1 else None
    if type(accounts) is not list or len(accounts) > MOST_LOOKUP_ACCOUNTS or b"\\u0000" in body:
        return None
    queries: list[Query] = []
    n_keys = 1
    for account in accounts:
        if type(account) is str:
            queries.append(account)
        elif type(account) is dict and account.keys() <= _FIELDS and _NAMES & account.keys():
            if not all(type(value) is str and 0 < len(value) <= _LONGEST_LOOKUP_TEXT for value in account.values()):
                return None
            n_keys += len(account)
            queries.append(AccountQuery(**account))
        else:
            return None
    # The parser drops repeated keys, but their colons are still in the body. Colons in names also need the slow parser.
    is_certain = body.count(b":") == n_keys
    return queries if is_certain and max(map(len, queries), default=0) <= _LONGEST_LOOKUP_TEXT else None


def _validated_queries(body: bytes) -> list[Query]:
    """Parse strictly, and report the location of an error."""
    data = loads(body)
    accounts = data.get("accounts") if isinstance(data, dict) else None
    if not isinstance(accounts, list) or len(data) != 1:
        message = 'must be one object {"accounts": […]} and nothing else'
        raise Refusal(f"The body {message}.", code="invalid", fields=[FieldProblem("accounts", message)])
    _refuse_too_many(len(accounts))
    return [
        account if type(account) is str and len(account) <= _LONGEST_LOOKUP_TEXT else _query(i, account)
        for i, account in enumerate(accounts)
    ]


def _refuse_too_many(count: int) -> None:
    if count > MOST_LOOKUP_ACCOUNTS:
        raise TooLarge(f"{count} accounts in one call; the limit is {MOST_LOOKUP_ACCOUNTS}: send them in parts.")


def _query(i: int, account: Any) -> AccountQuery:
    if type(account) is str:
        raise field_refusal(f"accounts[{i}]", f"is longer than {_LONGEST_LOOKUP_TEXT} characters")
    if type(account) is not dict:
        raise field_refusal(f"accounts[{i}]", "must be a name or an object")
    for name, value in account.items():
        if name not in _FIELDS:
            raise field_refusal(
                f"accounts[{i}].{name[:60]}", f"is no field of an account: {', '.join(sorted(_FIELDS))}"
            )
        if value is not None and (type(value) is not str or len(value) > _LONGEST_LOOKUP_TEXT):
            raise field_refusal(f"accounts[{i}].{name}", f"must be text of at most {_LONGEST_LOOKUP_TEXT} characters")
    fields = {name: value for name, value in account.items() if value}
    if not fields.keys() & _NAMES:
        raise field_refusal(f"accounts[{i}]", "names nobody: give user, group or dn")
    return AccountQuery(**fields)


def snapshot_since(request: HttpRequest, policy_slug: str) -> ServedSnapshot | None:
    """The snapshot named by the parameter `since`; None without it.

    Raises:
        Refusal: 400 if it is not a number, 410 if that snapshot is no longer stored.
    """
    text = request.GET.get("since")
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise field_refusal("since", "must be the number of a snapshot")
    try:
        return store.load_stored(policy_slug, int(text))
    except NotFound as error:
        message = f"Snapshot {int(text)} is no longer stored: repeat the request without since."
        raise Refusal(message, code="snapshot_gone", status=410) from error


def answer_accounts(
    request: HttpRequest, snapshot: ServedSnapshot, queries: Sequence[Query], readable: Readable | None, at: datetime
) -> HttpResponse:
    """Priorities of the accounts, all from one snapshot, whose number is in the answer."""
    if not_modified := _not_modified(request, snapshot, at):
        return not_modified
    mask, names = readable or (None, None)
    text = request.GET.get("columns", "0")
    if text not in _FLAGS:
        raise field_refusal("columns", "must be 0 or 1")
    if _FLAGS[text]:
        accounts, factors, ranks = snapshot.lookup_columns(queries, mask=mask, names=names)
        content = dumps({"accounts": accounts, "factors": factors, "ranks": ranks})[1:-1]
    else:
        content = b'"results":' + snapshot.lookup_json(queries, mask, names)
    body = b"{" + snapshot.head_json(at) + b"," + content + b"}"
    return with_age(HttpResponse(body, content_type="application/json"), snapshot, at)


def answer_all(
    request: HttpRequest,
    snapshot: ServedSnapshot,
    since: ServedSnapshot | None,
    readable: Readable | None,
    at: datetime,
) -> HttpResponseBase:
    """All visible leaves, one JSON object a line; with an older snapshot only lines that differ from it."""
    if not_modified := _not_modified(request, snapshot, at):
        return not_modified
    pieces = leaf_pieces(snapshot, readable) if since is None else changed_pieces(snapshot, since, readable)
    response = StreamingHttpResponse(pieces, content_type="application/x-ndjson")
    response["X-Snapshot"] = str(snapshot.snapshot_id)
    return with_age(response, snapshot, at)


def leaf_pieces(snapshot: ServedSnapshot, readable: Readable | None) -> Iterator[bytes]:
    return (_joined(lines.json()) for lines in blocks_of_leaves(snapshot, readable))


def changed_pieces(snapshot: ServedSnapshot, since: ServedSnapshot, readable: Readable | None) -> Iterator[bytes]:
    """Lines of leaves that are new or differ from `since`, and a line with `gone` for each leaf that no longer exists.

    The mask is for the newest tree, so visibility of leaves of the older one is decided by path.
    """
    mask, names = readable or (None, None)
    earlier = None if names is None else names._replace(named=_carried(names.named, snapshot, since))
    everything = None if mask is None else Readable(np.ones(len(since.tree), np.bool_), earlier)
    before: dict[LeafNames, bytes] = {}
    for lines in blocks_of_leaves(since, everything):
        before.update(zip(lines.names(), map(_digest, lines.json()), strict=True))
    for lines in blocks_of_leaves(snapshot, readable):
        rows = dict(zip(lines.names(), lines.json(), strict=True))  # accounts that lines don't tell apart have one
        if changed := [line for leaf, line in rows.items() if before.pop(leaf, None) != _digest(line)]:
            yield _joined(changed)
    gone = (each for each in before if mask is None or _was_visible(each[3], snapshot, mask))
    for account, group, namespace, path in gone:
        line = {"account": account, **group_names(group, namespace), "entry": path, "gone": True}
        yield dumps(line) + b"\n"


def _joined(lines: Sequence[str]) -> bytes:
    return "\n".join([*lines, ""]).encode()


def _digest(line: str) -> bytes:
    """A million of them take a fifth of the memory of their lines."""
    return blake2b(line.encode(), digest_size=_DIGEST_BYTES).digest()


def _carried(named: Mask, here: ServedSnapshot, there: ServedSnapshot) -> Mask:
    """The mask of the same entries in the tree of another snapshot; False for those that only that one has."""
    if here.tree is there.tree or here.tree.digest == there.tree.digest != "":
        return named
    places = matching_indexes(there.tree, here.tree)
    carried: Mask = np.where(places >= 0, named[places], False)
    return carried


def _was_visible(path: str, snapshot: ServedSnapshot, mask: Mask) -> bool:
    """Whether the entry at this path, or its nearest ancestor that still exists, is visible."""
    i = snapshot.tree.index_of_path(path)
    while i is None:
        path = path.rpartition("/")[0]
        i = snapshot.tree.index_of_path(path)
    return bool(mask[i])


def etag(snapshot: ServedSnapshot) -> str:
    at = "" if snapshot.computed is None else f"@{snapshot.as_of.timestamp():.0f}"  # usage has decayed since
    return f'"{snapshot.snapshot_id}{at}"'


def _not_modified(request: HttpRequest, snapshot: ServedSnapshot, at: datetime) -> HttpResponse | None:
    tags = request.META.get("HTTP_IF_NONE_MATCH")
    if tags is None:
        return None
    known = {tag.strip().removeprefix("W/") for tag in str(tags).split(",")}
    if etag(snapshot) in known or "*" in known:
        return with_age(HttpResponse(status=304), snapshot, at)
    return None


def with_age(response: Answer, snapshot: ServedSnapshot, at: datetime) -> Answer:
    response["ETag"] = etag(snapshot)
    response["Age"] = str(int(snapshot.age_s(at)))
    return response
