"""The keys of tokens, fetched from a URL of the settings. A key server that is away, slow or broken holds up nobody
whose key is known, and is asked again only after a pause, whoever makes up key ids meanwhile."""

from __future__ import annotations

import time
from typing import Any

import jwt

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
        """The set as it was answered. Whatever goes wrong is the server's trouble: PyJWKClientConnectionError."""
        if self._failed_at is not None and time.monotonic() - self._failed_at < PAUSE_S:
            raise jwt.PyJWKClientConnectionError("The key server failed a moment ago.")
        try:
            answered = super().fetch_data()
        except (jwt.PyJWTError, OSError, ValueError, RecursionError) as error:
            self._failed_at = time.monotonic()
            raise jwt.PyJWKClientConnectionError(f"The keys cannot be fetched: {type(error).__name__}.") from None
        self._failed_at = None
        return answered
