"""Where `holdfast demo` plays, and what a system brings to it (`System.demo`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    import httpx
    from rich.console import Console

    from holdfast.system import OpenSystem

LOOK_S = 0.1
PATIENCE_S = 45.0


class DemoStanding(StrEnum):
    """How a piece of work stands, for the account."""

    UNFINISHED = "unfinished"
    DONE = "done"
    WITH_A_PERSON = "with a person"
    FAILED = "failed"


@dataclass(frozen=True)
class DemoAccepted:
    """Something a system promised to do: what, by which system, where to ask, and how to read the answer."""

    system: str
    what: str
    url: str
    standing: Callable[[dict[str, Any]], DemoStanding]


@dataclass(frozen=True)
class DemoStage:
    """Where the demo plays. `client` is signed in with every role."""

    folder: Path
    opened: Sequence[OpenSystem]
    client: httpx.AsyncClient
    console: Console

    def say(self, text: str) -> None:
        self.console.print(f"  {text}", highlight=False)

    def title(self, text: str) -> None:
        self.console.print(f"\n[bold]{text}[/]", highlight=False)

    async def ask(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        """What the HTTP interface answers; a refusal ends the demo."""
        answer = await self.client.request(method, path, **request)
        if answer.status_code >= 400:
            raise HoldfastError(f"The demo's request was refused with {answer.status_code}: {answer.text}")
        body: dict[str, Any] = answer.json()
        return body

    async def follow(self, accepted: DemoAccepted, outcome: Callable[[dict[str, Any]], str]) -> None:
        """Wait for a piece of work to end, and say in a line how it did."""

        async def ended() -> dict[str, Any] | None:
            body = await self.ask("GET", accepted.url)
            return None if accepted.standing(body) is DemoStanding.UNFINISHED else body

        body = await until(ended, f"{accepted.what} did not end")
        failed = accepted.standing(body) is DemoStanding.FAILED
        self.say(f"{accepted.system:13} {accepted.what:24} {'[red]failed[/]' if failed else outcome(body)}")


@dataclass(frozen=True)
class Demo:
    """What the demo does with a system: `play` asks for work over HTTP and follows it to its end. `settings` are those
    that it needs, given the demo's own folder; the caller's environment is not asked."""

    play: Callable[[DemoStage], Awaitable[list[DemoAccepted]]]
    settings: Callable[[Path], Mapping[str, str]] = lambda folder: {}


async def until(look: Callable[[], Awaitable[Any]], otherwise: str) -> Any:
    """Look until there is something; what does not come in time fails the demo."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if value := await look():
                    return value
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise HoldfastError(f"The demo waited {PATIENCE_S:.0f} s, but {otherwise}.") from None
