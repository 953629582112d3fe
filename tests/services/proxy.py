"""A TCP proxy on loopback that can be a black hole: connections stay open, new ones are taken, nothing gets through.

absent (refuses) --open--> forwarding --swallow--> swallowing --open--> forwarding
"""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress

from tests.services.child import free_ports

CHUNK = 65_536
LOOK_S = 0.05


class Proxy:
    """Forwards to one port in a thread of its own. It begins absent: nobody listens on `port`."""

    def __init__(self, target_port: int) -> None:
        self.port = free_ports(1)[0]
        self._target_port = target_port
        self._selector = selectors.DefaultSelector()
        self._listening: socket.socket | None = None
        self._swallowing = threading.Event()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Listen, and let everything through."""
        self._swallowing.clear()
        if self._thread is not None:
            return
        self._listening = socket.socket()
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listening.bind(("127.0.0.1", self.port))
        self._listening.listen(100)
        self._selector.register(self._listening, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def swallow(self) -> None:
        """Take connections and bytes, and pass nothing on."""
        self._swallowing.set()

    def close(self) -> None:
        """Cut every connection, and refuse new ones. Idempotent."""
        if self._over.is_set():
            return
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def _run(self) -> None:
        while not self._over.is_set():
            if self._swallowing.is_set():
                self._over.wait(LOOK_S)  # the kernel still takes connections, up to its backlog
                continue
            for key, _ in self._selector.select(LOOK_S):
                if self._swallowing.is_set():
                    break
                if key.data is None:
                    self._accept(key.fileobj)  # type: ignore[arg-type]
                else:
                    self._forward(key.fileobj, key.data)  # type: ignore[arg-type]

    def _accept(self, listening: socket.socket) -> None:
        client, _ = listening.accept()
        try:
            server = socket.create_connection(("127.0.0.1", self._target_port))
        except OSError:
            client.close()
            return
        self._selector.register(client, selectors.EVENT_READ, server)
        self._selector.register(server, selectors.EVENT_READ, client)

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            chunk = source.recv(CHUNK)
            if chunk:
                sink.sendall(chunk)
                return
        except OSError:
            pass
        for each in (source, sink):
            with suppress(KeyError, ValueError):
                self._selector.unregister(each)
            each.close()
