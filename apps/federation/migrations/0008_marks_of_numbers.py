from django.db import migrations, models

# Readers that came to a number before there were marks go on from there: each number gets the mark that it has from
# now on, as many of them as are kept.
_MARKS = """
INSERT INTO federation_feedmark (feed_id, number, mark)
SELECT feed.id, made.number, gen_random_uuid()
FROM federation_usagefeed AS feed, generate_series(GREATEST(1, feed.number - 99999), feed.number) AS made(number)
"""


class Migration(migrations.Migration):
    dependencies = [
        ("federation", "0007_strangers_looked_for"),
    ]

    operations = [
        migrations.AddField(
            model_name="subscription",
            name="seen_mark",
            field=models.CharField(blank=True, default="", max_length=32),
        ),
        migrations.AddField(
            model_name="subscription",
            name="seen_number",
            field=models.PositiveBigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="subscription",
            name="untold",
            field=models.JSONField(default=list),
        ),
        migrations.CreateModel(
            name="FeedMark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveBigIntegerField()),
                ("mark", models.UUIDField()),
                (
                    "feed",
                    models.ForeignKey(
                        on_delete=models.deletion.CASCADE, related_name="marks", to="federation.usagefeed"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("feed", "number"), name="federation_feedmark_once")],
            },
        ),
        migrations.RunSQL(_MARKS, migrations.RunSQL.noop),
    ]
