"""How effects are named: no two share a name, none has two, and the rows of earlier releases stay what they are."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, StrEnum
from itertools import combinations
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import App, Context, Job, Provider, Retry, stage
from holdfast.core.effect import EffectKey, EffectStatus, effect_key, token_of
from holdfast.tables import effects
from tests.kernel.places import Deploy, rows

AT = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
IDENTITY = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


class Plain(Enum):
    RED = "red"


class Text(StrEnum):
    RED = "red"


GOLDEN: dict[str, str | tuple[object, ...]] = {
    "post:/letter/ann": ("letter", "ann"),
    "post::letter/ann": "letter/ann",
    "post:/mail/a%2Fb/c": ("mail", "a/b", "c"),
    "post:/mail/a/b%2Fc": ("mail", "a", "b/c"),
    "post:/a%252Fb": ("a%2Fb",),
    "post:/n/7": ("n", 7),
    "post:/n/%N": ("n", None),
    "post:/n/": ("n", ""),
    "post:/n/true": ("n", True),
    "post:/n/red": ("n", Plain.RED),
    "post:/n/01890a5d-ac96-774b-bcce-b302099a8057": ("n", IDENTITY),
    "post:/n/2026-11-16": ("n", date(2026, 11, 16)),
    "post:/n/2026-11-16T12:00:00+00:00": ("n", AT),
    "post:/n/12.5": ("n", Decimal("12.50")),
    "review/7/ab/1": EffectKey("review/7/ab/1"),
}


@pytest.mark.spec("K12")
@pytest.mark.parametrize("spelled", GOLDEN)
def test_keys_are_spelled_as_ever(spelled: str) -> None:
    assert effect_key("post", GOLDEN[spelled]) == spelled


@pytest.mark.spec("K12")
def test_what_says_the_same_is_the_same_whatever_its_type() -> None:
    """A field that becomes another type between two deploys must not send anything twice."""
    same: list[tuple[object, object]] = [
        (7, "7"),
        (Decimal("7.00"), 7),
        (Plain.RED, Text.RED),
        (IDENTITY, str(IDENTITY)),
    ]
    same += [(AT, AT.astimezone(timezone(timedelta(hours=5)))), (Decimal("1E+2"), 100), (Decimal("-0"), 0)]
    for one, other in same:
        assert effect_key("a", ("n", one)) == effect_key("a", ("n", other)), (one, other)
    assert effect_key("a", ("n", None)) != effect_key("a", ("n", "None")) != effect_key("a", ("n", ""))


PARTS = st.lists(st.text(alphabet="a/%:N=", max_size=4), min_size=1, max_size=3).map(tuple)
KEYS = st.one_of(PARTS, st.text(alphabet="a/%:N=", min_size=1, max_size=8)).filter(lambda key: any(key))


@pytest.mark.spec("K12")
@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), KEYS), min_size=2, max_size=8, unique=True))
def test_different_keys_are_different_effects(named: list[tuple[str, Any]]) -> None:
    for one, other in combinations(named, 2):
        assert effect_key(*one) != effect_key(*other)


@pytest.mark.spec("K12")
@pytest.mark.parametrize(
    "key", [(), "", ("",), ("n", 0.1), ("n", object()), ("n", ("a", "b")), ("n", b"x"), ["n"], "a\0b"]
)
def test_what_has_no_lasting_name_is_refused_in_a_sentence(key: Any) -> None:
    with pytest.raises(ValueError, match=r"effect.*[.]$"):
        effect_key("a", key)
    with pytest.raises(ValueError, match="2000 bytes"):
        effect_key("a", ("n", "x" * 2_000))


class Office:
    """Two apps of the same shape, and what each has sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.provider = Provider("office", effects="token")
        self.apps = [self._app("north"), self._app("south")]

    def _app(self, name: str) -> App:
        app, office = App(name), self

        @app.job(name=f"{name}.send")
        class Send(Job[list[str]]):
            @stage(provider=office.provider)
            async def send(self, ctx: Context, parts: list[str]) -> str:
                return await ctx.effect(tuple(parts), send=lambda token: office.send(name, token))

        setattr(self, name, Send)
        return app

    async def send(self, app: str, token: str) -> str:
        self.sent.append((app, token))
        return f"id-{len(self.sent)}"


@pytest.mark.spec("K12")
async def test_keys_that_read_alike_and_other_apps_are_other_effects(deploy: Deploy) -> None:
    office = Office()
    world = await deploy(*office.apps)
    for parts in (["mail", "a/b", "c"], ["mail", "a", "b/c"], ["mail", "a", "b", "c"]):
        for app in ("north", "south"):
            await world.enqueue(getattr(office, app), parts)
    await world.run_until_idle()
    assert len(office.sent) == 6 and len({token for _, token in office.sent}) == 6


async def _written_by_an_earlier_release(world: Any, key: str, kind: str, job_id: str | None, status: str) -> None:
    """What release 0.1 left behind: the former spelling, and no word of who sent."""
    text = """INSERT INTO holdfast_effects (key, token, job_id, kind, stage, provider, provider_class, status, epoch,
      attempt, sends, first_sent_at, last_sent_at, provider_id, marked_at, created_at, updated_at)
      VALUES (:key, :token, CAST(:job_id AS /*id*/), :kind, 'send', 'office', 'token', :status, 0, 1, 1,
              :now, :now, :provider_id, :marked_at, :now, :now)"""
    from holdfast.stores.statement import _statement

    now, sent = world.kernel.now(), status == "sent"
    async with world.kernel.store.transaction() as tx:
        await tx.rows(
            _statement("left", {None: text}),
            key=key,
            token=token_of(key),
            job_id=job_id,
            kind=kind,
            status=status,
            now=now,
            provider_id="old" if sent else None,
            marked_at=now if sent else None,
        )


