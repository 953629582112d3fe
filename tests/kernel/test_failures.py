"""What a failing call means in a running stage: retried or not, by whose word, and what the dead letter says."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from holdfast import App, CallError, Category, Context, Failure, Job, Provider, Retry, stage
from holdfast.errors import BadDeclaration
from holdfast.kit import failure
from holdfast.tables import events
from tests.kernel.places import Deploy

pytestmark = pytest.mark.spec("K5")
THREE = Retry(attempts=3, base_s=1, jitter="none")


class Declined(Exception):
    """An exception of the user's own."""


class DeclinedForGood(Declined):
    pass


def app_that(
    act: Any, provider: Provider | None = None, app_never: Any = (), **options: Any
) -> tuple[App, type[Job[int]]]:
    """An app with one job whose only stage does what the test says."""
    made = App("failing", never=app_never)

    @made.job(deadline_s=3_600)
    class Act(Job[int]):
        @stage(retry=THREE, provider=provider, **options)
        async def run(self, ctx: Context, number: int) -> None:
            await act(ctx)

    return made, Act


async def letter_of(deploy: Deploy, made: App, job: type[Job[int]], **options: Any) -> dict[str, Any]:
    world = await deploy(made)
    await world.enqueue(job, 1, **options)
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    return letter


def raising(error: Exception) -> Any:
    async def act(ctx: Context) -> None:
        raise error

    return act


def calling(error: Exception) -> Any:
    async def call() -> None:
        raise error

    async def act(ctx: Context) -> None:
        await ctx.call(call)

    return act


def answered(status: int, **headers: str) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://provider.test")
    response = httpx.Response(status, request=request, headers={k.replace("_", "-"): v for k, v in headers.items()})
    return httpx.HTTPStatusError(f"{status} for you", request=request, response=response)


@pytest.mark.spec("K7")
@pytest.mark.parametrize("how", [raising, calling])
async def test_an_unknown_exception_is_retried_and_the_letter_says_so(deploy: Deploy, how: Any) -> None:
    made, job = app_that(how(KeyError("customer")), Provider("shop"))
    letter = await letter_of(deploy, made, job)
    assert (letter["error_class"], letter["category"], letter["failure_reason"]) == (
        "BUG",
        "bug_or_config",
        "exhausted",
    )
    assert letter["attempts_made"] == 3
    assert letter["last_error"] == (
        "KeyError: 'customer' (unknown exception, retried because nothing says that it is permanent)"
    )


@pytest.mark.parametrize("how", [raising, calling])
@pytest.mark.parametrize(
    ("error", "error_class", "attempts"),
    [(answered(500), "UPSTREAM_INTERNAL", 3), (answered(422), "UPSTREAM_UNPROCESSABLE", 1)],
)
async def test_raise_for_status_needs_no_line_of_ours(
    deploy: Deploy, how: Any, error: Exception, error_class: str, attempts: int
) -> None:
    made, job = app_that(how(error), Provider("shop"))
    letter = await letter_of(deploy, made, job)
    assert (letter["error_class"], letter["attempts_made"]) == (error_class, attempts)


@pytest.mark.spec("K4")
async def test_a_retry_after_of_a_foreign_client_is_waited_for(deploy: Deploy) -> None:
    made, job = app_that(raising(answered(503, retry_after="40")))
    world = await deploy(made)
    job_id = await world.enqueue(job, 1)
    await world.work()
    assert (await world.job(job_id))["run_at"] == world.clock.now_ms() + 40_000


@pytest.mark.parametrize("how", [raising, calling])
@pytest.mark.parametrize(
    ("options", "error", "attempts"),
    [
        ({"never": (Exception,)}, KeyError("x"), 1),
        ({"never": (Exception,)}, answered(500), 3),
        ({"never": (httpx.HTTPStatusError,)}, answered(500), 1),
        ({"never": (Declined,)}, DeclinedForGood("x"), 1),
        ({"retry_on": (DeclinedForGood,), "never": (Declined,)}, DeclinedForGood("x"), 3),
        ({"retry_on": (Declined,), "never": (DeclinedForGood,)}, DeclinedForGood("x"), 1),
        ({"retry_on": (httpx.HTTPStatusError,)}, answered(404), 3),
        ({"retry_on": (KeyError,), "never": (Exception,)}, KeyError("x"), 3),
    ],
)
async def test_the_stages_own_word_wins_by_the_nearest_class(
    deploy: Deploy, how: Any, options: dict[str, Any], error: Exception, attempts: int
) -> None:
    made, job = app_that(how(error), Provider("shop"), **options)
    letter = await letter_of(deploy, made, job)
    assert letter["attempts_made"] == attempts
    assert "retried because" not in letter["last_error"]


async def test_an_app_may_say_never_for_all_its_stages(deploy: Deploy) -> None:
    made, job = app_that(raising(KeyError("x")), app_never=(Exception,))
    assert (await letter_of(deploy, made, job))["attempts_made"] == 1


async def test_a_stages_retry_on_stands_before_its_apps_never(deploy: Deploy) -> None:
    made, job = app_that(raising(KeyError("x")), app_never=(KeyError, Exception), retry_on=(KeyError,))
    assert (await letter_of(deploy, made, job))["attempts_made"] == 3


async def test_a_group_is_judged_member_by_member(deploy: Deploy) -> None:
    group = ExceptionGroup("parallel", [answered(503), Declined("x")])
    made, job = app_that(raising(group), never=(Declined,))
    assert (await letter_of(deploy, made, job))["attempts_made"] == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"retry_on": (5,)}, "a retry_on that is not a tuple of exception classes"),
        ({"never": Exception}, "a never that is not a tuple of exception classes"),
        ({"never": [KeyError]}, "a never that is not a tuple of exception classes"),
        ({"never": (KeyError,), "retry_on": (KeyError,)}, "names KeyError in retry_on and in never"),
    ],
)
def test_rules_that_cannot_work_are_refused_when_declared(options: dict[str, Any], told: str) -> None:
    with pytest.raises(BadDeclaration, match=told):
        app_that(raising(KeyError()), **options)


