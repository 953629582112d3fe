"""Code that changes under jobs in flight: every shape of change, forwards and back, and nothing dies of it."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import App, Context, Job, Wait, stage
from holdfast.engines.worker import Worker
from holdfast.errors import BadDeclaration, NotAllowed
from holdfast.kernel.intake import called_back
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.questions.explain import explain
from holdfast.kernel.submit import submit
from holdfast.kernel.turn import claim_one, end
from holdfast.tables import lanes
from holdfast.testing import HandClock
from tests.kernel.places import Place, close_all, rows, take

Ran = list[tuple[str, str]]
"""Which stage ran, by code and name."""


class Code:
    """One release: an app whose job has these stages, in this order. Each result says who made it."""

    def __init__(self, release: str, *stages: str, formerly: dict[str, tuple[str, ...]] | None = None) -> None:
        self.ran: Ran = []
        self.app = App("shop")
        old = formerly or {}
        body = {name: self._stage(release, name, stages[:at], old.get(name, ())) for at, name in enumerate(stages)}
        self.job = self.app.job(name="shop.order")(
            types.new_class("Order", (Job[str],), {}, lambda scope: scope.update(body))
        )

    def _stage(self, release: str, name: str, before: tuple[str, ...], formerly: tuple[str, ...]) -> Any:
        ran = self.ran
        needs = "".join(f", {one}: str" for one in before[-1:])
        source = (
            f"async def {name}(self, ctx: Context, text: str{needs}) -> str:\n    ran.append(('{release}', '{name}'))\n"
        )
        given = before[-1] if before else "text"
        source += f"    assert isinstance({given}, str)\n    return '{name} by {release}'\n"
        scope: dict[str, Any] = {"Context": Context, "ran": ran}
        exec(source, scope)
        return stage(formerly=formerly)(scope[name])


class Fleet:
    """Releases side by side on one database; `steps` lets one of them run a number of stages."""

    def __init__(self, place: Place, clock: HandClock) -> None:
        self.place, self.clock = place, clock
        self.kernels: dict[int, Kernel] = {}

    def kernel(self, code: Code) -> Kernel:
        if id(code) not in self.kernels:
            made = self.place.kernel(code.app, clock=self.clock, seed=len(self.kernels) + 1)
            self.kernels[id(code)] = made
        return self.kernels[id(code)]

    async def steps(self, code: Code, number: int = 1) -> None:
        for _ in range(number):
            worker = Worker(self.kernel(code), concurrency=1)
            taken, _ = await worker._step(1)
            worker._start(taken)
            await worker._until_none_runs(None)
            worker._stop.set()  # the next stage is somebody else's
            await worker._step(0)

    async def finish(self, *codes: Code) -> None:
        for _ in range(20):
            for code in codes:
                await Worker(self.kernel(code)).run_until_idle()

    async def job(self, job_id: str) -> dict[str, Any]:
        kernel = next(iter(self.kernels.values()))
        text = "SELECT * FROM holdfast_jobs WHERE CAST(id AS TEXT) = :id"
        return (await rows(kernel.store, text, id=job_id))[0]


CHANGES: dict[str, Callable[[], tuple[Code, Code]]] = {
    "add": lambda: (Code("v1", "one", "two"), Code("v2", "one", "check", "two")),
    "add first": lambda: (Code("v1", "one", "two"), Code("v2", "zero", "one", "two")),
    "rename": lambda: (Code("v1", "one", "two"), Code("v2", "uno", "two", formerly={"uno": ("one",)})),
    "rename last": lambda: (Code("v1", "one", "two"), Code("v2", "one", "due", formerly={"due": ("two",)})),
    "remove": lambda: (Code("v1", "one", "two", "three"), Code("v2", "one", "three")),
    "reorder": lambda: (Code("v1", "one", "two", "three"), Code("v2", "one", "three", "two")),
    "split": lambda: (
        Code("v1", "one", "two"),
        Code("v2", "one_a", "one_b", "two", formerly={"one_a": ("one",), "one_b": ("one",)}),
    ),
    "merge": lambda: (Code("v1", "a", "b", "two"), Code("v2", "ab", "two", formerly={"ab": ("a", "b")})),
    "rename, reorder, remove and add": lambda: (
        Code("v1", "one", "two", "three", "four"),
        Code("v2", "check", "tres", "one", "four", formerly={"tres": ("three",)}),
    ),
    "split and move": lambda: (
        Code("v1", "one", "two"),
        Code("v2", "two", "one_a", "one_b", formerly={"one_a": ("one",), "one_b": ("one",)}),
    ),
}


@pytest.mark.spec("K22")
@pytest.mark.parametrize("begun", [0, 1, 2])
@pytest.mark.parametrize("way", ["forwards", "back"])
@pytest.mark.parametrize("change", CHANGES)
async def test_every_change_of_stages_is_survived_at_every_stage(
    place: Place, clock: HandClock, change: str, way: str, begun: int
) -> None:
    before, after = CHANGES[change]() if way == "forwards" else CHANGES[change]()[::-1]
    fleet = Fleet(place, clock)
    job_id = await submit(fleet.kernel(before), before.job, "x")
    await fleet.steps(before, begun)
    await fleet.finish(after)
    row = await fleet.job(job_id)
    if row["state"] == "queued":  # nobody of the new code declares where it stands: it waits
        assert row["failures"] == 0 and row["stage"] not in after.app.kinds["shop.order"].by_name
        await fleet.finish(before, after)
        row = await fleet.job(job_id)
    assert (row["state"], row["failures"], row["crashes"]) == ("succeeded", 0, 0), (change, way, begun)
    ran = before.ran + after.ran
    assert len(set(ran)) == len(ran), "no code runs a stage twice"
    await close_all(place)


@pytest.mark.spec("K22")
@pytest.mark.parametrize("change", CHANGES)
async def test_two_releases_work_side_by_side_and_nothing_dies(place: Place, clock: HandClock, change: str) -> None:
    one, two = CHANGES[change]()
    fleet = Fleet(place, clock)
    ids = [await submit(fleet.kernel(code), code.job, str(number)) for number in range(6) for code in (one, two)]
    for _ in range(30):
        await fleet.steps(one, 1)
        await fleet.steps(two, 1)
    await fleet.finish(one, two)
    found = await rows(fleet.kernel(one).store, "SELECT state, failures FROM holdfast_jobs")
    assert [(row["state"], row["failures"]) for row in found] == [("succeeded", 0)] * len(ids)
    await close_all(place)


@pytest.mark.spec("K22", "K3")
async def test_a_worker_claims_only_what_it_declares(place: Place, clock: HandClock) -> None:
    old, new = Code("v1", "one", "two"), Code("v2", "one", "check", "two")
    fleet = Fleet(place, clock)
    job_id = await submit(fleet.kernel(new), new.job, "x")
    await fleet.steps(new, 1)
    kernel = fleet.kernel(old)
    assert (await fleet.job(job_id))["stage"] == "check"
    assert await take(kernel) == [] and await claim_one(kernel, "w", job_id) is None
    async with kernel.store.transaction() as tx:
        assert (await lanes.due_ids(tx, "shop", kernel.registry.declared, kernel.now(), 10))[0] == []
    other = await submit(kernel, old.job, "behind it")
    assert [job.id for job in await take(kernel)] == [other], "what it does not declare is in nobody's way"
    await close_all(place)


@pytest.mark.spec("K22")
async def test_an_inserted_stage_is_run_first_and_its_result_is_never_none(place: Place, clock: HandClock) -> None:
    old, new = Code("v1", "one", "two"), Code("v2", "one", "check", "two")
    fleet = Fleet(place, clock)
    job_id = await submit(fleet.kernel(old), old.job, "x")
    await fleet.steps(old, 1)
    await fleet.finish(new)
    assert new.ran == [("v2", "check"), ("v2", "two")], "and what is done is not run again"
    text = "SELECT type FROM holdfast_every_event WHERE CAST(job_id AS TEXT) = :id ORDER BY seq, part"
    story = [row["type"] for row in await rows(fleet.kernel(old).store, text, id=job_id)]
    assert story == ["claimed", "advanced", "claimed", "rewound", "claimed", "advanced", "claimed", "succeeded"]
    await close_all(place)


@pytest.mark.spec("K22")
@pytest.mark.parametrize("begun", [0, 1])
async def test_of_a_stage_that_was_split_every_part_is_run_or_none(place: Place, clock: HandClock, begun: int) -> None:
    old, new = CHANGES["split"]()
    fleet = Fleet(place, clock)
    await submit(fleet.kernel(old), old.job, "x")
    await fleet.steps(old, begun)
    await fleet.finish(new)
    parts = [("v2", "one_a"), ("v2", "one_b")] if begun == 0 else []
    assert new.ran == [*parts, ("v2", "two")]
    found = await rows(fleet.kernel(old).store, "SELECT value FROM holdfast_results WHERE stage = 'one'")
    assert found == [{"value": '"one_b by v2"' if begun == 0 else '"one by v1"'}], "older code reads the last part's"
    await close_all(place)


@pytest.mark.spec("K22")
async def test_a_removed_stage_is_waited_for_and_a_callback_of_other_code_ends_nothing(
    place: Place, clock: HandClock
) -> None:

    asks, other = App("asks"), App("asks")

    @asks.job(name="asks.ask")
    class Ask(Job[str]):
        @stage()
        async def wait(self, ctx: Context, text: str) -> dict[str, int] | Wait:
            return Wait("answer", within_s=60)

        @stage()
        async def close(self, ctx: Context, text: str, wait: dict[str, int]) -> None: ...

    @other.job(name="asks.ask")
    class Changed(Job[str]):
        @stage()
        async def close(self, ctx: Context, text: str) -> None: ...

    right, wrong = place.kernel(asks, clock=clock), place.kernel(other, clock=clock, seed=2)
    await submit(right, Ask, "x")
    await Worker(right).run_until_idle()
    with pytest.raises(NotAllowed, match="does not declare"):
        await called_back(wrong, "answer", "m1", '{"n": 1}')
    assert await called_back(right, "answer", "m1", '{"n": 1}')
    await Worker(right).run_until_idle()
    assert [row["state"] for row in await rows(right.store, "SELECT state FROM holdfast_jobs")] == ["succeeded"]
    await close_all(place)


def versioned(version: int, **options: Any) -> tuple[App, Any, list[Any]]:
    app, seen = App("ver"), []

    class Bill(Job[dict[str, int]]):
        @stage()
        async def pay(self, ctx: Context, bill: dict[str, int]) -> None:
            seen.append(bill)

    return app, app.job(name="ver.bill", version=version, **options)(Bill), seen


@pytest.mark.spec("K22")
async def test_inputs_are_upgraded_step_by_step_and_never_read_by_older_code(place: Place, clock: HandClock) -> None:
    first, second, third = (
        versioned(1),
        versioned(2, upgrade={1: lambda v1: {"cents": v1["euros"] * 100}}),
        versioned(3, upgrade={1: lambda v1: {"cents": v1["euros"] * 100}, 2: lambda v2: {**v2, "tax": 0}}),
    )
    kernels = [place.kernel(app, clock=clock, seed=n) for n, (app, _, _) in enumerate((first, second, third))]
    await submit(kernels[0], first[1], {"euros": 1})
    newer = await submit(kernels[1], second[1], {"cents": 250})
    await Worker(kernels[0]).run_until_idle()
    assert first[2] == [{"euros": 1}], "a rollback leaves what it cannot read"
    assert await claim_one(kernels[0], "w", newer) is None
    clock.advance(1)
    await submit(kernels[0], first[1], {"euros": 3})
    await Worker(kernels[2]).run_until_idle()
    assert third[2] == [{"cents": 250, "tax": 0}, {"cents": 300, "tax": 0}]
    states = await rows(kernels[0].store, "SELECT DISTINCT state FROM holdfast_jobs")
    assert states == [{"state": "succeeded"}]
    await close_all(place)


@pytest.mark.spec("K22")
async def test_an_upgrade_that_raises_is_a_dead_letter_that_says_so(place: Place, clock: HandClock) -> None:
    old, new = versioned(1), versioned(2, upgrade={1: lambda v1: {"cents": v1["gone"]}})
    kernels = [place.kernel(app, clock=clock, seed=n) for n, (app, _, _) in enumerate((old, new))]
    await submit(kernels[0], old[1], {"euros": 1})
    await Worker(kernels[1]).run_until_idle()
    (letter,) = await rows(kernels[0].store, "SELECT error_class, last_error FROM holdfast_dead_letters")
    assert letter["error_class"] == "INPUT_INVALID" and "from version 1 to 2 raised KeyError" in letter["last_error"]
    await close_all(place)


@pytest.mark.spec("K22")
async def test_a_result_that_does_not_fit_is_upgraded_or_waits_for_code_that_fits(
    place: Place, clock: HandClock
) -> None:
    def release(kind: type, upgrade: Any = None) -> tuple[App, Any]:
        app = App("res")

        class Page(Job[str]):
            @stage(upgrade=upgrade)
            async def fetch(self, ctx: Context, text: str) -> kind:  # type: ignore[valid-type]
                return "7" if kind is str else {"n": 7}

            @stage()
            async def use(self, ctx: Context, text: str, fetch: kind) -> None:  # type: ignore[valid-type]
                assert isinstance(fetch, dict | str)

        Page.fetch.__annotations__["return"] = kind
        Page.use.__annotations__["fetch"] = kind
        return app, app.job(name="res.page")(Page)

    texts, bare, upgraded = release(str), release(dict), release(dict, lambda text: {"n": int(text)})
    kernels = [place.kernel(app, clock=clock, seed=n) for n, (app, _) in enumerate((texts, bare, upgraded))]
    await submit(kernels[0], texts[1], "x")
    (job,) = await take(kernels[0], limit=1)
    from holdfast.core.outcome import Next
    from holdfast.kernel.settle import Ending

    async with kernels[0].store.transaction() as tx:
        await end(kernels[0], tx, [Ending(job, Next("7"), '"7"')])
    await Worker(kernels[1]).run_until_idle()
    (row,) = await rows(kernels[0].store, "SELECT state, hold, failures FROM holdfast_jobs")
    assert (row["state"], row["hold"], row["failures"]) == ("queued", "unfit", 0)
    clock.advance(61)
    await Worker(kernels[2]).run_until_idle()
    assert [row["state"] for row in await rows(kernels[0].store, "SELECT state FROM holdfast_jobs")] == ["succeeded"]
    await close_all(place)


@pytest.mark.spec("K22", "K1")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"version": 0}, "count from 1"),
        ({"version": 3, "upgrade": {1: dict}}, "no upgrade from version 2"),
        ({"version": 2, "upgrade": {1: dict, 2: dict}}, "leads nowhere"),
        ({"upgrade": {1: dict}}, "leads nowhere"),
    ],
)
def test_versions_that_cannot_be_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(BadDeclaration, match=says):
        versioned(options.pop("version", 1), **options)


@pytest.mark.spec("K22", "K1")
@pytest.mark.parametrize("old", [("two",), ("one",), ("old", "old"), ("not a name",)])
def test_former_names_that_cannot_be_are_refused(old: tuple[str, ...]) -> None:
    with pytest.raises(BadDeclaration, match="formerly"):
        Code("v1", "one", "two", formerly={"one": old})


@pytest.mark.spec("K22")
async def test_what_no_running_worker_declares_waits_and_says_so(place: Place, clock: HandClock) -> None:
    old, new = Code("v1", "one", "two"), Code("v2", "one", "check", "two")
    fleet = Fleet(place, clock)
    job_id = await submit(fleet.kernel(new), new.job, "x")
    await fleet.steps(new, 1)
    kernel = fleet.kernel(old)
    await Worker(kernel).renew()
    told = await explain(kernel, job_id)
    assert told.facts["code"] == "UNDECLARED"
    assert "no running worker declares the stage 'check' of the kind 'shop.order'" in told.sentence
    await Worker(fleet.kernel(new)).renew()
    assert (await explain(kernel, job_id)).facts["code"] == "DUE", "as soon as a worker that declares it is there"
    await close_all(place)