@pytest.mark.spec("K12", "K22")
@pytest.mark.parametrize("status", ["sent", "sending", "unknown", "planned"])
async def test_an_upgrade_in_the_middle_of_an_outage_sends_nothing_twice(deploy: Deploy, status: str) -> None:
    office = Office()
    world = await deploy(*office.apps)
    job_id = await world.enqueue(office.north, ["mail", "ann"])  # type: ignore[attr-defined]
    await _written_by_an_earlier_release(world, "mail/ann", "north.send", job_id, status)
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded"
    assert office.sent == ([] if status == "sent" else [("north", token_of("mail/ann"))]), "the token stays what it was"
    (row,) = await rows(world.kernel.store, "SELECT key, status FROM holdfast_effects")
    assert row == {"key": "mail/ann", "status": "sent"}


@pytest.mark.spec("K12", "K22")
async def test_an_earlier_releases_row_is_taken_only_by_whom_it_can_belong_to(deploy: Deploy) -> None:
    office = Office()
    world = await deploy(*office.apps)
    await _written_by_an_earlier_release(world, "mail/a/b/c", "north.send", None, "sent")
    for app, parts in (("south", ["mail", "a", "b", "c"]), ("north", ["mail", "a/b", "c"]), ("north", ["mail", "x"])):
        await world.enqueue(getattr(office, app), parts)
    await world.run_until_idle()
    assert len(office.sent) == 3, "another app's, one that may be another tuple's, and a new one"
    again = await world.enqueue(office.north, ["mail", "a", "b", "c"])  # type: ignore[attr-defined]
    await world.run_until_idle()
    assert await world.results(again) == {"send": '"old"'} and len(office.sent) == 3


@pytest.mark.spec("K12", "K22")
async def test_a_doubtful_row_of_ones_own_is_taken_even_if_its_name_was_ambiguous(deploy: Deploy) -> None:
    office = Office()
    world = await deploy(*office.apps)
    job_id = await world.enqueue(office.north, ["hook", "https://a.example/x"])  # type: ignore[attr-defined]
    await _written_by_an_earlier_release(world, "hook/https://a.example/x", "north.send", job_id, "unknown")
    await world.run_until_idle()
    assert office.sent == [("north", token_of("hook/https://a.example/x"))]


@pytest.mark.spec("K12")
@pytest.mark.parametrize("answer, word", [(None, "NoneType"), ("", "empty"), (7, "int"), ({"id": 1}, "dict")])
@pytest.mark.parametrize("effects_class", ["token", "lookup", "neither"])
async def test_a_send_without_an_id_is_a_mistake_and_a_doubt_at_once(
    deploy: Deploy, answer: Any, word: str, effects_class: Any
) -> None:
    app, sent = App("bad"), list[str]()

    async def find(token: str) -> str | None:
        return None

    provider = Provider("p", effects=effects_class, lookup=find if effects_class == "lookup" else None)

    async def send(token: str) -> Any:
        sent.append(token)
        return answer

    @app.job()
    class Send(Job[str]):
        @stage(provider=provider)
        async def send(self, ctx: Context, to: str) -> str:
            return await ctx.effect(("mail", to), send=send)

    world = await deploy(app)
    job_id = await world.enqueue(Send, "ann")
    await world.run_until_idle()
    assert len(sent) == 1 and await world.state(job_id) == "dead"
    error = json.loads((await world.job(job_id))["error"])
    assert error["error_class"] == "EFFECT_WITHOUT_ID"
    assert "'bad:/mail/ann'" in error["message"] and word in error["message"]
    async with world.kernel.store.transaction() as tx:
        row = await effects.lock(tx, "bad:/mail/ann")
    assert row is not None and row.status in (EffectStatus.UNKNOWN, EffectStatus.REVIEW)


@pytest.mark.spec("K12")
async def test_a_send_that_is_not_async_is_told_in_a_sentence(deploy: Deploy) -> None:
    app, sent = App("bad"), list[str]()

    @app.job()
    class Send(Job[str]):
        @stage(provider=Provider("p", effects="neither"))
        async def send(self, ctx: Context, to: str) -> str:
            return await ctx.effect(("mail", to), send=lambda token: sent.append(token))  # type: ignore[func-returns-value, return-value, arg-type]

    world = await deploy(app)
    job_id = await world.enqueue(Send, "ann")
    await world.run_until_idle()
    assert len(sent) == 1 and await world.state(job_id) == "dead"
    error = json.loads((await world.job(job_id))["error"])
    assert error["error_class"] == "EFFECT_WITHOUT_ID" and "is not async" in error["message"]


@pytest.mark.spec("K12")
async def test_a_key_without_a_lasting_name_sends_nothing(deploy: Deploy) -> None:
    app, sent = App("bad"), list[str]()

    async def send(token: str) -> str:
        sent.append(token)
        return "id"

    @app.job()
    class Send(Job[float]):
        @stage(provider=Provider("p", effects="token"), retry=Retry(attempts=1))
        async def send(self, ctx: Context, share: float) -> str:
            return await ctx.effect(("share", share), send=send)

    world = await deploy(app)
    job_id = await world.enqueue(Send, 0.1)
    await world.run_until_idle()
    assert await world.state(job_id) == "dead" and not sent
    assert "a float, which has no lasting spelling" in json.loads((await world.job(job_id))["error"])["message"]
