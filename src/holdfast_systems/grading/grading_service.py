"""The grading service: takes requests from the queue, grades them in stages, answers through its own outbox.

    grading.request -> intake.py -> job --stages.py--> settled -> answers.py -> grading.callback, grading.dlq

It knows the main app by the queue contract only. Its final answers are written where the job is settled, so that a
worker, the reaper and the deadline sweep all answer alike, and never twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast import App, Context, Failure, InvalidInput, Job, JobTx, Provider, Retry, Settled, stage
from holdfast.kit import Gate, Kernel, PublicFailure, State, open_own, unchanged
from holdfast.kit.messages import Delivery
from holdfast.kit.repair import Corrected
from holdfast.kit.tables import Tx, load_migrations, providers
from holdfast.providers.openai import OpenAIClient
from holdfast.settings import read
from holdfast_systems.grading import answers, grading_jobs, refused, retention, stages
from holdfast_systems.grading.contract import (
    GradingRequest,
    Result,
    SpeakingRequest,
    WritingRequest,
    parse_request,
)
from holdfast_systems.grading.intake import accept_read, receive_request, wire_of
from holdfast_systems.grading.offline_grader import OfflineGrader
from holdfast_systems.grading.refused import ReadRequest, RefusedRequest
from holdfast_systems.grading.settings import ServiceSettings
from holdfast_systems.grading.stages import Audio, GradingEngine, Heard
from holdfast_systems.grading.topology import QUEUES, REQUESTS
from holdfast_systems.grading.transcriber import OfflineTranscriber
from holdfast_systems.grading.whisper import WhisperTranscriber

NAME = "grading-service"
MIGRATIONS = load_migrations("grading_service", Path(__file__).parent / "migrations_service")
# The job's deadline bounds a stage; a provider's own timeout bounds each call in it.
STAGE_TIMEOUT_S = 3_600.0
HELD_BATCH = 200
HELD_EVERY_S = 1.0
PRUNE_EVERY_S = 600.0
READ_TIMEOUT_S = 60.0


def build_service(env: Mapping[str, str]) -> App:
    """The grading service for an environment."""
    return service_app(engine_for(read(ServiceSettings, env)))


def engine_for(settings: ServiceSettings) -> GradingEngine:
    """The engine that the settings ask for: models behind an endpoint, or offline."""
    client = OpenAIClient(settings.openai_base_url, settings.openai_api_key) if settings.openai_base_url else None
    by_whisper = settings.stt_offline == "whisper"
    return GradingEngine(
        settings,
        llm=_provider("llm", settings, settings.llm_timeout_s),
        stt=_provider("stt", settings, settings.stt_timeout_s),
        client=client,
        grader=OfflineGrader(None if settings.language_model == "off" else "installed"),
        reader=WhisperTranscriber(settings.stt_whisper_folder) if by_whisper else OfflineTranscriber(),
    )


def _provider(name: str, settings: ServiceSettings, timeout_s: float) -> Provider:
    return Provider(name, breaker=settings.breaker, timeout_s=timeout_s, retry_after_max_s=settings.retry_cap_s)


def service_app(engine: GradingEngine) -> App:
    """The app around an engine."""
    app = App(NAME, migrations=MIGRATIONS, queues=QUEUES, never=(Exception,))  # a defect is final at once
    jobs: dict[str, type[Job[Any]]] = {"writing": _writing(app, engine), "speaking": _speaking(app, engine)}
    jobs[refused.KIND] = _refused(app, jobs)

    @app.consume(REQUESTS, unsigned=True)
    async def take_request(kernel: Kernel, delivery: Delivery) -> None:
        await receive_request(kernel, delivery, jobs)

    @app.step(every_s=HELD_EVERY_S, channel="breakers")
    async def tell_held(kernel: Kernel) -> int:
        return await tell_parked_once(kernel, engine)

    @app.step(every_s=PRUNE_EVERY_S, everywhere=True)
    async def prune_audio(kernel: Kernel) -> int:
        return await stages.prune_audio(engine, kernel)

    @app.step(every_s=retention.EVERY_S)
    async def prune_originals(kernel: Kernel) -> int:
        return await retention.prune_originals(kernel, engine.settings.originals_keep_days)

    @app.step(every_s=retention.EVERY_S)
    async def prune_requests(kernel: Kernel) -> int:
        return await retention.prune_requests(kernel, engine.settings.requests_keep_days)

    if engine.client is not None:
        app.closers.append(engine.client.aclose)
    return app


def _writing(app: App, engine: GradingEngine) -> type[Job[Any]]:
    @app.job(name="grading.writing", retries=engine.settings.retries_max)
    class GradeWriting(Job[WritingRequest]):
        @stage(provider=engine.llm, retry=engine.settings.retry, timeout_s=STAGE_TIMEOUT_S)
        async def grade(self, ctx: Context, request: WritingRequest) -> Result:
            return await stages.grade_text(engine, ctx, request)

        def public_failure(self, why: Failure, stage: str) -> PublicFailure:
            return answers.public_failure(stage, why)

        async def on_settled(self, tx: JobTx, change: Settled) -> None:
            await answer_settled(tx.kernel, tx, change)

        async def corrected(self, kernel: Kernel, tx: Tx, correction: Corrected[WritingRequest]) -> None:
            await check_correction(tx, correction.job_id, correction.after)

    return GradeWriting


def _speaking(app: App, engine: GradingEngine) -> type[Job[Any]]:
    retry = engine.settings.retry

    retries = engine.settings.retries_max

    @app.job(name="grading.speaking", retries=retries, version=2, upgrade={1: unchanged}, seals=("payload.audio_url",))
    class GradeSpeaking(Job[SpeakingRequest]):
        @stage(retry=retry, timeout_s=STAGE_TIMEOUT_S)
        async def fetch_audio(self, ctx: Context, request: SpeakingRequest) -> Audio:
            return await stages.fetch_audio(engine, ctx, request)

        @stage(provider=engine.stt, retry=retry, timeout_s=STAGE_TIMEOUT_S)
        async def transcribe(self, ctx: Context, request: SpeakingRequest, fetch_audio: Audio) -> Heard:
            return await stages.transcribe(engine, ctx, request, fetch_audio)

        @stage(provider=engine.llm, retry=retry, timeout_s=STAGE_TIMEOUT_S)
        async def grade(self, ctx: Context, request: SpeakingRequest, transcribe: Heard) -> Result:
            return await stages.grade_speech(engine, ctx, request, transcribe)

        def public_failure(self, why: Failure, stage: str) -> PublicFailure:
            return answers.public_failure(stage, why)

        async def on_settled(self, tx: JobTx, change: Settled) -> None:
            await answer_settled(tx.kernel, tx, change)

        async def corrected(self, kernel: Kernel, tx: Tx, correction: Corrected[SpeakingRequest]) -> None:
            await check_correction(tx, correction.job_id, correction.after)

    return GradeSpeaking


def _refused(app: App, jobs: Mapping[str, type[Job[Any]]]) -> type[Job[Any]]:
    @app.job(name=refused.KIND, version=2, upgrade={1: unchanged}, seals=("original",))
    class ReadRefused(Job[RefusedRequest]):
        @stage(retry=Retry(attempts=1), timeout_s=READ_TIMEOUT_S)
        async def read(self, ctx: Context, message: RefusedRequest) -> ReadRequest:
            return refused.read_again(message)

        async def on_settled(self, tx: JobTx, change: Settled) -> None:
            message = RefusedRequest.model_validate_json(change.job.payload)
            state = change.decision.state
            await refused.name_case(tx, change.job.id, state, message.request_id, message.submission_id)
            if state is State.SUCCEEDED:
                whole = await open_own(tx.kernel.sealer, tx, change.job.id, message.original, "original")
                read = parse_request(message.model_copy(update={"original": whole}).body)
                await accept_read(tx.kernel, tx, read, jobs)

    return ReadRefused


async def check_correction(tx: Tx, job_id: str, after: GradingRequest) -> None:
    """Refuse to make another request of this one: its answer goes to whoever asked for it, by these very ids."""
    known = await grading_jobs.of_job(tx, job_id)
    if known is None:
        return  # enqueued by hand: nobody waits for its answer
    asked = (known.request_id, known.submission_id, known.user_id, known.attempt, known.deadline_at)
    if asked != (after.dedup_key, after.submission_id, after.user_id, after.attempt, after.deadline_ms):
        raise InvalidInput(
            "Only the payload of a grading request can be corrected, not its ids, its attempt or its deadline."
        )


async def answer_settled(kernel: Kernel, tx: Tx, change: Settled) -> None:
    """Answer what the job's change means to its sender, in the transaction of the change."""
    decision = change.decision
    if decision.event == "held" and decision.provider is not None:
        await _tell_held(kernel, tx, change.job.id, decision.provider)
    if decision.state not in (State.SUCCEEDED, State.DEAD, State.CANCELLED):
        return
    job = await grading_jobs.of_job(tx, change.job.id)
    if job is None:
        return  # enqueued by hand: there is no sender to answer
    if decision.state is State.SUCCEEDED:
        assert change.value is not None, "a graded job has a result"
        await answers.completed(kernel, tx, job, Result.model_validate_json(change.value, by_name=True))
    elif decision.state is State.CANCELLED:
        await answers.cancelled(kernel, tx, job)
    else:
        assert decision.failure is not None, "the dead have a reason"
        await refused.name_case(tx, change.job.id, decision.state, job.request_id, job.submission_id)
        await answers.failed(
            kernel,
            tx,
            job,
            answers.error_of(change.job.stage, decision.failure),
            attempts_made=decision.attempts_made,
            stage=change.job.stage,
            error_class=decision.failure.error_class,
            original=wire_of(change.job.payload),
        )


