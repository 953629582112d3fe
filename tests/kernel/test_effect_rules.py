"""The ledger's decision table, row by row, for the three classes of provider."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast import Provider
from holdfast.core.effect import (
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
    next_step,
    token_of,
)

NOW = 1_000_000_000
DAY_MS = 86_400_000
CLASSES = {name: Provider("p", effects=name, timeout_s=10, late_bound_s=50) for name in ("token", "lookup", "neither")}


def row(status: EffectStatus, **given: Any) -> EffectRow:
    told = {"provider_id": None, "epoch": 0, "sends": 1, "first_sent_at": NOW - 1_000, "last_sent_at": NOW - 1_000}
    told |= {"error_class": None, "error": None} | given
    return EffectRow(key="k", token=token_of("k"), status=status, provider="p", **told)


def kind_of(step: object) -> str:
    return type(step).__name__ + ("!" if isinstance(step, LookUp) and step.alert else "")


ALWAYS = {
    "planned": "Send",
    "review": "AskPerson",
    "failed": "Refuse",
}
DOUBT = {  # class, can look, how old the send is -> step
    ("token", True, "fresh"): "LookUp",
    ("token", True, "settled"): "LookUp",
    ("token", True, "forgotten"): "LookUp",
    ("token", False, "fresh"): "Send",
    ("token", False, "settled"): "Send",
    ("token", False, "forgotten"): "AskPerson",
    ("lookup", True, "fresh"): "LookLater",
    ("lookup", True, "settled"): "LookUp",
    ("lookup", True, "forgotten"): "LookUp",
    ("lookup", False, "fresh"): "AskPerson",
    ("lookup", False, "settled"): "AskPerson",
    ("lookup", False, "forgotten"): "AskPerson",
    ("neither", True, "fresh"): "AskPerson",
    ("neither", True, "settled"): "AskPerson",
    ("neither", True, "forgotten"): "AskPerson",
    ("neither", False, "fresh"): "AskPerson",
    ("neither", False, "settled"): "AskPerson",
    ("neither", False, "forgotten"): "AskPerson",
}
AGE_MS = {"fresh": 1_000, "settled": 60_000, "forgotten": DAY_MS}


@pytest.mark.spec("K12")
@pytest.mark.parametrize("can_look", [True, False])
@pytest.mark.parametrize("provider", CLASSES)
@pytest.mark.parametrize("status", ALWAYS)
def test_what_is_known_needs_no_provider(status: str, provider: str, can_look: bool) -> None:
    found = next_step(row(EffectStatus(status)), CLASSES[provider], 0, NOW, can_look=can_look)
    assert kind_of(found) == ALWAYS[status]


@pytest.mark.spec("K12")
@pytest.mark.parametrize("status", ["sending", "unknown"])
@pytest.mark.parametrize("provider, can_look, age", DOUBT)
def test_after_doubt_the_class_decides(status: str, provider: str, can_look: bool, age: str) -> None:
    sent_at = NOW - AGE_MS[age]
    doubtful = row(EffectStatus(status), first_sent_at=sent_at, last_sent_at=sent_at)
    found = next_step(doubtful, CLASSES[provider], 0, NOW, can_look=can_look)
    assert kind_of(found) == DOUBT[provider, can_look, age]
    if isinstance(found, LookLater):
        assert found.at == sent_at + 60_000, "after the timeout and the bound on late arrivals"


@pytest.mark.spec("K12")
@pytest.mark.parametrize("provider", CLASSES)
def test_a_mark_with_evidence_is_skipped_and_one_without_is_looked_into(provider: str) -> None:
    whom = CLASSES[provider]
    marked = row(EffectStatus.SENT, provider_id="p1", marked_at=NOW)
    assert next_step(marked, whom, 0, NOW, can_look=True) == Skip("p1")
    assert kind_of(next_step(row(EffectStatus.SENT), whom, 0, NOW, can_look=True)) == "LookUp!"
    assert isinstance(next_step(row(EffectStatus.SENT), whom, 0, NOW, can_look=False), AskPerson)


@pytest.mark.spec("K12")
def test_only_a_replay_tries_again_what_was_refused_for_good() -> None:
    refused = row(EffectStatus.FAILED, error_class="UPSTREAM_UNPROCESSABLE", error="no such address")
    found = next_step(refused, CLASSES["token"], 0, NOW, can_look=False)
    assert found == Refuse("UPSTREAM_UNPROCESSABLE", "no such address")
    assert next_step(refused, CLASSES["token"], 1, NOW, can_look=False) == Send()


@pytest.mark.spec("K12")
def test_not_found_is_proof_unless_the_token_may_be_forgotten() -> None:
    old = row(EffectStatus.UNKNOWN, first_sent_at=NOW - DAY_MS)
    assert isinstance(after_not_found(old, CLASSES["token"], NOW), AskPerson)
    assert after_not_found(old, CLASSES["lookup"], NOW) == Send()
    assert after_not_found(row(EffectStatus.UNKNOWN), CLASSES["token"], NOW) == Send()


@pytest.mark.spec("K12")
def test_a_token_depends_on_the_key_alone_and_is_spelled_as_ever() -> None:
    """Golden values: providers remember tokens that earlier releases sent."""
    assert token_of("letter/ann") == "12ec1360dee7c52bde838210aa0a4132933b9cef"
    assert token_of("post:/letter/ann") == "8d10d4a58bd223ab8f599a93f8f058aee04a900c"
    assert token_of("a") != token_of("b") and len(token_of("a")) == 40


@pytest.mark.spec("K12")
@pytest.mark.parametrize("status", ["sending", "unknown"])
@pytest.mark.parametrize("offers", CLASSES)
def test_a_doubt_about_another_provider_is_a_persons(status: str, offers: str) -> None:
    """Mail goes by another provider since the send in doubt: that one cannot know, whatever it offers."""
    other = replace(CLASSES[offers], name="q")
    found = next_step(row(EffectStatus(status)), other, 0, NOW, can_look=True)
    assert isinstance(found, AskPerson) and "'p'" in found.why and "'q'" in found.why


@pytest.mark.spec("K12")
@pytest.mark.parametrize("offers", CLASSES)
def test_what_another_attempt_is_sending_is_waited_for(offers: str) -> None:
    being_sent = row(EffectStatus.SENDING, is_held=True)
    assert next_step(being_sent, CLASSES[offers], 0, NOW, can_look=True) == WaitForSender()
    assert next_step(being_sent, CLASSES[offers], 0, NOW, can_look=True, is_sender=False) == WaitForSender()


@pytest.mark.spec("K12")
def test_what_another_job_was_refused_may_be_tried() -> None:
    refused = row(EffectStatus.FAILED, error_class="UPSTREAM_UNPROCESSABLE", error="no such address")
    assert next_step(refused, CLASSES["neither"], 0, NOW, can_look=False, is_sender=False) == Send()
