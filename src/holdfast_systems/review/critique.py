"""The stage `llm`: what a critic says of the change. Each prompt is one call, paid for once and kept at once.

With an endpoint set, a model criticises, chunk by chunk; a crash or a retry goes on at the first chunk that has no
answer yet. Without one, the offline critic does it here. Nothing leaves unless redaction worked.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace

from pydantic import TypeAdapter

from holdfast import Context, Cost
from holdfast.providers.openai import OpenAIClient
from holdfast_systems.review import changes, reviews
from holdfast_systems.review.changelist import Changelist, FetchedDiff, parse_diff
from holdfast_systems.review.changes import Change
from holdfast_systems.review.engine import Engine
from holdfast_systems.review.findings import Finding, Review
from holdfast_systems.review.llm_chunks import Chunk, plan_chunks, safely
from holdfast_systems.review.llm_critic import ChunkReview, merged, review_chunk

_CHUNK = TypeAdapter(ChunkReview)


@dataclass(frozen=True, slots=True)
class Critique:
    """A review with the title its mail carries."""

    title: str
    review: Review


async def fetch_change(engine: Engine, ctx: Context, order: reviews.ReviewOrder) -> Change:
    """The stage `fetch`: the change, read once to see that it is one, and kept."""
    fetched = await ctx.call(lambda: engine.fetch(engine.settings, order.source, trusted=order.trusted))
    await engine.run_blocking(lambda: parse_diff(fetched.diff))
    return await engine.run_blocking(lambda: changes.keep(fetched, engine.settings.changes_folder))


async def criticise(engine: Engine, ctx: Context, order: reviews.ReviewOrder, change: Change) -> Critique:
    """The stage `llm`."""
    fetched = await engine.run_blocking(lambda: changes.kept(change, engine.settings.changes_folder))
    if fetched is None:
        change = changes.same_again(change, await fetch_again(engine, ctx, order))
        fetched = await engine.run_blocking(lambda: changes.kept(change, engine.settings.changes_folder))
        assert fetched is not None, "it was kept a moment ago"
    title = order.title or change.title
    parsed = await engine.run_blocking(lambda: parse_diff(fetched.diff))
    changelist = parsed.named(order.changelist_id, title, change.author)
    if engine.client is None:
        timeout_s = engine.settings.critic_s
        review = await ctx.call(
            lambda: engine.criticise(changelist, fetched.contents, timeout_s=timeout_s, sizes=fetched.sizes)
        )
    else:
        review = await _by_model(engine, ctx, order, changelist, fetched, engine.client)
    return Critique(safely(engine.redact, title), _redacted(engine, review))


async def fetch_again(engine: Engine, ctx: Context, order: reviews.ReviewOrder) -> Change:
    fetched = await ctx.call(
        lambda: engine.fetch(engine.settings, order.source, trusted=order.trusted), provider=engine.source
    )
    return await engine.run_blocking(lambda: changes.keep(fetched, engine.settings.changes_folder))


async def _by_model(
    engine: Engine,
    ctx: Context,
    order: reviews.ReviewOrder,
    changelist: Changelist,
    fetched: FetchedDiff,
    client: OpenAIClient,
) -> Review:
    settings = engine.settings
    chunks = await engine.run_blocking(
        lambda: plan_chunks(changelist, tokens_max=settings.tokens_max, redact=engine.redact)
    )
    title = safely(engine.redact, changelist.title)
    async with ctx.kernel.store.reading() as tx:
        known = {row["chunk_no"]: row for row in await tx.rows(reviews.sql.chunks, review_id=order.review_id)}
    parts: list[ChunkReview] = []
    linted: tuple[Finding, ...] | None = None
    for number, chunk in enumerate(chunks):
        digest = _digest(settings.llm_model, title, chunk)
        row = known.get(number)
        if row is not None and row["chunk_sha256"] == digest:
            parts.append(_CHUNK.validate_json(row["value"]))
            continue
        if linted is None:
            linted = await _linted(engine, changelist, fetched)
        parts.append(await _ask(engine, ctx, client, chunk, title, digest, linted))
        await _keep_chunk(ctx, order, number, digest, parts[-1])
        await ctx.progress(chunk=number + 1, of=len(chunks))
    return merged(parts, changelist)


async def _linted(engine: Engine, changelist: Changelist, fetched: FetchedDiff) -> tuple[Finding, ...]:
    """What the linters say of the change, for the model to know. Each tool has its limit of time."""
    review = await engine.criticise(
        changelist, fetched.contents, timeout_s=engine.settings.critic_s, sizes=fetched.sizes
    )
    return _redacted(engine, review).findings


async def _ask(
    engine: Engine,
    ctx: Context,
    client: OpenAIClient,
    chunk: Chunk,
    title: str,
    digest: str,
    linted: tuple[Finding, ...],
) -> ChunkReview:
    settings = engine.settings

    def price(said: ChunkReview) -> Cost:
        spent = said.tokens_in * settings.llm_prompt_price + said.tokens_out * settings.llm_answer_price
        return Cost(spent // 1_000, {"prompt_tokens": said.tokens_in, "completion_tokens": said.tokens_out})

    return await ctx.paid_call(
        lambda key: review_chunk(
            chunk,
            title=title,
            client=client,
            model=settings.llm_model,
            timeout_s=settings.llm_timeout_s,
            key=key,
            linted=linted,
        ),
        answer=ChunkReview,
        name=digest,
        cost=price,
    )


async def _keep_chunk(ctx: Context, order: reviews.ReviewOrder, number: int, digest: str, said: ChunkReview) -> None:
    async with ctx.transaction() as tx:
        await tx.rows(
            reviews.sql.put_chunk,
            review_id=order.review_id,
            chunk_no=number,
            chunk_sha256=digest,
            value=json.dumps(asdict(said)),
            now=ctx.now(),
        )


def _digest(model: str, title: str, chunk: Chunk) -> str:
    return hashlib.sha256("\0".join((model, title, chunk.text)).encode()).hexdigest()


def _redacted(engine: Engine, review: Review) -> Review:
    """The review as it may be stored and shown: a finding must not quote the secret it found."""

    def clean(finding: Finding) -> Finding:
        return replace(
            finding,
            path=safely(engine.redact, finding.path),
            rule=safely(engine.redact, finding.rule),
            message=safely(engine.redact, finding.message),
            suggestion=safely(engine.redact, finding.suggestion),
        )

    return replace(
        review,
        summary=safely(engine.redact, review.summary),
        findings=tuple(clean(finding) for finding in review.findings),
    )
