"""The link that `holdfast up` prints: one click on the embedded default, and nowhere else a way in without a token."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.http.wishes import SECRET

from holdfast.cli.serve import print_banner
from holdfast.http.auth import Auth
from holdfast.settings import Settings


async def test_on_the_embedded_default_the_link_signs_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(data_dir=str(tmp_path))
    print_banner(settings, [])
    found = re.search(r"/login#(\S+)", capsys.readouterr().out)
    assert found is not None
    assert (await Auth(settings).principal(found[1])).may("operator")


@pytest.mark.parametrize(
    "given", [{"jwt_secret": SECRET}, {"jwks_url": "https://keys.example/jwks"}], ids=["secret", "keys"]
)
def test_where_others_hold_the_keys_the_link_carries_no_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: dict[str, str]
) -> None:
    print_banner(Settings(data_dir=str(tmp_path), **given), [])  # type: ignore[arg-type]
    printed = capsys.readouterr().out
    assert "/login\n" in printed and "#" not in printed
