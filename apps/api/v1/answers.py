"""The answer to a look-up, from the snapshot in memory: no framework, no database, one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

import numpy as np
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

from apps.api.errors import Refusal
from apps.api.parsing import loads, read_bounded
from apps.api.rendering import dumps
from apps.errors import FieldProblem, NotFound, TooLarge
from apps.priorities import served
from apps.priorities.served import AccountQuery, ServedSnapshot

MOST_ACCOUNTS = 10_000
_FIELDS = frozenset({"user", "group", "namespace", "dn", "fqan", "project"})
_MOST_TEXT = 1024
_CHUNK_LINES = 2_000
Answer = TypeVar("Answer", bound=HttpResponseBase)

Mask = np.ndarray[Any, np.dtype[np.bool_]]


def queries_of_address(request: HttpRequest) -> list[AccountQuery]:
    names = request.GET.getlist("account")
    if not names:
        raise Refusal("Name at least one account: ?account=alice.", fields=[FieldProblem("account", "is missing")])
    _refuse_many(len(names))
    namespace, group = request.GET.get("namespace", ""), request.GET.get("group", "")
    return [AccountQuery(user=name, group=group, namespace=namespace) for name in names]


def queries_of_body(request: HttpRequest) -> list[AccountQuery]:
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Refusal("Send look-ups plain, not encoded.", code="unsupported_encoding", status=415)
    if request.content_type != "application/json":
        raise Refusal("Send application/json.", code="unsupported_media_type", status=415)
    data = loads(read_bounded(request))
    accounts = data.get("accounts") if isinstance(data, dict) else None
    if not isinstance(accounts, list) or len(data) != 1:
        message = 'must be one object {"accounts": […]} and nothing else'
        raise Refusal(f"The body {message}.", code="invalid", fields=[FieldProblem("accounts", message)])
    _refuse_many(len(accounts))
    return [_query(i, account) for i, account in enumerate(accounts)]


def _refuse_many(count: int) -> None:
    if count > MOST_ACCOUNTS:
        raise TooLarge(f"{count} accounts in one call; the limit is {MOST_ACCOUNTS}: send them in parts.")


def _query(i: int, account: Any) -> AccountQuery:
    if type(account) is str:
        if len(account) <= _MOST_TEXT:
            return AccountQuery(account)
        raise _wrong(f"accounts[{i}]", f"is longer than {_MOST_TEXT} characters")
    if type(account) is not dict:
        raise _wrong(f"accounts[{i}]", "must be a name or an object")
    for name, value in account.items():
        if name not in _FIELDS:
            raise _wrong(f"accounts[{i}].{name[:60]}", f"is no field of an account: {', '.join(sorted(_FIELDS))}")
        if value is not None and (type(value) is not str or len(value) > _MOST_TEXT):
            raise _wrong(f"accounts[{i}].{name}", f"must be text of at most {_MOST_TEXT} characters")
    given = {name: value for name, value in account.items() if value}
    if not given.keys() - {"namespace"}:
        raise _wrong(f"accounts[{i}]", "names nobody: give user, group or dn")
    return AccountQuery(**{"user": "", **given})


def _wrong(where: str, message: str) -> Refusal:
    return Refusal(f"{where} {message}.", code="invalid", fields=[FieldProblem(where, message)])


def snapshot_since(request: HttpRequest, policy_slug: str) -> ServedSnapshot | None:
    """The snapshot that the caller already has.

    Raises:
        Refusal: 400 when it is no number, 410 when it is no longer kept: ask for all of them again.
    """
    text = request.GET.get("since")
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise _wrong("since", "must be the number of a snapshot")
    try:
        return served.load_kept(policy_slug, int(text))
    except NotFound as error:
        message = f"Snapshot {int(text)} is no longer kept: ask again without since."
        raise Refusal(message, code="snapshot_gone", status=410) from error


def answer_accounts(
    request: HttpRequest, snapshot: ServedSnapshot, queries: Sequence[AccountQuery], mask: Mask | None, at: datetime
) -> HttpResponse:
    """One complete snapshot answers all of a request, and says which one."""
    if not_modified := _not_modified(request, snapshot, at):
        return not_modified
    if request.GET.get("columns", "0") in ("1", "true"):
        accounts, factors, ranks = snapshot.lookup_columns(queries, mask=mask)
        found: dict[str, Any] = {"accounts": accounts, "factors": factors, "ranks": ranks}
    else:
        found = {"results": snapshot.lookup(queries, mask=mask)}
    body = dumps({**describe(snapshot, at), **found})
    return with_age(HttpResponse(body, content_type="application/json"), snapshot, at)


def answer_all(
    request: HttpRequest, snapshot: ServedSnapshot, since: ServedSnapshot | None, mask: Mask | None, at: datetime
) -> HttpResponseBase:
    """Every leaf as a line, or, with an older snapshot, the lines that differ from it."""
    if not_modified := _not_modified(request, snapshot, at):
        return not_modified
    lines = every_line(snapshot, mask) if since is None else changed_lines(snapshot, since, mask)
    response = StreamingHttpResponse(_chunks(lines), content_type="application/x-ndjson")
    response["X-Snapshot"] = str(snapshot.snapshot_id)
    return with_age(response, snapshot, at)


def every_line(snapshot: ServedSnapshot, mask: Mask | None) -> Iterator[bytes]:
    return (dumps(line) for line in snapshot.every_leaf(mask=mask))


def changed_lines(snapshot: ServedSnapshot, since: ServedSnapshot, mask: Mask | None) -> Iterator[bytes]:
    """A line that reads the same as before is left out; one without successor is gone.

    A mask is of the newest tree, so what is hidden now is left out of the old one by path.
    """
    before: dict[tuple[str | None, str], bytes] = {}
    for line in since.every_leaf():
        before[line["account"], line["entry"]] = dumps(line)
    hidden = set() if mask is None else {snapshot.tree.path(int(i)) for i in np.flatnonzero(~mask)}
    for line in snapshot.every_leaf(mask=mask):
        encoded = dumps(line)
        if before.pop((line["account"], line["entry"]), None) != encoded:
            yield encoded
    for account, entry in before:
        if mask is None or (entry not in hidden and _below_visible(entry, snapshot, mask)):
            yield dumps({"account": account, "entry": entry, "gone": True})


def _below_visible(path: str, snapshot: ServedSnapshot, mask: Mask) -> bool:
    """An entry that left the tree was the caller's to see when its nearest ancestor still there is."""
    while path and path != "/":
        path = path.rpartition("/")[0] or "/"
        i = snapshot.tree.index_of_path(path)
        if i is not None:
            return bool(mask[i])
    return False


