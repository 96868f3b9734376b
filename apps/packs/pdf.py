"""A pack as PDF: its sections with their bars, page numbers, and the checksum with the key that signed it."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext as _

from apps.packs.drawing import BAR, LABELS, bars_of, cut, height_of
from apps.packs.layout import Bars, Section, made_of, sections_of, title_of
from apps.packs.links import Sealed
from apps.packs.pdf_writer import HEIGHT, WIDTH, PdfDocument

_LEFT, _TOP, _BOTTOM = 40.0, 50.0, HEIGHT - 50.0
_RIGHT = WIDTH - _LEFT
_LINE, _SIZE, _SMALL = 13.0, 8.5, 7.0
_PAD = 6.0
_COLORS = ((0.55, 0.60, 0.66), (0.05, 0.43, 0.36))
_NUMBER_WIDTH = 62.0


def pdf_of(sealed: Sealed) -> bytes:
    return _Layout(sealed).written()


class _Layout:
    """Writes from top to bottom; a new page where the next piece doesn't fit."""

    def __init__(self, sealed: Sealed) -> None:
        self.sealed, self.pack = sealed, sealed.document
        self.title = title_of(self.pack)
        self.pdf = PdfDocument(self.title)
        self.y = 0.0
        self._page()

    def written(self) -> bytes:
        for n, line in enumerate(self._wrapped(self.title, 15, _RIGHT - _LEFT)):
            self.pdf.text(_LEFT, self.y + 18 * n, line, size=15)
        self.y += 18 * len(self._wrapped(self.title, 15, _RIGHT - _LEFT))
        self._line(made_of(self.pack), size=_SIZE, gray=0.35)
        if self.pack["n_people_left_out"]:
            self._line(_("People are left out."), size=_SIZE, gray=0.35)
        for section in sections_of(self.pack):
            self._section(section)
        self._checksum()
        for page in range(self.pdf.n_pages):
            footer = f"{page + 1} / {self.pdf.n_pages}"
            self.pdf.text(_RIGHT, HEIGHT - 28, footer, size=_SMALL, gray=0.4, right=True, page=page)
            self.pdf.text(_LEFT, HEIGHT - 28, self.sealed.digest, size=_SMALL, gray=0.4, page=page)
        return self.pdf.finished()

    # --- Pieces -------------------------------------------------------------------------------------------------------
    def _section(self, section: Section) -> None:
        self._room(4 * _LINE)
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
        self._room(height)
        for n, name in enumerate(bars.names):
            x = _LEFT + LABELS + 110 * n
            self.pdf.box(x, self.y, 8, 8, color=_COLORS[n])
            self.pdf.text(x + 12, self.y + 7, name, size=_SMALL)
        for bar in bars_of(bars):
            y = self.y + bar.y
            if bar.label:
                self.pdf.text(_LEFT, y + 7.5, cut(bar.label, 26), size=_SMALL)
            self.pdf.box(_LEFT + LABELS, y, bar.length, BAR, color=_COLORS[bar.series])
            self.pdf.text(_LEFT + LABELS + bar.length + 4, y + 7.5, bar.value, size=_SMALL)
        self.y += height + _PAD

    def _table(self, section: Section) -> None:
        widths = self._widths(section)
        self._head(section, widths)
        for row in section.rows:
            self._row(section, row, widths, gray=0.0)

    def _head(self, section: Section, widths: Sequence[float]) -> None:
        self._row(section, section.columns, widths, gray=0.35)
        self.pdf.rule(_LEFT, self.y - _LINE + 4, _RIGHT)

    def _row(self, section: Section, row: Sequence[str], widths: Sequence[float], *, gray: float) -> None:
        """A row that begins a page follows the titles of its columns."""
        cells = [
            [text] if n >= section.first_number else self._wrapped(text, _SIZE, width - _PAD)
            for n, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        height = _LINE * max(map(len, cells))
        if self.y + height > _BOTTOM:
            self._page()
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
        """Columns of numbers have one width; the others share the rest by their longest text."""
        n = len(section.columns)
        n_numbers = max(n - section.first_number, 0)
        left = _RIGHT - _LEFT - n_numbers * _NUMBER_WIDTH
        rows, texts = (section.columns, *section.rows), range(n - n_numbers)
        least = [max(self._width(word) for row in rows for word in row[k].split() or [""]) + _PAD for k in texts]
        least = [min(one, left / len(least)) for one in least]
        wish = [max(self._width(row[k]) for row in rows) + _PAD for k in texts]
        more = [max(one - other, 1.0) for one, other in zip(wish, least, strict=True)]
        room = left - sum(least)
        return [a + room * b / sum(more) for a, b in zip(least, more, strict=True)] + [_NUMBER_WIDTH] * n_numbers

    def _width(self, text: str) -> float:
        return self.pdf.font.width(text, _SIZE)

    def _checksum(self) -> None:
        self._room(5 * _LINE)
        self.y += 14
        self.pdf.text(_LEFT, self.y, _("Checksum"), size=11.5)
        self.y += _LINE
        self._line("SHA-256 " + self.sealed.digest, size=_SMALL)
        self._line(_("Signed with key %(key)s") % {"key": self.sealed.fingerprint}, size=_SMALL)
        note = _("The signed numbers are the file .json of this pack; its first line has this checksum.")
        self._line(note, size=_SMALL, gray=0.35)

    # --- Places -------------------------------------------------------------------------------------------------------
    def _line(self, text: str, *, size: float, gray: float = 0.0) -> None:
        self._room(_LINE)
        self.pdf.text(_LEFT, self.y, text, size=size, gray=gray)
        self.y += _LINE

    def _room(self, height: float) -> None:
        if self.y + height > _BOTTOM:
            self._page()

    def _page(self) -> None:
        self.pdf.add_page()
        self.y = _TOP

    def _wrapped(self, text: str, size: float, width: float) -> list[str]:
        """Lines that fit, broken at spaces, and within words that are too long."""
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
