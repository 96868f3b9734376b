"""Bounds of a table's columns, for services, forms and requests that take values for them."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db.models import Model


def most_characters(model: type[Model], column: str) -> int:
    """The length of the longest text that a column stores; of an array, that each of its texts has.

    Raises:
        ValueError: the column has no bound.
    """
    field = model._meta.get_field(column)
    most = getattr(field.base_field if isinstance(field, ArrayField) else field, "max_length", None)
    if most is None:
        raise ValueError(f"{model.__name__}.{column} has no bound")
    return int(most)
