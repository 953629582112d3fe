"""How much one caller may ask of a process: at the limit, over it, and under very many names."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from holdfast.http import buckets
from holdfast.http.buckets import BURST_S, Buckets, Callers, address_of
from holdfast.http.problem import Problem
from holdfast.settings import Settings, read

pytestmark = pytest.mark.spec("K30")


def callers(**given: str) -> Callers:
    return Callers(read(Settings, {f"HOLDFAST_{name.upper()}": value for name, value in given.items()}), lambda: 1.0)


def caller(sub: str) -> dict[str, object]:
    return {"type": "http", buckets.CALLER: sub, "client": ("192.0.2.7", 1)}


def test_a_user_has_as_many_streams_as_the_setting_says_and_all_have_no_more_than_the_process() -> None:
    streams = callers(streams_per_user="2", streams_max="3")
    with ExitStack() as held:
        for who in ("ann", "ann", "ben"):
            held.enter_context(streams.streaming(caller(who)))
        for who, words in (("ann", "You have 2 event streams"), ("ben", "All places"), ("cy", "All places")):
            with pytest.raises(Problem, match=words) as refused:
                held.enter_context(streams.streaming(caller(who)))
            assert (refused.value.status, refused.value.headers["Retry-After"]) == (429, "10")
    with streams.streaming(caller("ann")), streams.streaming(caller("ann")):
        pass  # what was closed is free again


def test_bodies_hold_so_much_memory_of_one_caller_and_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "HELD_PER_CALLER", 10)
    monkeypatch.setattr(buckets, "HELD_MAX", 15)
    held = callers()
    assert held.hold(caller("ann"), 4, own=0) == "ann"
    assert held.hold(caller("ann"), 6, own=0) == "ann"
    with pytest.raises(Problem, match="too much at once"):
        held.hold(caller("ann"), 1, own=4)
    held.hold(caller("ben"), 5, own=0)
    with pytest.raises(Problem, match="Too much is sent here"):
        held.hold(caller("ben"), 1, own=5)
    held.release("ann", 10)
    held.hold(caller("ben"), 50, own=5)  # one alone may be as large as its route takes
    held.release("ben", 55)
    assert held.hold({"type": "http", "client": ("192.0.2.7", 1)}, 10, own=0) == "192.0.2.7"


def test_who_is_known_by_name_is_not_charged_to_the_address() -> None:
    counted = callers(requests_per_address_sec="0.1")
    counted.charge_address(caller("ann"))
    counted.check_address(caller("ann"))
    counted.charge_address({"type": "http", "client": ("192.0.2.7", 1)})
    with pytest.raises(Problem, match="without a valid token"):
        counted.check_address({"type": "http", "client": ("192.0.2.7", 2)})
    counted.check_address({"type": "http", "client": ("192.0.2.8", 2)})


@pytest.mark.parametrize(
    ("client", "address"),
    [
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::"),
        ("2001:db8:1:2:bbbb::9", "2001:db8:1:2::"),
        ("2001:db8:1:3::1", "2001:db8:1:3::"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("192.0.2.7", "192.0.2.7"),
        ("_hidden", ""),
        ("x" * 5_000, ""),
        ("2001:db8:1:2::1%" + "z" * 48, "2001:db8:1:2::"),
        ("2001:db8:1:2::1%" + "z" * 49, ""),
    ],
)
def test_an_address_of_ipv6_is_its_network(client: str, address: str) -> None:
    assert address_of({"type": "http", "client": (client, 1)}) == address


def test_very_many_names_cost_bounded_memory_and_those_who_are_over_their_limit_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(buckets, "KEYS_MAX", 10)
    clock = [0.0]
    kept = Buckets(1.0, lambda: clock[0])
    for _ in range(BURST_S):
        assert kept.take("greedy") == 0
    assert kept.take("greedy") == 1.0, "so many at once, and then one a second"
    clock[0] = 2.0
    for number in range(8):
        kept.take(f"other {number}")
    clock[0] = 3.0
    for number in range(100):
        kept.take(f"stranger {number}")
        assert len(kept._filled) <= 10
    clock[0] = 4.0
    assert kept.take("greedy") == 0, "it may ask again, as everybody may"
