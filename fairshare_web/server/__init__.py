"""The ASGI application of the stack: bodies are read in the event loop, views run in threads.

`application` decides, `bodies` reads, `lanes` runs, `replies` sends. Sites with a server of their own may serve
`fairshare_web.wsgi` instead and have to bound slow bodies themselves.
"""
