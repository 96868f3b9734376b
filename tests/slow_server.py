"""A server on this machine that never ends its answers."""

from __future__ import annotations

import contextlib
import socket
import threading


class SlowServer:
    """Accepts every connection, and answers with one byte every tenth of a second for ever."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}/"
        self.n_open = self.n_accepted = 0
        self._lock, self._stops = threading.Lock(), threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listening.accept()
                threading.Thread(target=self._drip, args=(sock,), daemon=True).start()

    def _drip(self, sock: socket.socket) -> None:
        with self._lock:
            self.n_open, self.n_accepted = self.n_open + 1, self.n_accepted + 1
        with sock, contextlib.suppress(OSError):
            sock.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not self._stops.wait(0.1):
                sock.sendall(b"x")
        with self._lock:
            self.n_open -= 1

    def stop(self) -> None:
        self._stops.set()
        self.listening.close()
