"""What a path says about a file: a test, an example, someone else's code, or the product itself."""

from __future__ import annotations

import re
from typing import Literal

PathKind = Literal["product", "trial", "foreign"]

# Bundled, generated and locked files, and the data of tests: nobody here wrote their lines, or they must be so.
_FOREIGN = re.compile(
    r"(^|/)(vendor(ed)?|_vendor|third_?party|_?extern(als?)?|_?bundled|node_modules|dist|bower_components|generated|typeshed)/"
    r"|\.(lock|sum|map|snap|svg|po|pot)$|\.min\.(js|css)$|[.-][0-9a-f]{8,}\.(js|css)$"
    r"|[._-]generated\.|_pb2(_grpc)?\.pyi?$|\.pb\.go$"
    r"|(^|/)(test[-_]?data|__fixtures__|__snapshots__)/"
    r"|\.egg-info/|(^|/)(package-lock\.json|pnpm-lock\.yaml|go\.sum|poetry\.lock|Cargo\.lock|PKG-INFO)$",
    re.IGNORECASE,
)
_COPIED = re.compile(r"\w/packages/\w")  # a package inside of a package was copied there
# What tests read or compare with is as its test needs it: such a folder somewhere below the first one of tests.
_TESTS = re.compile(r"(^|/)(tests?|spec|__tests__)(?=/)", re.IGNORECASE)
_TEST_DATA = re.compile(
    r"/(test-?data|data|cases|sources?|fixtures?|resources|samples?|sample_data|snapshots?|expected|golden|inputs?|outputs?|corpus)/",
    re.IGNORECASE,
)
# Tests, examples, scripts and documents: printing and made-up passwords are their business.
_TRIAL = re.compile(
    r"(^|/)(tests?|testing|integration|e2e|spec|specs|__tests__|fixtures?|testdata|examples?|samples?|demos?|docs?|bench(marks?)?|"
    r"scripts?|tools?|bin|sandbox|\.github|ci)/"
    r"|(^|/)(tests?|test_[^/]*|[^/]*_test|conftest)\.\w+$|\.(test|spec|stories|d|example|sample)\.\w+$|\.(md|rst|txt|adoc)$",
    re.IGNORECASE,
)
_COMMAND = re.compile(
    r"(^|/)(cli|cmd|commands?|console|management)(/|[._]|_[^/]*\.)|_cli\.\w+$|__main__\.py$", re.IGNORECASE
)
_TEST = re.compile(
    r"(^|/)(tests?|spec|specs|__tests__)/|(^|/)(tests?|test_[^/]*|[^/]*_test)\.\w+$|\.(test|spec)\.\w+$", re.IGNORECASE
)


def path_kind(path: str) -> PathKind:
    if _FOREIGN.search(path) or (path.endswith(".py") and _COPIED.search(path)):
        return "foreign"
    if (tests := _TESTS.search(path)) and _TEST_DATA.search(path, tests.end()):
        return "foreign"
    return "trial" if _TRIAL.search(path) else "product"


def speaks_to_people(path: str) -> bool:
    """Whether a file is a command: what it prints is its answer."""
    return bool(_COMMAND.search(path))


def is_test(path: str) -> bool:
    return bool(_TEST.search(path))