def judge(error: BaseException) -> Failure | None:
    if isinstance(error, Declined):
        return failure(Category.POLICY, "CARD_DECLINED", "The card was declined.")
    return None


@pytest.mark.parametrize("how", [raising, calling])
async def test_a_providers_own_judgement_comes_first(deploy: Deploy, how: Any) -> None:
    made, job = app_that(how(Declined("no")), Provider("shop", classify=judge))
    letter = await letter_of(deploy, made, job)
    assert (letter["error_class"], letter["attempts_made"]) == ("CARD_DECLINED", 1)


@pytest.mark.parametrize("how", [raising, calling])
async def test_a_judgement_of_none_leaves_it_to_holdfast(deploy: Deploy, how: Any) -> None:
    made, job = app_that(how(answered(500)), Provider("shop", classify=judge))
    assert (await letter_of(deploy, made, job))["error_class"] == "UPSTREAM_INTERNAL"


async def test_a_providers_own_judgement_may_overrule_a_classified_call(deploy: Deploy) -> None:
    error = CallError.from_status(403, "slow", {}, now_ms=0)

    def slow(error: BaseException) -> Failure | None:
        return failure(Category.UPSTREAM, "SLOW", "slow down") if "slow" in str(error) else None

    made, job = app_that(calling(error), Provider("shop", classify=slow))
    assert (await letter_of(deploy, made, job))["attempts_made"] == 3


def broken(error: BaseException) -> Failure | None:
    raise LookupError("no such table")


def wrong(error: BaseException) -> Any:
    return "retry"


@pytest.mark.parametrize("how", [raising, calling])
@pytest.mark.parametrize(
    ("own", "told"), [(broken, "raised LookupError: no such table"), (wrong, "returned a str, not a Failure or None")]
)
async def test_a_judgement_that_fails_is_named_and_costs_no_job_its_retries(
    deploy: Deploy, how: Any, own: Any, told: str
) -> None:
    made, job = app_that(how(answered(503)), Provider("shop", classify=own))
    letter = await letter_of(deploy, made, job)
    assert (letter["error_class"], letter["category"], letter["attempts_made"]) == (
        "CLASSIFY_FAILED",
        "bug_or_config",
        3,
    )
    assert f"The provider's classify {told}; it was judging: HTTPStatusError: 503 for you" in letter["last_error"]


async def hang(ctx: Context) -> None:
    await asyncio.Event().wait()


async def test_a_clients_timeout_is_not_the_stages(deploy: Deploy) -> None:
    async def impatient(ctx: Context) -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    made, job = app_that(impatient, timeout_s=900)
    letter = await letter_of(deploy, made, job)
    assert letter["error_class"] == "NETWORK_TIMEOUT"
    assert "raised inside the stage, not by its own limit" in letter["last_error"]
    assert "900" not in letter["last_error"]


async def test_a_timeout_cut_by_the_deadline_says_so(deploy: Deploy) -> None:
    made, job = app_that(hang, timeout_s=3_600)
    letter = await letter_of(deploy, made, job, deadline_s=0.05)
    assert (letter["error_class"], letter["failure_reason"]) == ("STAGE_TIMEOUT", "no_time")
    assert letter["last_error"].startswith("The job's deadline cut the stage 'run' after ")
    assert letter["last_error"].endswith("its own limit of 3600 s was not reached.")


async def test_a_call_that_is_cut_names_the_provider_and_its_limit(deploy: Deploy) -> None:
    async def act(ctx: Context) -> None:
        await ctx.call(asyncio.Event().wait, timeout_s=0.03)

    made, job = app_that(act, Provider("shop"))
    letter = await letter_of(deploy, made, job)
    assert letter["error_class"] == "NETWORK_TIMEOUT"
    assert "The provider 'shop' did not answer within 0.03 s." in letter["last_error"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"effects": "tokens"}, "effects 'tokens'; they are token, lookup or neither"),
        ({"per_minute": 0}, "a per_minute of 0; it must be a whole number of 1 or more"),
        ({"concurrency": -1}, "a concurrency of -1; it must be a whole number of 1 or more"),
        ({"timeout_s": 0}, "a timeout_s of 0; it must be a number of seconds above 0"),
        ({"classify": "retry"}, "a classify of 'retry', which is no function"),
    ],
)
def test_a_provider_that_cannot_work_is_refused_when_declared(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=f"The provider 'shop' has {told}"):
        Provider("shop", **options)


@pytest.mark.spec("K7", "004.11")
async def test_no_field_of_a_letter_and_no_event_holds_personal_data(deploy: Deploy) -> None:
    essay = "Dear Ann, I was born in Hanoi and I would like to tell you how my family lived there"
    text = f'550 no such user john.doe@example.com, phone +84 912 345 678, said "{essay}"'
    made, job = app_that(raising(RuntimeError(text)))
    world = await deploy(made)
    job_id = await world.enqueue(job, 1, trace="ann@example.com")
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    async with world.kernel.store.reading() as tx:
        history = await events.of_job(tx, job_id)
    stored = {name: value for name, value in (await world.job(job_id)).items() if name != "trace"}
    seen = repr(letter) + repr(history) + repr(stored)
    for personal in ("john.doe", "ann@", "912 345", "Hanoi"):
        assert personal not in seen
    assert "[email], phone [phone]" in letter["last_error"]
