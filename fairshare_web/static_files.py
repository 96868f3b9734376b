"""Static files of a running site: named by their content, compressed, kept by browsers for ever."""

from __future__ import annotations

from whitenoise.storage import CompressedManifestStaticFilesStorage

_OWN_MODULES = "js/*.js"  # also in folders below


class StaticFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise has no types
    """Also what our modules import is named by its content: under two names a module would run twice on a page.

    Django does this for all scripts or for none; those of packages name files in their texts that they don't have.
    """

    _imports = CompressedManifestStaticFilesStorage._js_module_import_aggregation_patterns[1]
    patterns = (*CompressedManifestStaticFilesStorage.patterns, (_OWN_MODULES, _imports))
