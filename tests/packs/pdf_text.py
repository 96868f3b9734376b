"""Read a PDF as a reader does: cross-reference table, pages, fonts, and the text of each page by its ToUnicode map."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator


class PdfText:
    """texts: of each page, what is written, piece by piece."""

    def __init__(self, data: bytes) -> None:
        assert data.startswith(b"%PDF-1.")
        assert data.rstrip().endswith(b"%%EOF")
        self._data = data
        self._places = dict(self._table())
        catalog = self._object(int(_one(rb"/Root (\d+) 0 R", data)))
        pages = self._object(int(_one(rb"/Pages (\d+) 0 R", catalog)))
        kids = [int(one) for one in re.findall(rb"(\d+) 0 R", _one(rb"/Kids \[([^\]]*)\]", pages))]
        assert int(_one(rb"/Count (\d+)", pages)) == len(kids)
        self.texts = [list(self._texts(self._object(kid))) for kid in kids]

    @property
    def words(self) -> list[str]:
        return [piece for page in self.texts for piece in page]

    def _table(self) -> Iterator[tuple[int, int]]:
        start = int(_one(rb"startxref\s+(\d+)", self._data))
        rows = re.match(rb"xref\n0 (\d+)\n((?:\d{10} \d{5} [nf] \n)+)", self._data[start:])
        assert rows is not None
        places = rows.group(2).split(b"\n")[: int(rows.group(1))]
        for number, row in enumerate(places):
            if row.endswith(b"n "):
                at = int(row[:10])
                assert self._data[at:].startswith(b"%d 0 obj" % number), number
                yield number, at

    def _object(self, number: int) -> bytes:
        at = self._places[number]
        return self._data[at : self._data.index(b"endobj", at)]

    def _stream(self, number: int) -> bytes:
        at = self._places[number]
        head = self._data[at : self._data.index(b"stream\n", at)]
        start = at + len(head) + len(b"stream\n")
        return zlib.decompress(self._data[start : start + int(_one(rb"/Length (\d+)", head))])

    def _texts(self, page: bytes) -> Iterator[str]:
        font = self._object(int(_one(rb"/F1 (\d+) 0 R", page)))
        lines = self._stream(int(_one(rb"/ToUnicode (\d+) 0 R", font))).decode()
        chars = {
            code: bytes.fromhex(text).decode("utf-16-be") for code, text in re.findall(r"<(\w{4})> <(\w+)>", lines)
        }
        for codes in re.findall(rb"<([0-9A-F]*)> Tj", self._stream(int(_one(rb"/Contents (\d+) 0 R", page)))):
            text = codes.decode()
            yield "".join(chars[text[at : at + 4]] for at in range(0, len(text), 4))


def _one(pattern: bytes, data: bytes) -> bytes:
    found = re.search(pattern, data)
    assert found is not None, pattern
    return found.group(1)
