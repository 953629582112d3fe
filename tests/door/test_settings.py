"""What each setting takes, what it refuses and in which sentence, and where it goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, asdict, fields
from typing import Any

import pytest

from holdfast.errors import SettingsError
from holdfast.kernel.kernel import Tuning
from holdfast.main import load_systems
from holdfast.providers.openai_settings import OpenAISettings
from holdfast.settings import Settings, problems, read
from holdfast.settings.celery import CelerySettings
from holdfast.settings.names import describe, misspelt_names, name_in, value_in
from holdfast.settings.values import notes
from holdfast.stores.connecting import Connecting, Pooler

pytestmark = [pytest.mark.spec("K30"), pytest.mark.fast]
LONG, SHORT = "k" * 32, "k" * 31
GROUPS = [Settings, CelerySettings, *(group for system in load_systems() for group in system.settings)]


def _bounded(bound: str) -> Iterator[tuple[type[Any], Field[Any], float]]:
    for group in GROUPS:
        for each in fields(group):
            if each.metadata.get(bound) is not None:
                yield group, each, each.metadata[bound]


@pytest.mark.parametrize(("bound", "step", "word"), [("minimum", -1, "least"), ("maximum", 1, "most")])
def test_every_number_takes_its_bound_and_nothing_beyond(bound: str, step: int, word: str) -> None:
    seen = 0
    for group, each, limit in _bounded(bound):
        name, seen = each.metadata["env"], seen + 1
        at = type(each.default)(limit)
        refused = f"{name} is '{at + step}'; it must be at {word} {limit}."
        assert refused in problems(group, {name: str(at + step)})
        assert not any("it must be at" in sentence for sentence in problems(group, {name: str(at)})), name
    assert seen > 3


def test_every_choice_is_taken_and_no_other() -> None:
    choosing = [(group, each) for group in GROUPS for each in fields(group) if each.metadata.get("choices")]
    assert len(choosing) > 5
    for group, each in choosing:
        name, choices = each.metadata["env"], each.metadata["choices"]
        sentence = f"it must be one of {', '.join(choices)}."
        assert f"{name} is 'neither'; {sentence}" in problems(group, {name: "neither"})
        for choice in choices:
            assert not any(sentence in found for found in problems(group, {name: choice})), (name, choice)


@pytest.mark.parametrize("text", ["1", "true", "YES", "On"])
def test_what_means_yes(text: str) -> None:
    assert read(Settings, {"HOLDFAST_POOLER_PREPARES": text}).pooler_prepares is True


@pytest.mark.parametrize("text", ["0", "false", "No", "off", ""])
def test_what_means_no(text: str) -> None:
    assert read(Settings, {"HOLDFAST_POOLER_PREPARES": text}).pooler_prepares is False


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("HOLDFAST_POOLER_PREPARES", "maybe", "HOLDFAST_POOLER_PREPARES is 'maybe'; write true or false."),
        ("HOLDFAST_PORT", "8.5", "HOLDFAST_PORT is '8.5'; it must be a whole number."),
        ("HOLDFAST_POLL_SEC", "soon", "HOLDFAST_POLL_SEC is 'soon'; it must be a number."),
        ("HOLDFAST_POLL_SEC", "inf", "HOLDFAST_POLL_SEC is 'inf'; it must be a finite number."),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(name: str, text: str, sentence: str) -> None:
    assert problems(Settings, {name: text}) == [sentence]


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        read(Settings, {"HOLDFAST_PORT": "x", "HOLDFAST_POLL_SEC": "0"})
    assert len(caught.value.problems) == 2


def test_an_empty_text_is_no_url() -> None:
    assert read(Settings, {"DATABASE_URL": "", "HOLDFAST_JWT_SECRET": ""}) == Settings()


def test_the_secrets_are_these() -> None:
    assert {each.metadata["env"] for each in fields(Settings) if each.metadata["secret"]} == {
        *("HOLDFAST_LISTEN_URL", "HOLDFAST_READ_ONLY_URL", "RABBITMQ_URL", "HOLDFAST_MESSAGE_KEYS"),
        *("HOLDFAST_SECRETS_KEYS", "HOLDFAST_JWT_SECRET", "HOLDFAST_OIDC_CLIENT_SECRET", "HOLDFAST_CALLBACK_SECRET"),
    }


ISSUER = {"HOLDFAST_OIDC_ISSUER": "https://id.example", "HOLDFAST_OIDC_CLIENT_ID": "holdfast"}
PRODUCTION = {"HOLDFAST_ENV": "production", "HOLDFAST_JWT_SECRET": LONG}


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"DATABASE_URL": "mysql://h/db"}, "DATABASE_URL starts with 'mysql:'"),
        ({"DATABASE_URL": "postgresql://h:0/db"}, "DATABASE_URL has a port that cannot be"),
        ({"DATABASE_URL": "postgresql://h:65536/db"}, "DATABASE_URL has a port that cannot be"),
        ({"RABBITMQ_URL": "http://h"}, "RABBITMQ_URL "),
        ({"HOLDFAST_LISTEN_URL": "sqlite:///x"}, "HOLDFAST_LISTEN_URL must be postgresql://user@host/name."),
        ({"HOLDFAST_READ_ONLY_URL": "http://x"}, "HOLDFAST_READ_ONLY_URL must be postgresql://user@host/name."),
        ({"HOLDFAST_PUBLIC_URL": "ftp://x"}, "HOLDFAST_PUBLIC_URL must start with http:// or https://."),
        ({"HOLDFAST_ENGINE": "celery"}, "HOLDFAST_ENGINE is celery, which needs RABBITMQ_URL."),
        (PRODUCTION | {"HOLDFAST_FAILPOINTS": "x:kill"}, "HOLDFAST_FAILPOINTS is for tests; unset it"),
        ({"HOLDFAST_ENV": "production"}, "set HOLDFAST_JWT_SECRET or HOLDFAST_JWKS_URL."),
        ({"HOLDFAST_CALLBACK_SECRET": SHORT}, "HOLDFAST_CALLBACK_SECRET is too short: 32 characters or more."),
        ({"HOLDFAST_JWT_SECRET": SHORT}, "HOLDFAST_JWT_SECRET must have at least 32 characters."),
        ({"HOLDFAST_MESSAGE_KEYS": f"{LONG},{SHORT}"}, "Each key in HOLDFAST_MESSAGE_KEYS must have at least 32"),
        ({"HOLDFAST_SECRETS_KEYS": f"{LONG},{SHORT}"}, "Each key in HOLDFAST_SECRETS_KEYS must have at least 32"),
        (ISSUER | {"HOLDFAST_OIDC_ISSUER": "http://id.example"}, "HOLDFAST_OIDC_ISSUER must start with https://."),
        ({"HOLDFAST_OIDC_ISSUER": "https://id.example"}, "HOLDFAST_OIDC_ISSUER needs HOLDFAST_OIDC_CLIENT_ID."),
        (ISSUER | {"HOLDFAST_JWKS_URL": "https://keys"}, "which HOLDFAST_JWKS_URL does not accept."),
        (ISSUER | {"HOLDFAST_OIDC_ROLES": "operator"}, "HOLDFAST_OIDC_ROLES must be group=role, by commas."),
        (ISSUER | {"HOLDFAST_OIDC_ROLES": "admins="}, "HOLDFAST_OIDC_ROLES must be group=role, by commas."),
    ],
)
def test_values_that_contradict_each_other_are_refused(env: dict[str, str], words: str) -> None:
    (sentence,) = problems(Settings, env)
    assert words in sentence and SHORT not in sentence


@pytest.mark.parametrize(
    "env",
    [
        PRODUCTION,
        {"DATABASE_URL": "postgresql://h:1/db"},
        {"DATABASE_URL": "postgresql://h:65535,g/db"},
        {"HOLDFAST_ENV": "production", "HOLDFAST_JWKS_URL": "https://keys"},
        {"HOLDFAST_FAILPOINTS": "x:kill"},
        {"HOLDFAST_CALLBACK_SECRET": LONG, "HOLDFAST_MESSAGE_KEYS": f" {LONG} ,, ", "HOLDFAST_SECRETS_KEYS": LONG},
        {"DATABASE_URL": "postgresql://h:65535/db", "HOLDFAST_LISTEN_URL": "postgres://h"},
        {"HOLDFAST_PUBLIC_URL": "http://here"},
        ISSUER | {"HOLDFAST_OIDC_ROLES": "admins=operator, *=viewer"},
        ISSUER | {"HOLDFAST_OIDC_ISSUER": "http://127.0.0.1:9"},
        ISSUER | {"HOLDFAST_OIDC_ISSUER": "http://localhost:9"},
        {"HOLDFAST_JWKS_URL": "https://keys"},
    ],
)
def test_what_goes_together_is_taken(env: dict[str, str]) -> None:
    assert problems(Settings, env) == []


def test_lists_are_read_without_their_spaces() -> None:
    given = Settings(message_keys=" a, b ,,", secrets_keys="c", oidc_roles="admins = operator, a=b=viewer")
    assert (given.signing_keys, given.sealing_keys) == (("a", "b"), ("c",))
    assert given.oidc_groups == (("admins", "operator"), ("a=b", "viewer"))


@pytest.mark.parametrize(
    ("env", "names"),
    [
        ({}, ["HOLDFAST_SECRETS_KEYS"]),
        ({"RABBITMQ_URL": "amqp://h"}, ["HOLDFAST_MESSAGE_KEYS", "HOLDFAST_SECRETS_KEYS"]),
        ({"RABBITMQ_URL": "amqp://h", "HOLDFAST_MESSAGE_KEYS": LONG, "HOLDFAST_SECRETS_KEYS": LONG}, []),
        ({"HOLDFAST_PORT": "x"}, []),
    ],
)
def test_what_leaves_a_risk_is_noted(env: dict[str, str], names: list[str]) -> None:
    assert [sentence.split()[0] for sentence in notes(Settings, env)] == names
    assert notes(CelerySettings, env) == [], "a group may have none to tell"


def test_the_kernels_own_defaults_are_those_of_the_settings() -> None:
    assert Settings().tuning() == Tuning() and Settings().connecting() == Connecting()


def test_every_setting_of_the_kernel_arrives_there_in_its_unit() -> None:
    given = Settings(
        lease_s=90, renew_s=7, poll_s=2, keeper_s=11, reap_s=3, sweep_ms=4_500, verify_s=5, verify_batch=6,
        outbox_poll_ms=8_500, outbox_batch=9, outbox_lease_s=10, outbox_stale_ms=12_500, retention_days=2,
        migrate_lock_s=13, migrate_wait_s=14, blocked_say_s=15, blocked_max_s=16,
    )  # fmt: skip
    changed = {name: value for name, value in asdict(given.tuning()).items() if value != getattr(Tuning(), name)}
    assert changed == {
        "lease_s": 90, "renew_s": 7, "poll_s": 2, "keeper_s": 11, "reap_s": 3, "sweep_s": 4.5, "verify_s": 5,
        "verify_batch": 6, "relay_poll_s": 8.5, "relay_batch": 9, "relay_lease_s": 10, "outbox_stale_s": 12.5,
        "retention_s": 172_800, "migrate_lock_s": 13, "migrate_wait_s": 14, "blocked_say_s": 15, "blocked_max_s": 16,
    }  # fmt: skip
    there = Settings(connections=7, pooler="session", pooler_prepares=True, listen_url="postgresql://own").connecting()
    assert there == Connecting(7, Pooler.SESSION, True, "postgresql://own")


def test_a_short_lease_is_renewed_and_kept_more_often() -> None:
    tuning = Settings(lease_s=6).tuning()
    assert (tuning.renew_s, tuning.keeper_s) == (2, 3) and tuning.problems() == []


def test_a_lease_holds_three_renewals_and_no_number_is_zero() -> None:
    assert Tuning(lease_s=3, renew_s=1).problems() == []
    (too_short,) = Tuning(lease_s=2.9, renew_s=1).problems()
    assert too_short == "The lease of 2.9 s must be at least three times the renewal of 1 s."
    for name in Tuning.__dataclass_fields__:
        found = Tuning(**{"renew_s": 0.001, name: 0}).problems()
        assert any(f"'{name}'" in sentence for sentence in found) == (name != "verify_batch")


def test_what_nobody_can_set_is_this() -> None:
    set_by_nobody = {
        "breaker_s": 1, "reconcile_s": 30, "reconcile_grace_s": 60, "relay_retries_max": 8, "relay_backoff_cap_s": 30,
        "prune_s": 60, "wake_s": 1, "schedule_s": 1, "inbox_retention_s": 7_776_000, "claim_batch": 400,
        "ramp_first": 10, "ramp_every_s": 1,
    }  # fmt: skip
    assert {name: value for name, value in asdict(Tuning()).items() if name in set_by_nobody} == set_by_nobody


def test_of_two_names_the_prefixed_counts_unless_it_is_empty_where_emptiness_says_nothing() -> None:
    env = {"HOLDFAST_RABBITMQ_URL": "", "RABBITMQ_URL": "amqp://theirs"}
    assert name_in(env, "RABBITMQ_URL") == "HOLDFAST_RABBITMQ_URL"
    assert value_in(env, "RABBITMQ_URL") == "amqp://theirs"
    assert name_in({}, "RABBITMQ_URL") is None and value_in({"RABBITMQ_URL": ""}, "RABBITMQ_URL") is None


def test_only_what_is_nearly_ours_is_taken_for_misspelt() -> None:
    env = {"HOLDFAST_CONCURRENCY": "1", "HOLDFAST_COLOUR": "red", "HOLDFAST_TOKEN": "t", "OTHER": "1"}
    assert misspelt_names([Settings], env) == [
        "HOLDFAST_CONCURRENCY is set, but there is no such setting; you may mean HOLDFAST_WORKER_CONCURRENCY."
    ]


def test_each_setting_is_described_by_its_name_its_default_and_its_meaning() -> None:
    assert ("LLM_MODEL", "gpt-4o-mini", "The language model that is asked") in describe(OpenAISettings)
    assert ("OPENAI_API_KEY", "unset", "Key of that endpoint") in describe(OpenAISettings)


def test_a_key_without_its_endpoint_is_pointed_out() -> None:
    words = "OPENAI_API_KEY is set without OPENAI_BASE_URL; everything would stay offline."
    assert OpenAISettings(openai_api_key="k").endpoint_problems() == [words]
    assert OpenAISettings(openai_api_key="k", openai_base_url="https://x").endpoint_problems() == []


def test_an_engine_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.settings.process.find_spec", lambda name: None)
    (sentence,) = problems(Settings, {"HOLDFAST_ENGINE": "celery", "RABBITMQ_URL": "amqp://h"})
    assert sentence == "HOLDFAST_ENGINE is celery, which is not installed: install holdfast[celery]."


def test_celery_has_as_many_processes_as_are_asked_for_or_two_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    assert CelerySettings(processes=9).processes_for(2) == 9
    assert [CelerySettings().processes_for(concurrency) for concurrency in (50, 4, 0)] == [6, 4, 1]
