"""The OpenAPI document: hooks that complete it, and the view that sends it.

It is generated once a release and stored as a file. That takes seconds and the route is open to all, so only one
thread of a process generates it.
"""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Any

import drf_spectacular.authentication
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseBase
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer

from apps.core.derived_state import in_files, in_memory
from apps.core.errors import Unavailable
from apps.core.plugins import with_additions
from apps.core.release import release_digest
from apps.web.rest import errors
from apps.web.rest.inputs import refuse_unknown
from apps.web.rest.rendering import is_known
from apps.web.rest.transport import PARAMETER_SCHEMA

DERIVED_STATE = (
    in_memory(
        "_tags",
        holds="digests of the files of the REST schema",
        key="path",
        inputs="the file",
        range="one release",
        ends="the end of the process",
    ),
    in_files(
        "schema/*",
        holds="the REST schema as JSON, YAML and page",
        key="digest of the release",
        inputs="the code",
        range="one release",
        ends="another release has another name",
    ),
)
_PROBLEM = {
    "type": "object",
    "description": "Problem document of RFC 9457. `code` is stable; texts may change.",
    "required": ["type", "title", "status", "code", "detail", "fields", "request_id"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "fields": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["where", "message"],
                "properties": {"where": {"type": "string"}, "message": {"type": "string"}},
            },
        },
        "request_id": {"type": "string"},
        "conflicts": {
            "type": "array",
            "description": "With 409: fields that both sides changed.",
            "items": {
                "type": "object",
                "required": ["entry", "field", "base", "mine", "theirs"],
                "properties": {
                    "entry": {"type": "string", "nullable": True, "description": "uid; null for settings"},
                    "path": {"type": "string"},
                    "field": {"type": "string"},
                    "base": {},
                    "mine": {},
                    "theirs": {},
                },
            },
        },
    },
}
_ANYWHERE = {
    "400": "Malformed request: invalid JSON, or an unknown name, wrong type or value out of bounds; see `fields`",
    "401": "No token or session, or an invalid one",
    "403": "The caller may not do this",
    "404": "It does not exist, or the caller may not see it",
    "405": "Method not allowed",
    "406": "Not available in an accepted media type",
    "410": "The policy or source is archived (code archived), or the requested data is no longer stored",
    "413": "A size limit is exceeded",
    "415": "Unsupported media type or encoding",
    "422": "Well-formed, but rejected; nothing was stored; see `fields`",
    "429": "Too many requests; see Retry-After",
    "503": "Temporarily unavailable: no snapshot yet, or no database; see Retry-After",
}
_WITH_BODY = {
    "409": "Conflict with another change, or not possible in the current state",
    "412": "If-Match names an older version",
    "428": "If-Match is missing",
}
_METHODS = {"get", "put", "post", "patch", "delete"}

_RATE_HEADERS = {
    "RateLimit-Policy": "The limit of this caller: `q` requests in a window of `w` seconds",
    "RateLimit": "How many requests are left (`r`), and in how many seconds there is one more (`t`)",
}
_WRITTEN = {"sam": "SAM", "slurm": "Slurm"}
_RENDERERS: dict[str, Any] = {"yaml": OpenApiYamlRenderer, "json": OpenApiJsonRenderer}
_SUFFIXES = {
    "application/vnd.oai.openapi": "yaml",
    "application/yaml": "yaml",
    "application/vnd.oai.openapi+json": "json",
    "application/json": "json",
}


def schema_file(suffix: str) -> Path:
    """Path of the generated OpenAPI description of this release. suffix: yaml or json."""
    return Path(settings.VAR) / "schema" / f"{release_digest()}.{suffix}"


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "apps.web.rest.authentication.TokenAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "fsh_<id>_<secret>"}


class SessionScheme(drf_spectacular.authentication.SessionScheme):  # type: ignore[no-untyped-call]
    target_class = "apps.web.rest.authentication.FormlessSessionAuthentication"


