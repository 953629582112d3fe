"""A provider that fails in every way a provider may, and writes down what it was asked and what it did.

It lives in the world: a request that has left its caller is worked on although the caller times out or dies, and
its effect may land long after. What a call can meet, each with a probability:

    unreachable    no byte was sent                 no effect, not ambiguous
    limited        429 with Retry-After             no effect; every call until then is refused the same way
    refused        422                              no effect, final
    error_before   503 instead of the effect        ambiguous to the caller
    error_after    500 after the effect             ambiguous
    silent         no answer; the effect lands up to `late_ms_max` later, or never        ambiguous

`Dedup` says what a repeated token does: TOKEN returns the first answer within the retention, LOOKUP acts again
but can be asked, NEITHER acts again and cannot be asked.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from holdfast.core.failure import Category
from holdfast.errors import CallError
from holdfast_proof.hosts import Host
from holdfast_proof.loop import SimLoop


class Dedup(StrEnum):
    """What the provider offers against doing a thing twice."""

    TOKEN = "token"
    LOOKUP = "lookup"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class ProviderFaults:
    """How often what goes wrong, per call. The default is a good day."""

    unreachable: float = 0.0
    limited: float = 0.0
    retry_after_s_max: int = 60
    refused: float = 0.0
    error_before: float = 0.0
    error_after: float = 0.0
    silent: float = 0.0
    silent_lands: float = 0.5
    late_ms_max: int = 60_000
    latency_ms_max: int = 200


@dataclass(frozen=True, slots=True)
class ProviderEvent:
    """One line of the provider's log. `call` numbers requests and joins their lines.

    `kind`: send or lookup (asked); effect or deduplicated (done); answer (`detail` is the answer's kind, and
    `retry_at_ms` the end of a Retry-After, in the loop's time); answer_unheard (nobody was left to hear it); silent
    (there will be no answer); timeout (the client gave up).
    """

    at_ms: int
    kind: str
    call: int
    host: str
    token: str
    detail: str = ""
    retry_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """A thing done in the world: it cannot be undone, and one too many is a violation."""

    at_ms: int
    token: str
    provider_id: str
    payload: object
    call: int
    host: str


@dataclass(frozen=True, slots=True)
class _StubRequest:
    kind: str
    call: int
    host: Host
    token: str
    payload: object
    answer: asyncio.Future[str | CallError | None]


class ProviderStub:
    """One provider. `faults` may be replaced at any time; `log` and `effects` are the ground truth."""

    def __init__(
        self,
        loop: SimLoop,
        dice: Random,
        *,
        name: str = "provider",
        dedup: Dedup = Dedup.TOKEN,
        faults: ProviderFaults | None = None,
        retention_ms: int = 24 * 3_600_000,
        timeout_ms: int = 10_000,
    ) -> None:
        self.loop = loop
        self.dice = dice
        self.name = name
        self.dedup = dedup
        self.faults = faults or ProviderFaults()
        self.retention_ms = retention_ms
        self.timeout_ms = timeout_ms
        self.log: list[ProviderEvent] = []
        self.effects: list[Effect] = []
        self._first: dict[str, Effect] = {}
        self._limited_until_ms = 0
        self.on_limited: Callable[[], None] | None = None
        """Called in the very moment in which somebody is told to come back later."""
        self._calls = itertools.count(1)

    async def send(self, token: str, payload: object) -> str:
        """Do the thing and return the provider's id for it, or raise a CallError that says what is known."""
        provider_id = await self._call("send", token, payload)
        assert provider_id is not None
        return provider_id

    async def lookup(self, token: str) -> str | None:
        """The provider's id of what was done under `token`, or None if nothing was, as far as it knows yet."""
        if self.dedup is Dedup.NEITHER:
            raise CallError.of(Category.BUG, "LOOKUP_UNSUPPORTED", f"{self.name} cannot look up.")
        return await self._call("lookup", token, None)

    async def has_id(self, provider_id: str) -> bool:
        """Whether it has done something under an id of its own."""
        return await self._call("lookup", provider_id, None) is not None

    def effects_of(self, token: str) -> list[Effect]:
        return [effect for effect in self.effects if effect.token == token]

    async def _call(self, kind: str, token: str, payload: object) -> str | None:
        await self.loop.gate()
        answer: asyncio.Future[str | CallError | None] = self.loop.create_future()
        request = _StubRequest(kind, next(self._calls), self.loop.current, token, payload, answer)
        self._note(request, kind)
        self.loop.world.after_ms(self._latency_ms(), self._arrive, request)
        try:
            async with asyncio.timeout(self.timeout_ms / 1000):
                result = await answer
        except TimeoutError:
            self._note(request, "timeout")
            raise self._network("NETWORK_TIMEOUT", "did not answer in time", ambiguous=True) from None
        if isinstance(result, CallError):
            raise result
        return result

    def _arrive(self, request: _StubRequest) -> None:
        if self.loop.now_ms < self._limited_until_ms:
            self._limit(request)
            return
        fate = self._fate()
        if fate == "unreachable":
            self._reply(request, fate, self._network("NETWORK_UNREACHABLE", "is unreachable", ambiguous=False))
        elif fate == "limited":
            self._limited_until_ms = self.loop.now_ms + 1000 * self.dice.randint(1, self.faults.retry_after_s_max)
            self._limit(request)
        elif fate == "refused":
            self._reply(request, fate, self._status(422))
        elif fate == "error_before":
            self._reply(request, fate, self._status(503))
        elif fate == "error_after":
            self._act(request)
            self._reply(request, fate, self._status(500))
        elif fate == "silent":
            self._fall_silent(request)
        else:
            self._reply(request, "ok", self._act(request))

    def _fate(self) -> str:
        """At most one fault per call, drawn once: the probabilities may be added up."""
        drawn = self.dice.random()
        for fate in ("unreachable", "limited", "refused", "error_before", "error_after", "silent"):
            drawn -= getattr(self.faults, fate)
            if drawn < 0:
                return fate
        return "ok"

    def _act(self, request: _StubRequest) -> str | None:
        """Do what was asked, now; return the provider's id of it."""
        first = self._first.get(request.token)
        if request.kind == "lookup":
            return first.provider_id if first else self._known_id(request.token)
        now_ms = self.loop.now_ms
        remembered = first is not None and now_ms - first.at_ms < self.retention_ms
        if first is not None and remembered and self.dedup is Dedup.TOKEN:
            self._note(request, "deduplicated", first.provider_id)
            return first.provider_id
        provider_id = f"{self.name}-{len(self.effects) + 1}"
        effect = Effect(now_ms, request.token, provider_id, request.payload, request.call, request.host.label)
        self.effects.append(effect)
        if not remembered:
            self._first[request.token] = effect
        self._note(request, "effect", provider_id)
        return provider_id

    def _known_id(self, provider_id: str) -> str | None:
        return provider_id if any(effect.provider_id == provider_id for effect in self.effects) else None

    def _fall_silent(self, request: _StubRequest) -> None:
        lands = self.dice.random() < self.faults.silent_lands
        self._note(request, "silent")
        if lands and request.kind == "send":
            self.loop.world.after_ms(self.dice.randint(0, self.faults.late_ms_max), self._act, request)

    def _limit(self, request: _StubRequest) -> None:
        retry_at_ms = self._limited_until_ms
        wait_s = -((self.loop.now_ms - retry_at_ms) // 1000)
        error = self._status(429, {"retry-after": str(wait_s)})
        self._reply(request, "limited", error, retry_at_ms)

    def _reply(
        self, request: _StubRequest, detail: str, result: str | CallError | None, retry_at_ms: int | None = None
    ) -> None:
        self.loop.world.after_ms(self._latency_ms(), self._replied, request, detail, result, retry_at_ms)

    def _replied(
        self, request: _StubRequest, detail: str, result: str | CallError | None, retry_at_ms: int | None
    ) -> None:
        heard = not request.answer.done() and not request.host.dead
        if heard and detail == "limited" and self.on_limited is not None:
            self.on_limited()
        self._note(request, "answer" if heard else "answer_unheard", detail, retry_at_ms)
        if not request.answer.done():
            request.answer.set_result(result)

    def _status(self, status: int, headers: dict[str, str] | None = None) -> CallError:
        now_ms = self.loop.epoch_ms + self.loop.now_ms
        return CallError.from_status(status, f"{self.name} answered {status}.", headers or {}, now_ms=now_ms)

    def _network(self, error_class: str, what: str, *, ambiguous: bool) -> CallError:
        message = f"{self.name} {what}."
        return CallError.of(Category.NETWORK, error_class, message, ambiguous=ambiguous, faults=True)

    def _latency_ms(self) -> int:
        return self.dice.randint(1, max(1, self.faults.latency_ms_max))

    def _note(self, request: _StubRequest, kind: str, detail: str = "", retry_at_ms: int | None = None) -> None:
        now_ms, host = self.loop.now_ms, request.host.label
        self.log.append(ProviderEvent(now_ms, kind, request.call, host, request.token, detail, retry_at_ms))
        self.loop.record(f"{self.name} {kind} {request.call} {request.token} {host} {detail}")
