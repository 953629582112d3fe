"""The simulator's loop: virtual time, asyncio as it is known, one history per seed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from holdfast_proof.loop import SimLoop
from holdfast_proof.steps import Deadlock, OutOfSteps, OutOfTime, StepFailed

HOUR_MS = 3_600_000


def run(main: Coroutine[Any, Any, Any], *, loop: SimLoop) -> Any:
    with loop:
        return loop.run(main, until_ms=HOUR_MS)


def test_time_jumps_to_the_next_timer_and_timers_fire_in_order() -> None:
    loop, fired = SimLoop(1), list[tuple[int, str]]()

    async def main() -> None:
        for delay_s, name in ((30.0, "c"), (0.5, "a"), (1.25, "b")):
            loop.call_later(delay_s, lambda name=name: fired.append((loop.now_ms, name)))
        loop.call_later(2, fired.append, (0, "never")).cancel()
        await asyncio.sleep(60)

    run(main(), loop=loop)
    assert fired == [(500, "a"), (1250, "b"), (30_000, "c")]
    assert loop.now_ms == 60_000 and loop.time() == 60.0


def test_float_noise_costs_no_millisecond() -> None:
    loop = SimLoop(1)

    async def main() -> None:
        for _ in range(1000):
            await asyncio.sleep(0.1)

    run(main(), loop=loop)
    assert loop.now_ms == 100_000


def test_the_tools_of_asyncio_work() -> None:
    loop, seen = SimLoop(3), list[object]()

    async def child(value: int) -> int:
        await asyncio.sleep(value / 1000)
        return value

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(child(n)) for n in range(5)]
        seen.append([task.result() for task in tasks])
        seen.append(await asyncio.gather(*(child(n) for n in range(3))))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(child(5000), 1)
        seen.append(await asyncio.wait_for(child(7), 1))
        queue, semaphore, lock = asyncio.Queue[int](2), asyncio.Semaphore(2), asyncio.Lock()

        async def produce() -> None:
            for n in range(6):
                async with semaphore, lock:
                    await queue.put(n)

        producer = asyncio.create_task(produce())
        seen.append([await queue.get() for _ in range(6)])
        await producer
        seen.append(await asyncio.to_thread(lambda: "inline"))
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, lambda: 1 // 0)

    run(main(), loop=loop)
    assert seen == [[0, 1, 2, 3, 4], [0, 1, 2], 7, [0, 1, 2, 3, 4, 5], "inline"]


def test_a_failing_child_cancels_its_task_group() -> None:
    loop, ended = SimLoop(1), list[int]()

    async def sleeper(n: int) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append(n)

    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError("child")

    async def main() -> None:
        with pytest.raises(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                for n in range(5):
                    group.create_task(sleeper(n))
                group.create_task(fail())

    run(main(), loop=loop)
    assert sorted(ended) == [0, 1, 2, 3, 4] and loop.now_ms == 1000


def test_a_dropped_async_generator_is_closed_by_its_host() -> None:
    loop, closed = SimLoop(1), list[str]()

    async def numbers() -> AsyncIterator[int]:
        try:
            for n in range(10):
                await asyncio.sleep(0.001)
                yield n
        finally:
            await asyncio.sleep(0.001)
            closed.append(loop.current.name)

    async def take_one() -> None:
        async for _ in numbers():
            break

    async def main() -> None:
        await loop.host("a").spawn(take_one())
        await asyncio.sleep(1)

    run(main(), loop=loop)
    assert closed == ["a"]


def test_sockets_threads_and_names_are_refused() -> None:
    loop = SimLoop(1)

    async def main() -> None:
        with pytest.raises(NotImplementedError):
            await asyncio.open_connection("127.0.0.1", 9)
        with pytest.raises(NotImplementedError):
            await loop.getaddrinfo("localhost", 80)
        with pytest.raises(NotImplementedError):
            await asyncio.create_subprocess_exec("true")

    run(main(), loop=loop)


def test_a_deadlock_names_who_waits_where() -> None:
    loop = SimLoop(42)

    async def wait_for_nothing() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await loop.host("stuck").spawn(wait_for_nothing(), name="hopeful")

    with loop, pytest.raises(Deadlock) as caught:
        loop.run(main(), until_ms=HOUR_MS)
    text = str(caught.value)
    assert "seed 42" in text and "stuck#1" in text and "hopeful" in text and "Event.wait" in text
    assert "waits for task hopeful" in text


def test_a_run_that_does_not_end_is_ended() -> None:
    async def sleep_for_ever() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(10)

    async def spin() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with SimLoop(1) as loop, pytest.raises(OutOfTime):
        loop.run(sleep_for_ever(), until_ms=95_000)
    assert loop.now_ms == 95_000
    with SimLoop(1) as loop, pytest.raises(OutOfSteps):
        loop.run(spin(), until_ms=1000, steps_max=5000)


def test_a_callback_that_raises_fails_the_run() -> None:
    loop = SimLoop(1)

    async def main() -> None:
        loop.host("h").after_ms(5, lambda: 1 // 0)
        await asyncio.sleep(1)

    with pytest.raises(StepFailed) as caught:
        run(main(), loop=loop)
    (failure,) = caught.value.failures
    assert (failure.at_ms, failure.host) == (5, "h#1") and isinstance(failure.error, ZeroDivisionError)


def test_a_task_that_fails_unseen_fails_the_run_and_one_that_is_awaited_does_not() -> None:
    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError("unseen")

    async def main(loop: SimLoop, *, look: bool) -> None:
        task = loop.host("h").spawn(fail(), name="crasher")
        if look:
            with pytest.raises(ValueError):
                await task
        del task
        await asyncio.sleep(5)

    loop = SimLoop(1)
    with pytest.raises(StepFailed, match="crasher"):
        run(main(loop, look=False), loop=loop)
    loop = SimLoop(1)
    run(main(loop, look=True), loop=loop)


def test_what_main_raises_is_raised() -> None:
    async def main() -> None:
        await asyncio.sleep(1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(main(), loop=SimLoop(1))


def test_the_order_of_ready_steps_follows_the_seed() -> None:
    def order(seed: int) -> tuple[int, ...]:
        loop, ran = SimLoop(seed), list[int]()

        async def main() -> None:
            for n in range(8):
                loop.call_soon(ran.append, n)
            await asyncio.sleep(1)

        run(main(), loop=loop)
        return tuple(ran)

    orders = {order(seed) for seed in range(50)}
    assert len(orders) > 45
    assert all(order(seed) == order(seed) for seed in range(5))


WORLD = """
import asyncio, sys
from holdfast_proof.broker import Broker, Faults
from holdfast_proof.loop import SimLoop
from holdfast_proof.provider_stub import ProviderFaults, ProviderStub
from holdfast.errors import CallError, TransportError

