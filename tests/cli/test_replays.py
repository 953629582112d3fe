"""Replays of a whole group by command: looked at, begun at a rate, paused, resumed, followed and stopped."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.operator.replays import replay_some
from tests.cli.conftest import Place

pytestmark = [pytest.mark.usefixtures("migrated"), pytest.mark.spec("K8")]


def group_of(place: Place, letters: int) -> str:
    for _ in range(letters):
        place.dead()
    (group,) = place.items("dead", "groups")
    return str(group["fingerprint"])


def shown(place: Place, replay: str) -> dict[str, Any]:
    return dict(place.json("replays", "show", replay))


def test_a_group_is_looked_at_begun_paused_and_ends(place: Place) -> None:
    group = group_of(place, 2)
    foretold = place.ok("replays", "begin", group, "--dry-run", "--per-minute", "1")
    assert "2 letters of" in foretold and "The last would begin at" in foretold
    assert place.items("replays", "list") == [], "a look begins nothing"
    replay = place.json("replays", "begin", group, "--evidence", "INC-7", "--per-minute", "1")["id"]
    assert "has not ended yet" in place.refused("replays", "begin", group)
    assert place.ok("replays", "pause", replay[:23]).strip() == f"Replay {replay} takes no further letter."
    assert place.in_kernel(replay_some) == 0 and shown(place, replay)["outcomes"] == {"waiting": 2}
    assert place.ok("replays", "resume", replay).strip() == f"Replay {replay} goes on."
    place.in_kernel(replay_some)
    assert shown(place, replay)["outcomes"] == {"queued": 1, "waiting": 1}, "one a minute"
    drawn = place.ok("replays", "show", replay)
    assert "0 of 2 letters have ended." in drawn and max(map(len, drawn.splitlines())) <= 80
    assert place.ok("replays", "stop", replay).strip() == f"Replay {replay} is stopped."
    assert "cannot be resumed" in place.refused("replays", "resume", replay)
    (listed,) = place.items("replays", "list", "--fingerprint", group)
    assert (listed["state"], listed["evidence"], listed["per_minute"]) == ("stopped", "INC-7", 1)


def test_what_cannot_be_begun_is_refused_in_a_sentence(place: Place) -> None:
    group = group_of(place, 1)
    assert "must be field=value" in place.refused("replays", "begin", group, "--set", "amount")
    assert "is not JSON" in place.refused("replays", "begin", group, "--set", "amount:={")
    assert "No dead letter of the group nobody" in place.refused("replays", "begin", "nobody")
    assert "There is no replay" in place.refused("replays", "show", "zz")
    assert place.items("replays", "list") == []
