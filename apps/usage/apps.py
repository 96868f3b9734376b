from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class UsageConfig(AppConfig):
    name = "apps.usage"
    label = "usage"

    def ready(self) -> None:
        from apps.runs.kinds import register
        from apps.runs.queues import FEDERATION, IMPORT
        from apps.usage.records import imports, retention, undo
        from apps.usage.sources import collection as collecting

        register(
            collecting.KIND,
            collecting.run_collect,
            queue=FEDERATION,
            most_of_key=collecting.MOST_OF_HOST,
            most_threads=collecting.MOST_COLLECT_THREADS,
            title=_("a collection of usage"),
        )
        register(imports.KIND, imports.run_import, queue=IMPORT, length=1, title=_("an import"))
        register(retention.KIND, retention.run_retention, queue=IMPORT, length=3, title=_("the removal of old records"))
        register(undo.KIND, undo.run_undo, queue=IMPORT, length=2, title=_("the undoing of an import"))
