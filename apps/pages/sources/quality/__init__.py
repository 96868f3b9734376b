"""The page of data quality: what is wrong with the usage of which source."""
