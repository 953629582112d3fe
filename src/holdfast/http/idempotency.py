"""Idempotent POSTs: the first request with a key does the work, every later one gets the same answer.

    reserve --won--> make(tx) --> store status and body --commit--> answer
       \\--lost--> same payload: the stored answer, `Idempotency-Replayed: true`;  another payload: 409

All of it is one transaction: an answer is stored exactly if the work is. Of two first requests at once one wins, and
the other waits for it in the database.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.responses import Response

from holdfast.errors import IdempotencyConflict, StoreBusy
from holdfast.http.auth import Principal
from holdfast.http.problem import Problem
from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import Tx
from holdfast.tables import batch, idempotency
from holdfast.tables.idempotency import Reserved

HEADER = "Idempotency-Key"
REPLAYED = {"Idempotency-Replayed": "true"}
_write: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode
_write_sorted: Callable[[Any], str] = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode
_UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

Make = Callable[[Tx], Awaitable[tuple[int, dict[str, Any]]]]
AtOnce = Callable[[Reserved], Awaitable[tuple[int, str] | None]]
"""Does the work and stores it; gives the status and the answer's text, or None because the key is taken."""


async def idempotent(
    kernel: Kernel,
    principal: Principal,
    route: str,
    key: str | None,
    payload: bytes | Mapping[str, Any],
    make: Make,
    *,
    required: bool,
    at_once: AtOnce | None = None,
) -> Response:
    """Run `make` once for this user, route and key, and give its answer; or give the answer it gave before.

    A `make` that raises stores nothing: the key stays free. `at_once` is a quicker way for the first request: it
    stores key, answer and work in one statement, or says None because the key is taken."""
    checked = parse_key(key, required=required)
    if checked is None:
        async with kernel.store.transaction() as tx:
            status, body = await make(tx)
        return _answered(answer_text(body), status)
    scope = batch.text([principal.sub, route])
    print_ = fingerprint(payload)
    if at_once is not None and (first := await at_once(Reserved(scope, checked, print_))):
        status, text = first
        return _answered(text, status)
    return await _once(kernel, scope, checked, print_, make)


async def _once(kernel: Kernel, scope: str, key: str, print_: str, make: Make) -> Response:
    async with kernel.store.transaction() as tx:
        if await idempotency.reserve(tx, scope, key, print_, kernel.now()):
            status, body = await make(tx)
            text = answer_text(body)
            await idempotency.answer(tx, scope, key, status, text)
            return _answered(text, status)
        row = await idempotency.read(tx, scope, key)
    if row is None:
        raise StoreBusy("The key's first request vanished while this one waited for it.")
    if row.fingerprint != print_:
        raise IdempotencyConflict(key)
    return _answered(row.body, row.status, REPLAYED)


def _answered(text: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """An answer as it is stored: what is sent first and what is sent again are the same bytes."""
    return Response(text, status, headers, media_type="application/json")


def answer_text(body: Mapping[str, Any]) -> str:
    """An answer as it is stored and sent."""
    return _write(body)


def parse_key(key: str | None, *, required: bool) -> str | None:
    """The key as it is stored: a lower-case UUID v4, with or without quotes around it in the header."""
    if key is None or not key.strip():
        if required:
            raise Problem(400, "IDEMPOTENCY_KEY_REQUIRED", f"This needs an {HEADER} header with a UUID v4.")
        return None
    bare = key.strip().removeprefix('"').removesuffix('"').lower()
    if not _UUID4.fullmatch(bare):
        raise Problem(400, "IDEMPOTENCY_KEY_INVALID", f"The {HEADER} header must be a UUID v4.")
    return bare


def fingerprint(payload: bytes | Mapping[str, Any]) -> str:
    """The same for the same JSON, however it is spaced and ordered. Bytes that are not JSON stand for themselves."""
    if isinstance(payload, bytes):
        try:
            payload = json.loads(payload)
        except (ValueError, RecursionError):
            assert isinstance(payload, bytes)
            return hashlib.sha256(payload).hexdigest()
    return hashlib.sha256(_write_sorted(payload).encode()).hexdigest()
