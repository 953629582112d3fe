"""A person on call, as the worlds simulate one: works dead letters step by step, clicks twice, answers doubts truly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from random import Random

from holdfast.kernel import operate
from holdfast.kernel.effects import answer
from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import Row
from holdfast_proof.provider_stub import Effect

NAME = "operator"
OPEN = ("open", "escalated", "triaged", "remediated")


class Operator:
    """`replays_max`: how often a job is replayed before it is given up. `puts_off`: how often a case waits for another
    round. `in_full`: how often a replay begins with the first stage."""

    def __init__(self, dice: Random, *, replays_max: int, puts_off: float = 0.5, in_full: float = 0.25) -> None:
        self._dice = dice
        self._replays_max = replays_max
        self._puts_off = puts_off
        self._in_full = in_full
        self._replays: dict[str, int] = {}

    async def work_cases(self, kernel: Kernel, letters: Iterable[tuple[str, str, str]]) -> None:
        """Triage, remediate and replay cases, given as id, job and state (twice, as an impatient finger does); give up
        what was replayed often enough."""
        for case, job, state in letters:
            if state not in OPEN or self._dice.random() < self._puts_off:
                continue
            if self._replays.get(job, 0) >= self._replays_max:
                await operate.resolve(kernel, case, without_replay="nothing more to try", actor=NAME)
                continue
            if state in ("open", "escalated"):
                await operate.triage(kernel, case, cause="transient", actor=NAME)
            if state != "remediated":
                await operate.remediate(kernel, case, evidence="looked again", actor=NAME)
            self._replays[job] = self._replays.get(job, 0) + 1
            full = self._dice.random() < self._in_full
            clicks = [operate.replay(kernel, case, actor=NAME, full=full) for _ in range(2)]
            await asyncio.gather(*clicks, return_exceptions=True)

    async def answer_doubts(
        self,
        kernel: Kernel,
        doubts: Iterable[Row],
        done: Callable[[str, str], Sequence[Effect]],
        unsent: Callable[[str], None] | None,
    ) -> None:
        """Say what a provider has `done` under a token. 'Not sent' is said, and `unsent` told, only if that is given:
        when nothing can be under way any more."""
        for doubt in doubts:
            effects = done(doubt["provider"], doubt["token"])
            if effects:
                await answer(kernel, doubt["key"], sent=True, provider_id=effects[0].provider_id, actor=NAME)
            elif unsent is not None:
                unsent(doubt["token"])
                await answer(kernel, doubt["key"], sent=False, provider_id=None, actor=NAME)
