"""What a system is built with, beyond the names of `holdfast` itself: one door, kept stable.

A system that writes its own tables beside the kernel's needs more than one that only declares jobs: the kernel, the
door for jobs, the values of a settlement; and, each in a module of its own, `kit.tables`, `kit.messages`,
`kit.redaction` and `kit.repair`. Systems import from here and from `holdfast`, `holdfast.errors`, `holdfast.http`,
`holdfast.providers`, `holdfast.settings`; nothing deeper.
"""

from holdfast.core.breaker import Gate
from holdfast.core.classify import classify
from holdfast.core.client_error import read_answer
from holdfast.core.effect import EffectKey
from holdfast.core.failure import PublicFailure, failure
from holdfast.core.job import State
from holdfast.kernel.declare.declaring import unchanged
from holdfast.kernel.gather import Gather
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.observe.counters import Counter
from holdfast.kernel.observe.provider_status import note_status
from holdfast.kernel.questions.explain import iso
from holdfast.kernel.sealing import open_own
from holdfast.kernel.submit import JobToEnqueue, prepare, submit_in

__all__ = [
    "Counter",
    "EffectKey",
    "Gate",
    "Gather",
    "JobToEnqueue",
    "Kernel",
    "PublicFailure",
    "Registry",
    "State",
    "classify",
    "failure",
    "iso",
    "note_status",
    "open_own",
    "prepare",
    "read_answer",
    "submit_in",
    "unchanged",
]
