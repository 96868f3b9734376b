"""Numbers as selectors return them: what figures draw without reading data themselves."""
