"""Break it yourself, over HTTP: switch providers off, kill workers, send jobs, and read the account.

There only in `holdfast up` on an address of this machine, for an operator who asks from this machine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from holdfast.errors import NotFound
from holdfast.http.auth import require
from holdfast.http.problem import Problem
from holdfast.kernel.submit import submit_many
from holdfast.operator.human_text import HumanText
from holdfast.operator.incident_news import APP as INCIDENTS
from holdfast.operator.mend import describe_input
from holdfast.operator.providers import list_breakers
from holdfast.playground.account import PlaygroundAccount, read_account
from holdfast.playground.sabotage import Fault, Sabotage
from holdfast.settings import Settings
from holdfast.system import OpenSystem

JOBS_MAX = 200


class KindView(BaseModel):
    """A kind of job that can be sent from here, and the JSON schema of its input, if it has one."""

    name: str
    input_schema: dict[str, Any] | None


class ProviderView(BaseModel):
    name: str
    fault: Fault
    gate: str
    held: int


class SystemView(BaseModel):
    name: str
    title: str
    workers: int
    killed: int
    lease_s: float
    providers: list[ProviderView]
    kinds: list[KindView]


class PlaygroundView(BaseModel):
    systems: list[SystemView]
    account: PlaygroundAccount


class SwitchFault(BaseModel):
    model_config = ConfigDict(extra="forbid")

    system: HumanText
    provider: HumanText
    fault: Fault


class KillWorkers(BaseModel):
    model_config = ConfigDict(extra="forbid")

    system: HumanText


class SendJobs(BaseModel):
    """So many jobs of a kind, all with this input."""

    model_config = ConfigDict(extra="forbid")

    system: HumanText
    kind: HumanText
    input: JsonValue
    count: int = Field(default=1, ge=1, le=JOBS_MAX)


class Killed(BaseModel):
    workers: list[str]
    lease_s: float


class Sent(BaseModel):
    job_ids: list[str]


@dataclass(frozen=True)
class Playground:
    """What the routes act on: the faults of this process and its systems."""

    sabotage: Sabotage
    systems: Sequence[OpenSystem]
    offers: frozenset[str]
    """The systems whose kinds of job can be sent from the page: those that bring no page of their own."""

    def system(self, name: str) -> OpenSystem:
        for each in self.systems:
            if each.name == name:
                return each
        raise NotFound(f"No system named '{name}' runs here.")


def may_be_broken(settings: Settings) -> bool:
    """Whether a process with these settings may offer its faults: one that only this machine can reach."""
    return settings.env != "production" and _is_this_machine(settings.host)


async def _only_here(request: Request) -> None:
    if request.client is None or not _is_this_machine(request.client.host):
        raise Problem(403, "FORBIDDEN", "Only somebody at this machine may break things here.")


router = APIRouter(
    prefix="/api/playground", tags=["playground"], dependencies=[require("operator"), Depends(_only_here)]
)


def _playground(request: Request) -> Playground:
    found: Playground = request.app.state.playground
    return found


AtPlayground = Annotated[Playground, Depends(_playground)]


@router.get("")
async def show_playground(request: Request, here: AtPlayground) -> PlaygroundView:
    """The switches as they stand, what can be sent, and the account: counted now, from the databases."""
    breakers = (await list_breakers(request.app.state.desk))["items"]
    gates = {(item["system"], item["name"]): (item["gate"], item["parked"]) for item in breakers}
    return PlaygroundView(
        systems=[await _view(here, each, gates) for each in here.systems if each.kernel.registry.kinds],
        account=await read_account(here.sabotage.book, here.systems),
    )


@router.post("/faults")
async def switch_fault(here: AtPlayground, body: SwitchFault) -> ProviderView:
    """Let a provider be down, slow, busy, or lose its answers; `none` ends it."""
    here.sabotage.switch(here.systems, body.system, body.provider, body.fault)
    return ProviderView(name=body.provider, fault=body.fault, gate="closed", held=0)


@router.post("/kill")
async def kill_workers(here: AtPlayground, body: KillWorkers) -> Killed:
    """Kill the workers of a system in the middle of their work. What they held comes back when the leases end."""
    lease_s = here.system(body.system).kernel.tuning.lease_s
    return Killed(workers=here.sabotage.kill(body.system), lease_s=lease_s)


@router.post("/jobs", status_code=201)
async def send_jobs(here: AtPlayground, body: SendJobs) -> Sent:
    """Send jobs of a kind, and note them in the account once they are accepted."""
    kernel = here.system(body.system).kernel
    kind = kernel.registry.kind(body.kind)
    value = kind.load_input(json.dumps(body.input))
    job_ids = await submit_many(kernel, type(kind.instance), [value] * body.count)
    await asyncio.to_thread(here.sabotage.book.accept, body.system, job_ids)
    return Sent(job_ids=job_ids)


@router.post("/forget")
async def begin_anew(here: AtPlayground) -> PlaygroundAccount:
    """Begin a new account. The jobs stay what they are."""
    await asyncio.to_thread(here.sabotage.book.forget)
    return await read_account(here.sabotage.book, here.systems)


async def _view(here: Playground, each: OpenSystem, gates: dict[tuple[str, str], tuple[str, int]]) -> SystemView:
    sabotage, registry = here.sabotage, each.kernel.registry
    providers = []
    for name in sorted(registry.providers):
        gate, held = gates.get((each.name, name), ("closed", 0))
        fault = sabotage.faults.get((each.name, name), Fault.NONE)
        providers.append(ProviderView(name=name, fault=fault, gate=gate, held=held))
    mine = [name for name in sorted(registry.kinds) if registry.app_names[name] != INCIDENTS]
    offered = mine if each.name in here.offers else []
    return SystemView(
        name=each.name,
        title=each.system.title,
        workers=sabotage.workers_of(each.name),
        killed=sabotage.killed.get(each.name, 0),
        lease_s=each.kernel.tuning.lease_s,
        providers=providers,
        kinds=[KindView(name=name, input_schema=await describe_input(each.kernel, name)) for name in offered],
    )


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
