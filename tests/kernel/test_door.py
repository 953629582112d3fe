"""Input is checked at the door: nothing is accepted that a worker cannot read; the field is named."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import App, Context, Job, Retry, stage
from holdfast.errors import InvalidInput
from tests.kernel.places import Deploy

pytestmark = pytest.mark.spec("K1")
app = App("door")


@dataclass
class Order:
    id: int
    price: float = 1.0
    extra: dict[str, Any] = field(default_factory=dict)
    ratio: float | None = None


class Model(BaseModel):
    name: str
    weights: list[float] = []


@app.job()
class Place(Job[Order]):
    @stage()
    async def run(self, ctx: Context, order: Order) -> None: ...


@app.job()
class Weigh(Job[Model]):
    @stage()
    async def run(self, ctx: Context, model: Model) -> None: ...


@app.job()
class Count(Job[int]):
    @stage()
    async def run(self, ctx: Context, number: int) -> None: ...


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


async def pending() -> int:
    return 1


@pytest.mark.parametrize(
    ("job", "given", "told"),
    [
        (Place, Order("abc"), "id: Input should be a valid integer"),  # type: ignore[arg-type]
        (Place, {"id": "abc"}, "id: Input should be a valid integer"),
        (Place, Order(1, float("nan")), "price: nan is not a number that JSON can hold"),
        (Place, {"id": 1, "ratio": float("inf")}, "ratio: inf is not a number that JSON can hold"),
        (Place, Order(1, extra={"a": [1, {"b": float("-inf")}]}), "extra.a.1.b: -inf is not a number"),
        (Place, Order(1, extra={"a": "\ud800"}), "extra.a: it holds half of a character"),
        (Place, Order(1, extra={"a": nested(300)}), ""),
        (Weigh, Model.model_construct(name=5), "name: Input should be a valid string"),
        (Weigh, Model(name="x", weights=[1.0, float("nan")]), "weights.1: nan is not a number"),
        (Count, float("nan"), "the value: "),
    ],
)
async def test_what_a_worker_could_not_read_is_refused_with_its_field(
    deploy: Deploy, job: type[Job[Any]], given: Any, told: str
) -> None:
    world = await deploy(app)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidInput) as refused:
            await world.enqueue(job, given)
    assert told in str(refused.value) and f"The input of 'door.{job.__name__.lower()}'" in str(refused.value)


async def test_a_number_longer_than_a_reader_takes_is_refused(deploy: Deploy) -> None:
    world = await deploy(app)
    with pytest.raises(InvalidInput, match=r"The input of 'door\.count'"):
        await world.enqueue(Count, 10**5_000)


async def test_a_forgotten_await_in_the_input_is_named(deploy: Deploy) -> None:
    world = await deploy(app)
    coroutine = pending()
    with pytest.raises(InvalidInput, match="it is a coroutine: an `await` is missing"):
        await world.enqueue(Count, coroutine)
    coroutine.close()


@pytest.mark.parametrize("given", [Order(1), Order(1, ratio=None, extra={"text": "null NaN"}), {"id": "7"}])
async def test_what_fits_is_taken(deploy: Deploy, given: Any) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Place, given)
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded"


@pytest.mark.spec("K6")
@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: Order("abc"), "it is a Order; "),  # type: ignore[arg-type]
        (lambda: Order(1, float("nan")), "price: nan is not a number"),
        (lambda: "text", "it is a str; the value: Input should be a dictionary or an instance of Order"),
        (pending, "it is a coroutine: an `await` is missing"),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine 'pending' was never awaited")
async def test_a_result_that_does_not_fit_names_its_type_and_field(deploy: Deploy, made: Any, told: str) -> None:
    results = App("results")

    @results.job()
    class Answer(Job[int]):
        @stage(retry=Retry(attempts=3))
        async def run(self, ctx: Context, number: int) -> Order:
            return made()  # type: ignore[no-any-return]

    world = await deploy(results)
    await world.enqueue(Answer, 1)
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    assert (letter["error_class"], letter["attempts_made"]) == ("RESULT_INVALID", 1)
    assert told in letter["last_error"]
