"""What a path says about a file: a test, an example, someone else's code, or the product itself."""

from __future__ import annotations

import re
from typing import Literal

PathKind = Literal["product", "trial", "foreign"]

# Bundled, generated and locked files: nobody here wrote their lines.
_FOREIGN = re.compile(
    r"(^|/)(vendor(ed)?|_vendor|third_?party|node_modules|dist|packages/urllib3|bower_components|generated)/"
    r"|\.(lock|sum|map|snap|svg|po|pot)$|\.min\.(js|css)$|[._-]generated\.|_pb2(_grpc)?\.pyi?$|\.pb\.go$"
    r"|(^|/)(package-lock\.json|pnpm-lock\.yaml|go\.sum|poetry\.lock|Cargo\.lock)$",
    re.IGNORECASE,
)
# Tests, examples, scripts and documents: printing and made-up passwords are their business.
_TRIAL = re.compile(
    r"(^|/)(tests?|testing|spec|specs|__tests__|fixtures?|testdata|examples?|samples?|demos?|docs?|bench(marks?)?|"
    r"scripts?|tools?|bin|sandbox|\.github|ci)/"
    r"|(^|/)(test_[^/]*|[^/]*_test|conftest)\.\w+$|\.(test|spec|stories|d|example|sample)\.\w+$|\.(md|rst|txt|adoc)$",
    re.IGNORECASE,
)
_TEST = re.compile(
    r"(^|/)(tests?|spec|specs|__tests__)/|(^|/)(test_[^/]*|[^/]*_test)\.\w+$|\.(test|spec)\.\w+$", re.IGNORECASE
)


def path_kind(path: str) -> PathKind:
    if _FOREIGN.search(path):
        return "foreign"
    return "trial" if _TRIAL.search(path) else "product"


def is_test(path: str) -> bool:
    return bool(_TEST.search(path))
