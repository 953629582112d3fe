"""What must happen before an effect counts as done: the ledger's states by what each provider class can tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.effect import (
    PERSON,
    AskPerson,
    EffectRow,
    EffectStatus,
    LookLater,
    LookUp,
    Refuse,
    Send,
    Skip,
    WaitForSender,
    after_not_found,
    after_unknown_id,
    is_provider_id,
    next_step,
    token_of,
)
from holdfast.core.provider import Provider

HOUR = 3_600_000
NOW = 100 * HOUR
SENT_AT = NOW - HOUR


async def find(token: str) -> str | None:
    return None


def provider(effects: Any, **more: Any) -> Provider:
    lookup = find if effects == "lookup" else None
    return Provider("post", effects=effects, lookup=lookup, timeout_s=30, late_bound_s=60, retention_s=86_400, **more)


def row(status: str, **more: Any) -> EffectRow:
    sent = EffectRow("k", "t", EffectStatus(status), "post", None, 3, 1, SENT_AT, SENT_AT, "REFUSED", "no")
    return replace(sent, **more)


FRESH = {"first_sent_at": NOW - 1_000, "last_sent_at": NOW - 1_000}
FORGOTTEN = {"first_sent_at": NOW - 48 * HOUR}
MARKED = {"provider_id": "id", "marked_at": SENT_AT}
STEPS = [
    ("nothing was sent yet", "token", row("planned"), False, Send),
    ("somebody is sending it", "token", row("sending", is_held=True), True, WaitForSender),
    ("a person is being asked", "token", row("review"), True, AskPerson),
    ("sent and marked", "neither", row("sent", **MARKED), False, Skip),
    ("marked without an id, and it can be looked for", "lookup", row("sent"), True, LookUp),
    ("marked without an id, and it cannot", "neither", row("sent"), False, AskPerson),
    ("an id without a time, remembered by token", "token", row("sent", provider_id="id"), False, Send),
    ("an id without a time, and no way to ask", "neither", row("sent", provider_id="id"), False, AskPerson),
    ("an id of another provider", "token", row("sent", provider_id="id", provider="old"), True, AskPerson),
    ("in doubt: a look is better than a token", "token", row("unknown"), True, LookUp),
    ("in doubt: the token makes it safe", "token", row("unknown"), False, Send),
    ("in doubt: the token is forgotten", "token", row("unknown", **FORGOTTEN), False, AskPerson),
    ("in doubt: it would have arrived by now", "lookup", row("unknown"), True, LookUp),
    ("in doubt: it may still arrive", "lookup", row("unknown", **FRESH), True, LookLater),
    ("in doubt: with neither token nor lookup", "neither", row("unknown"), False, AskPerson),
    ("in doubt: sent through another provider", "token", row("unknown", provider="old"), True, AskPerson),
    ("a crash after the send began is a doubt", "neither", row("sending"), False, AskPerson),
]


@pytest.mark.spec("K12")
@pytest.mark.parametrize(
    ("effects", "stored", "can_look", "step"), [each[1:] for each in STEPS], ids=[each[0] for each in STEPS]
)
def test_what_comes_next_for_an_effect(effects: str, stored: EffectRow, can_look: bool, step: type) -> None:
    assert isinstance(next_step(stored, provider(effects), 3, NOW, can_look=can_look), step)


@pytest.mark.spec("K12")
@pytest.mark.parametrize(
    ("epoch", "is_sender", "step"), [(3, True, Refuse), (2, True, Refuse), (4, True, Send), (3, False, Send)]
)
def test_what_was_refused_for_good_is_tried_again_by_a_replay_or_another_job(
    epoch: int, is_sender: bool, step: type
) -> None:
    assert isinstance(next_step(row("failed"), provider("token"), epoch, NOW, can_look=True, is_sender=is_sender), step)


@pytest.mark.spec("K12")
@pytest.mark.parametrize(("effects", "more", "step"), [
    ("token", {}, Send), ("token", FORGOTTEN, AskPerson), ("lookup", FORGOTTEN, Send),
])  # fmt: skip
def test_what_was_not_found_is_sent_while_that_is_safe(effects: str, more: dict[str, int], step: type) -> None:
    assert isinstance(after_not_found(row("unknown", **more), provider(effects), NOW), step)


UNKNOWN_IDS = [
    ("of another provider", "lookup", {"provider": "old"}, None),
    ("a person's word", "lookup", {"provider_id": f"{PERSON}ann"}, None),
    ("without any time", "lookup", {"first_sent_at": None, "marked_at": None, "last_sent_at": None}, AskPerson),
    ("longer ago than it remembers", "lookup", FORGOTTEN, None),
    ("it may still arrive", "lookup", FRESH, LookLater),
    ("it has neither token nor lookup", "neither", {}, AskPerson),
    ("it never happened", "lookup", {}, Send),
]


@pytest.mark.spec("K12")
@pytest.mark.parametrize(
    ("effects", "more", "step"), [each[1:] for each in UNKNOWN_IDS], ids=[each[0] for each in UNKNOWN_IDS]
)
def test_an_id_that_the_provider_does_not_know(effects: str, more: dict[str, Any], step: type | None) -> None:
    answer = after_unknown_id(row("sent", **MARKED | more), provider(effects), NOW)
    assert answer is None if step is None else isinstance(answer, step)


@pytest.mark.spec("K12")
def test_a_persons_word_is_no_id_of_a_provider() -> None:
    assert (is_provider_id("id"), is_provider_id(f"{PERSON}ann"), is_provider_id(None)) == (True, False, False)


AGES_MS = {"fresh": 1_000, "settled": 90_000, "forgotten": 86_400_000}
DOUBTS = {  # what the provider offers, whether it can be asked, and the step by how old the send is
    ("token", True): (LookUp, LookUp, LookUp),
    ("token", False): (Send, Send, AskPerson),
    ("lookup", True): (LookLater, LookUp, LookUp),
    ("lookup", False): (AskPerson, AskPerson, AskPerson),
    ("neither", True): (AskPerson, AskPerson, AskPerson),
    ("neither", False): (AskPerson, AskPerson, AskPerson),
}


@pytest.mark.spec("K12")
@pytest.mark.parametrize("status", ["sending", "unknown"])
@pytest.mark.parametrize(("effects", "can_look"), DOUBTS)
def test_after_doubt_the_class_and_the_age_decide(status: str, effects: str, can_look: bool) -> None:
    for age_ms, expected in zip(AGES_MS.values(), DOUBTS[effects, can_look], strict=True):
        sent_at = NOW - age_ms
        doubtful = row(status, first_sent_at=sent_at, last_sent_at=sent_at)
        step = next_step(doubtful, provider(effects), 3, NOW, can_look=can_look)
        assert isinstance(step, expected), age_ms
        if isinstance(step, LookLater):
            assert step.at == sent_at + 90_000, "after the timeout and the bound on late arrivals"


@pytest.mark.spec("K12")
@pytest.mark.parametrize("effects", ["token", "lookup", "neither"])
def test_what_is_known_is_said_as_it_is_stored(effects: str) -> None:
    whom = provider(effects)
    assert next_step(row("sent", **MARKED), whom, 3, NOW, can_look=True) == Skip("id")
    assert next_step(row("sent"), whom, 3, NOW, can_look=True) == LookUp(alert=True), "a mark without evidence"
    assert next_step(row("failed"), whom, 3, NOW, can_look=False) == Refuse("REFUSED", "no")
    other = next_step(row("unknown"), replace(whom, name="new"), 3, NOW, can_look=True)
    assert isinstance(other, AskPerson) and "'post'" in other.why and "'new'" in other.why


@pytest.mark.spec("K12")
def test_a_token_depends_on_the_key_alone_and_is_spelled_as_ever() -> None:
    """Golden values: providers remember tokens that earlier releases sent."""
    assert token_of("letter/ann") == "12ec1360dee7c52bde838210aa0a4132933b9cef"
    assert token_of("post:/letter/ann") == "8d10d4a58bd223ab8f599a93f8f058aee04a900c"
    assert token_of("a") != token_of("b") and len(token_of("a")) == 40
