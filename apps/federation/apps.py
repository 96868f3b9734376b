from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class FederationConfig(AppConfig):
    name = "apps.federation"
    label = "federation"

    def ready(self) -> None:
        from apps.federation import document_builds
        from apps.federation import fetch_schedule as fetching
        from apps.federation.mounts.services import keep_usage
        from apps.policies.publishing.revisions import register_publish_step
        from apps.runs.kinds import register
        from apps.runs.queues import FEDERATION, RECOMPUTE

        register(
            fetching.KIND,
            fetching.run_fetch,
            queue=FEDERATION,
            most_of_key=fetching.MOST_FETCHES_OF_OWNER,
            most_threads=fetching.MOST_FETCH_THREADS,
            title=_("a fetch from another site"),
        )
        register(
            document_builds.KIND, document_builds.run_build, queue=RECOMPUTE, title=_("a document for other sites")
        )
        register_publish_step(keep_usage)
        register_publish_step(document_builds.request_builds_after_publish)
