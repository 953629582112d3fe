"""The clock and the dice: the only place where the kernel's wall time and luck come from. Tests bring their own."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Protocol

TIME_MASK = (1 << 48) - 1
LUCK_DIGITS = 19
LUCK_BITS = LUCK_DIGITS * 4
NUMBERS = [f"{number:03x}" for number in range(1 << 12)]
VARIANTS = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def correct_offset(known_ms: int, asked_at: int, answered_at: int, theirs: int) -> int:
    """The offset of a server's clock to ours, after it told its time: the nearest to the known one that the answer
    allows. It told its time at some moment between the question and the answer, and nobody knows at which: an answer
    that was slow because this process had no turn on its CPU moves nothing."""
    return min(max(known_ms, theirs - answered_at), theirs - asked_at)


class Dice(Protocol):
    def draw(self) -> float:
        """A number in [0, 1)."""
        ...

    def bits(self, count: int) -> int: ...


class SystemDice:
    """Unpredictable luck, for ids and jitter."""

    def __init__(self) -> None:
        self._fast = random.Random()

    def draw(self) -> float:
        return self._fast.random()

    def bits(self, count: int) -> int:
        size = (count + 7) // 8
        return int.from_bytes(os.urandom(size), "big") >> (size * 8 - count)


class SeededDice:
    """The same luck every time, for tests."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def draw(self) -> float:
        return self._random.random()

    def bits(self, count: int) -> int:
        return self._random.getrandbits(count)


def uuid7(now_ms: int, dice: Dice) -> str:
    """A UUID that sorts by time: fresh rows lie together in the primary key."""
    luck = f"{dice.bits(LUCK_BITS):0{LUCK_DIGITS}x}"
    return f"{_head(now_ms)}{luck[:3]}-{_tail(luck[3:])}"


def uuid7s(now_ms: Callable[[], int], dice: Dice, at_once: int = 64) -> Iterator[str]:
    """As many as are asked for, each after the one before, so that a bulk goes to the end of the primary key: those
    of one millisecond are numbered in the twelve bits that are luck in a single one. Luck is drawn for several."""
    then, head, numbers = -1, "", cycle(NUMBERS)
    digits = LUCK_DIGITS - 3
    while True:
        luck = f"{dice.bits(4 * digits * at_once):0{digits * at_once}x}"
        for n in range(0, len(luck), digits):
            now = now_ms()
            if now != then:
                then, head, numbers = now, _head(now), cycle(NUMBERS)
            yield f"{head}{next(numbers)}-{_tail(luck[n : n + digits])}"


def _head(now_ms: int) -> str:
    time = f"{now_ms & TIME_MASK:012x}"
    return f"{time[:8]}-{time[8:]}-7"


def _tail(luck: str) -> str:
    return f"{VARIANTS[luck[0]]}{luck[1:4]}-{luck[4:]}"


def uuid4(dice: Dice) -> str:
    """A random UUID, for contracts that ask for version 4."""
    luck = f"{dice.bits(128):032x}"
    return f"{luck[:8]}-{luck[8:12]}-4{luck[13:16]}-{VARIANTS[luck[16]]}{luck[17:20]}-{luck[20:]}"
