from django.apps import AppConfig


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
            most_threads=collecting.MOST_THREADS,
        )
        register(imports.KIND, imports.run_import, queue=IMPORT, length=1)
        register(retention.KIND, retention.run_retention, queue=IMPORT, length=3)
        register(undo.KIND, undo.run_undo, queue=IMPORT, length=2)
