"""Speech to text with the model that its package carries."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from holdfast_systems.grading import whisper
from holdfast_systems.grading.audio import SAMPLE_RATE, AudioLimits, Speech, decode
from holdfast_systems.grading.offline_grader import OfflineGrader
from holdfast_systems.grading.transcriber import CHUNK_S_MAX, OfflineTranscriber, chunks

pytestmark = pytest.mark.slow

DATA = Path(__file__).parent / "data"


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


@pytest.fixture(scope="module")
def transcriber() -> OfflineTranscriber:
    return OfflineTranscriber()


@pytest.fixture(scope="module")
def village() -> Speech:
    return decode((DATA / "village.ogg").read_bytes(), AudioLimits(), duration_s=16)


@pytest.mark.slow
@pytest.mark.spec("G15")
def test_speech_becomes_its_words_without_any_network(
    transcriber: OfflineTranscriber, village: Speech, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(*_: Any) -> NoReturn:
        raise AssertionError("the offline transcriber must not call anyone")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    heard = transcriber.transcribe(village)
    said = words((DATA / "village.txt").read_text())
    assert len([word for word in said if word in words(heard)]) >= 0.8 * len(said)
    assert heard == transcriber.transcribe(village), "the same speech gives the same words"
    assert 2.5 <= OfflineGrader().grade_speaking(heard, village.duration_s).overall_score <= 8


@pytest.mark.slow
@pytest.mark.spec("G15")
@pytest.mark.parametrize("seconds", [0.001, 0.5, 5])
def test_silence_is_no_words(transcriber: OfflineTranscriber, seconds: float) -> None:
    assert transcriber.transcribe(Speech(np.zeros(max(1, int(seconds * SAMPLE_RATE)), np.float32))) == ""


@pytest.mark.slow
@pytest.mark.spec("G15")
def test_long_speech_is_transcribed_to_its_end(transcriber: OfflineTranscriber, village: Speech) -> None:
    pause = np.zeros(SAMPLE_RATE, np.float32)
    long = Speech(np.concatenate([village.samples, pause, village.samples, pause, village.samples]))
    assert long.duration_s > CHUNK_S_MAX
    assert words(transcriber.transcribe(long)).count("grandparents") == 3


@pytest.mark.spec("G15")
@pytest.mark.parametrize("seconds", [0, 1, 30, 30.01, 61, 200])
def test_chunks_lose_no_sample_and_stay_short(seconds: float) -> None:
    samples = np.random.default_rng(1).uniform(-1, 1, int(seconds * SAMPLE_RATE)).astype(np.float32)
    parts = list(chunks(samples))
    assert np.array_equal(np.concatenate([*parts, np.zeros(0, np.float32)]), samples)
    assert all(0 < len(part) <= CHUNK_S_MAX * SAMPLE_RATE for part in parts)


@pytest.mark.spec("G15")
def test_speech_is_cut_in_a_pause() -> None:
    samples = np.ones(40 * SAMPLE_RATE, np.float32)
    samples[25 * SAMPLE_RATE : 26 * SAMPLE_RATE] = 0
    assert 25 <= len(next(iter(chunks(samples)))) / SAMPLE_RATE <= 26


@pytest.mark.spec("G15")
@pytest.mark.may_skip("faster-whisper and a model are extras")
@pytest.mark.skipif(
    not whisper.is_installed() or whisper.model_folder("") is None, reason="The extra `whisper` has no model here."
)
def test_whisper_hears_the_same_words(village: Speech) -> None:
    transcriber = whisper.WhisperTranscriber()
    heard, said = words(transcriber.transcribe(village)), words((DATA / "village.txt").read_text())
    assert len([word for word in said if word in heard]) >= 0.9 * len(said)
    assert transcriber.transcribe(Speech(np.zeros(5 * SAMPLE_RATE, np.float32))) == ""
