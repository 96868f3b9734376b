"""Names of entries for Slurm's associations of one partition.

Slurm ranks such an association beside the user's other one in the account, so each is an entry: `alice:gpu` is user
alice in partition gpu. Neither users nor partitions have a colon in Slurm, and partitions have no letter case.

An account may have a user and an account of one name below it, and entries below one entry have different names. There
the user is `alice:`, and the account `alice`.
"""

from __future__ import annotations

from typing import NamedTuple

SEPARATOR = ":"


class UserOfPartition(NamedTuple):
    """partition: "" for the association in all partitions that have none of their own."""

    user: str
    partition: str


def association_name(user: str, partition: str) -> str:
    """The name of the entry of a user's association; partition: "" for all."""
    return f"{user}{SEPARATOR}{partition.lower()}" if partition else user


def beside_account(user: str) -> str:
    """The name of the entry of a user's association in all partitions, beside an account of the user's name."""
    return f"{user}{SEPARATOR}"


def split_association(name: str) -> UserOfPartition:
    """User and partition in the name of an entry."""
    user, _, partition = name.partition(SEPARATOR)
    return UserOfPartition(user, partition) if user else UserOfPartition(name, "")
