"""What a job is written as: the row that an order makes, whole, and the bounds of what it may say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import App, Context, InvalidInput, Job, Provider, Retry, stage
from holdfast.kernel.app import kind_of
from holdfast.kernel.compose.waiting import check_body, check_key
from holdfast.kernel.declare.size import BYTES_MAX
from holdfast.kernel.observe.watch import LogWatch
from holdfast.kernel.submit import prepare, submit_in
from holdfast.tables.new_jobs import NewJob
from tests.kernel.places import Deploy, rows

pytestmark = pytest.mark.spec("K1")
NOW = 1_767_225_600_000
app = App("desk")
bank = Provider("bank")


@dataclass
class Bill:
    number: int
    name: str = "Ann"


@app.job(deadline_s=600, priority=3, version=4, upgrade={1: dict, 2: dict, 3: dict}, search=("name",), fair_by="name")
class Pay(Job[Bill]):
    @stage(provider=bank, retry=Retry(attempts=2))
    async def ask(self, ctx: Context, bill: Bill) -> None: ...

    @stage()
    async def file(self, ctx: Context, bill: Bill) -> None: ...


@app.job()
class Note(Job[str]):
    @stage()
    async def note(self, ctx: Context, text: str) -> None: ...


def order(job: type[Job[Any]], input: Any, **options: Any) -> NewJob:
    return prepare(kind_of(job), input, job_id="j-1", now=NOW, **options).row


def test_an_order_is_this_row() -> None:
    made = prepare(kind_of(Pay), Bill(7), job_id="j-1", now=NOW, key="k", delay_s=1.5, owner="ann", trace="00-1-2-01")
    assert made.id == "j-1" and made.terms == (("name", "ann"),) and not made.is_plain
    assert made.row._asdict() == {
        "kind": "desk.pay",
        "queue": "desk",
        "stage": "ask",
        "provider": "bank",
        "priority": 3,
        "version": 4,
        "run_at": NOW + 1_500,
        "deadline_at": NOW + 600_000,
        "job_key": "k",
        "fingerprint": "9178cb87a97e9b43233e6bce36fc52c34f595db5613bbe28c9c9b689fd519865",
        "owner": "ann",
        "trace": "00-1-2-01",
        "join_id": None,
        "fair_key": "Ann",
        "payload": '{"number":7,"name":"Ann"}',
    }


def test_what_is_not_said_is_the_kinds_own_or_nothing() -> None:
    plain = order(Note, "x")
    assert (plain.priority, plain.run_at, plain.deadline_at, plain.job_key, plain.fingerprint) == (
        2,
        NOW,
        None,
        None,
        None,
    )
    assert (plain.provider, plain.owner, plain.fair_key, plain.version) == (None, None, None, 1)
    said = order(Pay, Bill(1), priority=0, deadline_s=0.5)
    assert (said.priority, said.deadline_at) == (0, NOW + 500)


@pytest.mark.parametrize("priority", [-1, 4, True, False, 1.5, "1"])
def test_a_priority_is_one_of_four(priority: Any) -> None:
    with pytest.raises(InvalidInput, match=r"must be one of 0, 1, 2, 3\."):
        order(Note, "x", priority=priority)


def test_an_input_is_at_most_so_large() -> None:
    longest = BYTES_MAX - 2
    assert len(order(Note, "x" * longest).payload) == BYTES_MAX == 4 << 20
    with pytest.raises(InvalidInput, match="4,194,305 bytes; the limit is 4,194,304"):
        order(Note, "x" * (longest + 1))


def test_an_answer_and_its_key_are_at_most_so_long() -> None:
    check_body(f'"{"x" * (BYTES_MAX - 2)}"')
    with pytest.raises(InvalidInput, match="4,194,305 bytes; the limit is 4,194,304"):
        check_body(f'"{"x" * (BYTES_MAX - 1)}"')
    check_key("k" * 200)
    for key, why in (("", "1 to"), ("k" * 201, "1 to 200"), (7, "1 to 200"), ("a\0b", "NUL"), ("a\ud800", "half of")):
        with pytest.raises(InvalidInput, match=why):
            check_key(key)


class Counted(LogWatch):
    def __init__(self) -> None:
        super().__init__()
        self.counts: list[tuple[str, float, str]] = []

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        self.counts.append((name, amount, labels["kind"]))


async def test_only_what_is_new_is_counted_and_found(deploy: Deploy) -> None:
    world = await deploy(app)
    watch, kernel = Counted(), world.kernel
    for number, key in enumerate(["a", "a", "b"]):
        made = prepare(kind_of(Pay), Bill(1), job_id=kernel.new_id(), now=kernel.now(), key=key)
        async with kernel.store.transaction() as tx:
            (id,) = await submit_in(tx, [made], kernel.now(), watch)
            assert watch.counts == [("jobs_created", 1, "desk.pay")] * min(number, 1), "nothing before the commit"
        assert (id == made.id) == (number != 1)
    assert watch.counts == [("jobs_created", 1, "desk.pay")] * 2
    assert len(await rows(kernel.store, "SELECT 1 AS n FROM holdfast_search")) == 2
