"""Fixtures of the two grading services as processes, for the acceptance and the interop tests."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.stores.postgres import PostgresStore
from holdfast.stores.statement import Migration
from holdfast.tables.schema import KERNEL
from holdfast_systems.grading import grading_service, main_app
from holdfast_systems.grading.features import Measurer
from tests.acceptance.grading_site import GradingSite, deployed
from tests.acceptance.model_endpoint import Model, serving
from tests.acceptance.process import Nursery
from tests.services.postgres import PostgresServer
from tests.services.rabbitmq import RabbitMQServer


def warm() -> None:
    """Load what every grading process needs: web framework, Celery, broker's client, word lists, and the dictionary of
    the grammar checker (1.2 s of CPU). Its threads read that dictionary and do nothing afterwards: a child has none of
    them, and needs none to check a text."""
    importlib.import_module("holdfast.cli.serve")
    importlib.import_module("holdfast.engines.celery")
    importlib.import_module("holdfast.transports.rabbitmq")
    importlib.import_module("cefrpy").CEFRAnalyzer()
    importlib.import_module("wordfreq").zipf_frequency("word", "en")
    Measurer().measure("Cities grow because people look for work.")


@pytest.fixture(scope="session")
def grading_nursery(nursery: Nursery) -> Nursery:
    nursery.warm("tests.acceptance.grading_fixtures:warm")
    return nursery


@pytest.fixture(scope="session")
def grading_templates(postgres_server: PostgresServer) -> Iterator[tuple[str, str]]:
    """A migrated database of the main app and one of the grading service, to be copied."""
    urls = postgres_server.create_database(), postgres_server.create_database()
    for url, migrations in zip(urls, (main_app.MIGRATIONS, grading_service.MIGRATIONS), strict=True):
        asyncio.run(_migrate(PostgresStore(url), [*KERNEL, *migrations]))
    yield urls
    for url in urls:
        postgres_server.drop_database(url)


async def _migrate(store: PostgresStore, migrations: list[Migration]) -> None:
    await store.migrate(migrations)
    await store.close()


@pytest.fixture
def model() -> Iterator[Model]:
    with serving(Model()) as made:
        yield made


@pytest.fixture
def grading_site(
    postgres_server: PostgresServer,
    grading_templates: tuple[str, str],
    rabbitmq_url: str,
    grading_nursery: Nursery,
    model: Model,
    tmp_path: Path,
) -> Iterator[GradingSite]:
    """An empty deployment of the two grading services; no process runs yet."""
    with deployed(postgres_server, grading_templates, rabbitmq_url, grading_nursery, tmp_path, model) as site:
        yield site


@pytest.fixture(scope="module", params=["asyncio", "celery"])
def standing(
    request: pytest.FixtureRequest,
    postgres_server: PostgresServer,
    grading_templates: tuple[str, str],
    rabbitmq_server: RabbitMQServer,
    grading_nursery: Nursery,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[GradingSite]:
    """A deployment whose grading service runs already, on one engine and then on the other, for all tests of a module:
    each of them knows its own requests by their ids and leaves the model as it found it."""
    broker = rabbitmq_server.create_vhost()
    folder = tmp_path_factory.mktemp("standing")
    with (
        serving(Model()) as model,
        deployed(postgres_server, grading_templates, broker, grading_nursery, folder, model) as site,
    ):
        site.engine = request.param
        site.service()
        yield site
    rabbitmq_server.delete_vhost(broker)
