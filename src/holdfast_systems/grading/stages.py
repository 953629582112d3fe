"""What grading does, stage by stage: fetch the audio, transcribe it, grade the words.

With an endpoint set, models do it; without one, this process does it, in threads. Both go through `ctx.call`, so that
breakers, timeouts and accounting hold for either. Audio travels between stages on disk, by reference; if the file is
gone (another machine, a cleaned disk), the next stage fetches it again.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeVar

from holdfast import CallError, Category, Context, Cost, Provider
from holdfast.kit import Kernel
from holdfast.providers.gate import path_in
from holdfast.providers.openai import OpenAIClient
from holdfast.providers.outbound import Fetched, OutboundPolicy, fetch
from holdfast_systems.grading import answers
from holdfast_systems.grading.audio import DECODED_AT_ONCE, SAMPLE_RATE, Speech, decode
from holdfast_systems.grading.confidence import confidence_in
from holdfast_systems.grading.contract import GradingRequest, Progress, Result, SpeakingRequest, WritingRequest
from holdfast_systems.grading.delivery import SpokenDelivery, delivery_of
from holdfast_systems.grading.grade import Grade, TaskType
from holdfast_systems.grading.grader import Asked, Guard, ModelSettings, grade_speaking, grade_writing
from holdfast_systems.grading.intake import trace_id_of
from holdfast_systems.grading.messages import result_of
from holdfast_systems.grading.offline_grader import WORDS_EXPECTED, OfflineGrader, words_expected_of_speech
from holdfast_systems.grading.recording_files import uploaded
from holdfast_systems.grading.settings import ServiceSettings
from holdfast_systems.grading.transcriber import OfflineTranscriber

T = TypeVar("T")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
# Transcribers hear a word or two in silence.
_INVENTED_WORDS_MAX = 3
# Endpoints tell the format by the name's end; one that is not known travels as the commonest.
_SUFFIXES = frozenset({".wav", ".mp3", ".m4a", ".mp4", ".ogg", ".oga", ".opus", ".webm", ".flac"})


class TextGrader(Protocol):
    def grade_writing(self, text: str, task_type: TaskType, question: str | None = None) -> Grade: ...

    def grade_speaking(
        self, transcript: str, duration_s: float, delivery: SpokenDelivery | None = None, question: str | None = None
    ) -> Grade: ...


class SpeechReader(Protocol):
    def transcribe(self, speech: Speech) -> str: ...


class Spent(Protocol):
    """An answer that says how many tokens it took."""

    @property
    def prompt_tokens(self) -> int: ...

    @property
    def completion_tokens(self) -> int: ...


class RunGraderBlocking(Protocol):
    """Runs what would block the loop. The default is a thread; a simulator runs it where it stands."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


@dataclass(frozen=True, slots=True)
class Audio:
    """A fetched file, by its name in the audio folder."""

    name: str
    filename: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Heard:
    """What was said, for how long, and how. A reading of an earlier release has no delivery."""

    transcript: str
    duration_s: float
    delivery: SpokenDelivery | None = None


