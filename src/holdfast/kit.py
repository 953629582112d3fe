"""What a system is built with, beyond the names of `holdfast` itself: one door, kept stable.

A system that writes its own tables beside the kernel's needs more than one that only declares jobs: statements and
migrations, transactions, the outbox, the door for jobs, the values of a settlement. Systems
import from here and from `holdfast`, `holdfast.http`, `holdfast.providers`, `holdfast.settings`; nothing deeper.
"""

from holdfast.core.address import mask_addresses
from holdfast.core.breaker import Gate
from holdfast.core.classify import classify
from holdfast.core.client_error import read_answer
from holdfast.core.effect_key import EffectKey, effect_key
from holdfast.core.failure import PublicFailure, failure
from holdfast.core.job import State
from holdfast.core.redact import MASK, redact, redact_message, redact_text
from holdfast.errors import SettingsError, StoreBusy, StoreError
from holdfast.kernel import operate
from holdfast.kernel.app import Corrected, TakenBack
from holdfast.kernel.correct import correct
from holdfast.kernel.declare.declaring import unchanged
from holdfast.kernel.effects import answer, ask_person
from holdfast.kernel.gather import Gather
from holdfast.kernel.intake import once
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.ledger.look_into import look_into
from holdfast.kernel.observe.counters import Counter
from holdfast.kernel.observe.provider_status import note_status
from holdfast.kernel.observe.trace import trace_headers
from holdfast.kernel.questions.explain import iso
from holdfast.kernel.sealing import open_own
from holdfast.kernel.submit import JobToEnqueue, prepare, submit_in
from holdfast.stores.seam import Row, Tx
from holdfast.stores.statement import load_migrations, load_statements
from holdfast.tables import audit, batch, cases, effects, events, idempotency, inbox, jobs, outbox, providers, secrets
from holdfast.transports.seam import Delivery, HeldMessage, Lookable, Queue

__all__ = [
    "MASK",
    "Corrected",
    "Counter",
    "Delivery",
    "EffectKey",
    "Gate",
    "Gather",
    "HeldMessage",
    "JobToEnqueue",
    "Kernel",
    "Lookable",
    "PublicFailure",
    "Queue",
    "Registry",
    "Row",
    "SettingsError",
    "State",
    "StoreBusy",
    "StoreError",
    "TakenBack",
    "Tx",
    "answer",
    "ask_person",
    "audit",
    "batch",
    "cases",
    "classify",
    "correct",
    "effect_key",
    "effects",
    "events",
    "failure",
    "idempotency",
    "inbox",
    "iso",
    "jobs",
    "load_migrations",
    "load_statements",
    "look_into",
    "mask_addresses",
    "note_status",
    "once",
    "open_own",
    "operate",
    "outbox",
    "prepare",
    "providers",
    "read_answer",
    "redact",
    "redact_message",
    "redact_text",
    "secrets",
    "submit_in",
    "trace_headers",
    "unchanged",
]
