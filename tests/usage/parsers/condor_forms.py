"""Job ads written as HTCondor 23.9 prints them, in each form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

FORMS = ("long", "history file", "json", "jsonl", "xml")
Ad = dict[str, Any]


class Expr(str):
    """An expression, which HTCondor doesn't evaluate in an ad."""


def written(form: str, ads: Sequence[Ad]) -> bytes:
    return {"long": _long, "history file": _history, "json": _json, "jsonl": _jsonl, "xml": _xml}[form](ads).encode()


def _long(ads: Sequence[Ad]) -> str:
    return "".join(f"{_lines(ad)}\n" for ad in ads)


def _history(ads: Sequence[Ad]) -> str:
    return "".join(
        f'{_lines(ad)}*** Offset = 0 ClusterId = {ad.get("ClusterId", 0)} ProcId = 0 Owner = "x"\n' for ad in ads
    )


def _lines(ad: Ad) -> str:
    return "".join(f"{name} = {_classad(value)}\n" for name, value in ad.items())


def _classad(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and not isinstance(value, Expr):
        quoted = value.replace('"', '\\"')
        return f'"{quoted}"'
    return str(value)


def _in_json(value: Any) -> Any:
    return f"/Expr({value})/" if isinstance(value, Expr) else value


def _json(ads: Sequence[Ad]) -> str:
    items = [json.dumps({name: _in_json(value) for name, value in ad.items()}, indent=2) for ad in ads]
    return "[\n" + "\n,\n".join(items) + "\n]\n"


def _jsonl(ads: Sequence[Ad]) -> str:
    return "".join(json.dumps({name: _in_json(value) for name, value in ad.items()}) + "\n" for ad in ads)


def _xml(ads: Sequence[Ad]) -> str:
    head = '<?xml version="1.0"?>\n<!DOCTYPE classads SYSTEM "classads.dtd">\n<classads>\n'
    bodies = ("".join(f'    <a n="{name}">{_element(value)}</a>\n' for name, value in ad.items()) for ad in ads)
    return head + "".join(f"\n<c>\n{body}</c>\n" for body in bodies) + "\n</classads>\n"


def _element(value: Any) -> str:
    if isinstance(value, bool):
        return f'<b v="{"t" if value else "f"}"/>'
    if isinstance(value, Expr):
        return f"<e>{escape(value)}</e>"
    if isinstance(value, str):
        data = value.replace("\\", "\\\\").encode()
        text = "".join(chr(byte) if byte < 128 else f"\\{byte:03o}" for byte in data)
        return f"<s>{escape(text)}</s>"
    return f"<{'i' if isinstance(value, int) else 'r'}>{value}</{'i' if isinstance(value, int) else 'r'}>"
