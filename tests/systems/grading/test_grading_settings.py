"""Every retry, breaker, SLA and limit of the grading services can be set, and nonsense is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.main import load_systems
from holdfast.settings import problems, read
from holdfast.settings.names import describe
from holdfast_systems.grading.grading_service import build_service, engine_for
from holdfast_systems.grading.language_model import LanguageModel, weights_path
from holdfast_systems.grading.main_app import build_main
from holdfast_systems.grading.offline_grader import OfflineGrader
from holdfast_systems.grading.settings import MainSettings, ServiceSettings
from holdfast_systems.grading.transcriber import OfflineTranscriber
from holdfast_systems.grading.whisper import WhisperTranscriber, is_installed, model_folder


@pytest.mark.spec("G2", "G6", "G7", "G12", "000.18", "000.25")
def test_the_defaults_are_the_specifications() -> None:
    main, service = read(MainSettings, {}), read(ServiceSettings, {})
    assert (main.sla_ms("writing"), main.sla_ms("speaking")) == (20 * 60_000, 60 * 60_000)
    assert {step.name: step.every_s for step in build_main({}).steps}["grading-main.sweep_timeouts"] == 60.0
    assert {step.name: step.every_s for step in build_service({}).steps} == {
        "grading-service.tell_held": 1.0,
        "grading-service.prune_audio": 600.0,
        "grading-service.prune_originals": 600.0,
        "grading-service.prune_requests": 600.0,
    }
    retry, breaker = service.retry, service.breaker
    assert (retry.attempts, retry.base_s, retry.multiplier, retry.cap_s, retry.jitter) == (4, 2, 2, 300, "additive")
    assert (breaker.window, breaker.open_above, breaker.inclusive) == (20, 0.5, False)
    assert (breaker.cooldown_s, breaker.trials, breaker.mode) == (30, 3, "trials")


@pytest.mark.spec("G2", "G6", "G7", "G12", "G16")
def test_each_of_them_can_be_set() -> None:
    main = read(MainSettings, {"GRADING_SLA_WRITING_SEC": "5", "TIMEOUT_CHECK_INTERVAL_MS": "250"})
    assert main.sla_ms("writing") == 5_000 and main.timeout_check_ms == 250
    env = {
        "GRADING_RETRIES_MAX": "1",
        "GRADING_RETRY_CAP_SEC": "9",
        "GRADING_BREAKER_WINDOW": "4",
        "GRADING_BREAKER_COOLDOWN_SEC": "0.5",
        "GRADING_AUDIO_PRIVATE_HOSTS": "cdn.local, 10.0.0.7",
        "GRADING_AUDIO_BYTES_MAX": "100",
        "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
    }
    service = read(ServiceSettings, env)
    assert (service.retry.attempts, service.retry.cap_s, service.retry.ceiling_s) == (2, 9, 9)
    assert (service.breaker.window, service.breaker.cooldown_s) == (4, 0.5)
    assert service.outbound.allow_private_hosts == {"cdn.local", "10.0.0.7"} and service.outbound.bytes_max == 100
    assert engine_for(service).client is not None and engine_for(read(ServiceSettings, {})).client is None
    assert {"llm", "stt"} == set(build_service(env).providers)


@pytest.mark.spec("G2")
@pytest.mark.parametrize(
    ("group", "env"),
    [
        (MainSettings, {"MAIN_DATABASE_URL": "mysql://x"}),
        (MainSettings, {"GRADING_SLA_WRITING_SEC": "0"}),
        (ServiceSettings, {"GRADING_DATABASE_URL": "nonsense"}),
        (ServiceSettings, {"OPENAI_BASE_URL": "ftp://x"}),
        (ServiceSettings, {"OPENAI_API_KEY": "k"}),
        (ServiceSettings, {"GRADING_BREAKER_OPEN_ABOVE": "1"}),
        (ServiceSettings, {"GRADING_RETRIES_MAX": "many"}),
    ],
)
def test_nonsense_is_named(group: type[MainSettings | ServiceSettings], env: dict[str, str]) -> None:
    found = problems(group, env)
    assert len(found) == 1 and next(iter(env)) in found[0]


def test_every_setting_has_a_sentence() -> None:
    for group in (MainSettings, ServiceSettings):
        assert all(name.isupper() and doc for name, _, doc in describe(group))


@pytest.mark.spec("G17")
def test_the_two_services_are_two_systems_with_two_databases() -> None:
    main, service = load_systems(["grading-main", "grading-service"])
    assert (main.database, service.database) == ("MAIN_DATABASE_URL", "GRADING_DATABASE_URL")
    assert main.routes is not None and service.routes is None
    assert main.build({}).kinds == {}, "the main app grades nothing"


@pytest.mark.spec("G15")
def test_whisper_transcribes_where_it_is_chosen_and_installed(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.bin").write_bytes(b"")
    chosen = ServiceSettings(stt_offline="whisper", stt_whisper_folder=str(folder))
    assert isinstance(engine_for(chosen).reader, WhisperTranscriber)
    assert isinstance(engine_for(read(ServiceSettings, {})).reader, OfflineTranscriber)
    expected = [] if is_installed() else ["STT_OFFLINE=whisper needs faster-whisper"]
    assert [found[: len("STT_OFFLINE=whisper needs faster-whisper")] for found in chosen.problems()] == expected
    assert model_folder(str(folder)) == folder and model_folder(str(tmp_path)) is None
    wrong = ServiceSettings(stt_offline="parrot")
    assert "STT_OFFLINE must be moonshine or whisper." in wrong.problems()


@pytest.mark.spec("G15")
def test_the_language_model_reads_each_text_unless_it_is_turned_off() -> None:
    def model_of(**env: str) -> LanguageModel | None:
        grader = engine_for(read(ServiceSettings, env)).grader
        assert isinstance(grader, OfflineGrader)
        return grader.model

    assert (model_of() is None) == (weights_path() is None)
    assert model_of(GRADING_LANGUAGE_MODEL="off") is None
    assert ServiceSettings(language_model="off").notes() == []
    assert "GRADING_LANGUAGE_MODEL must be installed or off." in ServiceSettings(language_model="big").problems()
