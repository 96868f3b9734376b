"""Pages of policies as files: export, import with a preview, comparison with a dump."""
