"""A post office of every class, for the tests of the effect ledger."""

from __future__ import annotations

from typing import Any

from holdfast import App, CallError, Context, Job, Provider, Retry, stage
from holdfast.core.provider import EffectClass
from holdfast.testing import World
from tests.kernel.places import Deploy, rows

CLASSES: list[EffectClass] = ["token", "lookup", "neither"]
KEY = "post:/letter/ann"
PATIENT = Retry(attempts=5, base_s=1, jitter="none")


class Post:
    """A provider of one class. It remembers what it did, as real ones do."""

    def __init__(self, effects: EffectClass, *, lookup: bool | None = None, ids: bool = False) -> None:
        self.box: dict[str, list[str]] = {}
        self.tokens: list[str] = []
        self.lookups = 0
        self.refuses: list[CallError] = []
        can_look = effects == "lookup" if lookup is None else lookup
        self.asked_ids: list[str] = []
        self.provider = Provider(
            "post",
            effects=effects,
            timeout_s=10,
            late_bound_s=50,
            retention_s=86_400,
            lookup=self.find if can_look else None,
            has_id=self.has_id if ids else None,
        )
        self.app = App("post")
        post = self

        @self.app.job()
        class Send(Job[str]):
            @stage(provider=post.provider, retry=PATIENT)
            async def send(self, ctx: Context, to: str) -> str:
                return await ctx.effect(("letter", to), send=lambda token: post.send(to, token))

        self.job = Send

    async def send(self, to: str, token: str) -> str:
        self.tokens.append(token)
        if self.refuses:
            raise self.refuses.pop(0)
        if self.provider.effects == "token" and token in self.box:
            return f"p-{token[:6]}"
        self.box.setdefault(token, []).append(to)
        return f"p-{token[:6]}"

    async def find(self, token: str) -> str | None:
        self.lookups += 1
        return f"p-{token[:6]}" if token in self.box else None

    async def has_id(self, provider_id: str) -> bool:
        self.asked_ids.append(provider_id)
        return provider_id in {f"p-{token[:6]}" for token in self.box}

    @property
    def delivered(self) -> int:
        return sum(map(len, self.box.values()))


async def row_of(world: World) -> dict[str, Any]:
    (row,) = await rows(world.kernel.store, "SELECT * FROM holdfast_effects")
    return row


async def started(deploy: Deploy, post: Post) -> tuple[World, str]:
    world = await deploy(post.app)
    return world, await world.enqueue(post.job, "ann")
