"""The model of a soak, for text and for speech: slow, flaky and expensive. It writes down every call, with its key and
what came of it. The recordings lie with it too: to fetch one costs nothing."""

from __future__ import annotations

import array
import io
import json
import math
import random
import re
import select
import socket
import threading
import time
import wave
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.acceptance.model_endpoint import graded_body, text_of

HANG_S_MAX = 20.0
RETRY_AFTER_S = 4
HEARD_S = 0.5
"""A call that was on its way when the 429 was sent is nobody's fault."""
SPEECH_S = 2
SPOKEN = "the words of "
_RATE = 8_000
_RECORDING = re.compile(rb"recording of (\w+);")


@dataclass
class PaidCall:
    """One call. `outcome`: `answered` (the caller was there to hear it), `unheard` (it had gone, or the connection was
    dropped after the work), `500`, `429` or `hung`. `is_new`: no call with this key was charged before."""

    text: str
    key: str
    at_s: float
    outcome: str = ""
    is_new: bool = True
    ended_s: float = 0.0

    @property
    def provider(self) -> str:
        return "stt" if self.text.startswith(SPOKEN) else "llm"


class SoakModel:
    """`is_faulty` ends with the faults. `on_429` is called when a caller is told to wait, before it hears it."""

    def __init__(self, seed: int) -> None:
        self.url = ""
        self.is_faulty = True
        self.calls: list[PaidCall] = []
        self.holds: list[tuple[str, float, float]] = []
        self.on_429: Callable[[], None] = lambda: None
        self._dice = random.Random(seed)
        self._charged: set[str] = set()
        self._lock = threading.Lock()

    def receive(self, text: str, key: str) -> tuple[PaidCall, str, float]:
        """The call, what is to come of it, and after how many seconds."""
        with self._lock:
            luck = self._dice.random() if self.is_faulty else 1.0
            slow_s = self._dice.uniform(0.05, 0.6)
            call = PaidCall(text, key, time.time(), is_new=key not in self._charged)
            self.calls.append(call)
            if luck < 0.012 and not self._holds_now():
                return call, "429", 0.0
            if luck < 0.04:
                return call, "500", 0.02
            if luck < 0.05:
                return call, "hung", HANG_S_MAX
            self._charged.add(key)
            return call, "unheard" if luck < 0.08 else "answered", slow_s

    def hold(self, provider: str) -> None:
        now = time.time()
        self.holds.append((provider, now, now + RETRY_AFTER_S))
        self.on_429()

    def _holds_now(self) -> bool:
        return bool(self.holds) and time.time() < self.holds[-1][2] + 1

    # What it has seen

    def early(self) -> int:
        """Calls that came while it had asked to be left alone."""
        return sum(
            call.provider == held and start + HEARD_S < call.at_s < end
            for held, start, end in self.holds
            for call in self.calls
        )

    def answered(self) -> list[PaidCall]:
        """Calls whose answer somebody was there to hear."""
        return [call for call in self.calls if call.outcome == "answered"]

    def answered_again(self) -> int:
        """Answered calls beyond the first of their text."""
        return self._beyond_first(self.answered())

    def charged_again(self, *, honoured: bool) -> int:
        """What was charged a second time by a provider that honours keys, or by one that does not."""
        done = [call for call in self.calls if call.outcome in ("answered", "unheard")]
        return self._beyond_first([call for call in done if call.is_new] if honoured else done)

    def again(self) -> dict[str, list[PaidCall]]:
        """Every call of each text that was answered more than once."""
        answered = Counter(call.text for call in self.answered())
        return {
            text: [call for call in self.calls if call.text == text] for text, times in answered.items() if times > 1
        }

    @staticmethod
    def _beyond_first(calls: list[PaidCall]) -> int:
        return len(calls) - len({call.text for call in calls})


@contextmanager
def serving(model: SoakModel) -> Iterator[SoakModel]:
    """The model on a loopback port of its own, in threads of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"model": model}))
    server.daemon_threads = True
    model.url = f"http://127.0.0.1:{server.server_port}/v1"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    model: SoakModel
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        with suppress(OSError):  # a caller that was killed
            super().handle()

    def do_GET(self) -> None:
        sound = recording(self.path.rpartition("/")[2].partition(".")[0])
        with suppress(OSError):
            self.send_response(200)
            self.send_header("Content-Type", "audio/wav")
            self.send_header("Content-Length", str(len(sound)))
            self.end_headers()
            self.wfile.write(sound)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        name = _RECORDING.search(body)
        text = f"{SPOKEN}{name[1].decode()}" if name else text_of(body)
        call, outcome, slow_s = self.model.receive(text, self.headers.get("Idempotency-Key", ""))
        has_gone = _goes(self.connection, slow_s)
        if outcome == "answered" and has_gone:
            outcome = "unheard"
        call.outcome, call.ended_s = outcome, time.time()
        if has_gone or outcome in ("unheard", "hung"):
            self.close_connection = True
            return
        if outcome == "429":
            self.model.hold(call.provider)
        self._say(outcome, heard(name[1].decode()) if name else graded_body(7.0))

    def _say(self, outcome: str, answer: bytes) -> None:
        status = 200 if outcome == "answered" else int(outcome)
        body = answer if status == 200 else b'{"error": {"code": "x"}}'
        with suppress(OSError):
            self.send_response(status)
            if status == 429:
                self.send_header("Retry-After", str(RETRY_AFTER_S))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: the calls are read."""


def recording(name: str) -> bytes:
    """Two seconds of a voice, or nearly, in a file that says whose it is."""
    sound, file = array.array("h"), io.BytesIO()
    sound.extend(int(9_000 * math.sin(at / 9) * math.sin(at / 900)) for at in range(SPEECH_S * _RATE))
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, _RATE, 0, "NONE", ""))
        writer.writeframes(sound.tobytes())
    return file.getvalue() + f"recording of {name};".encode()


def heard(name: str) -> bytes:
    """What a transcriber makes of it: words that say their own name to the model that grades them."""
    return json.dumps({"text": f"My town has a park, a school and a river, and I like the river. #{name}"}).encode()


def _goes(connection: socket.socket, within_s: float) -> bool:
    """Wait, and say whether the caller has hung up meanwhile."""
    readable, _, _ = select.select([connection], [], [], within_s)
    try:
        return bool(readable) and not connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return True
