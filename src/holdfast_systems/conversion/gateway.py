"""What turns a PDF into XML: any HTTP gateway, a GROBID server, or the embedded converter.

    GATEWAY_URL unset              EmbeddedGateway
    grobid+http(s)://host[/base]   GrobidGateway   POST base/api/processFulltextDocument, field `input`
    http(s)://host/path            HttpGateway     POST that URL, multipart field `file`, the answer is XML

All raise CallError and nothing else for a conversion that failed. None retries: that is the kernel's work.
The generic gateway gets multipart rather than a raw body because that is what upload handlers take.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Protocol

import httpx

from holdfast import CallError, Category
from holdfast.errors import SettingsError
from holdfast.kit import classify, note_status
from holdfast.providers.bounded import answer_to
from holdfast_systems.conversion.embedded import EmbeddedGateway, Limits
from holdfast_systems.conversion.results import BadXml, XmlCheck, in_thread

_PIECE_BYTES = 256 << 10
_HEALTH_TIMEOUT_S = 5.0
_GROBID_WAIT_MS = 5_000  # GROBID asks a refused client to wait 5 to 10 s
_NOT_NOW = frozenset({408, 425, 429})  # answers that speak of the moment and not of the document


class Gateway(Protocol):
    async def convert(self, source: Path, *, timeout_s: float) -> bytes:
        """The XML of a PDF. Raises CallError."""
        ...

    async def healthy(self) -> bool:
        """Whether a call is worth making now. Never raises."""
        ...


def gateway_for(url: str | None, *, limits: Limits | None = None, result_bytes_max: int = 64 << 20) -> Gateway:
    """The gateway that GATEWAY_URL names."""
    if not url:
        return EmbeddedGateway(limits or Limits())
    scheme, _, rest = url.partition("://")
    kind, _, transport = scheme.rpartition("+")
    if transport not in ("http", "https") or kind not in ("", "grobid") or not rest:
        raise SettingsError(["GATEWAY_URL must begin with http(s):// or grobid+http(s)://."])
    endpoint = f"{transport}://{rest}"
    if kind == "grobid":
        return GrobidGateway(endpoint, result_bytes_max=result_bytes_max)
    return HttpGateway(endpoint, result_bytes_max=result_bytes_max)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _client(url: str, timeout_s: float) -> httpx.AsyncClient:
    """A client for one call: conversions take seconds, so a kept connection would win nothing."""
    return httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(
            retries=0, verify=ssl.create_default_context() if url.startswith("https:") else False
        ),
        timeout=httpx.Timeout(timeout_s, connect=min(10.0, timeout_s)),
        follow_redirects=False,
        trust_env=False,
    )


Connect = Callable[[str, float], httpx.AsyncClient]


@dataclass(frozen=True, slots=True)
class HttpGateway:
    """Any service that takes a PDF as multipart field `file` and answers 2xx with XML."""

    url: str
    result_bytes_max: int = 64 << 20
    now_ms: Callable[[], int] = _wall_ms
    connect: Connect = _client

    async def convert(self, source: Path, *, timeout_s: float) -> bytes:
        client = self.connect(self.url, timeout_s)
        return await _exchange(client, self.url, source, "file", {}, timeout_s, self.result_bytes_max, self.now_ms)

    async def healthy(self) -> bool:
        """Any answer below 500 shows that the service is up: it need not like a GET."""
        answer = await _probe(self.connect, self.url)
        return answer is not None and answer.status_code < 500


@dataclass(frozen=True, slots=True)
class GrobidGateway:
    """A GROBID server. Its 503 is backpressure: all its threads are busy, and nothing is wrong with it."""

    url: str
    result_bytes_max: int = 64 << 20
    now_ms: Callable[[], int] = _wall_ms
    dice: Callable[[], float] = field(default=random.random)
    connect: Connect = _client

    async def convert(self, source: Path, *, timeout_s: float) -> bytes:
        endpoint = f"{self.url.rstrip('/')}/api/processFulltextDocument"
        # Consolidation would make the server call out to third parties.
        fields = {"consolidateHeader": "0", "consolidateCitations": "0"}
        client, bytes_max = self.connect(endpoint, timeout_s), self.result_bytes_max
        try:
            return await _exchange(client, endpoint, source, "input", fields, timeout_s, bytes_max, self.now_ms)
        except CallError as error:
            if error.failure.status == 503:
                raise self._busy(error.failure.retry_after_ms or 0) from error
            raise

    async def healthy(self) -> bool:
        answer = await _probe(self.connect, f"{self.url.rstrip('/')}/api/isalive")
        return answer is not None and answer.status_code == 200

    def _busy(self, asked_ms: int) -> CallError:
        wait_ms = max(asked_ms, _GROBID_WAIT_MS + int(_GROBID_WAIT_MS * self.dice()))
        message = "All threads of the GROBID server are busy."
        return CallError.of(Category.RATE_LIMIT, "GATEWAY_BUSY", message, retry_after_ms=wait_ms, status=503)


async def _exchange(
    client: httpx.AsyncClient,
    url: str,
    source: Path,
    name: str,
    fields: Mapping[str, str],
    timeout_s: float,
    bytes_max: int,
    now_ms: Callable[[], int],
) -> bytes:
    """Send the file and read the XML, within `timeout_s` in all."""
    try:
        async with asyncio.timeout(timeout_s), client:
            file = await in_thread(source.open, "rb")
            try:
                form = _Multipart(file, os.fstat(file.fileno()).st_size, name, fields)
                request = client.build_request("POST", url, content=form.pieces(), headers=form.headers())
                async with answer_to(client, request) as answer:
                    return await _read(answer, bytes_max, now_ms)
            finally:
                file.close()
    except (TimeoutError, httpx.TimeoutException) as error:
        message = f"The gateway did not answer within {timeout_s:g} s."
        late = CallError.of(Category.NETWORK, "GATEWAY_TIMEOUT", message, ambiguous=True, faults=True)
        raise late from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
        raise CallError.of(Category.BUG, "GATEWAY_MISCONFIGURED", "GATEWAY_URL cannot be used.") from error
    except httpx.HTTPError as error:
        raise CallError(classify(error)) from error
    except OSError as error:
        raise CallError.of(Category.UPSTREAM, "IO_ERROR", "The document cannot be read.") from error


async def _read(answer: httpx.Response, bytes_max: int, now_ms: Callable[[], int]) -> bytes:
    status = answer.status_code
    note_status(status)
    said = f"The gateway answered {status}"
    if status >= 400:
        raise _refused(CallError.from_status(status, f"{said}.", answer.headers, now_ms=now_ms()))
    if status in (204, 205):
        raise _useless("NOTHING_EXTRACTED", f"{said}: it found nothing.", status)
    if not 200 <= status < 300:
        message = f"{said}; GATEWAY_URL must name the converter itself."
        raise CallError.of(Category.BUG, "GATEWAY_MISCONFIGURED", message, status=status)
    if answer.headers.get("content-type", "").lower().startswith("text/html"):
        raise _useless("PARSE_ERROR", f"{said} with HTML.", status)
    try:
        return await _xml(answer, bytes_max)
    except BadXml as error:
        raise _useless("PARSE_ERROR", f"{said} with what is not plain XML: {error}", status) from error


def _refused(error: CallError) -> CallError:
    """What the answer means here. A gateway that cannot take the document now is not available: with a time to come
    back it holds the queue for that long and costs no attempt, without one it is tried again within the budget. No
    gateway means a limit by a 403, as other providers do: no other 4xx is retried."""
    found = error.failure
    if found.status not in _NOT_NOW:
        if found.category is not Category.RATE_LIMIT:
            return error
        denied = replace(found, category=Category.AUTH, error_class="AUTH_DENIED", retryable=False, retry_after_ms=None)
        return CallError(denied)
    category = Category.NETWORK if found.retry_after_ms is None else Category.RATE_LIMIT
    return CallError(replace(found, category=category, error_class="GW_UNAVAILABLE"))


async def _xml(answer: httpx.Response, bytes_max: int) -> bytes:
    """The body, checked as it arrives. It is read raw: a compressed one could be a bomb, and none was asked
    for."""
    check, content = XmlCheck(), bytearray()
    async for piece in answer.aiter_raw():
        if len(content) + len(piece) > bytes_max:
            raise _useless("RESULT_TOO_LARGE", f"The answer is over {bytes_max} bytes.", answer.status_code)
        check.feed(piece)
        content += piece
    check.close()
    return bytes(content)


def _useless(error_class: str, message: str, status: int) -> CallError:
    """An answer that the same document would get again."""
    return CallError.of(Category.VALIDATION, error_class, message, status=status)


async def _probe(connect: Connect, url: str) -> httpx.Response | None:
    try:
        async with (
            asyncio.timeout(_HEALTH_TIMEOUT_S),
            connect(url, _HEALTH_TIMEOUT_S) as client,
            answer_to(client, client.build_request("GET", url)) as answer,
        ):
            return answer
    except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, OSError):
        return None


@dataclass(frozen=True, slots=True)
class _Multipart:
    """A form with one file, streamed from disk through a thread. The file's name is ours, not a client's."""

    file: BinaryIO
    size: int
    name: str
    fields: Mapping[str, str]
    boundary: str = field(default_factory=lambda: secrets.token_hex(16))

    def headers(self) -> dict[str, str]:
        return {
            "Content-Type": f"multipart/form-data; boundary={self.boundary}",
            "Content-Length": str(len(self._opening()) + self.size + len(self._closing())),
            "Accept": "application/xml, text/xml",
            "Accept-Encoding": "identity",
        }

    async def pieces(self) -> AsyncIterator[bytes]:
        yield self._opening()
        while piece := await in_thread(self.file.read, _PIECE_BYTES):
            yield piece
        yield self._closing()

    def _opening(self) -> bytes:
        parts = [
            f'--{self.boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in self.fields.items()
        ]
        parts.append(
            f"--{self.boundary}\r\n"
            f'Content-Disposition: form-data; name="{self.name}"; filename="document.pdf"\r\n'
            "Content-Type: application/pdf\r\n\r\n"
        )
        return "".join(parts).encode()

    def _closing(self) -> bytes:
        return f"\r\n--{self.boundary}--\r\n".encode()
