"""`manage.py federation`: publications, usage feeds, signing keys, mounts and subscriptions of this site."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND
from apps.cli.federation_status import status_json, status_lines
from apps.core.clock import now
from apps.core.code_paths import command_name
from apps.core.counts import counted
from apps.core.operator_commands import REFUSED, OperatorCommand
from apps.federation.documents.site_keys import list_keys, load_keys, rotate_key
from apps.federation.fetch_schedule import BAD_OUTCOMES, request_fetch
from apps.federation.models import Mount, Publication, Subscription, UsageFeed
from apps.federation.mounts.services import clean_fingerprint, list_mounts, make_mount, preview
from apps.federation.publishing import make_publication, write_documents
from apps.federation.restored import GAP, continue_restored
from apps.federation.usage_feeds import feeds
from apps.federation.usage_feeds.subscriptions import list_subscriptions, preview_feed, subscribe
from apps.mapping.moves import DAYS, UnmappedUsage
from apps.policies.tree.stored import load_tree
from apps.runs.services import work_run_now


class Command(OperatorCommand):
    help = "Publishes subtrees and their usage, manages the signing key, mounts and subscribes."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        self._add_publishing(actions)
        self._add_remotes(actions)
        actions.add_parser("keys", help="print the fingerprints of the signing keys, the newest last")
        rotate = actions.add_parser("rotate-key", help="make a new signing key, signed by the current one")
        rotate.add_argument("--reason", required=True, help="reason for the audit log")
        skip = actions.add_parser(
            "skip-numbers", help="after the database was restored by other means: go on with numbers that no peer knows"
        )
        skip.add_argument("--reason", required=True, help="reason for the audit log")

    def _add_publishing(self, actions: Any) -> None:
        publish = actions.add_parser("publish", help="write all open publications as files for any web server")
        publish.add_argument("--to", required=True, type=Path, metavar="DIR", help="folder for the files")
        publish.add_argument(
            "--policy", metavar="NAME", help="first make or change a publication of this policy, by the next options"
        )
        publish.add_argument("--entry", default="/", metavar="PATH", help="published entry, with all entries below it")
        publish.add_argument(
            "--name", metavar="NAME", help="name of the publication: lower case, in the form of a host name"
        )
        publish.add_argument("--expires-days", type=float, default=7.0, metavar="N", help="validity of a document")
        publish.add_argument("--open", action="store_true", help="readable without a token, and written as a file")
        feed = actions.add_parser("feeds", help="list usage feeds; with --policy: first make or change one")
        feed.add_argument("--policy", metavar="NAME", help="slug of the policy")
        feed.add_argument(
            "--entry", default="/", metavar="PATH", help="entry whose usage is reported, with all entries below it"
        )
        feed.add_argument("--name", metavar="NAME", help="name of the feed: lower case, in the form of a host name")
        feed.add_argument("--cores", type=float, metavar="N", help="declared capacity of this site")
        feed.add_argument("--no-running", action="store_true", help="leave out running jobs")
        feed.add_argument("--open", action="store_true", help="readable without a token")

    def _add_remotes(self, actions: Any) -> None:
        status = actions.add_parser(
            "status", help="list mounts and subscriptions with version or number, age and errors"
        )
        status.add_argument("--json", action="store_true", help="print JSON, with ages in seconds")
        fetch = actions.add_parser("fetch", help="fetch all mounts and subscriptions now, and wait for the result")
        target = fetch.add_mutually_exclusive_group()
        target.add_argument("--mount", type=int, metavar="ID", help="only the mount with this number in `status`")
        target.add_argument(
            "--usage", type=int, metavar="ID", help="only the subscription with this number in `status`"
        )
        mount = actions.add_parser("mount", help="mount a publication of another site at an entry")
        self._add_remote(mount)
        usage = mount.add_mutually_exclusive_group()
        usage.add_argument(
            "--keep-usage",
            action="store_true",
            default=None,
            help="map accounts of removed entries to the mount's entry",
        )
        usage.add_argument(
            "--drop-usage",
            dest="keep_usage",
            action="store_false",
            help="leave accounts of removed entries unmapped: their usage no longer counts",
        )
        subscribed = actions.add_parser("subscribe", help="subscribe to an entry's usage at another site")
        self._add_remote(subscribed)
        subscribed.add_argument(
            "--cores", type=float, metavar="N", help="agreed capacity (default: as that site declares)"
        )

    def _add_remote(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("url", metavar="URL", help="address of the document")
        parser.add_argument("--policy", required=True, metavar="NAME", help="slug of the policy")
        parser.add_argument(
            "--entry", required=True, metavar="PATH", help="entry; its own shares stay under local control"
        )
        trust = parser.add_mutually_exclusive_group()
        trust.add_argument(
            "--fingerprint", metavar="HEX", help="fingerprint of its key, received through another channel"
        )
        trust.add_argument("--yes", action="store_true", help="trust the key of the document without comparing it")
        parser.add_argument(
            "--token-file", metavar="FILE", help="file with the token issued by that site; - for standard input"
        )
        parser.add_argument("--every", type=int, metavar="S", help="seconds between fetches")
        parser.add_argument("--reason", default="By command.", help="reason for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, f"_{options['action'].replace('-', '_')}")(options)

    def _publish(self, options: dict[str, Any]) -> None:
        if options["policy"]:
            make_publication(
                policy_slug=options["policy"],
                entry=options["entry"],
                name=options["name"] or options["policy"],
                expires_after_s=round(options["expires_days"] * 86_400),
                is_open=options["open"],
                at=now(),
                actor=COMMAND,
            )
        written = write_documents(options["to"], at=now(), actor=COMMAND)
        if not written.files and not written.left_out:
            self.stdout.write("Nothing is published yet: use --policy, --entry and --name.")
        for file in written.files:
            document = file.document
            made = "new" if file.is_new else "as before"
            self.stdout.write(
                f"{file.path}: version {document.version} ({made}), "
                f"{counted(document.n_entries, 'entry', 'entries')} of revision {document.revision_number}, "
                f"until {document.expires_at:%Y-%m-%d %H:%M} UTC"
            )
        for path in written.removed:
            self.stdout.write(f"{path} is removed: its publication is closed.")
        for path in written.unknown:
            self.stdout.write(f"{path} is of no publication of this site: remove it, if it was one.")
        for row in written.left_out:
            self.stdout.write(f"{row.name} is not written: it is closed, and a web server asks for no token.")
            if options["policy"]:  # not for a mere refresh, which cron runs
                self.stdout.write(_closed_line("publications", row))
        if feeds.list_feeds(actor=COMMAND):
            self.stdout.write(
                "Usage feeds are not written: each reader needs another part, so the server has to send them."
            )

    def _feeds(self, options: dict[str, Any]) -> None:
        if options["policy"]:
            if options["cores"] is None:
                raise CommandError("Give the number of cores of this site with --cores.", returncode=REFUSED)
            feeds.make_feed(
                policy_slug=options["policy"],
                entry=options["entry"],
                name=options["name"] or options["policy"],
                capacity_cores=options["cores"],
                sends_running=not options["no_running"],
                is_open=options["open"],
                at=now(),
                actor=COMMAND,
            )
        usage_feeds = feeds.list_feeds(actor=COMMAND)
        if not usage_feeds:
            self.stdout.write("No usage feeds yet: use --policy, --entry, --name and --cores.")
        for feed in usage_feeds:
            whom = "open to anyone" if feed.is_open else "by token"
            self.stdout.write(
                f"{feed.name}  {feed.policy.slug}  number {feed.number}  {feed.capacity_cores:g} cores  {whom}"
            )

    def _skip_numbers(self, options: dict[str, Any]) -> None:
        continue_restored(reason=options["reason"], at=now(), actor=COMMAND)
        self.stdout.write(f"The next version and number of each publication and feed is {GAP:,} higher.")

    def _status(self, options: dict[str, Any]) -> None:
        at = now()
        mounts, subscriptions = list_mounts(actor=COMMAND, at=at), list_subscriptions(actor=COMMAND, at=at)
        if options["json"]:
            self.stdout.write(json.dumps(status_json(mounts, subscriptions, at)))
            return
        for line in status_lines(mounts, subscriptions, at):
            self.stdout.write(line)

    def _fetch(self, options: dict[str, Any]) -> None:
        chosen = self._chosen(options["mount"], options["usage"])
        if not chosen:
            raise CommandError(
                f"No such mount or subscription: see `{command_name('federation status')}`.", returncode=REFUSED
            )
        n_wrong = sum(self._is_rejected(remote) for remote in chosen)
        if n_wrong:
            raise CommandError(f"{n_wrong} of {len(chosen)} were rejected.", returncode=REFUSED)

    def _chosen(self, mount: int | None, usage: int | None) -> list[Mount | Subscription]:
        at = now()
        remotes: list[Mount | Subscription] = [] if usage is not None else [*list_mounts(actor=COMMAND, at=at)]
        remotes += [] if mount is not None else list_subscriptions(actor=COMMAND, at=at)
        wanted = mount if mount is not None else usage
        return [remote for remote in remotes if wanted in (None, remote.pk)]

    def _is_rejected(self, remote: Mount | Subscription) -> bool:
        """Fetch now, print the outcome, and return whether the document was rejected."""
        run = work_run_now(request_fetch(remote, at=now()).pk)
        message = run.result.get("message") or run.error
        outcome = run.result.get("outcome", run.state)
        self.stdout.write(f"{remote.pk}  {remote}  {outcome}{message and f': {message}'}")
        return run.result.get("outcome") in (None, *BAD_OUTCOMES)

    def _mount(self, options: dict[str, Any]) -> None:
        arguments = _document_arguments(options)
        mount_preview = preview(**arguments)
        head, fingerprint = mount_preview.document.head, mount_preview.key.fingerprint
        self.stdout.write(
            f"{head.publication} of {head.issuer}, version {head.version}: "
            f"{counted(mount_preview.n_entries, 'entry', 'entries')} on {counted(mount_preview.n_levels, 'level')}, "
            f"until {head.expires_at:%Y-%m-%d %H:%M} UTC"
        )
        self._compared(fingerprint, options)
        self._usage_decided(mount_preview.unmapped, options)
        made = make_mount(
            **arguments,
            issuer=head.issuer,
            publication=head.publication,
            fingerprint=fingerprint,
            settings={**_settings(options), "keep_usage": bool(options["keep_usage"])},
            reason=options["reason"],
        )
        self.stdout.write(f"Mounted at {options['entry']} as {made.pk}; the worker fetches it, as `fetch` does.")

    def _subscribe(self, options: dict[str, Any]) -> None:
        arguments = _document_arguments(options)
        feed_preview = preview_feed(**arguments)
        head, fingerprint = feed_preview.document.head, feed_preview.key.fingerprint
        self.stdout.write(
            f"{head.feed} of {head.issuer}, number {head.number}: site {head.site}, {head.capacity_cores:g} cores, "
            f"{len(feed_preview.document.hours):,} hours"
        )
        self._compared(fingerprint, options)
        made = subscribe(
            **arguments,
            issuer=head.issuer,
            feed=head.feed,
            fingerprint=fingerprint,
            capacity_cores=options["cores"] or head.capacity_cores,
            settings=_settings(options),
            reason=options["reason"],
        )
        self.stdout.write(f"Subscribed at {options['entry']} as {made.pk}; the worker fetches it, as `fetch` does.")

    def _compared(self, fingerprint: str, options: dict[str, Any]) -> None:
        """Print the fingerprint; fail unless it equals --fingerprint, or --yes is given."""
        self.stdout.write(f"Its key: {fingerprint}")
        if options["fingerprint"] and clean_fingerprint(options["fingerprint"]) != fingerprint:
            raise CommandError("The key differs from --fingerprint: nothing was done.", returncode=REFUSED)
        if not options["fingerprint"] and not options["yes"]:
            message = "Compare it with the fingerprint that the other site sends separately; then use --fingerprint."
            raise CommandError(message, returncode=REFUSED)

    def _usage_decided(self, unmapped: UnmappedUsage | None, options: dict[str, Any]) -> None:
        """Print the usage that would become unmapped; fail unless --keep-usage or --drop-usage decides about it."""
        if not unmapped:
            return
        self.stdout.write(_unmapped_line(unmapped))
        if unmapped.accounts and options["keep_usage"] is None:
            message = f"Keep it at {options['entry']} with --keep-usage, or use --drop-usage: nothing was done."
            raise CommandError(message, returncode=REFUSED)

    def _keys(self, options: dict[str, Any]) -> None:
        load_keys(at=now())
        for row in list_keys():
            self.stdout.write(f"{row.number}  {row.made_at:%Y-%m-%d %H:%M} UTC  {row.fingerprint}")

    def _rotate_key(self, options: dict[str, Any]) -> None:
        public = rotate_key(reason=options["reason"], at=now(), actor=COMMAND)
        self.stdout.write(
            f"The key is now {public.fingerprint}. Sites that trust the previous key accept it automatically."
        )


def _closed_line(folder: str, row: Publication | UsageFeed) -> str:
    """A hint that the publication or feed needs a token, and how to make one."""
    tree = load_tree(row.policy)
    i = tree.index_of_uid(row.entry_uid)
    bounds = f"--policy {row.policy.slug} --subtree {'/' if i is None else tree.path(i)}"
    return (
        f"/api/v1/{folder}/{row.name} is closed: for each reader run `create_token --user NAME --scope federation "
        f"{bounds} --name READER`, or open it with --open."
    )


def _unmapped_line(unmapped: UnmappedUsage) -> str:
    message = []
    if unmapped.accounts:
        become = counted(unmapped.n_accounts, "account becomes", "accounts become")
        core_h = f"{unmapped.core_s / 3_600:,.1f} core-hours of the last {DAYS} days"
        message.append(f"It removes entries: {become} unmapped, and {core_h} count nowhere.")
    if unmapped.n_peer_entries:
        removed = counted(unmapped.n_peer_entries, "removed entry", "removed entries")
        message.append(f"Usage that other sites report for {removed} counts nowhere.")
    return " ".join(message)


def _token(path: str | None) -> str:
    """Token from a file: an argument would be visible to all users of the machine."""
    if path is None:
        return ""
    return (sys.stdin.read() if path == "-" else Path(path).read_text()).strip()


def _document_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Arguments that the preview of a document and its mount or subscription share."""
    place = {"policy_slug": options["policy"], "entry": options["entry"], "url": options["url"]}
    return {**place, "token": _token(options["token_file"]), "at": now(), "actor": COMMAND}


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    return {} if options["every"] is None else {"every_s": options["every"]}
