"""A case of Grid Engine, read and checked."""
