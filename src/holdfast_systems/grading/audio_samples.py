"""Decodes one audio file to 16 kHz mono samples: the task that a sandbox runs on what strangers send.

Containers that can name other files or hosts (playlists, concatenations) are not opened at all, and no codec gets
threads of its own: the sandbox allows none.
"""

from __future__ import annotations

import errno
import io
import struct
import sys
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import av
from av.error import FFmpegError

from holdfast_systems.sandbox.task import Options, Task

SAMPLE_RATE = 16_000
# FFmpeg's names of what is read: wav, mp3, m4a/mp4, ogg/opus, webm, flac, and raw AAC from phones.
_CONTAINERS = "wav,mp3,mov,mp4,m4a,3gp,3g2,mj2,ogg,matroska,webm,flac,aac"


class AudioExit(IntEnum):
    """How the child ended. The numbers are a contract with `audio`."""

    DECODED = 0
    UNDECODABLE = 20
    NO_AUDIO = 21
    TOO_LONG = 22
    TOO_COMPLEX = 23


def run(source: int, target: int, options: Options) -> int:
    """Write the samples of the open file `source` as 32-bit floats, in the machine's byte order."""
    with open(source, "rb", closefd=False) as given, open(target, "wb", closefd=False) as out:
        try:
            return _write(given.read(), out, float(options["duration_s_max"] or 0))
        except MemoryError:
            return AudioExit.TOO_COMPLEX
        except FFmpegError as error:  # some are OSErrors too
            print(type(error).__name__, file=sys.stderr, flush=True)
            return AudioExit.UNDECODABLE
        except OSError as error:
            return AudioExit.TOO_COMPLEX if error.errno in (errno.EFBIG, errno.ENOMEM) else 1
        except Exception as error:  # whatever else the library makes of it: the file is all that is read here
            print(type(error).__name__, file=sys.stderr, flush=True)
            return AudioExit.UNDECODABLE


def _write(audio: bytes, out: Any, duration_s_max: float) -> AudioExit:
    options = {"format_whitelist": _CONTAINERS, "protocol_whitelist": "none"}
    bytes_max, count = int(duration_s_max * SAMPLE_RATE) * 4, 0
    with av.open(io.BytesIO(audio), mode="r", options=options, metadata_errors="ignore") as container:
        if not container.streams.audio:
            return AudioExit.NO_AUDIO
        for piece in _pieces(container):
            count += len(piece)
            if count > bytes_max:
                return AudioExit.TOO_LONG
            out.write(piece)
    return AudioExit.DECODED if count else AudioExit.NO_AUDIO


def _pieces(container: Any) -> Iterator[bytes]:
    stream = container.streams.audio[0]
    stream.codec_context.thread_type, stream.codec_context.thread_count = "NONE", 1
    resampler = av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE)
    for frame in container.decode(stream):
        yield from _resampled(resampler, frame)
    yield from _resampled(resampler, None)


def _resampled(resampler: Any, frame: Any) -> Iterator[bytes]:
    for piece in resampler.resample(frame):
        yield bytes(piece.planes[0])[: piece.samples * 4]


def warm_up() -> None:
    """Decode a moment of silence of our own, so that everything it takes is loaded."""
    samples = bytes(3_200)
    head = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        36 + len(samples),
        b"WAVE",
        b"fmt ",
        16,
        1,
        1,
        16_000,
        32_000,
        2,
        16,
        b"data",
        len(samples),
    )
    _write(head + samples, io.BytesIO(), 1.0)


TASK = Task(run, warm_up)
