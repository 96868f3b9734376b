"""A small PDF 1.7 writer: text in one embedded TrueType font, lines and boxes on A4 pages. No other package is needed.

Places are points (1/72 inch) from the top left corner. Source: ISO 32000-1, §9.7 (Type 0 fonts with Identity-H,
ToUnicode for search and copy), OpenType `cmap` format 4, `hmtx`, `head` and `hhea`. Characters that the font doesn't
have are written as U+FFFD. The same calls give the same bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

WIDTH, HEIGHT = 595.28, 841.89  # A4
FONT = Path(__file__).parent / "fonts" / "DejaVuSans.ttf"
_MISSING = 0xFFFD
_MARK = "\ufeff"  # says that a text is UTF-16
_PER_BLOCK = 100  # of mappings in a ToUnicode map


@dataclass(frozen=True)
class Font:
    """glyph: of each character; advance: of each glyph, in thousandths of the size."""

    data: bytes
    glyph: Mapping[int, int]
    advance: tuple[int, ...]
    box: tuple[int, int, int, int]
    ascent: int
    descent: int

    def glyphs(self, text: str) -> list[int]:
        return [self.glyph.get(ord(one), self.glyph[_MISSING]) for one in text]

    def width(self, text: str, size: float) -> float:
        """In points."""
        return sum(self.advance[one] for one in self.glyphs(text)) * size / 1000


@cache
def load_font() -> Font:
    data = FONT.read_bytes()
    tables = {
        data[at : at + 4].decode(): struct.unpack(">II", data[at + 8 : at + 16])
        for at in range(12, 12 + 16 * int.from_bytes(data[4:6], "big"), 16)
    }
    head, hhea, hmtx = tables["head"][0], tables["hhea"][0], tables["hmtx"][0]
    (units,) = struct.unpack_from(">H", data, head + 18)
    ascent, descent = struct.unpack_from(">hh", data, hhea + 4)
    (n_metrics,) = struct.unpack_from(">H", data, hhea + 34)
    (n_glyphs,) = struct.unpack_from(">H", data, tables["maxp"][0] + 4)

    def scaled(value: int) -> int:
        return round(value * 1000 / int(units))

    widths = [scaled(struct.unpack_from(">H", data, hmtx + 4 * n)[0]) for n in range(n_metrics)]
    widths += [widths[-1]] * (n_glyphs - n_metrics)
    box = struct.unpack_from(">hhhh", data, head + 36)
    glyph = _cmap(data, tables["cmap"][0])
    return Font(
        data,
        glyph,
        tuple(widths),
        (scaled(box[0]), scaled(box[1]), scaled(box[2]), scaled(box[3])),
        scaled(ascent),
        scaled(descent),
    )


def _cmap(data: bytes, start: int) -> dict[int, int]:
    """The glyph of each character of the basic plane, from the first subtable of format 4."""
    (n,) = struct.unpack_from(">H", data, start + 2)
    offsets = [struct.unpack_from(">I", data, start + 8 + 8 * at)[0] for at in range(n)]
    at = next(start + one for one in offsets if struct.unpack_from(">H", data, start + one)[0] == 4)
    count = struct.unpack_from(">H", data, at + 6)[0] // 2
    shape = f">{count}H"
    ends = struct.unpack_from(shape, data, at + 14)
    firsts = struct.unpack_from(shape, data, at + 16 + 2 * count)
    deltas = struct.unpack_from(shape, data, at + 16 + 4 * count)
    ranges_at = at + 16 + 6 * count
    ranges = struct.unpack_from(shape, data, ranges_at)
    found = {}
    for n, (first, end, delta, offset) in enumerate(zip(firsts, ends, deltas, ranges, strict=True)):
        for char in range(first, min(end, 0xFFFE) + 1):
            if offset:
                (glyph,) = struct.unpack_from(">H", data, ranges_at + 2 * n + offset + 2 * (char - first))
                glyph = (glyph + delta) % 0x10000 if glyph else 0
            else:
                glyph = (char + delta) % 0x10000
            if glyph:
                found[char] = glyph
    return found


class PdfDocument:
    """Pages are written in order; `finished` gives the bytes."""

    def __init__(self, title: str) -> None:
        self.title, self.font = title, load_font()
        self._pages: list[list[str]] = []
        self._used: dict[int, str] = {}

    @property
    def n_pages(self) -> int:
        return len(self._pages)

    def add_page(self) -> None:
        self._pages.append([])

    def text(
        self, x: float, y: float, text: str, *, size: float = 9, gray: float = 0.0, right: bool = False, page: int = -1
    ) -> None:
        """Its base line is at `y`; `right`: it ends at `x`."""
        glyphs = self.font.glyphs(text)
        known = (one if ord(one) in self.font.glyph else chr(_MISSING) for one in text)
        self._used.update(zip(glyphs, known, strict=True))
        start = x - self.font.width(text, size) if right else x
        codes = "".join(f"{one:04X}" for one in glyphs)
        self._pages[page].append(
            f"BT {gray:.2f} g /F1 {size:g} Tf 1 0 0 1 {start:.2f} {HEIGHT - y:.2f} Tm <{codes}> Tj ET"
        )

    def box(self, x: float, y: float, width: float, height: float, *, color: tuple[float, float, float]) -> None:
        """Filled; x and y are its top left corner, color is RGB from 0 to 1."""
        red, green, blue = color
        self._pages[-1].append(
            f"{red:.3f} {green:.3f} {blue:.3f} rg {x:.2f} {HEIGHT - y - height:.2f} {width:.2f} {height:.2f} re f"
        )

    def rule(self, x: float, y: float, to_x: float, *, gray: float = 0.8) -> None:
        self._pages[-1].append(f"{gray:.2f} G 0.5 w {x:.2f} {HEIGHT - y:.2f} m {to_x:.2f} {HEIGHT - y:.2f} l S")

    def finished(self) -> bytes:
        first = 9  # objects 1 to 8 are those that every document has
        kids = " ".join(f"{first + 2 * n} 0 R" for n in range(len(self._pages)))
        font, used = self.font, sorted(self._used)
        widths = " ".join(f"{one} [{font.advance[one]}]" for one in used)
        box = " ".join(map(str, font.box))
        objects = [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            f"<< /Type /Pages /Kids [{kids}] /Count {len(self._pages)} >>".encode(),
            b"<< /Type /Font /Subtype /Type0 /BaseFont /DejaVuSans /Encoding /Identity-H /DescendantFonts [4 0 R] "
            b"/ToUnicode 7 0 R >>",
            b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /DejaVuSans /CIDToGIDMap /Identity /DW 600 "
            b"/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> /FontDescriptor 5 0 R /W ["
            + widths.encode()
            + b"] >>",
            f"<< /Type /FontDescriptor /FontName /DejaVuSans /Flags 4 /FontBBox [{box}] /ItalicAngle 0 "
            f"/Ascent {font.ascent} /Descent {font.descent} /CapHeight 729 /StemV 80 /FontFile2 6 0 R >>".encode(),
            _stream(font.data, f"/Length1 {len(font.data)} "),
            _stream(self._to_unicode(used).encode()),
            f"<< /Title <{(_MARK + self.title).encode('utf-16-be').hex().upper()}> >>".encode(),
        ]
        for n, page in enumerate(self._pages):
            objects.append(
                f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {WIDTH} {HEIGHT}] /Resources << /Font << /F1 3 0 R >> >> "
                f"/Contents {first + 2 * n + 1} 0 R >>".encode()
            )
            objects.append(_stream("\n".join(page).encode()))
        return _file(objects)

    def _to_unicode(self, used: list[int]) -> str:
        lines = [f"<{one:04X}> <{self._used[one].encode('utf-16-be').hex().upper()}>" for one in used]
        blocks = [lines[at : at + _PER_BLOCK] for at in range(0, len(lines), _PER_BLOCK)]
        body = "\n".join(f"{len(block)} beginbfchar\n" + "\n".join(block) + "\nendbfchar" for block in blocks)
        return (
            "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n/CMapName /Adobe-Identity-UCS def\n"
            "/CMapType 2 def\n1 begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n"
            f"{body}\nendcmap\nCMapName currentdict /CMap defineresource pop\nend\nend"
        )


def _stream(data: bytes, more: str = "") -> bytes:
    packed = zlib.compress(data, 9)
    return f"<< {more}/Length {len(packed)} /Filter /FlateDecode >>\nstream\n".encode() + packed + b"\nendstream"


def _file(objects: list[bytes]) -> bytes:
    out, places = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"), []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    table = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(f"{at:010d} 00000 n \n".encode() for at in places)
    out += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info 8 0 R >>\nstartxref\n{table}\n%%EOF\n".encode()
    return bytes(out)
