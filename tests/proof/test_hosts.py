"""The simulator's hosts: they die without a `finally`, stall, and keep clocks of their own."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from holdfast_proof.hosts import Host
from holdfast_proof.loop import SimLoop

HOUR_MS = 3_600_000


def run(main: Coroutine[Any, Any, Any], *, loop: SimLoop) -> Any:
    with loop:
        return loop.run(main, until_ms=HOUR_MS)


def test_children_belong_to_the_host_of_their_parent_and_keep_its_context() -> None:
    loop, seen = SimLoop(1), list[tuple[str, str]]()
    colour = contextvars.ContextVar("colour", default="none")

    async def child() -> None:
        await asyncio.sleep(0.01)
        seen.append((loop.current.label, colour.get()))

    async def parent(name: str) -> None:
        colour.set(name)
        async with asyncio.TaskGroup() as group:
            group.create_task(child())
        await asyncio.to_thread(lambda: seen.append((loop.current.label, colour.get())))

    async def main() -> None:
        await asyncio.gather(*(loop.host(n).spawn(parent(n)) for n in ("red", "blue")))

    run(main(), loop=loop)
    assert sorted(seen) == [("blue#1", "blue")] * 2 + [("red#1", "red")] * 2


def test_a_kill_runs_no_finally_no_except_and_no_callback() -> None:
    loop, ran = SimLoop(1), list[str]()

    async def victim(wait: Callable[[], Awaitable[object]]) -> None:
        asyncio.get_running_loop().call_later(0.2, ran.append, "timer")
        try:
            await wait()
            ran.append("continued")
        except BaseException:
            ran.append("except")
            raise
        finally:
            ran.append("finally")

    async def main() -> None:
        host = loop.host("victim")
        host.spawn(victim(lambda: asyncio.sleep(0.2)))
        # Nothing but its own frame refers to this event: without a graveyard the collector would close the task.
        host.spawn(victim(lambda: asyncio.Event().wait()))
        await asyncio.sleep(0.1)
        host.kill()
        gc.collect()
        await asyncio.sleep(10)
        gc.collect()

    loop.run(main(), until_ms=HOUR_MS)
    assert ran == [] and loop.kills == 1
    loop.close()


def test_what_a_dead_coroutine_does_when_freed_reaches_nothing() -> None:
    loop, reached = SimLoop(1), list[str]()

    async def victim() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await loop.gate()
            reached.append("the world")

    async def stubborn() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            asyncio.create_task(victim())  # noqa: RUF006
            reached.append("a new task")

    async def main() -> None:
        loop.host("a").spawn(victim())
        loop.host("a").spawn(stubborn())
        loop.host("still-alive").spawn(victim())
        await asyncio.sleep(1)
        loop.host("a").kill()

    run(main(), loop=loop)
    assert reached == [] and loop.failures == []


def test_dying_at_a_failpoint_stops_there() -> None:
    loop, ran = SimLoop(1), list[str]()

    async def victim() -> None:
        try:
            ran.append("before")
            await loop.die()
            ran.append("after")
        finally:
            ran.append("finally")

    async def main() -> None:
        loop.host("v").spawn(victim())
        await asyncio.sleep(1)
        ran.append(loop.host("v").label)

    loop.run(main(), until_ms=HOUR_MS)
    assert ran == ["before", "v#2"]
    loop.close()


def test_a_host_killed_in_its_own_step_stops_at_its_next_await() -> None:
    loop, ran = SimLoop(1), list[str]()

    async def victim() -> None:
        loop.current.kill()
        ran.append("rest of the step")
        await loop.gate()
        ran.append("world touched")

    async def main() -> None:
        loop.host("v").spawn(victim())
        await asyncio.sleep(1)

    run(main(), loop=loop)
    assert ran == ["rest of the step"]


def test_a_future_of_another_host_does_not_wake_the_dead() -> None:
    loop, ran = SimLoop(1), list[str]()

    async def wait(name: str, future: asyncio.Future[str]) -> None:
        ran.append(f"{name} {await future}")

    async def main() -> None:
        future: asyncio.Future[str] = loop.create_future()
        for name in ("dead", "alive"):
            loop.host(name).spawn(wait(name, future))
        await asyncio.sleep(1)
        loop.host("dead").kill()
        future.set_result("woke")
        await asyncio.sleep(1)

    run(main(), loop=loop)
    assert ran == ["alive woke"]


def test_a_stalled_host_runs_late_and_the_others_do_not() -> None:
    loop, ran = SimLoop(1), list[tuple[str, int]]()

    async def tick(name: str) -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            ran.append((name, loop.now_ms))

    async def main() -> None:
        tasks = [loop.host(name).spawn(tick(name)) for name in ("slow", "fast")]
        await asyncio.sleep(0.5)
        loop.host("slow").stall(5_000)
        await asyncio.gather(*tasks)

    run(main(), loop=loop)
    assert [at for name, at in ran if name == "fast"] == [1000, 2000, 3000]
    assert [at for name, at in ran if name == "slow"] == [5500, 6500, 7500]
    assert loop.stalls == 1


def test_a_host_that_dozes_stops_at_that_await() -> None:
    loop = SimLoop(1)

    async def doze() -> int:
        await loop.doze(700)
        return loop.now_ms

    async def main() -> int:
        return await loop.host("d").spawn(doze())

    assert run(main(), loop=loop) == 700


def test_an_injector_may_kill_before_any_step() -> None:
    """Over all steps of a victim, killing before step k leaves exactly k - 1 of them done."""

    def steps_done(kill_at: int) -> list[int]:
        loop, done, count = SimLoop(1), list[int](), 0

        def inject(host: Host) -> None:
            nonlocal count
            count += 1
            if count == kill_at:
                host.kill()

        async def victim() -> None:
            for n in range(4):
                done.append(n)
                await asyncio.sleep(0)

        async def main() -> None:
            loop.on_step = inject
            loop.host("v").spawn(victim())
            await asyncio.sleep(1)

        run(main(), loop=loop)
        return done

    assert [len(steps_done(kill_at)) for kill_at in (1, 2, 3, 4, 5)] == [0, 1, 2, 3, 4]


def test_each_host_has_a_clock_of_its_own() -> None:
    with SimLoop(1, epoch_ms=1_000_000) as loop:
        assert loop.host("early", skew_ms=-250).wall_ms == 999_750
        assert loop.host("exact").wall_ms == 1_000_000
