"""Attacks on a running `holdfast up`, one command each: the figures of "Walked by hand" in docs/reliability.md.

python -m tests.security.walk forms        odd requests: statuses, traces in the log
python -m tests.security.walk headers      every header with 60 KB of every pattern: CPU of a request
python -m tests.security.walk bodies       long bodies of strangers and learners: CPU and memory
python -m tests.security.walk recordings   twenty uploads at once: how long others wait for a thread
python -m tests.security.walk addresses    900 generated spellings of inner hosts, listeners on every port they name
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

from tests.security.addresses import AUTHORITIES
from tests.security.forms import FORMS, HEADERS, PATTERNS
from tests.security.test_gate import SOURCES, Listener, outcome_of
from tests.services.child import free_ports

from holdfast.http.auth import issue_token

SECRET = "a-secret-of-the-walk-" * 2
READY = b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
ROUTES = {
    b"GET /static/holdfast.css": b"",
    b"GET /console": b"",
    b"GET /login/callback": b"",
    b"POST /api/jobs": b"{}",
    b"POST /api/submissions": b"{}",
}


class Up:
    """A deployment of all systems on SQLite."""

    def __init__(self, folder: Path, **limits: str) -> None:
        (self.port,) = free_ports(1)
        self.log = folder / "holdfast.log"
        env = {**os.environ, "HOLDFAST_DATA_DIR": str(folder), "HOLDFAST_JWT_SECRET": SECRET, **limits}
        command = [sys.executable, "-m", "holdfast", "up", "--port", str(self.port)]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)

    def wait(self) -> None:
        for _ in range(300):
            with suppress(OSError):
                if self.ask(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").startswith(
                    b"HTTP/1.1 200"
                ):
                    return
            time.sleep(0.2)
        raise SystemExit("it does not come up")

    def ask(self, request: bytes, wait_s: float = 20) -> bytes:
        """What comes back until the server closes, or is silent for so long."""
        answer = b""
        with suppress(TimeoutError, ConnectionError), self.sending(request) as connection:
            connection.settimeout(wait_s)
            while piece := connection.recv(65_536):
                answer += piece
        return answer

    @contextmanager
    def sending(self, request: bytes) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            with suppress(ConnectionError):
                connection.sendall(request)
            yield connection

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") >> 20

    def cost_ms(self, request: bytes, times: int = 3) -> float:
        before = self.cpu_s()
        for _ in range(times):
            self.ask(request)
        return 1_000 * (self.cpu_s() - before) / times


@contextmanager
def deployed(**limits: str) -> Iterator[Up]:
    with tempfile.TemporaryDirectory(prefix="holdfast-walk-") as folder:
        up = Up(Path(folder), **limits)
        try:
            up.wait()
            yield up
        finally:
            up.process.send_signal(signal.SIGTERM)
            print("exit", up.process.wait(60), "tracebacks in the log", up.log.read_text().count("Traceback"))


def token(sub: str = "ann") -> str:
    return issue_token(SECRET, sub, ["learner"], 3_600)


def header(sub: str | None, path: str, length: int, kind: str = "application/json") -> bytes:
    who = f"Authorization: Bearer {token(sub)}\r\n" if sub else ""
    return (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nConnection: close\r\n{who}Content-Length: {length}"
        "\r\n\r\n"
    ).encode()


def forms() -> None:
    statuses: Counter[str] = Counter()
    with deployed() as up:
        for name, form in FORMS.items():
            answers = up.ask(form.replace(b"TOKEN", token().encode()), 1)
            found = re.findall(rb"HTTP/1.1 (\d{3})", answers) or [b"none"]
            statuses.update(status.decode() for status in found)
            if any(status.startswith(b"5") for status in found) or b"root:" in answers or b"import " in answers:
                print("!!", name, answers[:200])
    print(len(FORMS), "forms", dict(statuses))


def headers() -> None:
    worst: list[tuple[float, str]] = []
    with deployed(HOLDFAST_REQUESTS_PER_ADDRESS_SEC="0", HOLDFAST_REQUESTS_PER_USER_SEC="0") as up:
        for route, body in ROUTES.items():
            for name in HEADERS:
                for pattern, value in PATTERNS.items():
                    host = b"" if name == "Host" else b"Host: x\r\n"
                    who = f"Authorization: Bearer {token()}\r\n{name}: {value}\r\n".encode()
                    end = b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
                    cost = up.cost_ms(route + b" HTTP/1.1\r\n" + host + who + end, 1)
                    worst.append((cost, f"{route.decode()} {name}: {pattern}"))
    print(len(worst), "requests; the dearest in ms of CPU:", *sorted(worst)[-5:], sep="\n  ")


def bodies() -> None:
    size = 1 << 20
    texts = {
        "lists": b"[" + b"[]," * (size // 3 - 2) + b"[]]",
        "open": b"[" * size,
        "deep": b"[" * 60 + b"[]," * 300_000,
    }
    with deployed() as up:
        for name, text in texts.items():
            for sub in (None, "ann"):
                cost = up.cost_ms(header(sub, "/api/submissions", len(text)) + text)
                print(f"1 MiB of {name} by {sub or 'a stranger'}: {cost:.0f} ms of CPU")
        for sub, path, length, count in (
            (None, "/api/submissions", size, 300),
            ("ann", "/api/recordings", 25_000_000, 40),
        ):
            before = up.megabytes()
            with ExitStack() as held:
                for _ in range(count):
                    held.enter_context(up.sending(header(sub, path, length, "application/json") + b" " * (length - 1)))
                print(f"{count} half-sent of {length >> 20} MiB to {path}: {before} MB, {up.megabytes()} MB")


def recordings() -> None:
    count, samples = 20, 880 * 8_000
    wave = b"RIFF%bWAVEfmt %bdata%b" % (
        struct.pack("<I", 36 + samples),
        struct.pack("<IHHIIHH", 16, 1, 1, 8_000, 8_000, 1, 8),
        struct.pack("<I", samples) + b"\x80" * samples,
    )
    missing = b"GET /api/recordings/" + b"x" * 43 + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with deployed() as up, ThreadPoolExecutor(count) as pool:
        uploads = [
            pool.submit(up.ask, header(f"ann{number}", "/api/recordings", len(wave), "audio/wav") + wave, 120)
            for number in range(count)
        ]
        waits = []
        while not all(upload.done() for upload in uploads):
            began = time.monotonic()
            up.ask(missing)
            waits.append(time.monotonic() - began)
        print(
            f"{count} uploads; others waited {max(waits):.2f} s at most",
            Counter(each.result()[9:12] for each in uploads),
        )


LOOKS_LIKE: dict[str, Callable[[str], str]] = {
    "wide": lambda char: chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char,
    "encoded": lambda char: "".join(f"%{byte:02x}" for byte in char.encode()),
    "encoded twice": lambda char: "".join(f"%25{byte:02X}" for byte in char.encode()),
    "hidden": lambda char: char + "\u200b",
    "marked": lambda char: char + "\u0301",
    "large": str.upper,
    "bold": lambda char: chr(0x1D7CE + int(char)) if char.isascii() and char.isdigit() else char,
    "circled": lambda char: chr(0x24D0 + ord(char) - 97) if "a" <= char <= "z" else char,
}


def spelt(dice: Random) -> str:
    """An inner address, some of whose characters are replaced by what may be read as them, with something beside it."""
    authority = dice.choice(AUTHORITIES)
    change, share = LOOKS_LIKE[dice.choice(list(LOOKS_LIKE))], dice.choice((0, 0.1, 0.5, 1))
    authority = "".join(change(char) if dice.random() < share and char not in "{port}" else char for char in authority)
    before = dice.choice(("", "", "", "u@", "u:p@", "//", "\\", "e.example\\@", "e.example#@", "%09", ".", "["))
    after = dice.choice(("", "", "", ".", ";", "\t", "%00", "\\", "%2f", "@e.example", "?@e.example", "\r\n"))
    scheme = dice.choice(
        ("https://", "https://", "https://", "HTTPS://", "https:/", "https:///", "https:\\\\", "git+https://")
    )
    return f"{scheme}{before}{authority}{after}{dice.choice(('/r', '', '/r.git', '?x', '#x', '/%2e%2e/r'))}"


async def _addresses(count: int, seed: int) -> None:
    listener, outcomes = Listener(), Counter[tuple[str, str]]()
    servers = [await asyncio.start_server(listener.serve, "0.0.0.0", 0)]
    listener.port = servers[0].sockets[0].getsockname()[1]
    for host, port in (
        ("::", listener.port),
        *((host, port) for port in (22, 80, 443) for host in ("127.0.0.1", "::1")),
    ):
        with suppress(OSError):  # it is taken, or not ours to take
            servers.append(await asyncio.start_server(listener.serve, host, port))
    dice = Random(seed)
    texts = sorted({spelt(dice) for _ in range(count)})
    for source in SOURCES:
        for text in texts:
            if source.__name__ == "redirect" and not text.isprintable():
                continue
            outcomes[source.__name__, await outcome_of(source, text.replace("{port}", str(listener.port)))] += 1
    for (name, outcome), number in sorted(outcomes.items()):
        print(f"{number:6} {name:18} {outcome}")
    print(f"seed {seed}: {len(texts)} spellings, {outcomes.total()} tries, {len(listener.came)} connections")


def addresses() -> None:
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() % 100_000
    asyncio.run(_addresses(900, seed))


WALKS = {walk.__name__: walk for walk in (forms, headers, bodies, recordings, addresses)}

if __name__ == "__main__":
    WALKS[sys.argv[1]]()
