"""Who would wait longer under a draft: planned starts of the jobs that wait now, by group."""
