"""The rows of a bulk load, as they are handed to the database."""

from __future__ import annotations

import pytest

from holdfast.tables.new_jobs import LOADED, NewJob, _pieces

NOW = 1_767_225_600_000


@pytest.mark.spec("K1", "K3")
def test_a_bulk_is_created_now_and_some_hundreds_share_a_millisecond() -> None:
    """Claims go on from the last one that they took: a job of another time would be taken late, or passed over."""
    new = NewJob("k", "q", "s", None, 2, 1, NOW, None, None, None, None, None, None, None, "{}")
    pieces = list(_pieces([(f"{number:04}", new) for number in range(450)], NOW))
    lines = [line.split("\t") for piece in pieces for line in piece.splitlines()]
    assert [len(piece.splitlines()) for piece in pieces] == [200, 200, 50]
    assert [line[0] for line in lines] == [f"{number:04}" for number in range(450)]
    created, updated = (LOADED.index(name) for name in ("created_at", "updated_at"))
    assert [int(line[created]) - NOW for line in lines] == [0] * 200 + [1] * 200 + [2] * 50
    assert {int(line[updated]) for line in lines} == {NOW}