async def main(loop, broker, provider):
    dice = loop.stream("chaos")
    def inject(host):
        drawn = dice.random()
        if drawn < 0.01: host.kill()
        elif drawn < 0.02: host.stall(dice.randint(1, 3000))
    async def handle(delivery):
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(5))
                for n in range(4):
                    group.create_task(provider.send(f"{delivery.message_id}/{n}", b""))
            await delivery.ack()
        except* (CallError, TransportError):
            pass
    async def publish(name):
        for n in range(200):
            await asyncio.sleep(0.2)
            try:
                await asyncio.wait_for(broker.publish("jobs", f"{name}-{n}", b"", {}), 1)
            except (TransportError, TimeoutError):
                await asyncio.sleep(0.5)
    loop.on_step = inject
    broker.declare("jobs")
    started = []
    for round in range(20):
        for n in range(3):
            host = loop.host(f"worker-{n}")
            if host.label not in started:
                started.append(host.label)
                broker.consume("jobs", host, handle, prefetch=3)
                host.spawn(publish(host.label))
        await asyncio.sleep(10)

seed = int(sys.argv[1])
with SimLoop(seed) as loop:
    broker = Broker(loop, loop.stream("broker"), Faults(refused=.05, confirm_lost=.05, confirm_never=.05,
        duplicate=.1, delayed=.1, reordered=.2, connection_lost=.02, ack_lost=.05))
    provider = ProviderStub(loop, loop.stream("provider"), faults=ProviderFaults(unreachable=.03, limited=.02,
        refused=.02, error_before=.05, error_after=.05, silent=.05))
    loop.run(main(loop, broker, provider), until_ms=1_000_000)
    assert loop.kills > 5 and loop.stalls > 5 and len(provider.effects) > 50, (loop.kills, loop.stalls)
    print(loop.steps, loop.trace_hash)
"""


def history(seed: int, hash_seed: str, padding: str) -> str:
    """The trace hash of one chaotic run in a process of its own, with addresses and hashes of its own."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PADDING": padding}
    command = [sys.executable, "-c", f"junk = [object() for _ in range({len(padding)})]\n" + WORLD, str(seed)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
def test_one_seed_is_one_history_in_every_process() -> None:
    first = [history(seed, "1", "") for seed in (1, 2)]
    second = [history(seed, "4242", "x" * 997) for seed in (1, 2)]
    assert first == second
    assert first[0] != first[1]


def test_cancellation_order_of_a_task_group_does_not_depend_on_addresses() -> None:
    """Seventy tasks in one set: ordered by address, two runs would hardly agree."""

    def trace() -> str:
        loop = SimLoop(5)

        async def main() -> None:
            with pytest.raises(ExceptionGroup):
                async with asyncio.TaskGroup() as group:
                    for _ in range(70):
                        group.create_task(asyncio.sleep(100))
                    await asyncio.sleep(1)
                    raise ValueError("stop")

        run(main(), loop=loop)
        return loop.trace_hash

    ballast = []
    hashes = set()
    for n in range(4):
        hashes.add(trace())
        ballast.append([object() for _ in range(n * 100 + 1)])
    assert len(hashes) == 1