async def _tell_held(kernel: Kernel, tx: Tx, job_id: str, provider: str) -> None:
    """A handler met the open breaker itself. A limit that holds it is no news: it passes by itself."""
    state = (await providers.read(tx, provider)).state
    known = await grading_jobs.of_job(tx, job_id)
    if known is None or state.gate is not Gate.OPEN:
        return
    told = await grading_jobs.tell_one(tx, known.request_id, provider, state.generation)
    if told is not None:
        await answers.circuit_open(kernel, tx, told, provider)


async def tell_parked_once(kernel: Kernel, engine: GradingEngine) -> int:
    """Tell the senders of jobs that an open breaker parked: once per job and opening. Returns how many were told."""
    count = 0
    for provider in (engine.llm.name, engine.stt.name):
        async with kernel.store.reading() as tx:
            state = (await providers.read(tx, provider)).state
        if state.gate is Gate.OPEN:
            count += await _tell_parked(kernel, provider, state.generation)
    return count


async def _tell_parked(kernel: Kernel, provider: str, generation: int) -> int:
    async with kernel.store.transaction() as tx:
        told = await grading_jobs.tell_parked(tx, provider, generation, HELD_BATCH)
        for job in told:
            await answers.circuit_open(kernel, tx, job, provider)
    return len(told)
