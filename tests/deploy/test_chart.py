"""The Helm chart, rendered by Helm: Kubernetes takes it, and it names only what the code knows. No cluster is here."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import jsonschema
import pytest
import typer
import yaml
from tests.services.fixtures import do_without
from tests.services.found import REPOSITORY, find_helm

from holdfast.cli import cli
from holdfast.main import load_systems
from holdfast.settings import Settings, problems
from holdfast.settings.names import describe

DATABASE = {"variable": "DATABASE_URL", "secret": "shop-db"}
EVERYTHING: dict[str, Any] = {
    "system": "conversion",
    "database": DATABASE,
    "env": {"GATEWAY_URL": "http://converter", "WORKER_LEASE_TTL_SEC": 30},
    "secretEnv": {"HOLDFAST_JWT_SECRET": {"secret": "shop", "key": "jwt"}},
    "image": {"repository": "registry.example/holdfast", "tag": "1.2.3", "pullSecrets": ["registry"]},
    "web": {"ingress": {"enabled": True, "host": "shop.example", "className": "nginx", "tlsSecret": "shop-tls"}},
    "workers": {
        "default": {"scale": {"enabled": True}},
        "large": {"resources": {"limits": {"memory": "2Gi"}}, "queues": {"conversion": 2}},
    },
    "keeper": {"enabled": True},
    "relay": {"enabled": True},
    "metrics": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "batch", "operator": "Exists"}],
    "dataVolume": {"persistentVolumeClaim": {"claimName": "documents"}},
}
OF_ONES_OWN: dict[str, Any] = {
    "app": "shop.jobs:app",
    "database": DATABASE,
    "workers": {"default": {"scale": {"enabled": True, "queue": "shop"}}},
}
SYSTEM = {"system": "review", "database": {**DATABASE, "variable": "REVIEW_DATABASE_URL"}}
REFUSED = {
    "no database": ({"system": "review"}, "/database/secret"),
    "a secret in the values": ({**SYSTEM, "secretEnv": {"OPENAI_API_KEY": "sk-1"}}, "/secretEnv/OPENAI_API_KEY"),
    "a misspelt value": ({**SYSTEM, "worker": {}}, "additional properties 'worker' not allowed"),
    "neither system nor app": ({"database": DATABASE}, "Set system (an installed system) or app"),
    "system and app": ({**SYSTEM, "app": "shop.jobs:app"}, "not both"),
    "an app whose queue is not said": ({**OF_ONES_OWN, "workers": {"w": {"scale": {"enabled": True}}}}, "scale.queue"),
    "an ingress without a host": ({**SYSTEM, "web": {"ingress": {"enabled": True}}}, "web.ingress.host is needed"),
}
GOOD = [EVERYTHING, OF_ONES_OWN, SYSTEM]


@pytest.fixture(scope="module")
def helm() -> dict[str, Any]:
    """What Helm makes of every case, in one process."""
    if not find_helm():
        do_without("Helm's library is not in the virtualenv; `make servers` fetches it")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.deploy.render_chart"],
        input=json.dumps([*GOOD, *(values for values, _ in REFUSED.values())]),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def manifests(helm: dict[str, Any], case: int) -> list[dict[str, Any]]:
    rendered = helm["rendered"][case]
    assert "error" not in rendered, rendered
    texts = [text for name, text in rendered["manifests"].items() if name.endswith(".yaml")]
    return [each for text in texts for each in yaml.safe_load_all(text) if each]


def named(helm: dict[str, Any], case: int, kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in manifests(helm, case) if each["kind"] == kind}


def containers(helm: dict[str, Any], case: int) -> dict[str, dict[str, Any]]:
    pods = {**named(helm, case, "Deployment"), **named(helm, case, "Job")}
    return {name: each["spec"]["template"]["spec"]["containers"][0] for name, each in pods.items()}


@pytest.mark.spec("000.41")
def test_helm_has_nothing_against_it(helm: dict[str, Any]) -> None:
    assert helm["lint"]["errors"] == []
    assert [each for each in helm["lint"]["messages"] if each["severity"] > 1] == []


@pytest.mark.spec("000.41")
@pytest.mark.parametrize("case", range(len(GOOD)))
def test_kubernetes_takes_every_manifest(helm: dict[str, Any], case: int) -> None:
    known = json.loads((REPOSITORY / "tests/deploy/kubernetes.json").read_text())
    for each in manifests(helm, case):
        definition = known["kinds"][f"{each['apiVersion']}/{each['kind']}"]
        schema = {"$ref": f"#/definitions/{definition}", "definitions": known["definitions"]}
        found = [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(each)]
        assert found == [], f"{each['kind']} {each['metadata']['name']}"


@pytest.mark.spec("000.41")
def test_every_process_is_there_with_its_probes_budget_and_scaling(helm: dict[str, Any]) -> None:
    deployments = named(helm, 0, "Deployment")
    assert set(deployments) == {"shop-web", "shop-worker-default", "shop-worker-large", "shop-keeper", "shop-relay"}
    assert set(named(helm, 0, "PodDisruptionBudget")) == {
        "shop-web",
        "shop-worker-default",
        "shop-worker-large",
    }
    assert "replicas" not in deployments["shop-worker-default"]["spec"], "a number beside KEDA's would fight with it"
    assert deployments["shop-worker-large"]["spec"]["replicas"] == 1
    assert set(named(helm, 2, "Deployment")) == {"shop-web", "shop-worker-default"}
    assert {each["spec"]["replicas"] for each in named(helm, 2, "Deployment").values()} == {3}
    for name in deployments:
        container = containers(helm, 0)[name]
        port = container["ports"][0]["name"]
        for probe, path in [("startup", "/healthz"), ("liveness", "/healthz"), ("readiness", "/readyz")]:
            assert container[f"{probe}Probe"]["httpGet"] == {"path": path, "port": port}


def test_what_selects_pods_selects_those_of_one_deployment_and_all_metrics_are_scraped(helm: dict[str, Any]) -> None:
    deployments = named(helm, 0, "Deployment")
    pods = {name: each["spec"]["template"]["metadata"]["labels"] for name, each in deployments.items()}

    def selected(labels: dict[str, str]) -> set[str]:
        return {name for name, pod in pods.items() if labels.items() <= pod.items()}

    for kind in ("Deployment", "PodDisruptionBudget"):
        for name, each in named(helm, 0, kind).items():
            assert selected(each["spec"]["selector"]["matchLabels"]) == {name}
    services = named(helm, 0, "Service")
    assert selected(services["shop-web"]["spec"]["selector"]) == {"shop-web"}
    assert selected(services["shop-metrics"]["spec"]["selector"]) == set(pods)
    (monitor,) = named(helm, 0, "ServiceMonitor").values()
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    assert all(wanted <= service["metadata"]["labels"].items() for service in services.values())
    assert {each["port"] for each in monitor["spec"]["endpoints"]} == {
        port["name"] for service in services.values() for port in service["spec"]["ports"]
    }


def test_the_schema_is_migrated_before_anything_new_starts(helm: dict[str, Any]) -> None:
    (job,) = named(helm, 0, "Job").values()
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert containers(helm, 0)["shop-migrate"]["args"] == ["migrate", "--system", "conversion"]
    for container in containers(helm, 0).values():
        assert {"name": "HOLDFAST_AUTO_MIGRATE", "value": "false"} in container["env"]


@pytest.mark.parametrize("case", [0, 2])
def test_commands_and_settings_are_those_of_the_code(helm: dict[str, Any], case: int) -> None:
    root: Any = typer.main.get_command(cli)
    groups = [Settings, *(group for system in load_systems() for group in system.settings)]
    known = {name for group in groups for name, _, _ in describe(group)}
    for container in containers(helm, case).values():
        command, *arguments = container["args"]
        context = root.commands[command].make_context(command, list(arguments))
        (system,) = load_systems(context.params["system"])
        env = {each["name"]: each.get("value", "postgresql://db/x") for each in container["env"]}
        assert set(env) <= known, sorted(set(env) - known)
        assert env[system.database if isinstance(system.database, str) else system.database[0]]
        env |= {"HOLDFAST_JWT_SECRET": "x" * 32}
        assert [problem for group in groups for problem in problems(group, env)] == []


@pytest.mark.spec("K19")
@pytest.mark.parametrize("case", range(len(GOOD)))
def test_no_process_is_root_or_may_write_outside_its_folders(helm: dict[str, Any], case: int) -> None:
    for name, each in {**named(helm, case, "Deployment"), **named(helm, case, "Job")}.items():
        pod = each["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False and pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        security = containers(helm, case)[name]["securityContext"]
        assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert {volume["name"] for volume in pod["volumes"]} == {"data", "tmp"}


def test_a_pod_is_given_longer_than_the_process_takes_to_stop(helm: dict[str, Any]) -> None:
    for each in named(helm, 0, "Deployment").values():
        pod = each["spec"]["template"]["spec"]
        env = {entry["name"]: entry.get("value") for entry in pod["containers"][0]["env"]}
        assert pod["terminationGracePeriodSeconds"] > int(env["HOLDFAST_GRACE_SEC"]) + 5


def test_workers_may_serve_some_queues_only(helm: dict[str, Any]) -> None:
    args = containers(helm, 0)["shop-worker-large"]["args"]
    assert args == ["worker", "--system", "conversion", "--concurrency", "50", "--queue", "conversion=2"]


def test_workers_are_scaled_by_the_age_and_depth_of_their_queue(helm: dict[str, Any]) -> None:
    (scaled,) = named(helm, 1, "ScaledObject").values()
    assert scaled["spec"]["scaleTargetRef"]["name"] in named(helm, 1, "Deployment")
    labels = '{namespace="prod",service=~"shop-(metrics|web)",queue="shop"'
    assert [trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"]] == [
        f"max(holdfast_queue_oldest_age_seconds{labels}}})",
        f'max(holdfast_queue_depth{labels},state="queued"}})',
    ]
    reference = (REPOSITORY / "docs/reference/metrics.md").read_text()
    assert all(f"`{name}`" in reference for name in ("holdfast_queue_oldest_age_seconds", "holdfast_queue_depth"))


@pytest.mark.parametrize("number", range(len(REFUSED)), ids=list(REFUSED))
def test_values_that_make_no_sense_are_refused_with_the_reason(helm: dict[str, Any], number: int) -> None:
    _, reason = list(REFUSED.values())[number]
    assert reason in helm["rendered"][len(GOOD) + number].get("error", "")
