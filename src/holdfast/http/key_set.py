"""The keys of tokens, fetched from a URL of the settings. A key server that is away, slow or broken holds up nobody
whose key is known, and is asked again only after a pause, whoever makes up key ids meanwhile."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import jwt

from holdfast.providers.bounded import exchange_within

FETCH_S_MAX = 5.0
PAUSE_S = 5.0


class KeySet(jwt.PyJWKClient):
    def __init__(self, url: str) -> None:
        super().__init__(url, timeout=FETCH_S_MAX)
        self._failed_at: float | None = None

    def get_signing_key(self, kid: str) -> jwt.PyJWK:
        """The key of this id. One that is known is found without waiting for who fetches."""
        known = self.jwk_set_cache.get() if self.jwk_set_cache is not None else None
        keys = known.keys if isinstance(known, jwt.PyJWKSet) else []
        usable = [key for key in keys if key.public_key_use in ("sig", None) and key.key_id]
        return self.match_kid(usable, kid) or super().get_signing_key(kid)

    def fetch_data(self) -> Any:
        """The set as it was answered, within a time and a size. Whatever goes wrong is the server's trouble:
        PyJWKClientConnectionError. For a thread: it has an event loop of its own."""
        if self._failed_at is not None and time.monotonic() - self._failed_at < PAUSE_S:
            raise jwt.PyJWKClientConnectionError("The key server failed a moment ago.")
        try:
            answered = self._fetched()
        except (jwt.PyJWTError, httpx.HTTPError, OSError, ValueError, RecursionError) as error:
            self._failed_at = time.monotonic()
            raise jwt.PyJWKClientConnectionError(f"The keys cannot be fetched: {type(error).__name__}.") from None
        self._failed_at, self._last_successful_fetch = None, time.monotonic()
        return answered

    def _fetched(self) -> dict[str, Any]:
        asked = exchange_within(self.timeout, "GET", self.uri, headers=self.headers)
        answered = json.loads(asyncio.run(asked).raise_for_status().content)
        if not isinstance(answered, dict):
            raise ValueError("no key set")
        if self.jwk_set_cache is not None:
            self.jwk_set_cache.put(answered)
        return answered