@dataclass(frozen=True, slots=True)
class GradingEngine:
    """Everything the stages work with. Declaring one loads no model and opens no connection."""

    settings: ServiceSettings
    llm: Provider
    stt: Provider
    client: OpenAIClient | None = None
    grader: TextGrader = field(default_factory=OfflineGrader)
    reader: SpeechReader = field(default_factory=OfflineTranscriber)
    run_blocking: RunGraderBlocking = asyncio.to_thread
    fetch: Callable[[str, OutboundPolicy], Awaitable[Fetched]] = fetch
    # Offline work is done one piece at a time. Waiting for one's turn is nobody's slowness, so it is not timed.
    grading_turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    reading_turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    decoding_turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(DECODED_AT_ONCE))

    @property
    def model(self) -> ModelSettings:
        return ModelSettings(self.settings.llm_model, self.settings.llm_runs, self.settings.llm_timeout_s)

    def price(self, spent: Spent) -> Cost:
        """What a call cost, in tokens and money."""
        micros = spent.prompt_tokens * self.settings.llm_prompt_price
        micros += spent.completion_tokens * self.settings.llm_answer_price
        tokens = {"prompt_tokens": spent.prompt_tokens, "completion_tokens": spent.completion_tokens}
        return Cost(micros=micros // 1_000, units=tokens if any(tokens.values()) else None)

    def audio_price(self, duration_s: float) -> Cost:
        """What a transcription cost, in seconds and money; endpoints bill whole seconds."""
        seconds = round(duration_s)
        return Cost(micros=seconds * self.settings.stt_price, units={"audio_seconds": seconds})


async def grade_text(engine: GradingEngine, ctx: Context, request: WritingRequest) -> Result:
    """The result of a written answer."""
    await _tell(ctx, request, "GRADING", 0.5)
    text, task_type = request.payload.text, request.payload.task_type
    grade, measured = await _grade(
        engine,
        ctx,
        lambda: engine.grader.grade_writing(text, task_type, request.payload.question_text),
        lambda client, guard: grade_writing(
            client, engine.model, text, task_type, question=request.payload.question_text, guard=guard
        ),
    )
    return _result(engine, grade, measured, text, WORDS_EXPECTED[task_type], request.payload.question_text)


async def fetch_audio(engine: GradingEngine, ctx: Context, request: SpeakingRequest) -> Audio:
    """Fetch the learner's audio, within the policy, and keep it on disk under a name of our own."""
    await _tell(ctx, request, "PROCESSING", 0.1)
    content = await _fetched(engine, request)
    audio = Audio(f"{ctx.job_id}.audio", _filename(request.payload.audio_url), len(content))
    await engine.run_blocking(lambda: _write(engine.settings.audio_folder / audio.name, content))
    return audio


async def transcribe(engine: GradingEngine, ctx: Context, request: SpeakingRequest, audio: Audio) -> Heard:
    """The words in the audio. Audio that cannot be decoded, or is shorter than promised, is not tried again."""
    await _tell(ctx, request, "ANALYZING", 0.4)
    content = await _content(engine, request, audio)
    limits, promised_s = engine.settings.audio_limits, request.payload.duration_seconds
    async with engine.decoding_turn:
        speech = await engine.run_blocking(lambda: decode(content, limits, duration_s=promised_s))
    client, settings = engine.client, engine.settings
    if client is not None:
        words = await ctx.paid_call(
            lambda key: client.transcribe(settings.stt_model, content, audio.filename, settings.stt_timeout_s, key=key),
            answer=str,
            cost=lambda _: engine.audio_price(speech.duration_s),
        )
    else:
        async with engine.reading_turn:
            words = await ctx.call(lambda: engine.run_blocking(lambda: engine.reader.transcribe(speech)))
    delivery = await engine.run_blocking(lambda: delivery_of(speech.samples, SAMPLE_RATE))
    if not words.strip() or (not delivery.voice_s and len(words.split()) <= _INVENTED_WORDS_MAX):
        raise CallError.of(Category.VALIDATION, "AUDIO_SILENT", "No speech can be heard in the audio.")
    return Heard(words, speech.duration_s, delivery)


async def grade_speech(engine: GradingEngine, ctx: Context, request: SpeakingRequest, heard: Heard) -> Result:
    """The result of a spoken answer, from its transcript. Its audio is not needed any more."""
    await _tell(ctx, request, "GRADING", 0.7)
    await engine.run_blocking(lambda: _forget(engine.settings.audio_folder / f"{ctx.job_id}.audio"))
    said, duration_s, payload = heard.transcript, heard.duration_s, request.payload
    grade, measured = await _grade(
        engine,
        ctx,
        lambda: engine.grader.grade_speaking(said, duration_s, heard.delivery, payload.question_text),
        lambda client, guard: grade_speaking(
            client,
            engine.model,
            said,
            duration_s=duration_s,
            part=payload.part,
            question=payload.question_text,
            guard=guard,
        ),
    )
    expected = words_expected_of_speech(duration_s)
    return _result(engine, grade, measured, said, expected, payload.question_text, transcript=said)


def _result(
    engine: GradingEngine,
    grade: Grade,
    measured: Grade | None,
    answer: str,
    words_expected: int,
    question: str | None,
    *,
    transcript: str | None = None,
) -> Result:
    """The callback's result. A model's grade carries the measurements of the same words, for calibration."""
    words = len(_WORD.findall(answer))
    sure = confidence_in(
        grade, words=words, words_expected=words_expected, answer=answer, question=question, measured=measured
    )
    return result_of(grade, sure.score, transcript=transcript, review_below=engine.settings.review_below)


async def prune_audio(engine: GradingEngine, kernel: Kernel) -> int:
    """Remove audio that nobody came back for. Returns 0: what it did shows on the disk, not in a queue."""
    oldest_s = kernel.now() / 1_000 - engine.settings.audio_keep_s
    await engine.run_blocking(lambda: _forget_older(engine.settings.audio_folder, oldest_s))
    return 0


async def _grade(
    engine: GradingEngine,
    ctx: Context,
    measure: Callable[[], Grade],
    ask: Callable[[OpenAIClient, Guard], Awaitable[Grade]],
) -> tuple[Grade, Grade | None]:
    """The grade, and an independent measurement of the same words where a model gave it.

    Every run of a model asks the breaker, and tells it, its cost and its Retry-After, by itself."""
    client = engine.client
    if client is None:
        async with engine.grading_turn:
            return await ctx.call(lambda: engine.run_blocking(measure), cost=engine.price), None
    grade = await ask(client, lambda run: ctx.paid_call(run, answer=Asked, cost=engine.price))
    return grade, await engine.run_blocking(measure)


async def _tell(ctx: Context, request: GradingRequest, status: Progress, share: float) -> None:
    """Report progress under the lease, once in a stage and epoch: to be held and to try again is no progress."""
    async with ctx.transaction() as tx:
        if not await ctx.note_progress(tx, status=status, share=share):
            return
        await answers.progressed(
            ctx.kernel, tx, request.dedup_key, request.submission_id, trace_id_of(request), status, share
        )


async def _content(engine: GradingEngine, request: SpeakingRequest, audio: Audio) -> bytes:
    path = engine.settings.audio_folder / audio.name
    found = await engine.run_blocking(lambda: path.read_bytes() if path.exists() else None)
    return await _fetched(engine, request) if found is None else found


async def _fetched(engine: GradingEngine, request: SpeakingRequest) -> bytes:
    """What the URL leads to; what was uploaded here is read from its folder, and no request is made."""
    url = request.payload.audio_url
    found = await engine.run_blocking(lambda: uploaded(engine.settings.recordings_folder, url))
    return (await engine.fetch(url, engine.settings.outbound)).content if found is None else found


def _filename(url: str) -> str:
    suffix = PurePosixPath(path_in(url)).suffix.lower()
    return f"audio{suffix if suffix in _SUFFIXES else '.mp3'}"


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all: a crash leaves no half file under the name that is read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_bytes(content)
    os.replace(part, path)


def _forget(path: Path) -> None:
    path.unlink(missing_ok=True)


def _forget_older(folder: Path, oldest_s: float) -> None:
    for path in folder.glob("*.*") if folder.exists() else ():
        if path.stat().st_mtime < oldest_s:
            path.unlink(missing_ok=True)
