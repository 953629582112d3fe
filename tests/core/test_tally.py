"""What a job's row remembers of its failures: only those of a breaker's present generation may be given back."""

from __future__ import annotations

import pytest

from holdfast.core.breaker import BreakerState, Gate
from holdfast.core.budget import Standing, Tally, from_text, refunded, to_text, with_failure

CLOSED_4 = {"llm": BreakerState(gate=Gate.CLOSED, generation=4)}
OPEN_5 = {"llm": BreakerState(gate=Gate.OPEN, generation=5)}


@pytest.mark.spec("K4", "K9")
def test_faults_of_an_earlier_generation_are_not_given_back_with_those_of_a_later_one() -> None:
    earlier = with_failure(with_failure(Tally(), [Standing("llm", 3, True)]), [Standing("llm", 3, True)])
    assert earlier.faults == {"llm": (3, 2)}
    later = with_failure(earlier, [Standing("llm", 4, True)])
    assert later.faults == {"llm": (4, 1)}
    assert refunded(3, later, CLOSED_4) == (3, later), "the breaker that it met has not opened"
    assert refunded(3, later, OPEN_5)[0] == 2, "one fault was among those that opened it"


@pytest.mark.spec("K4")
def test_a_failure_that_is_nobodys_fault_is_never_given_back() -> None:
    mixed = with_failure(Tally(waits=3), [Standing("llm", 4, True), Standing("mail", 1, False)])
    assert mixed.faults == {} and mixed.waits == 0
    assert refunded(1, mixed, OPEN_5)[0] == 1


@pytest.mark.spec("K4")
def test_a_tally_is_written_and_read_as_it_was() -> None:
    tally = Tally(earlier=2, faults={"llm": (4, 1)}, waits=3, held_ms=5_000)
    assert to_text(tally) == '{"earlier":2,"faults":{"llm":[4,1]},"held_ms":5000,"waits":3}', "rows outlive a release"
    assert from_text(to_text(tally)) == tally and from_text(None) == Tally() and to_text(Tally()) is None
