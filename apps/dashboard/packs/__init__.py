"""Committee packs: the page, its files, and the links that show one."""
