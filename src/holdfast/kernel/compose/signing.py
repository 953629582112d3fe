"""Addresses that let whoever has them answer one wait, and nothing else: signed, and only until they expire."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from urllib.parse import quote

from holdfast.errors import NotAllowed

PATH = "/api/callbacks"


@dataclass(frozen=True, slots=True)
class CallbackSigner:
    """Signs and checks callback URLs. Without a secret, or without knowing its own address, it makes none."""

    public_url: str | None = None
    secret: str | None = None

    def url(self, queue: str, key: str, expires_at: int) -> str:
        if not self.public_url or not self.secret:
            raise NotAllowed(
                "A callback URL needs HOLDFAST_PUBLIC_URL (where holdfast serve is reached) and "
                "HOLDFAST_CALLBACK_SECRET."
            )
        # The key is no part of the path: servers and proxies decode and tidy paths, and a key may hold any text.
        where = f"{self.public_url.rstrip('/')}{PATH}/{quote(queue, safe='')}"
        return f"{where}?key={quote(key, safe='')}&expires={expires_at}&signature={self._sign(queue, key, expires_at)}"

    def is_signed(self, queue: str, key: str, expires_at: int, signature: str) -> bool:
        if not self.secret:
            return False
        return hmac.compare_digest(self._sign(queue, key, expires_at).encode(), signature.encode())

    def _sign(self, queue: str, key: str, expires_at: int) -> str:
        assert self.secret is not None
        text = f"{expires_at}\n{queue}\n{key}"
        return hmac.new(self.secret.encode(), text.encode(), hashlib.sha256).hexdigest()
