"""What `make check` does not even read."""

from __future__ import annotations

import pytest

from tests.services.fixtures import _is_all_slow


@pytest.mark.parametrize(
    ("text", "is_left_out"),
    [
        ("pytestmark = pytest.mark.slow\n", True),
        ('pytestmark = [pytest.mark.spec("R8"), pytest.mark.slow]\n', True),
        ('pytestmark = [\n    pytest.mark.may_skip("/proc"),\n    pytest.mark.slow,\n]\n', True),
        ("pytestmark = pytest.mark.slow\n\n@pytest.mark.fast\ndef test_a(): ...\n", False),
        ('pytestmark = [pytest.mark.spec("R8")]\n\n@pytest.mark.slow\ndef test_a(): ...\n', False),
        ("@pytest.mark.slow\ndef test_a(): ...\n", False),
    ],
)
def test_a_file_of_which_all_is_slow_is_left_out_whole(text: str, is_left_out: bool) -> None:
    assert _is_all_slow(text) is is_left_out
