"""Which tests go together to one process of `make test`, and which begin first.

A process of pytest-xdist that has nearly done what it has is given the next unit:

    the tests of one file               they share its fixtures: a deployment, a browser, a matrix of processes
    the tests of one broker             one node of RabbitMQ serves them; most of their time they wait
    one test of a simulated world       many seeds each, and nothing to share

Long units begin first, so that all processes end at about the same time. Those that wait for leases and servers take
turns with those that compute: with a process more than there are processors, no processor stands idle meanwhile.

Ten thousand collected tests are half a million objects that live until the end: nobody looks among them for garbage.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterable, Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

BROKERS = {
    "the broker of fleets": ("tests/acceptance/test_broker.py", "tests/acceptance/test_celery.py", "tests/transports/"),
    "the broker of grading": (
        "tests/acceptance/test_grading_",
        "tests/systems/grading/test_forged.py",
        "tests/systems/grading/test_grading_over_rabbitmq.py",
        "tests/systems/grading/test_letters.py",
        "tests/deploy/test_compose_processes.py",
        "tests/test_services.py",
    ),
}
"""The units that have a node of RabbitMQ each, and what their tests' names begin with."""
WORLDS = tuple(f"tests/proof/test_{name}.py" for name in ("kernel_world", "grading_world", "review_world", "mutants"))
# The longest first, by what a unit's name begins with.
WAITING = (
    *BROKERS,
    "tests/acceptance/test_failpoints.py",
    "tests/acceptance/test_review_mail.py",
    "tests/acceptance/test_restarts.py",
    "tests/acceptance/test_soak.py",
    "tests/browser/",
    "tests/acceptance/",
    "tests/cli/test_commands.py",
    "tests/kernel/test_processes.py",
    "tests/interop/",
)
COMPUTING = (
    "tests/proof/test_kernel_world.py::test_no_promise_is_broken_in_fresh_seeds",
    "tests/proof/test_grading_world.py::test_no_promise_of_grading_is_broken_in_fresh_seeds",
    "tests/proof/test_conversion_world.py",
    "tests/proof/test_review_world.py::test_no_promise_is_broken_in_fresh_seeds",
    "tests/security/",
    "tests/proof/",
)


def unit_of(test: str) -> str:
    """The unit that a test, named by its id, belongs to."""
    for unit, files in BROKERS.items():
        if test.startswith(files):
            return unit
    return test if test.startswith(WORLDS) else test.partition("::")[0]


def long_first(units: Iterable[str]) -> list[str]:
    """The units in the order in which they should begin."""
    known = list(dict.fromkeys(units))
    waiting, computing = _listed(known, WAITING), _listed(known, COMPUTING)
    turns = [unit for unit in chain.from_iterable(zip_longest(waiting, computing)) if unit is not None]
    return list(dict.fromkeys([*turns, *known]))


def _listed(units: Sequence[str], beginnings: Sequence[str]) -> list[str]:
    found = [unit for beginning in beginnings for unit in units if unit.startswith(beginning)]
    return list(dict.fromkeys(found))


class InUnits(LoadScopeScheduling):
    """Hands out units in the order in which their tests were collected.

    What a process that vanished has not done goes to the others and to the process that replaces it, but for the test
    that it vanished in: that has failed, and would end the next one too. pytest-xdist would hand out first what was
    done already, and nobody is ever asked again who was given nothing to do: the whole run would stand still.
    """

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        left = {}
        for unit, tests in self.assigned_work.pop(node).items():
            waiting = {test: False for test, is_done in tests.items() if not is_done}
            if waiting:
                left[unit] = waiting
        if not left:
            return None
        unit = next(iter(left))
        lost = next(iter(left[unit]))
        del left[unit][lost]
        self.workqueue.update({unit: tests for unit, tests in left.items() if tests})
        for other in self.assigned_work:
            self._reschedule(other)
        return lost

    def _reschedule(self, node: WorkerController) -> None:
        """Until it has more than two tests: a process begins with one only when it knows the next."""
        super()._reschedule(node)
        while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) <= 2:
            super()._reschedule(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> InUnits | None:
    if config.getoption("dist") != "loadscope":
        return None
    config.option.loadscopereorder = False
    return InUnits(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only among several processes: one alone takes the tests as they are written."""
    if hasattr(config, "workerinput"):
        turn = {unit: number for number, unit in enumerate(long_first(unit_of(item.nodeid) for item in items))}
        items.sort(key=lambda item: turn[unit_of(item.nodeid)])


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