def _chunks(lines: Iterator[bytes]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    for line in lines:
        waiting.append(line)
        if len(waiting) >= _CHUNK_LINES:
            yield b"\n".join(waiting) + b"\n"
            waiting.clear()
    if waiting:
        yield b"\n".join(waiting) + b"\n"


def describe(snapshot: ServedSnapshot, at: datetime) -> dict[str, Any]:
    return {
        "policy": snapshot.policy_slug,
        "snapshot": snapshot.snapshot_id,
        "revision": snapshot.revision,
        "as_of": snapshot.as_of,
        "computed_at": snapshot.computed_at,
        "age_s": round(_age_s(snapshot, at), 3),
        "algorithm": {name: snapshot.algorithm.get(name) for name in ("name", "operator", "resolution")},
    }


def etag(snapshot: ServedSnapshot) -> str:
    return f'"{snapshot.snapshot_id}"'


def _age_s(snapshot: ServedSnapshot, at: datetime) -> float:
    age_s: float = (at - snapshot.as_of).total_seconds()
    return max(0.0, age_s)


def _not_modified(request: HttpRequest, snapshot: ServedSnapshot, at: datetime) -> HttpResponse | None:
    given = request.META.get("HTTP_IF_NONE_MATCH")
    if given is None:
        return None
    known = {tag.strip().removeprefix("W/") for tag in str(given).split(",")}
    if etag(snapshot) in known or "*" in known:
        return with_age(HttpResponse(status=304), snapshot, at)
    return None


def with_age(response: Answer, snapshot: ServedSnapshot, at: datetime) -> Answer:
    response["ETag"] = etag(snapshot)
    response["Age"] = str(int(_age_s(snapshot, at)))
    response["Cache-Control"] = "private"
    response["Vary"] = "Authorization, Cookie"
    return response
