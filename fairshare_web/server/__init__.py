"""The ASGI application of the stack: bodies are read in the event loop, views run in threads.

The web server bounds connections and the time that the head of a request takes. It has no setting for a body that
arrives slowly, for the length of a body by its route, for a client that reads slowly, nor for threads of look-ups. That
is here: `application` decides, `bodies` reads, `lanes` names the threads, `views` runs in them, `large_bodies` has
processes for what takes long to read, `replies` sends. Sites with a server of their own may serve `fairshare_web.wsgi`
instead and have to bound slow bodies themselves.
"""
