"""The past periods that pages offer, the same in every choice. Where they cost too much, the longest is left out."""

PERIODS_DAYS = (7, 30, 90, 365)
DEFAULT_DAYS = 30
# What some pages offered before; a saved link shows the next longer period.
FORMER_DAYS = {1: 7, 14: 30, 28: 30, 60: 90, 180: 365}
