"""Workers that call, answer, answer late, die and report twice, in any order, against one shared breaker."""

from __future__ import annotations

import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.core.breaker import (
    Admitted,
    BreakerPolicy,
    BreakerState,
    Gate,
    admit,
    force_close,
    force_open,
    from_row,
    record,
    release,
    tick,
    to_row,
    trial_room,
)

POLICY = BreakerPolicy(window=6, min_calls=4, cooldown_s=10, cooldown_max_s=40, trials=2, trial_lease_s=5)


class Workers(RuleBasedStateMachine):
    """Keeps its own books: the outcomes since the last close, the live permits, when trials may begin."""

    def __init__(self) -> None:
        super().__init__()
        self.state = BreakerState()
        self.now = 0
        self.serial = 0
        self.under_way: list[tuple[str, Admitted]] = []
        self.seen = ""
        self.live: dict[str, int] = {}
        self.succeeded = 0

    def put(self, after: BreakerState) -> None:
        """Store the new state as the kernel does, and check what every change must keep."""
        before, self.state = self.state, from_row(json.loads(json.dumps(to_row(after))))
        assert (after.generation == before.generation) == (after.gate is before.gate or after is before)
        assert after.generation in (before.generation, before.generation + 1)
        if after.generation != before.generation:
            self.seen, self.live, self.succeeded = "", {}, 0

    @rule(seconds=st.integers(0, 12))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds * 1_000
        if self.state.gate is Gate.HALF_OPEN:
            self.live = {permit: until for permit, until in self.live.items() if until > self.now}

    @rule()
    def a_worker_asks(self) -> None:
        self.serial += 1
        permit = f"p{self.serial}"
        room = trial_room(self.state, POLICY, self.now)
        before = self.state
        after, admission = admit(before, POLICY, self.now, permit)
        if before.gate is Gate.OPEN and isinstance(admission, Admitted):
            assert not before.forced and before.open_until is not None and self.now >= before.open_until
        if before.gate is Gate.CLOSED:
            assert after is before and admission == Admitted(before.generation, trial=False)
        else:
            assert isinstance(admission, Admitted) == (room > 0)
        self.put(after)
        if isinstance(admission, Admitted):
            self.under_way.append((permit, admission))
            if admission.trial:
                self.live[permit] = self.now + 5_000

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), ok=st.booleans(), again=st.booleans())
    def a_call_ends(self, data: st.DataObject, ok: bool, again: bool) -> None:
        call = data.draw(st.sampled_from(self.under_way))
        if not again:  # else it will be reported once more: the first report's commit was in doubt
            self.under_way.remove(call)
        permit, admission = call
        before = self.state
        after = record(before, POLICY, self.now, admission.generation, permit, ok)
        if admission.generation != before.generation:
            assert after is before
        elif before.gate is Gate.CLOSED:
            self.seen = (self.seen + ("0" if ok else "1"))[-6:]
            assert (after.gate is Gate.OPEN) == (len(self.seen) >= 4 and self.seen.count("1") * 2 > len(self.seen))
        elif not ok:
            assert after.gate is Gate.OPEN and after.openings == before.openings + 1
        elif any(held == permit for held, _ in before.permits):
            self.live.pop(permit, None)
            self.succeeded += 1
            assert (after.gate is Gate.CLOSED) == (self.succeeded == 2)
        else:
            assert after is before
        self.put(after)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def a_call_ends_without_a_verdict(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.under_way))
        self.under_way.remove(call)
        permit, admission = call
        after = release(self.state, admission.generation, permit)
        assert (after.gate, after.window, after.trial_successes) == (
            self.state.gate,
            self.state.window,
            self.state.trial_successes,
        )
        if admission.generation == self.state.generation:
            self.live.pop(permit, None)
        self.put(after)

    @precondition(lambda self: self.under_way)
    @rule()
    def a_worker_dies(self) -> None:
        self.under_way.pop()

    @rule()
    def the_sweep_ticks(self) -> None:
        self.put(tick(self.state, POLICY, self.now))
        assert {held for held, _ in self.state.permits} == set(self.live)

    @rule(close=st.booleans())
    @precondition(lambda self: self.serial % 7 == 3)
    def a_person_steps_in(self, close: bool) -> None:
        if self.state.forced or close:
            self.state = force_close(self.state, self.now)
        else:
            self.state = force_open(self.state, self.now, "maintenance")
        self.seen, self.live, self.succeeded = "", {}, 0

    @invariant()
    def trials_are_bounded(self) -> None:
        assert len(self.state.permits) + self.state.trial_successes <= 2
        assert len(self.live) + self.succeeded <= 2

    @invariant()
    def permits_belong_to_the_half_open_gate(self) -> None:
        assert not self.state.permits or self.state.gate is Gate.HALF_OPEN

    @invariant()
    def the_window_is_what_was_seen(self) -> None:
        if self.state.gate is Gate.CLOSED:
            assert self.state.window == self.seen

    @invariant()
    def it_recovers_when_the_provider_does(self) -> None:
        """From any state nobody forced, enough time and good answers close the gate: nothing leaks for ever."""
        state, now = self.state, self.now
        if state.forced:
            return
        for step in range(12):
            now += 40_000
            state, admission = admit(state, POLICY, now, f"good{step}")
            assert isinstance(admission, Admitted)
            state = record(state, POLICY, now, admission.generation, f"good{step}", ok=True)
        assert state.gate is Gate.CLOSED


TestWorkers = pytest.mark.slow(pytest.mark.spec("K9")(Workers.TestCase))
TestWorkers.settings = settings(max_examples=80, stateful_step_count=60, deadline=None)
