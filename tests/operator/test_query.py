"""The query language: every field, every refusal in a sentence, and the same answers on both databases."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.places import Deploy
from tests.tables.test_rare_rows import write

from holdfast import App, CallError, Category, Context, Job, Retry, stage
from holdfast.core.job import JobOrder, State
from holdfast.core.text_filter import TextFilter
from holdfast.errors import InvalidInput
from holdfast.operator.desk import Desk
from holdfast.operator.jobs import query_jobs
from holdfast.operator.page import ListPage
from holdfast.operator.query import Query, join_words, parse_query
from holdfast.system import OpenSystem, System

pytestmark = pytest.mark.spec("K17")
NOW = 1_767_225_600_000
app = App("shop")


@app.job()
class Sell(Job[dict[str, Any]]):
    @stage(retry=Retry(attempts=1))
    async def charge(self, ctx: Context, order: dict[str, Any]) -> str:
        if order.get("fails"):
            raise CallError.of(Category.VALIDATION, "UPSTREAM_UNPROCESSABLE", "The bank answered 422.", status=422)
        return "paid"


@app.job(name="shop.lend", search=("order_id",))
class Lend(Job[dict[str, Any]]):
    @stage()
    async def lend(self, ctx: Context, order: dict[str, Any]) -> None: ...


@pytest.mark.parametrize(
    "text, query",
    [
        ("", Query()),
        ("state:held provider:llm", Query(state=State.QUEUED, held=True, provider=TextFilter("llm"))),
        ("state:running", Query(state=State.PROCESSING)),
        ("Owner:Carla kind:Shop.*", Query(owner=TextFilter("Carla"), kind=TextFilter("shop.%", is_pattern=True))),
        ("error:422", Query(error=TextFilter("%422%", is_pattern=True))),
        ("owner:100%_!", Query(owner=TextFilter("100%_!"))),
        ("owner:100%_!*", Query(owner=TextFilter("100!%!_!!%", is_pattern=True))),
        ("age:>10m", Query(created_to=NOW - 600_000)),
        ("age:<2h", Query(created_from=NOW - 7_200_000)),
        ("since:1d", Query(created_from=NOW - 86_400_000)),
        ("until:5m", Query(created_to=NOW - 300_000)),
        ("since:2026-01-31", Query(created_from=1_769_817_600_000)),
        (
            "since:2026-01-31t15:48z until:2026-01-31T15:49:30.5Z",
            Query(created_from=1_769_874_480_000, created_to=1_769_874_570_500),
        ),
        ("sort:Deadline state:queued", Query(sort=JobOrder.DEADLINE, state=State.QUEUED)),
        (r'owner:"Ann \"B\" \\ C" "\""', Query(owner=TextFilter('Ann "B" \\ C'), texts=('"',))),
        ('"essay number 399" owner:"ann b"', Query(texts=("essay number 399",), owner=TextFilter("ann b"))),
    ],
)
def test_a_query_is_read(text: str, query: Query) -> None:
    assert parse_query(text, NOW) == query


@pytest.mark.parametrize(
    "words, query",
    [
        (["owner:Carla Smith", "state:dead"], Query(owner=TextFilter("Carla Smith"), state=State.DEAD)),
        (["state:dead owner:carla"], Query(state=State.DEAD, owner=TextFilter("carla"))),
        (["essay number 399"], Query(texts=("essay number 399",))),
        (["error:no answer of host:8080"], parse_query('error:"no answer of host:8080"', 0)),
        (['"essay number 399" state:dead'], Query(texts=("essay number 399",), state=State.DEAD)),
    ],
)
def test_a_shell_may_give_a_query_whole_or_word_by_word(words: list[str], query: Query) -> None:
    assert parse_query(join_words(words), 0) == query


def test_an_id_is_found_by_its_beginning() -> None:
    query = parse_query("id:019b7f00", NOW)
    assert query.from_id == "019b7f00-0000-0000-0000-000000000000"
    assert query.to_id == "019b7f00-ffff-ffff-ffff-ffffffffffff"


@pytest.mark.parametrize(
    "text, words",
    [
        ("stat:held", "There is no field 'stat'; you may mean 'state'. Fields: state, kind,"),
        ("state:hold", "There is no state 'hold'; you may mean 'held'. States: queued,"),
        ("owner:ann owner:ben", "'owner:' stands twice in the query."),
        ("age:10", "'age:10' must be a time such as age:>10m or age:<2h"),
        ("since:>2h", "'since:>2h' must be a time such as since:2h"),
        ("until:2026-02-30", "'until:2026-02-30' must be a time such as until:2h or until:2026-01-31T15:48Z"),
        ("since:2026-01-31T25:00", "'since:2026-01-31T25:00' must be a time such as"),
        ("age:2026-01-31", "'age:2026-01-31' must be a time such as age:>10m"),
        ("id:zz", "must be a job's id, or its first 8 characters or more"),
        ('owner:""', "'owner:' needs a value."),
        ("owner:", "'owner:' needs a value."),
        ("-state:dead", "A query says what must fit, and nothing that must not; leave '-' out."),
        ("!input.order_id:7", "leave '!' out"),
        ("sort:oldst", "There is no order 'oldst'; you may mean 'oldest'. Orders: newest, oldest, deadline, failures."),
        ("sort:oldest sort:deadline", "'sort:' stands twice"),
        ('"left open', "is a quote left open?"),
        ("x " * 21, "at most 20 words"),
        ("x" * 1_001, "at most 1,000 characters"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(text: str, words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_query(text, NOW)
    assert words in str(refused.value)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert isinstance(parse_query(text, NOW), Query)
    except InvalidInput as refused:
        assert str(refused)


async def test_the_same_query_finds_the_same_jobs_on_both_databases(deploy: Deploy) -> None:
    world = await deploy(app)
    desk = Desk([OpenSystem(System("shop", "shop", "DATABASE_URL", lambda env: app), world.kernel, {})])
    ann = await world.enqueue(Sell, {"order_id": 7, "title": 'essay "number" 399'}, owner="Ann")
    ben = await world.enqueue(Sell, {"order_id": "71", "fails": True}, owner="ben", key="order-71")
    await world.run_until_idle()
    world.clock.advance(700)
    late = await world.enqueue(
        Sell, {"order_id": 8, "nested": {"city": "Hanoi_1"}}, owner="ann_b", delay_s=60, key="bill: 9 of 10"
    )

    async def found(text: str) -> set[str]:
        return {item["id"] for item in (await query_jobs(desk, ListPage(), text))["items"]}

    cases = {
        "owner:Ann": {ann},
        "owner:ann": set(),
        "owner:ann*": {ann, late},
        "owner:ann_*": {late},
        "state:dead error:422": {ben},
        "error:upstream_unprocessable": {ben},
        "state:succeeded": {ann},
        "age:>10m": {ann, ben},
        "since:10m kind:*": {late},
        "input.order_id:7": {ann},
        "input.order_id:71": {ben},
        "input.order_id:7*": {ann, ben},
        "input.nested.city:hanoi_1": {late},
        "hanoi_1": {late},
        "hanoi-1": set(),
        "order-71": {ben},
        "key:order-71": {ben},
        "key:Order-71": set(),
        "key:Order-*": {ben},
        'key:"bill: 9 of 10" state:queued': {late},
        "key:order-71 state:queued": set(),
        "bill: 9 of 10": {late},
        ann: {ann},
        ann[:13]: {ann, ben},
        f"id:{late[:20]}": {late},
        "kind:shop.* state:queued": {late},
        "state:held": set(),
    }
    assert {text: await found(text) for text in cases} == cases


ORDERS = {
    "sort:newest": "abcdef"[::-1],
    "sort:oldest": "abcdef",
    "sort:deadline": "cabd",
    "sort:failures": "bdca",
    "state:queued sort:oldest": "abcd",
    "state:dead sort:failures": "",
    "kind:shop.lend input.order_id:7 sort:failures": "bdca",
    "kind:shop.lend input.order_id:7 sort:oldest": "abcdef",
    "input.title:same sort:deadline": "cabd",
}
"""Four wait, two have succeeded; three share a deadline, three the number of failures."""


async def test_every_order_shows_every_job_once_page_by_page(deploy: Deploy) -> None:
    world = await deploy(app)
    desk = Desk([OpenSystem(System("shop", "shop", "DATABASE_URL", lambda env: app), world.kernel, {})])
    names: dict[str, str] = {}
    for name, deadline, failures in (("a", 5, 2), ("b", 5, 9), ("c", 3, 2), ("d", 5, 2), ("e", 1, 0), ("f", None, 0)):
        id = await world.enqueue(Lend, {"order_id": 7, "title": "same"})
        names[id] = name
        world.clock.advance(0.01)
        await write(
            world,
            "UPDATE holdfast_jobs SET deadline_at = :deadline, failures = :failures, state = :state,"
            " finished_at = :finished"
            " WHERE id = CAST(:id AS /*id*/)",
            id=id,
            deadline=deadline,
            failures=failures,
            state="queued" if name in "abcd" else "succeeded",
            finished=None if name in "abcd" else 1,
        )

    async def read(text: str) -> str:
        found, page = "", ListPage(limit=1)
        while True:
            answer = await query_jobs(desk, page, text)
            found += "".join(names[item["id"]] for item in answer["items"])
            if answer["next"] is None:
                return found
            page = ListPage(limit=1, cursor=answer["next"])

    assert {text: await read(text) for text in ORDERS} == ORDERS
    other = (await query_jobs(desk, ListPage(limit=1), "sort:deadline"))["next"]
    with pytest.raises(InvalidInput, match="what an earlier page gave"):
        await query_jobs(desk, ListPage(limit=1, cursor=other), "sort:oldest")


def test_a_moment_is_of_utc_wherever_the_process_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "America/New_York")
        time.tzset()
        query = parse_query("since:2026-01-31T15:48Z until:2026-02-01", now=NOW)
    time.tzset()
    assert (query.created_from, query.created_to) == (1_769_874_480_000, 1_769_904_000_000)
