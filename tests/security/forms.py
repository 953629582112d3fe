"""Odd requests, byte for byte: what frames a body, what begins a connection, where a path may lead."""

from __future__ import annotations

from collections.abc import Mapping

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /api/submissions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer TOKEN\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
END = b"\r\n0\r\n\r\n"


def _get(path: bytes, *headers: bytes) -> bytes:
    return b"\r\n".join((b"GET " + path + b" HTTP/1.1", b"Host: x", *headers, b"", b""))


CHUNKS = (
    *(b"2;a=b;c=d\r\n{}" + END, b"2;a\nb\r\n{}" + END, b'2;a="\r\n{}' + END, b"2\n{}\n0\n\n", b"2\r{}\r0\r\r"),
    *(b"0x2\r\n{}" + END, b"+2\r\n{}" + END, b"-2\r\n{}" + END, b" 2 \r\n{}" + END, b"0" * 5_000 + b"2\r\n{}" + END),
    *(b"0_2\r\n{}" + END, b"2\r\n{}XX0\r\n\r\n", b"10000000000000002\r\n{}" + END, b"2\r\n{}\r\n00\r\n\r\n"),
    b"2\r\n{}\r\n0\r\nContent-Length: 9\r\nTransfer-Encoding: x\r\nHost: y\r\n\r\n",
)
CODINGS = (
    *(b"xchunked", b"\tchunked", b"\x0bchunked", b"cHUNKED", b"chunked\r\nTransfer-Encoding: chunked", b",chunked"),
    *(
        b"gzip, chunked",
        b'"chunked"',
        b"x\r\n chunked",
        b"chunked\r\nContent-Length: 0",
        b"chunked\x00",
        b"identity",
        b"",
    ),
)
LENGTHS = (
    *(b"2, 2", b"2\r\nContent-Length: 2", b"-2", b"0x2", b"2 ", b"1 1", b"0000000002", b"9" * 23, b"", b"2\n", b"+2"),
    "\uff12".encode(),
)
EXPECTED = (b"100-continue", b"200-ok", b"100-continue\r\nExpect: 100-continue")
BEGINNINGS = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    _get(b"/healthz", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__"),
    _get(b"/api/jobs/events", b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13"),
    *(bytes.fromhex("16030100a50100009f0303") + bytes(160), b"\x05\x01\x00", b"GET /healthz\r\n"),
    *(
        b"%s HTTP/1.1\r\nHost: x\r\n\r\n" % line
        for line in (b"CONNECT 127.0.0.1:22", b"TRACE /", b"OPTIONS *", b"HEAD /")
    ),
    *(b"GET /healthz HTTP/%s\r\nHost: x\r\n\r\n" % version for version in (b"1.2", b"3", b"1.1\n", b"9.9", b"1.0")),
    *(b"get /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"G@T / HTTP/1.1\r\nHost: x\r\n\r\n", b" " + GET, b"\r\n" + GET),
    *(b"G" * 5_000 + b" / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET  /healthz  HTTP/1.1\r\nHost: x\r\n\r\n"),
    *(b"GET /healthz HTTP/1.1\r\n\r\n", b"GET /healthz HTTP/1.1\nHost: x\n\n", GET * 3, GET + b"GARBAGE\r\n\r\n"),
    b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"a:b\r\n" * 100_000 + b"\r\n",
)
FIELDS = (
    *(b"X\0Y: 1", b"X: 1\x002", b"X: a\rb", b"X Y: 1", b": 1", b" X: y", b"X", b"X-HTTP-Method-Override: DELETE"),
    *(b"X-Original-URL: /api/ops/jobs", b"X-Forwarded-Proto: javascript", b"Content-Encoding: gzip", b"Host: y"),
    b"Range: bytes=" + b",".join(b"%d-" % first for first in range(9_000)),
)
PATHS = (
    *(b"/static/../auth.py", b"/static/..%2fauth.py", b"/static/%2e%2e/%2e%2e/auth.py", b"/static/..%5cauth.py"),
    *(b"/static//etc/passwd", b"/static/%2fetc%2fpasswd", b"/static/conversion/..%2f..%2fhttp.py", b"/static/..;/x"),
    *(
        b"/static/holdfast.css/",
        b"/static/holdfast.css%00.js",
        b"/static/holdfast.css::$DATA",
        b"//healthz",
        b"/./healthz",
    ),
    *(b"/api/recordings/..%2f..%2fjwt-secret", b"/static/%c0%ae%c0%ae/x", b"/%0d%0aX:y", b"/%zz%f", b"\\healthz"),
    *(
        b"http://169.254.169.254/latest",
        b"/health\0z",
        "/é".encode(),
        b"/\xff\xfe",
        b"/healthz#x",
        b"/?" + b"a=1&" * 15_000,
    ),
)
FORMS: Mapping[str, bytes] = {
    **{f"chunk {piece[:20]!r}": CHUNKED + piece for piece in CHUNKS},
    **{f"coding {name!r}": POST + b"Transfer-Encoding: " + name + b"\r\n\r\n0\r\n\r\n" for name in CODINGS},
    "chunks over 1.0": CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"0\r\n\r\n",
    **{f"length {text!r}": POST + b"Content-Length: " + text + b"\r\n\r\n{}" for text in LENGTHS},
    **{f"expect {text!r}": POST + b"Content-Length: 2\r\nExpect: " + text + b"\r\n\r\n{}" for text in EXPECTED},
    **{f"begins {text[:30]!r}": text for text in BEGINNINGS},
    **{
        f"field {text[:30]!r}": b"GET /static/holdfast.css HTTP/1.1\r\nHost: x\r\n" + text + b"\r\n\r\n"
        for text in FIELDS
    },
    **{f"path {path[:40]!r}": _get(path) for path in PATHS},
}
_PARTS = ("a=", "a=;", "%41", "a, ", " ,", "1-", '"\\"', 'W/"a",', "1.1.1.1,", *' ,;"\\(a9:=.-/[\t%')
PATTERNS: Mapping[str, str] = {
    **{repr(part): part * (60_000 // len(part)) for part in _PARTS},
    "ranges": "bytes=" + "0-1," * 14_000,
    "dates": "Mon, 01 Jan 2024 " * 3_500,
    "boundary": "multipart/form-data; boundary=" + "a" * 50_000,
    "options": "multipart/form-data; " + 'a="\\"";' * 6_000,
    "cookies": "; ".join(f"a{number}={number}" for number in range(6_000)),
    "charset": "application/json; charset=" + "x" * 50_000,
}
HEADERS = (
    *("Accept", "Accept-Encoding", "Accept-Language", "Cookie", "Content-Type", "Range"),
    *("If-Range", "If-None-Match", "If-Modified-Since", "If-Match", "Idempotency-Key", "Last-Event-ID"),
    *("X-Forwarded-For", "X-Forwarded-Proto", "Forwarded", "Host", "Origin", "Referer"),
    *("Traceparent", "Tracestate", "Baggage", "Content-Disposition", "Content-Encoding", "Connection"),
    *("Upgrade", "Expect", "Sec-Fetch-Site", "User-Agent", "Via", "TE"),
)
