"""Rows about the systems: grading's relay, its POST, its way there and back; conversion's memory and processor time."""

from __future__ import annotations

from bench.model import NOTHING, Book, Measured, Row, Run, rate_ratio

RELAY = (Run("holdfast", "relay", 10_000, 3_000), Run("floor", "publish", 10_000, 3_000))
POST = (Run("holdfast", "post", 3_000, 1_000), Run("floor", "post_bare", 3_000, 1_000))
CALLBACK = Run("holdfast", "callback", 60, 20)
UPLOAD = Run("holdfast", "upload", 100, 100, once=True)
CONVERT = Run("holdfast", "convert", 1_000, 60, once=True, timeout_s=1_800)


def callback(book: Book) -> Measured:
    """A wait of seconds would be the poll; no round trip may come near it."""
    if not book.has("holdfast", "callback"):
        return NOTHING
    found, longest = book.spread("holdfast", "callback", "p50_ms"), book.spread("holdfast", "callback", "max_ms").high
    text = f"p50 {found.median:.0f} ms ({found.low:.0f} to {found.high:.0f}), the longest of all {longest:.0f} ms"
    return Measured(text, found.median < 50.0 and longest < 4_000, found.median, found.low, found.high)


def conversion_cpu(book: Book) -> Measured:
    """From the claim to the settled row: worker, fork server and child together."""
    if not book.has("holdfast", "convert"):
        return NOTHING
    whole, bare = (book.spread("holdfast", "convert", name).median for name in ("cpu_ms", "bare_ms"))
    return Measured(f"{whole:.1f} ms of CPU, {bare:.1f} of them the bare converter", whole <= 20.0, whole)


def upload(book: Book) -> Measured:
    if not book.has("holdfast", "upload"):
        return NOTHING
    extra, size = (book.spread("holdfast", "upload", name).median for name in ("extra_mb", "megabytes"))
    return Measured(f"{extra:.1f} MB more for a file of {size:.0f} MB", extra < 50, extra)


ROWS = [
    Row(
        "relay",
        "grading: the relay, rows to confirmed messages",
        ">= 0.8 of aio-pika alone",
        RELAY,
        rate_ratio(("holdfast", "relay"), ("floor", "publish"), 0.8),
    ),
    Row(
        "post",
        "grading: POST /api/submissions",
        ">= 0.9 of FastAPI with one INSERT",
        POST,
        rate_ratio(("holdfast", "post"), ("floor", "post_bare"), 0.9),
    ),
    Row("callback", "grading: submission to callback, idle", "p50 < 50 ms, never the poll", (CALLBACK,), callback),
    Row("upload", "conversion: the server's memory during a large upload", "< 50 MB more", (UPLOAD,), upload),
    Row(
        "convert",
        "conversion: a one-page PDF, the worker's, server's and child's CPU",
        "<= 20 ms",
        (CONVERT,),
        conversion_cpu,
    ),
]
