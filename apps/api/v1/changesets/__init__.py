"""Change sets, reviews, publishing."""
