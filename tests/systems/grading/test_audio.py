"""Decoding audio that strangers send."""

from __future__ import annotations

import io
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.core.failure import Category
from holdfast.errors import CallError
from holdfast_systems.grading.audio import SAMPLE_RATE, AudioLimits, Speech, decode

FORMATS = {
    "wav": ("wav", "pcm_s16le"),
    "mp3": ("mp3", "libmp3lame"),
    "m4a": ("mp4", "aac"),
    "ogg": ("ogg", "libopus"),
    "webm": ("webm", "libopus"),
    "flac": ("flac", "flac"),
}
LIMITS = AudioLimits()


def tone(seconds: float) -> NDArray[np.float32]:
    time = np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    return (0.3 * np.sin(2 * np.pi * 440 * time)).astype(np.float32)


def encode(samples: NDArray[np.float32], container: str, codec: str, *, rate: int = 48_000) -> bytes:
    out = io.BytesIO()
    with av.open(out, "w", format=container) as file:
        stream = file.add_stream(codec, rate=rate, layout="mono")
        frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="flt", layout="mono")
        frame.sample_rate = SAMPLE_RATE
        size = stream.codec_context.frame_size or 1_024
        to_codec = av.AudioResampler(format=stream.format, layout="mono", rate=rate, frame_size=size)
        for piece in [*to_codec.resample(frame), *to_codec.resample(None)]:
            file.mux(stream.encode(piece))
        file.mux(stream.encode(None))
    return out.getvalue()


def refused(audio: bytes, limits: AudioLimits = LIMITS, duration_s: float | None = None) -> str:
    with pytest.raises(CallError) as caught:
        decode(audio, limits, duration_s=duration_s)
    failure = caught.value.failure
    assert failure.category is Category.VALIDATION and not failure.retryable
    return failure.error_class


@pytest.fixture(scope="module")
def recordings() -> dict[str, bytes]:
    return {name: encode(tone(6), container, codec) for name, (container, codec) in FORMATS.items()}


@pytest.mark.spec("G15")
@pytest.mark.parametrize("name", FORMATS)
def test_every_common_format_becomes_16_khz_mono(name: str, recordings: dict[str, bytes]) -> None:
    speech = decode(recordings[name], LIMITS, duration_s=6)
    assert speech.duration_s == pytest.approx(6, abs=0.2)
    assert speech.samples.dtype == np.float32 and speech.samples.ndim == 1
    second = speech.samples[SAMPLE_RATE : 2 * SAMPLE_RATE]
    spectrum = np.abs(np.fft.rfft(second))
    assert int(spectrum.argmax()) == pytest.approx(440, abs=2), "the tone is still the tone"
    assert np.sqrt(np.mean(second**2)) == pytest.approx(0.3 / np.sqrt(2), abs=0.02)


@pytest.mark.spec("G15", "G6")
@pytest.mark.parametrize("name", FORMATS)
def test_a_recording_cut_in_the_middle_is_never_taken_for_whole(name: str, recordings: dict[str, bytes]) -> None:
    half = recordings[name][: len(recordings[name]) // 2]
    assert refused(half, duration_s=6) in ("AUDIO_TRUNCATED", "AUDIO_UNDECODABLE")


@pytest.mark.spec("G15")
@pytest.mark.parametrize(("promised_s", "whole"), [(1, True), (6, True), (7, True), (8, False), (600, False)])
def test_a_little_shorter_than_promised_is_whole(promised_s: float, whole: bool, recordings: dict[str, bytes]) -> None:
    if whole:
        assert isinstance(decode(recordings["wav"], LIMITS, duration_s=promised_s), Speech)
    else:
        assert refused(recordings["wav"], duration_s=promised_s) == "AUDIO_TRUNCATED"


@pytest.mark.spec("G15", "G6")
@pytest.mark.parametrize(
    "audio",
    [b"", b"\x00" * 5_000, b"<html>not here</html>", bytes(range(256)) * 40, b"RIFF\x00\x00\x00\x00WAVEfmt ", b"OggS"],
    ids=["empty", "zeros", "html", "noise", "wav header", "ogg header"],
)
def test_what_is_no_audio_is_undecodable_and_final(audio: bytes) -> None:
    assert refused(audio) == "AUDIO_UNDECODABLE"


@pytest.mark.spec("G15", "G6")
def test_a_file_without_an_audio_stream_is_undecodable() -> None:
    out = io.BytesIO()
    with av.open(out, "w", format="mp4") as file:
        stream = file.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            file.mux(packet)
    assert refused(out.getvalue()) == "AUDIO_UNDECODABLE"


@pytest.mark.spec("G16")
@pytest.mark.parametrize("form", ["playlist", "concatenation"])
def test_a_file_that_names_other_files_is_not_followed(
    form: str, tmp_path: Path, recordings: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inside = tmp_path / "inside.wav"
    inside.write_bytes(recordings["wav"])
    bodies = {
        "playlist": f"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfile://{inside}\n#EXT-X-ENDLIST\n",
        # A relative name: FFmpeg itself refuses absolute ones, but would open this.
        "concatenation": "ffconcat version 1.0\nfile inside.wav\n",
    }
    assert refused(bodies[form].encode()) == "AUDIO_UNDECODABLE"


@pytest.mark.spec("G16")
@pytest.mark.slow
def test_a_small_file_cannot_unfold_for_hours() -> None:
    silence = encode(np.zeros(60 * SAMPLE_RATE, np.float32), "ogg", "libopus")
    assert len(silence) < 100_000
    assert refused(silence, AudioLimits(duration_s_max=30)) == "AUDIO_TOO_LONG"
    assert decode(silence, AudioLimits(duration_s_max=61)).duration_s == pytest.approx(60, abs=0.2)


@pytest.mark.spec("G16")
def test_a_file_over_the_size_limit_is_not_opened(recordings: dict[str, bytes]) -> None:
    assert refused(recordings["wav"], AudioLimits(bytes_max=1_000)) == "AUDIO_TOO_LARGE"
