"""fairshare-agent: carries factors from Fairshare to this host's scheduler. Standard library, Python ≥ 3.6."""

VERSION = "1.0"
