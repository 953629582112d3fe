"""A simulated HTTP connection: the client is the production one, its other end a function that fails as a wire does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx

from holdfast.errors import CallError

Answer = Callable[[httpx.Request], Awaitable[httpx.Response]]
Advice = Callable[[], int]


def client(answer: Answer, advice_s: Advice = lambda: 0) -> httpx.AsyncClient:
    """A client whose requests `answer` answers. `advice_s` is the Retry-After, if any, of an answer 503."""
    return httpx.AsyncClient(transport=_Wire(answer, advice_s), trust_env=False, follow_redirects=False)


class _Wire(httpx.AsyncBaseTransport):
    def __init__(self, answer: Answer, advice_s: Advice) -> None:
        self._answer = answer
        self._advice_s = advice_s

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            return await self._answer(request)
        except CallError as error:
            return self._failed(error, request)

    def _failed(self, error: CallError, request: httpx.Request) -> httpx.Response:
        """What a stub's failure looks like on the wire."""
        why = error.failure
        if why.error_class == "NETWORK_TIMEOUT":
            raise httpx.ReadTimeout("no answer", request=request)
        if why.status is None:
            raise httpx.ConnectError("nobody there", request=request)
        wait_s = -(-(why.retry_after_ms or 0) // 1_000)
        if why.status == 503:
            wait_s = self._advice_s() or wait_s
        return httpx.Response(why.status, headers={"retry-after": str(wait_s)} if wait_s else {}, json={})
