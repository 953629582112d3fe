"""An address in a setting that no program can read is a sentence of `holdfast check`, and never a traceback."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.security.test_gate import audio

from holdfast.errors import CallError
from holdfast.main import load_systems
from holdfast.operator.incident_news import IncidentSettings
from holdfast.providers.gate import path_in
from holdfast.settings import Settings, problems
from holdfast_systems.grading.recording_files import find_uploaded

GROUPS: list[type[Any]] = [Settings, IncidentSettings, *(group for each in load_systems() for group in each.settings)]
NAMES = {
    each.metadata["env"]: group
    for group in GROUPS
    for each in fields(group)
    if "env" in each.metadata and each.metadata["env"].endswith(("_URL", "_ISSUER"))
}
# What must be there for a setting to be looked at.
BESIDE = {
    "HOLDFAST_INCIDENT_SMTP_URL": {"HOLDFAST_INCIDENT_MAIL_TO": "a@example.test"},
    "IMAP_URL": {"SMTP_URL": "smtp://h"},
}
SCHEMES = {"RABBITMQ_URL": "amqp", "SMTP_URL": "smtp", "HOLDFAST_INCIDENT_SMTP_URL": "smtp", "IMAP_URL": "imaps"}
POSTGRES = {"HOLDFAST_LISTEN_URL", "HOLDFAST_READ_ONLY_URL"}
UNREADABLE = ["://[::1", "://[x]/", "://℀.example/", "://h:port/", "://h:99999/"]


@pytest.mark.spec("K30", "K19")
@pytest.mark.parametrize("name", sorted(NAMES))
@pytest.mark.parametrize("rest", UNREADABLE)
def test_an_address_that_cannot_be_read_is_a_sentence(name: str, rest: str) -> None:
    scheme = "postgresql" if "DATABASE" in name or name in POSTGRES else SCHEMES.get(name, "http")
    found = problems(NAMES[name], {name: scheme + rest, **BESIDE.get(name, {})})
    assert any(name in sentence for sentence in found), f"{scheme}{rest} passes"


@pytest.mark.spec("K30", "G16")
@pytest.mark.parametrize("rest", UNREADABLE)
async def test_a_recordings_address_that_cannot_be_read_is_refused_and_no_bug(rest: str, tmp_path: Path) -> None:
    assert find_uploaded(tmp_path, f"http{rest}") is None and path_in(f"http{rest}") in ("", "/")
    with pytest.raises(CallError) as caught:
        await audio(f"http{rest}")
    assert caught.value.failure.error_class == "ADDRESS_REFUSED"
