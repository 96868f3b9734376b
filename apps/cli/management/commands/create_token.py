"""`manage.py create_token --user NAME --scope SCOPE`: make an API token and print it on standard output."""

from __future__ import annotations

import argparse
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.actor import COMMAND
from apps.accounts.models import Token
from apps.accounts.selectors import get_user
from apps.accounts.services import DAYS, NewToken, make_token
from apps.core.clock import now
from apps.core.errors import FieldProblem, Invalid
from apps.core.operator_commands import OperatorCommand
from apps.policies.access.reader_grants import grant_owner_read
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import load_tree
from apps.usage.selectors import get_source


class Command(OperatorCommand):
    help = (
        "Makes an API token and prints it on standard output; it is never shown again. A token can read what its owner "
        "may see: with priorities:read, the owner may see members of the policy by name until the token expires."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--user", required=True, help="user name of the owner")
        parser.add_argument(
            "--scope", required=True, action="append", help=f"may be repeated: {', '.join(Token.Scope.values)}"
        )
        parser.add_argument("--policy", default="", help="limit it to one policy")
        parser.add_argument("--subtree", default="", help="limit it to the subtree at this path of that policy")
        parser.add_argument("--source", default="", help="limit it to one usage source")
        parser.add_argument("--scheduler", default="", help="limit it to the agent of one scheduler of that policy")
        parser.add_argument("--days", type=int, default=DAYS, help=f"validity in days (default {DAYS})")
        parser.add_argument("--name", default="", help="name of the token")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["source"] and Token.Scope.USAGE_WRITE not in options["scope"]:
            get_source(slug=options["source"], actor=COMMAND)  # a token that writes may make its source when first used
        if options["policy"]:
            get_policy(slug=options["policy"], actor=COMMAND)
        at = now()
        with transaction.atomic():
            token, text = make_token(
                NewToken(
                    name=options["name"] or f"{', '.join(options['scope'])} by command",
                    scopes=options["scope"],
                    user=get_user(username=options["user"], actor=COMMAND),
                    policy_slug=options["policy"],
                    subtree_uid=_subtree(options["policy"], options["subtree"]),
                    source_slug=options["source"],
                    scheduler_name=options["scheduler"],
                    days=options["days"],
                ),
                at=at,
                actor=COMMAND,
            )
            opened = grant_owner_read(token, at=at, actor=COMMAND)
        for policy in opened:
            self.stderr.write(
                f"{token.user.username} sees the members of {policy.slug} by name until the token expires, so that "
                "the token reads their priorities; the page Access lists this right."
            )
        self.stdout.write(text)


def _subtree(policy_slug: str, path: str) -> UUID | None:
    if not path:
        return None
    if not policy_slug:
        raise Invalid("--subtree needs --policy.", fields=[FieldProblem("--policy", "is missing")])
    tree = load_tree(get_policy(slug=policy_slug, actor=COMMAND))
    entry = tree.index_of_path(path)
    if entry is None:
        raise Invalid(f"Policy {policy_slug} has no {path}.", fields=[FieldProblem("--subtree", "is unknown")])
    return tree.uuid(entry)
