"""Ids: unlike one another, in the order of their making, and UUIDs to everybody else."""

from __future__ import annotations

from itertools import islice
from uuid import RFC_4122, UUID

import pytest

from holdfast.stores.clock import Dice, SeededDice, SystemDice, uuid7, uuid7s

NOW = 1_767_225_600_000


@pytest.mark.parametrize("dice", [SystemDice(), SeededDice(7)], ids=["system", "seeded"])
def test_a_bulk_of_ids_is_unique_and_in_order(dice: Dice) -> None:
    times = iter([NOW] * 3_000 + [NOW + 1] * 3_000)
    ids = list(islice(uuid7s(lambda: next(times), dice), 6_000))
    assert ids == sorted(ids) and len(set(ids)) == 6_000
    assert {len(text) for text in ids} == {36}
    for text in (ids[0], ids[63], ids[-1], uuid7(NOW, dice)):
        found = UUID(text)
        assert (str(found), found.version, found.variant) == (text, 7, RFC_4122)
        assert found.int >> 80 in (NOW, NOW + 1)


def test_more_ids_than_a_millisecond_has_numbers_are_still_unlike() -> None:
    assert len(set(islice(uuid7s(lambda: NOW, SystemDice()), 20_000))) == 20_000
