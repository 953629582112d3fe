"""The clock and the dice: the only places where Holdfast reads time or luck. Tests bring their own."""

from __future__ import annotations

import os
import random
import time
import uuid
from typing import Protocol

TIME_MASK = (1 << 48) - 1
LUCK_MASK = (1 << 62) - 1


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
    luck = dice.bits(74)
    value = (now_ms & TIME_MASK) << 80 | 0x7 << 76 | (luck >> 62) << 64 | 0b10 << 62 | luck & LUCK_MASK
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def uuid4(dice: Dice) -> str:
    """A random UUID, for contracts that ask for version 4."""
    return str(uuid.UUID(int=dice.bits(128), version=4))
