"""Read a PDF that Chromium printed: the text of each page, by the ToUnicode maps of its fonts."""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Iterator

_TOKEN = re.compile(rb"/(\w+) [\d.]+ Tf|<([0-9A-F]+)> Tj")


def read_pages(data: bytes) -> list[str]:
    """The texts of the pages in order, without white space, which a PDF may leave out between words."""
    objects = {int(number): body for number, body in re.findall(rb"(\d+) 0 obj\n(.*?)\nendobj", data, re.DOTALL)}
    catalog = objects[int(_one(rb"/Root (\d+) 0 R", data))]
    return [_text(objects, page) for page in _pages(objects, int(_one(rb"/Pages (\d+) 0 R", catalog)))]


def _pages(objects: dict[int, bytes], node: int) -> Iterator[bytes]:
    kids = re.search(rb"/Kids \[(.*?)\]", objects[node], re.DOTALL)
    if kids is None:
        yield objects[node]
        return
    for kid in re.findall(rb"(\d+) 0 R", kids[1]):
        yield from _pages(objects, int(kid))


def _text(objects: dict[int, bytes], page: bytes) -> str:
    fonts = {name: objects[int(number)] for name, number in re.findall(rb"/(F\d+) (\d+) 0 R", page)}
    characters, digits = dict[int, str](), 4
    found = ""
    for name, codes in _TOKEN.findall(_stream(objects, int(_one(rb"/Contents (\d+) 0 R", page)))):
        if name:
            characters = _characters(objects, fonts[name])
            digits = 2 if b"/Type3" in fonts[name] else 4  # which is what a variable font becomes
        found += "".join(characters[int(codes[at : at + digits], 16)] for at in range(0, len(codes), digits))
    return without_spaces(found)


def without_spaces(text: str) -> str:
    return re.sub(r"\s", "", unicodedata.normalize("NFKC", text))


def _characters(objects: dict[int, bytes], font: bytes) -> dict[int, str]:
    lines = _stream(objects, int(_one(rb"/ToUnicode (\d+) 0 R", font)))
    found = {}
    for codes, text in re.findall(rb"^<(\w+)> <((?:\w{4})+)>$", lines, re.MULTILINE):
        found[int(codes, 16)] = bytes.fromhex(text.decode()).decode("utf-16-be")
    for first, last, start in re.findall(rb"^<(\w+)> <(\w+)> <(\w{4})>$", lines, re.MULTILINE):
        for code in range(int(first, 16), int(last, 16) + 1):
            found[code] = chr(int(start, 16) + code - int(first, 16))
    return found


def _stream(objects: dict[int, bytes], number: int) -> bytes:
    return zlib.decompress(objects[number].partition(b"stream\n")[2])


def _one(pattern: bytes, data: bytes) -> bytes:
    found = re.search(pattern, data)
    assert found is not None, pattern
    return found.group(1)
