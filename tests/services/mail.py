"""A private Postfix and Dovecot on loopback: mail is accepted, delivered into Maildirs and searched over IMAP.

Root only: both servers give up privileges for their parts. Nothing of the system's own configuration is read, no
service of the system is started. Everybody's mail stays below one folder:

    boxes/ada/new/...      the Maildir of ada@example.test           every mail may be copied to copies@example.test
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Sequence
from email import message_from_bytes
from email.message import Message
from pathlib import Path

from tests.services.child import ServerUnavailable, end, free_ports, is_root, listens, private_folder, start, wait_until

DOMAIN = "example.test"
ARCHIVE, PASSWORD = "copies", "found-by-imap"
READY_S = 60.0
_HOLD_SERVICES = Path("/usr/sbin/policy-rc.d")
_OWNER = "nobody"

MAIN_CF = """
compatibility_level = 3.6
config_directory = {folder}/postfix
queue_directory = {folder}/queue
data_directory = {folder}/state
maillog_file_prefixes = {folder}
maillog_file = {folder}/postfix.log
mail_owner = postfix
setgid_group = postdrop
myhostname = mail.{domain}
mydestination =
inet_interfaces = loopback-only
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
alias_maps =
virtual_mailbox_domains = {domain}
virtual_mailbox_base = {folder}/boxes
virtual_mailbox_maps = texthash:{folder}/postfix/boxes
virtual_minimum_uid = 100
virtual_uid_maps = static:{uid}
virtual_gid_maps = static:{gid}
default_transport = error:outside mail is disabled
relay_transport = error:outside mail is disabled
smtpd_relay_restrictions = permit_mynetworks, reject
smtpd_peername_lookup = no
smtpd_client_connection_rate_limit = 0
smtpd_client_connection_count_limit = 0
in_flow_delay = 0
"""
MASTER_CF = """
127.0.0.1:{port} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""
DOVECOT_CONF = """
base_dir = {folder}/dovecot
state_dir = {folder}/dovecot
log_path = {folder}/dovecot.log
protocols = imap
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
first_valid_uid = 100
mail_location = maildir:{folder}/boxes/%n
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/boxes/%n
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
"""


class MailServer:
    """Both servers. `names` are the mailboxes besides the archive; other addresses are refused at RCPT."""

    def __init__(self, names: Sequence[str]) -> None:
        if not is_root():
            raise ServerUnavailable("a private Postfix and Dovecot need root")
        install_if_missing()
        self.names = [*names, ARCHIVE]
        self.folder = private_folder("mail", None)
        self.folder.chmod(0o755)  # the servers' own users pass through it
        self.smtp_port, self.imap_port = free_ports(2)
        self._processes: list[tuple[subprocess.Popen[bytes], Path, int]] = []

    @property
    def smtp_url(self) -> str:
        return f"smtp://127.0.0.1:{self.smtp_port}?archive={ARCHIVE}@{DOMAIN}"

    @property
    def imap_url(self) -> str:
        return f"imap://{ARCHIVE}:{PASSWORD}@127.0.0.1:{self.imap_port}/INBOX"

    def begin(self) -> None:
        """Start both and wait until they listen."""
        self._write_configuration()
        log = self.folder / "start.log"
        configured = self.folder / "postfix"
        _insist(["postfix", "-c", configured, "check"], log)  # makes the folders of its queues
        # Not `postfix start-fg`: a signal would reach only that script, and the master behind it would live on.
        postfix = [_master(configured), "-c", configured, "-s"]
        dovecot = ["dovecot", "-F", "-c", self.folder / "dovecot.conf"]
        self._processes = [
            (start(postfix, log=log, env=_environment()), self.folder / "postfix.log", self.smtp_port),
            (start(dovecot, log=log, env=_environment()), self.folder / "dovecot.log", self.imap_port),
        ]
        for process, own_log, port in self._processes:
            wait_until(lambda port=port: listens(port), process, own_log, READY_S)  # type: ignore[misc]

    def stop(self) -> None:
        for process, _, _ in self._processes:
            end(process, signal.SIGTERM)
        shutil.rmtree(self.folder, ignore_errors=True)

    def mails(self, name: str) -> list[Message]:
        """What lies in a mailbox."""
        found = [path for part in ("new", "cur") for path in (self.folder / "boxes" / name / part).glob("*")]
        return [message_from_bytes(path.read_bytes()) for path in found]

    def in_transit(self) -> int:
        """How many messages were accepted and are not delivered yet."""
        queues = ("incoming", "active", "deferred", "hold", "maildrop")
        return sum(path.is_file() for queue in queues for path in (self.folder / "queue" / queue).rglob("*"))

    def _write_configuration(self) -> None:
        owner = pwd.getpwnam(_OWNER)
        values = {"folder": self.folder, "domain": DOMAIN, "uid": owner.pw_uid, "gid": owner.pw_gid}
        for name in ("postfix", "queue", "state", "boxes", "dovecot"):
            (self.folder / name).mkdir(mode=0o755)
        shutil.chown(self.folder / "state", "postfix", "postfix")
        shutil.chown(self.folder / "boxes", _OWNER, owner.pw_gid)
        configured = self.folder / "postfix"
        (configured / "main.cf").write_text(MAIN_CF.format(**values))
        (configured / "master.cf").write_text(MASTER_CF.format(port=self.smtp_port))
        boxes = "".join(f"{name}@{DOMAIN} {name}/\n" for name in self.names)
        (configured / "boxes").write_text(boxes)
        text = DOVECOT_CONF.format(**values, port=self.imap_port, password=PASSWORD)
        (self.folder / "dovecot.conf").write_text(text)


def install_if_missing() -> None:
    """Install Debian's packages, with their own services held back, if the programs are not here."""
    packages = {"postfix": "postfix", "dovecot": "dovecot-imapd"}
    missing = [package for program, package in packages.items() if _which(program) is None]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise ServerUnavailable(f"{' and '.join(missing)} are not on this machine, and it has no apt-get")
    ours = not _HOLD_SERVICES.exists()
    if ours:
        _HOLD_SERVICES.write_text("#!/bin/sh\nexit 101\n")
        _HOLD_SERVICES.chmod(0o755)
    try:
        install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
        if not _quietly(install):
            _quietly(["apt-get", "update", "-q"])
            _quietly(install)
    finally:
        if ours:
            _HOLD_SERVICES.unlink()
    if any(_which(program) is None for program in packages):
        raise ServerUnavailable(f"apt-get could not install {' and '.join(missing)}")


def _quietly(command: list[str]) -> bool:
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    return subprocess.run(command, env=env, capture_output=True, check=False).returncode == 0


def _insist(command: Sequence[str | Path], log: Path) -> None:
    with log.open("ab") as output:
        done = subprocess.run(command, env=_environment(), stdout=output, stderr=output, check=False)
    if done.returncode != 0:
        raise ServerUnavailable(f"{command!r} ended with {done.returncode}:\n{log.read_text(errors='replace')}")


def _master(configured: Path) -> Path:
    """Postfix's own first process, wherever this distribution keeps it."""
    asked = ["postconf", "-c", str(configured), "-h", "daemon_directory"]
    said = subprocess.run(asked, env=_environment(), capture_output=True, text=True, check=True).stdout
    return Path(said.strip()) / "master"


def _which(program: str) -> str | None:
    return shutil.which(program, path=_environment()["PATH"])


def _environment() -> dict[str, str]:
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
