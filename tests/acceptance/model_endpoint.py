"""An OpenAI-compatible endpoint for the tests: grades everything alike, or does what it is told, and writes it down."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HELD_S_MAX = 120.0
# The learner's text names itself: "#17" stands in every text that a test submits.
_NAME = re.compile(r"#(\w+)")


@dataclass(frozen=True)
class Answer:
    """What the endpoint says to one call."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True)
class Call:
    """One call: which text, and when it came, in seconds since the epoch."""

    text: str
    at_s: float


class Model:
    """`always` answers every call unless `next` holds an answer for it; `held` keeps all callers waiting."""

    def __init__(self, score: float = 7.0) -> None:
        self.always = Answer()
        self.next: deque[Answer] = deque()
        self.calls: list[Call] = []
        self.url = ""
        self._grade = graded_body(score)
        self._open = threading.Event()
        self._open.set()

    def asked(self, text: str) -> int:
        """How often this text was graded, or at least asked for."""
        return self.counts()[text]

    def counts(self) -> Counter[str]:
        return Counter(call.text for call in self.calls)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Every call inside gets its answer only at the end."""
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()

    def answer(self, text: str) -> tuple[int, dict[str, str], bytes]:
        self.calls.append(Call(text, time.time()))
        said = self.next.popleft() if self.next else self.always
        self._open.wait(HELD_S_MAX)
        body = self._grade if said.body is None and said.status == 200 else said.body or b'{"error": {"code": "x"}}'
        return said.status, said.headers, body


@contextmanager
def serving(model: Model) -> Iterator[Model]:
    """The model on a loopback port of its own, in threads of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"model": model}))
    server.daemon_threads = True
    model.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    model: Model
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        text = text_of(self.rfile.read(int(self.headers["Content-Length"])))
        status, headers, body = self.model.answer(text)
        try:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the caller was killed while it waited

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: a test reads `calls`."""


def text_of(body: bytes) -> str:
    """The name of the text that a call asks about."""
    asked: dict[str, Any] = json.loads(body)
    name = _NAME.search(asked["messages"][-1]["content"])
    return name[1] if name else ""


def graded_body(score: float) -> bytes:
    """An answer that grades everything alike."""
    scored = {"score": score, "feedback": "Good."}
    names = ("taskAchievement", "coherence", "lexis", "grammar")
    content = json.dumps({**dict.fromkeys(names, scored), "offTopic": False, "suspectedInjection": False})
    choice = {"message": {"content": content}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 400, "completion_tokens": 100}
    return json.dumps({"id": "c", "model": "m", "choices": [choice], "usage": usage}).encode()
