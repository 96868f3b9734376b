"""Static files of a running site: joined, named by their content, compressed, kept by browsers for ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import brotli
from django.core.files.base import ContentFile
from whitenoise.compress import Compressor
from whitenoise.storage import CompressedManifestStaticFilesStorage

from fairshare_web.joined_files import join_scripts, join_sheets

_OWN_MODULES = "js/*.js"  # also in folders below
_PLOTLY = "vendor/plotly"
# Chromium then compiles all of a script while it arrives, beside the page and not in its way; others ignore the line.
_CALLED_AT_ONCE = "//# allFunctionsCalledOnLoad\n"


class _Compressor(Compressor):  # type: ignore[misc]  # whitenoise has no types
    """The best quality takes ten times as long for 8 % fewer bytes, and every first start waits for it."""

    _QUALITY = 9  # of 11

    @classmethod
    def compress_brotli(cls, data: bytes) -> bytes:
        return bytes(brotli.compress(data, quality=cls._QUALITY))


class StaticFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise has no types
    """The name of a module leads to the file that it was joined into: a page names modules, whatever holds them.

    What our modules import is named by its content, too: under two names a module would run twice on a page. Django
    does this for all scripts or for none; those of packages name files in their texts that they don't have.
    """

    _imports = CompressedManifestStaticFilesStorage._js_module_import_aggregation_patterns[1]
    patterns = (*CompressedManifestStaticFilesStorage.patterns, (_OWN_MODULES, _imports))
    keep_only_hashed_files = True

    def create_compressor(self, **options: Any) -> Compressor:
        return _Compressor(**options)

    def post_process(self, paths: dict[str, Any], dry_run: bool = False, **options: Any) -> Iterator[Any]:
        if dry_run:
            return
        scripts, file_of = join_scripts(_texts(paths, "js/", ".js"))
        for name in file_of.keys() - scripts.keys():
            self.delete(name)
        at_once = {name: _CALLED_AT_ONCE + text for name, text in _texts(paths, _PLOTLY, ".js").items()}
        written = scripts | at_once | join_sheets(_texts(paths, ("css/", "vendor/"), ".css"))
        for name, text in written.items():
            self.delete(name)
            self._save(name, ContentFile(text.encode()))
        rest = {name: place for name, place in paths.items() if name not in file_of}
        yield from super().post_process(rest | {name: (self, name) for name in written}, **options)
        self.hashed_files |= {name: self.hashed_files[file] for name, file in file_of.items()}
        self.save_manifest()


def _texts(paths: dict[str, Any], folders: str | tuple[str, ...], suffix: str) -> dict[str, str]:
    texts = {}
    for name, (storage, path) in paths.items():
        if name.startswith(folders) and name.endswith(suffix):
            with storage.open(path) as file:
                texts[name] = file.read().decode("utf-8")
    return texts
