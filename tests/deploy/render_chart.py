"""Renders the chart with Helm's own library, in a process of its own: Go's runtime stays out of the tests'.

Reads a list of values from standard input; writes, for each, the manifests or the error, and what lint says.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import helm_python

CHART = "deploy/helm/holdfast"


def render(chart: helm_python.Chart, values: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"manifests": chart.render(values, name="shop", namespace="prod")}
    except helm_python.HelmError as error:
        return {"error": str(error)}


def main() -> None:
    given = json.load(sys.stdin)
    with helm_python.Chart.load(CHART) as chart:
        rendered = [render(chart, values) for values in given]
    linted = helm_python.lint(CHART, given[0], strict=True)
    json.dump({"rendered": rendered, "lint": linted}, sys.stdout)


if __name__ == "__main__":
    main()
