"""One comparison of settings for advice and lab: the same replayed jobs, machine, days, and rule of the verdict."""
