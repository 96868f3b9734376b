"""`manage.py federation`: what this site tells others, the key it signs with, and what of others' it has mounted."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND
from apps.cli.commands import REFUSED, OperatorCommand
from apps.clock import now
from apps.federation.fetching import BAD_OUTCOMES, ask_for
from apps.federation.keys import list_keys, load_keys, rotate_key
from apps.federation.mounting import list_mounts
from apps.federation.publications import issue_into, list_publications, make_publication
from apps.runs.services import work_run_now


class Command(OperatorCommand):
    help = "Publishes subtrees as signed documents, keeps the key that signs them, and follows what is mounted."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        publish = actions.add_parser("publish", help="write every publication as a file for any web server")
        publish.add_argument("--to", required=True, type=Path, metavar="DIR", help="the folder that the files go to")
        publish.add_argument("--policy", metavar="NAME", help="of this policy: make or change a publication first")
        publish.add_argument("--entry", default="/", metavar="PATH", help="the entry that is told, with all below it")
        publish.add_argument(
            "--name", metavar="NAME", help="what the publication is called: lower case, as a.host.name"
        )
        publish.add_argument("--expires-days", type=float, default=7.0, metavar="N", help="how long a document holds")
        actions.add_parser("status", help="what is mounted: version, age, and what is wrong")
        fetch = actions.add_parser("fetch", help="look at what is mounted now, and wait for the outcome")
        fetch.add_argument("--mount", type=int, metavar="ID", help="only this one, as `status` numbers it")
        actions.add_parser("keys", help="print the fingerprints, the newest last: others compare it when they mount")
        rotate = actions.add_parser("rotate-key", help="a new key, which the present one hands over to")
        rotate.add_argument("--reason", required=True, help="why, for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, f"_{options['action'].replace('-', '_')}")(options)

    def _publish(self, options: dict[str, Any]) -> None:
        if options["policy"]:
            make_publication(
                policy_slug=options["policy"],
                entry=options["entry"],
                name=options["name"] or options["policy"],
                expires_after_s=round(options["expires_days"] * 86_400),
                at=now(),
                actor=COMMAND,
            )
        publications = list_publications(actor=COMMAND)
        if not publications:
            self.stdout.write("Nothing is published yet: say what with --policy, --entry and --name.")
        for path, issued in issue_into(options["to"], publications, at=now()):
            document = issued.document
            made = "new" if issued.is_new else "as before"
            self.stdout.write(
                f"{path}: version {document.version} ({made}), {document.n_entries} entries of revision "
                f"{document.revision_number}, until {document.expires_at:%Y-%m-%d %H:%M} UTC"
            )

    def _status(self, options: dict[str, Any]) -> None:
        for mount in list_mounts(actor=COMMAND, at=now()):
            age = f"good {mount.good_at:%Y-%m-%d %H:%M}" if mount.good_at else "never good yet"
            self.stdout.write(
                f"{mount.pk}  {mount}  {mount.state}  version {mount.landed_version} of {mount.version}  {age}"
                + (f"  {mount.error_code}: {mount.error}" if mount.error else "")
            )

    def _fetch(self, options: dict[str, Any]) -> None:
        chosen = [one for one in list_mounts(actor=COMMAND, at=now()) if options["mount"] in (None, one.pk)]
        if not chosen:
            raise CommandError("There is no such mount: see `manage.py federation status`.", returncode=REFUSED)
        n_wrong = 0
        for mount in chosen:
            run = work_run_now(ask_for(mount, at=now()).pk)
            said = run.result.get("message") or run.error
            self.stdout.write(f"{mount.pk}  {mount}  {run.result.get('outcome', run.state)}{said and f': {said}'}")
            n_wrong += run.result.get("outcome") in (None, *BAD_OUTCOMES)
        if n_wrong:
            raise CommandError(f"{n_wrong} of {len(chosen)} could not be taken.", returncode=REFUSED)

    def _keys(self, options: dict[str, Any]) -> None:
        load_keys(at=now())
        for row in list_keys():
            self.stdout.write(f"{row.number}  {row.made_at:%Y-%m-%d %H:%M}  {row.fingerprint}")

    def _rotate_key(self, options: dict[str, Any]) -> None:
        public = rotate_key(reason=options["reason"], at=now(), actor=COMMAND)
        self.stdout.write(f"The key is now {public.fingerprint}. Whoever trusts the one before follows by itself.")
