"""Strangers, and the grading services they meet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.grading_fixtures import grading_nursery, grading_site, grading_templates, model
from tests.acceptance.process import Nursery
from tests.interop.npm import Strangers, do_without, installed
from tests.services.child import ServerUnavailable

__all__ = ["grading_nursery", "grading_site", "grading_templates", "model"]


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    made = Nursery(tmp_path_factory.mktemp("processes"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def strangers() -> Strangers:
    try:
        return installed()
    except ServerUnavailable as reason:
        do_without(reason)
