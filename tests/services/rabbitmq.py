"""A private RabbitMQ node: own port, own epmd, own cookie, own folders. Debian's wrapper is bypassed.

A node takes seconds to start (5.9 s measured, far more on a busy machine), so `begin` returns at once and `wait_ready`
waits. Each test gets a virtual host of its own, because the contracts' queue names are fixed. Virtual hosts are made
with `erl_call`, a small C program of Erlang's that asks the running node directly: 0.02 s per test. rabbitmqctl
would boot a virtual machine for each question, and the management plugin would have to be loaded in every run.
"""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import signal
import subprocess
import time
from pathlib import Path

from tests.services import child
from tests.services.child import ServerUnavailable
from tests.services.found import Broker, find_rabbitmq

_CONFIG = """
listeners.tcp.1 = 127.0.0.1:{port}
vm_memory_high_watermark.absolute = 512MB
disk_free_limit.absolute = 50MB
default_user = holdfast
default_pass = holdfast
loopback_users = none
log.file.level = warning
"""


class RabbitMQServer:
    """One node and its epmd. `begin` starts them; `stop` ends them and removes their folder."""

    def __init__(self, beside: RabbitMQServer | None = None) -> None:
        """`beside` another node it can be joined to it (`join`): they share a cookie and an epmd."""
        broker = find_rabbitmq()
        if broker is None:
            raise ServerUnavailable("RabbitMQ is not on this machine; `make servers` fetches it")
        self._folder = child.private_folder("rabbitmq", owner=None)
        self._programs = _Programs(broker, self._folder)
        self._log = self._folder / "log"
        self._cookie = secrets.token_hex(16).upper()
        self.port, self._epmd_port, self._distribution_port = child.free_ports(3)
        if beside is not None:
            self._cookie, self._epmd_port = beside._cookie, beside._epmd_port
        self._has_epmd = beside is None
        self.node_name = f"holdfast{self.port}@localhost"
        self._numbers = itertools.count(1)
        self._epmd: subprocess.Popen[bytes] | None = None
        self._node: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start epmd and the node, and return without waiting for them."""
        home = self._folder / "home"
        home.mkdir()
        cookie = home / ".erlang.cookie"
        cookie.write_text(self._cookie)
        cookie.chmod(0o400)
        (self._folder / "rabbitmq.conf").write_text(_CONFIG.format(port=self.port))
        (self._folder / "enabled_plugins").write_text("[].\n")
        if self._has_epmd:
            self._start_epmd()
        self._start_node()

    def _start_epmd(self) -> None:
        # Ours, in the foreground: the one that Erlang starts by itself outlives the node.
        epmd: list[str | Path] = [self._programs.epmd, "-port", str(self._epmd_port), "-address", "127.0.0.1"]
        self._epmd = child.start(epmd, log=self._log, env=self._env())
        child.wait_until(lambda: child.listens(self._epmd_port), self._epmd, self._log, timeout_s=10)

    def wait_ready(self, timeout_s: float = 180) -> None:
        """Return when the node has booted and answers."""
        assert self._node is not None, "begin() comes first"
        child.wait_until(lambda: child.listens(self.port), self._node, self._log, timeout_s)
        child.wait_until(self._is_running, self._node, self._log, timeout_s)

    def url(self, vhost: str = "%2F") -> str:
        return f"amqp://holdfast:holdfast@127.0.0.1:{self.port}/{vhost}"

    def create_vhost(self) -> str:
        """Make a fresh virtual host and return its URL."""
        name = f"t{next(self._numbers)}"
        self._insist(f'rabbit_vhost:add(<<"{name}">>, <<"tests">>)')
        everything = '<<".*">>, <<".*">>, <<".*">>'
        self._insist(
            f'rabbit_auth_backend_internal:set_permissions(<<"holdfast">>, <<"{name}">>, {everything}, <<"tests">>)'
        )
        return self.url(name)

    def delete_vhost(self, url: str) -> None:
        """Delete a virtual host that `create_vhost` made, with its queues and connections."""
        self._insist(f'rabbit_vhost:delete(<<"{url.rpartition("/")[2]}">>, <<"tests">>)')

    def join(self, first: RabbitMQServer) -> None:
        """Become a member of the other node's cluster, empty."""
        self._insist("rabbit:stop()")
        self._insist(f"rabbit_mnesia:join_cluster('{first.node_name}', disc)")
        self._insist("rabbit:start()")

    def leader_of(self, queue: str, vhost: str) -> str:
        """The name of the node where a quorum queue is led from."""
        found = f'rabbit_amqqueue:lookup(rabbit_misc:r(<<"{vhost}">>, queue, <<"{queue}">>))'
        return self._ask(f"amqqueue:get_leader(element(2, {found}))")

    def sync_declarations(self) -> None:
        """Have on the disk what was declared: Mnesia tells a client before its log is, and a kill at that moment would
        take the queue, with a message that was confirmed."""
        self._insist("mnesia:sync_log()")

    def restart(self, *, kill: bool = True) -> None:
        """Stop and start the node on the same port with the same data. `kill` is SIGKILL: nothing is flushed."""
        self.halt(kill=kill)
        self.resume()

    def halt(self, *, kill: bool = True) -> None:
        """Stop the node without starting it again; `resume` ends the outage."""
        if self._node is not None:
            child.end(self._node, signal.SIGKILL if kill else signal.SIGTERM, timeout_s=60)

    def resume(self) -> None:
        self._start_node()
        self.wait_ready()

    def stop(self) -> None:
        self.halt(kill=True)  # nothing of it is kept
        if self._epmd is not None:
            child.end(self._epmd, signal.SIGTERM)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start_node(self) -> None:
        self._node = child.start([self._programs.server], log=self._log, env=self._env())

    def _is_running(self) -> bool:
        try:
            return "true" in self._ask("rabbit:is_running()")
        except ServerUnavailable:
            return False

    def _insist(self, expression: str, tries: int = 20) -> None:
        """Ask until the node can be reached: on a busy machine it may miss a handshake."""
        for left in reversed(range(tries)):
            try:
                self._ask(expression)
                return
            except ServerUnavailable as unavailable:
                if not left or "failed to connect" not in str(unavailable):
                    raise
                time.sleep(0.25)

    def _ask(self, expression: str) -> str:
        """Evaluate an Erlang expression on the node."""
        answer = subprocess.run(
            [self._programs.erl_call, "-c", self._cookie, "-name", self.node_name, "-timeout", "30", "-e"],
            input=f"{expression}.\n",
            capture_output=True,
            text=True,
            env=self._env(),
            check=False,
        )
        said = answer.stdout + answer.stderr
        if answer.returncode != 0 or "{error" in said:
            raise ServerUnavailable(f"RabbitMQ refused {expression}: {said}")
        return said

    def _env(self) -> dict[str, str]:
        folder = self._folder
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("RABBITMQ_", "ERL_"))}
        return kept | {
            "HOME": str(folder / "home"),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self.node_name,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            # Without its signal-handling shell in between, our child is the virtual machine itself.
            "RUNNING_UNDER_SYSTEMD": "yes",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none",
            **self._programs.env,
        }


class _Programs:
    """The programs of one broker. One that was unpacked is used through a link, since its scripts cannot bear
    a space in a path."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.server = broker.server
        self.env: dict[str, str] = {}
        if broker.prefix is not None:
            link = folder / "servers"
            link.symlink_to(broker.prefix)
            self.server = link / broker.server.relative_to(broker.prefix)
            libraries = ":".join(str(each) for each in sorted(link.glob("usr/lib/*-linux-*")))
            path = f"{link}/usr/bin:{os.environ['PATH']}"
            self.env = {"PATH": path, "ERL_ROOTDIR": f"{link}/usr/lib/erlang", "LD_LIBRARY_PATH": libraries}
        self.epmd = self._which("epmd")
        self.erl_call = self._which("erl_call")

    def _which(self, program: str) -> Path:
        found = shutil.which(program, path=self.env.get("PATH"))
        if found is None:
            raise ServerUnavailable(f"Erlang's `{program}` is not on this machine; `make servers` fetches it")
        return Path(found)
