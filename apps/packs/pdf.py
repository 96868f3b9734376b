"""Renders a pack as PDF: its sections with bars, page numbers, the checksum and the signing key."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.utils.translation import gettext as _

from apps.packs.layout import (
    BAR,
    LABELS,
    Bars,
    Section,
    bars_of,
    height_of,
    sections_of,
    shorten,
    source_line,
    title_of,
)
from apps.packs.links import Sealed

# --- Writer -----------------------------------------------------------------------------------------------------------
# A small PDF 1.7 writer: text in one embedded TrueType font, lines and boxes on A4 pages. No other package is needed.
# Positions are points (1/72 inch) from the top left corner. Source: ISO 32000-1, §9.7 (Type 0 fonts with Identity-H,
# ToUnicode for search and copy), OpenType `cmap` format 4, `hmtx`, `head` and `hhea`. Characters that the font lacks
# are written as U+FFFD. The output is deterministic.
WIDTH, HEIGHT = 595.28, 841.89  # A4
FONT = Path(__file__).parent / "fonts" / "DejaVuSans.ttf"
_MISSING = 0xFFFD
_BYTE_ORDER_MARK = "\ufeff"  # byte order mark of UTF-16
_PER_BLOCK = 100  # mappings in a block of a ToUnicode map


@dataclass(frozen=True)
class Font:
    """glyph: glyph of each character; advance: width of each glyph, in thousandths of the font size."""

    data: bytes
    glyph: Mapping[int, int]
    advance: tuple[int, ...]
    box: tuple[int, int, int, int]
    ascent: int
    descent: int

    def glyphs(self, text: str) -> list[int]:
        return [self.glyph.get(ord(one), self.glyph[_MISSING]) for one in text]

    def width(self, text: str, size: float) -> float:
        """Return the width in points."""
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
    """Map characters of the basic plane to glyphs, from the first subtable of format 4."""
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
    """A PDF document, written page by page."""

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
        """Write text with its baseline at `y`; `right`: it ends at `x`."""
        glyphs = self.font.glyphs(text)
        known = (one if ord(one) in self.font.glyph else chr(_MISSING) for one in text)
        self._used.update(zip(glyphs, known, strict=True))
        start = x - self.font.width(text, size) if right else x
        codes = "".join(f"{one:04X}" for one in glyphs)
        self._pages[page].append(
            f"BT {gray:.2f} g /F1 {size:g} Tf 1 0 0 1 {start:.2f} {HEIGHT - y:.2f} Tm <{codes}> Tj ET"
        )

    def box(self, x: float, y: float, width: float, height: float, *, color: tuple[float, float, float]) -> None:
        """Draw a filled box; x and y are its top left corner, color is RGB from 0 to 1."""
        red, green, blue = color
        self._pages[-1].append(
            f"{red:.3f} {green:.3f} {blue:.3f} rg {x:.2f} {HEIGHT - y - height:.2f} {width:.2f} {height:.2f} re f"
        )

    def rule(self, x: float, y: float, to_x: float, *, gray: float = 0.8) -> None:
        self._pages[-1].append(f"{gray:.2f} G 0.5 w {x:.2f} {HEIGHT - y:.2f} m {to_x:.2f} {HEIGHT - y:.2f} l S")

    def to_bytes(self) -> bytes:
        first = 9  # objects 1 to 8 are the document's own
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
            f"<< /Title <{(_BYTE_ORDER_MARK + self.title).encode('utf-16-be').hex().upper()}> >>".encode(),
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


def _stream(data: bytes, extra: str = "") -> bytes:
    packed = zlib.compress(data, 9)
    return f"<< {extra}/Length {len(packed)} /Filter /FlateDecode >>\nstream\n".encode() + packed + b"\nendstream"


def _file(objects: list[bytes]) -> bytes:
    out, offsets = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"), []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    table = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(f"{at:010d} 00000 n \n".encode() for at in offsets)
    out += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info 8 0 R >>\nstartxref\n{table}\n%%EOF\n".encode()
    return bytes(out)


# --- Pages of a pack --------------------------------------------------------------------------------------------------
_LEFT, _TOP, _BOTTOM = 40.0, 50.0, HEIGHT - 50.0
_RIGHT = WIDTH - _LEFT
_LINE, _SIZE, _SMALL = 13.0, 8.5, 7.0
_PAD = 6.0
_COLORS = ((0.55, 0.60, 0.66), (0.05, 0.43, 0.36))
_NUMBER_WIDTH = 62.0


def render_pdf(sealed: Sealed) -> bytes:
    return _Layout(sealed).render()


class _Layout:
    """Lays out the pack from top to bottom, starting a new page where the next element doesn't fit."""

    def __init__(self, sealed: Sealed) -> None:
        self.sealed, self.pack = sealed, sealed.document
        self.title = title_of(self.pack)
        self.pdf = PdfDocument(self.title)
        self.y = 0.0
        self._new_page()

    def render(self) -> bytes:
        for n, line in enumerate(self._wrapped(self.title, 15, _RIGHT - _LEFT)):
            self.pdf.text(_LEFT, self.y + 18 * n, line, size=15)
        self.y += 18 * len(self._wrapped(self.title, 15, _RIGHT - _LEFT))
        self._line(source_line(self.pack), size=_SIZE, gray=0.35)
        if self.pack["n_people_left_out"]:
            self._line(_("People are not listed."), size=_SIZE, gray=0.35)
        for section in sections_of(self.pack):
            self._section(section)
        self._checksum()
        for page in range(self.pdf.n_pages):
            footer = f"{page + 1} / {self.pdf.n_pages}"
            self.pdf.text(_RIGHT, HEIGHT - 28, footer, size=_SMALL, gray=0.4, right=True, page=page)
            self.pdf.text(_LEFT, HEIGHT - 28, self.sealed.digest, size=_SMALL, gray=0.4, page=page)
        return self.pdf.to_bytes()

    # --- Elements -----------------------------------------------------------------------------------------------------
    def _section(self, section: Section) -> None:
        self._ensure_room(4 * _LINE)
        self.y += 14
        self.pdf.text(_LEFT, self.y, section.title, size=11.5)
        self.y += _LINE
        if section.note:
            for line in self._wrapped(section.note, _SMALL, _RIGHT - _LEFT):
                self._line(line, size=_SMALL, gray=0.35)
        if section.bars is not None:
            self._bars(section.bars)
        if section.rows:
            self._table(section)
        else:
            self._line(section.empty, size=_SIZE, gray=0.35)

    def _bars(self, bars: Bars) -> None:
        height = height_of(bars)
        self._ensure_room(height)
        for n, name in enumerate(bars.names):
            x = _LEFT + LABELS + 110 * n
            self.pdf.box(x, self.y, 8, 8, color=_COLORS[n])
            self.pdf.text(x + 12, self.y + 7, name, size=_SMALL)
        for bar in bars_of(bars):
            y = self.y + bar.y
            if bar.label:
                self.pdf.text(_LEFT, y + 7.5, shorten(bar.label), size=_SMALL)
            self.pdf.box(_LEFT + LABELS, y, bar.length, BAR, color=_COLORS[bar.series])
            self.pdf.text(_LEFT + LABELS + bar.length + 4, y + 7.5, bar.value, size=_SMALL)
        self.y += height + _PAD

    def _table(self, section: Section) -> None:
        widths = self._widths(section)
        self._head(section, widths)
        for row in section.rows:
            self._draw_row(section, row, widths, gray=0.0)

    def _head(self, section: Section, widths: Sequence[float]) -> None:
        self._draw_row(section, section.columns, widths, gray=0.35)
        self.pdf.rule(_LEFT, self.y - _LINE + 4, _RIGHT)

    def _draw_row(self, section: Section, row: Sequence[str], widths: Sequence[float], *, gray: float) -> None:
        """Draw a row; on a new page it follows the column titles."""
        cells = [
            [text] if n >= section.first_number else self._wrapped(text, _SIZE, width - _PAD)
            for n, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        height = _LINE * max(map(len, cells))
        if self.y + height > _BOTTOM:
            self._new_page()
            if row is not section.columns:
                self._head(section, widths)
        x = _LEFT
        for n, (lines, width) in enumerate(zip(cells, widths, strict=True)):
            is_number = n >= section.first_number
            for k, line in enumerate(lines):
                at = x + width if is_number else x
                self.pdf.text(at, self.y + _LINE * k, line, size=_SIZE, gray=gray, right=is_number)
            x += width
        self.y += height

    def _widths(self, section: Section) -> list[float]:
        """Number columns have a fixed width; text columns share the rest by their longest texts."""
        n = len(section.columns)
        n_numbers = max(n - section.first_number, 0)
        left = _RIGHT - _LEFT - n_numbers * _NUMBER_WIDTH
        rows, texts = (section.columns, *section.rows), range(n - n_numbers)
        minimum = [max(self._width(word) for row in rows for word in row[k].split() or [""]) + _PAD for k in texts]
        minimum = [min(one, left / len(minimum)) for one in minimum]
        wanted = [max(self._width(row[k]) for row in rows) + _PAD for k in texts]
        extra = [max(one - other, 1.0) for one, other in zip(wanted, minimum, strict=True)]
        room = left - sum(minimum)
        return [a + room * b / sum(extra) for a, b in zip(minimum, extra, strict=True)] + [_NUMBER_WIDTH] * n_numbers

    def _width(self, text: str) -> float:
        return self.pdf.font.width(text, _SIZE)

    def _checksum(self) -> None:
        self._ensure_room(5 * _LINE)
        self.y += 14
        self.pdf.text(_LEFT, self.y, _("Checksum"), size=11.5)
        self.y += _LINE
        self._line("SHA-256 " + self.sealed.digest, size=_SMALL)
        self._line(_("Signed with key %(key)s") % {"key": self.sealed.fingerprint}, size=_SMALL)
        note = _("The JSON file is signed; its first line has this checksum.")
        self._line(note, size=_SMALL, gray=0.35)

    # --- Positions ----------------------------------------------------------------------------------------------------
    def _line(self, text: str, *, size: float, gray: float = 0.0) -> None:
        self._ensure_room(_LINE)
        self.pdf.text(_LEFT, self.y, text, size=size, gray=gray)
        self.y += _LINE

    def _ensure_room(self, height: float) -> None:
        if self.y + height > _BOTTOM:
            self._new_page()

    def _new_page(self) -> None:
        self.pdf.add_page()
        self.y = _TOP

    def _wrapped(self, text: str, size: float, width: float) -> list[str]:
        """Break a text into lines that fit, at spaces, and within words that are too long."""
        lines: list[str] = []
        line = ""
        for word in text.split():
            while self.pdf.font.width(word, size) > width and len(word) > 1:
                fits = max(n for n in range(1, len(word)) if n == 1 or self.pdf.font.width(word[:n], size) <= width)
                lines, line, word = [*lines, *([line] if line else []), word[:fits]], "", word[fits:]
            both = f"{line} {word}".strip()
            if line and self.pdf.font.width(both, size) > width:
                lines, line = [*lines, line], word
            else:
                line = both
        return [*lines, line] if line or not lines else lines
