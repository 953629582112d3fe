"""The clock and the dice: the only places where Holdfast reads time or luck. Tests bring their own."""

from __future__ import annotations

import random
import time
import uuid
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class Dice(Protocol):
    def draw(self) -> float:
        """A number in [0, 1)."""
        ...

    def bits(self, count: int) -> int: ...


class SystemDice:
    """Unpredictable luck, for ids and jitter."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()
        self._fast = random.Random()

    def draw(self) -> float:
        return self._fast.random()

    def bits(self, count: int) -> int:
        return self._random.getrandbits(count)


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
    value = (now_ms & ((1 << 48) - 1)) << 80 | 0x7 << 76 | dice.bits(12) << 64 | 0b10 << 62 | dice.bits(62)
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def uuid4(dice: Dice) -> str:
    """A random UUID, for contracts that ask for version 4."""
    return str(uuid.UUID(int=dice.bits(128), version=4))