def add_problems(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Add problem documents to all operations, and the parameter `bom` to those that can answer with CSV."""
    result.setdefault("components", {}).setdefault("schemas", {})["Problem"] = _PROBLEM
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for path in result["paths"].values():
        for method, operation in path.items():
            if method not in _METHODS:
                continue
            if "text/csv" in operation["responses"].get("200", {}).get("content", {}):
                operation.setdefault("parameters", []).append(PARAMETER_SCHEMA)
            texts = _ANYWHERE if method == "get" else {**_ANYWHERE, **_WITH_BODY}
            for status, text in texts.items():
                operation["responses"].setdefault(status, {"description": text, "content": content})
    return result


def add_summaries(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Name each operation in words, as its id does, and the headers of rate limits where there is one."""
    headers = {name: {"schema": {"type": "string"}, "description": text} for name, text in _RATE_HEADERS.items()}
    result["components"]["headers"] = headers
    refs = {name: {"$ref": f"#/components/headers/{name}"} for name in headers}
    for path in result["paths"].values():
        for method, operation in path.items():
            if method not in _METHODS:
                continue
            words = " ".join(_WRITTEN.get(word, word) for word in operation["operationId"].split("_"))
            operation.setdefault("summary", words[0].upper() + words[1:])
            if method != "get":
                for status, response in operation["responses"].items():
                    if status.startswith("2") or status == "429":
                        response.setdefault("headers", {}).update(refs)
    return result


def add_tags(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Add the tags of plug-ins to those of the core, in SPECTACULAR_SETTINGS."""
    texts = with_additions({tag["name"]: tag["description"] for tag in result["tags"]}, "rest_tags")
    result["tags"] = [{"name": name, "description": str(text)} for name, text in texts.items()]
    return result


_tags: dict[Path, str] = {}  # digests of files that this process has read
_making = threading.Lock()


@login_not_required
def schema(request: HttpRequest) -> HttpResponseBase:
    """The OpenAPI document as YAML or JSON, the same for all callers."""
    if request.method not in ("GET", "HEAD"):
        return errors.problem(
            request, 405, "method_not_allowed", "Only GET is allowed.", headers={"Allow": "GET, HEAD"}
        )
    try:
        refuse_unknown(request.GET, ())
    except errors.Refusal as refusal:
        return errors.domain_problem(request, refusal)
    media_type = request.get_preferred_type(list(_SUFFIXES))
    if media_type is None:
        message = f"It is available as {' or '.join(_SUFFIXES)}."
        return errors.problem(request, 406, "not_acceptable", message)
    path = schema_file(_SUFFIXES[media_type])
    try:
        tag = _tags.get(path) or _tag_of(path)
    except Unavailable as refusal:
        return errors.domain_problem(request, refusal)
    response: HttpResponseBase
    if is_known(request, tag):
        response = HttpResponse(status=304)
    else:
        response = FileResponse(path.open("rb"), content_type=media_type, filename=f"Fairshare{path.suffix}")
    response["ETag"] = f'"{tag}"'
    response["Cache-Control"] = "public, no-cache"
    response["Vary"] = "Accept"
    return response


def read_schema(suffix: str) -> bytes:
    """The document of this release. suffix: yaml or json.

    Raises:
        Unavailable: `being_made`: another thread of this process generates it.
    """
    path = schema_file(suffix)
    if path not in _tags:
        _tag_of(path)
    return path.read_bytes()


def _tag_of(path: Path) -> str:
    """Digest of the file, which one request generates if it is missing; meanwhile other requests get 503."""
    if not _making.acquire(blocking=False):
        raise Unavailable("The document is being generated: try again in a moment.", code="being_made")
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            unfinished = path.with_suffix(".made")
            unfinished.write_bytes(make_schema(path.suffix[1:]))
            unfinished.replace(path)
        return _tags.setdefault(path, hashlib.sha256(path.read_bytes()).hexdigest()[:32])
    finally:
        _making.release()


def make_schema(suffix: str) -> bytes:
    """Generate the document. suffix: yaml or json. Not thread-safe: generators share state of serializers."""
    document = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    content: bytes = _RENDERERS[suffix]().render(document, renderer_context={})
    return content
