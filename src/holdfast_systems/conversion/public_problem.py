"""Every problem that a conversion user sees carries one of the ten public codes; the finer word ends its detail.

401, 403, 404 -> FORBIDDEN     409 -> NOT_READY     413 -> TOO_LARGE     415 -> NOT_PDF     other 4xx -> GW_4XX
502 -> GW_5XX                  503, 507 -> IO_ERROR 504 -> GW_TIMEOUT    other 5xx -> UNKNOWN
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast_systems.conversion.codes import Code

if TYPE_CHECKING:
    from holdfast.http.problem import Problem

PATHS = "/api/jobs"

_BY_STATUS: Mapping[int, Code] = {
    401: Code.FORBIDDEN,
    403: Code.FORBIDDEN,
    404: Code.FORBIDDEN,
    409: Code.NOT_READY,
    410: Code.EXPIRED,
    413: Code.TOO_LARGE,
    415: Code.NOT_PDF,
    502: Code.GW_5XX,
    503: Code.IO_ERROR,
    504: Code.GW_TIMEOUT,
    507: Code.IO_ERROR,
}
_PUBLIC = frozenset(code.value for code in Code)


def public_problem(problem: Problem) -> Problem:
    """The same refusal under a public code. Status, headers and fields stay."""
    if problem.code in _PUBLIC:
        return problem
    code = _BY_STATUS.get(problem.status) or (Code.UNKNOWN if problem.status >= 500 else Code.GW_4XX)
    detail = f"{problem.detail} ({problem.code})"
    return type(problem)(problem.status, code.value, detail, headers=problem.headers, **problem.extra)
