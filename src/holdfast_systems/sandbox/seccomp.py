"""The few system calls that a child in the sandbox may make; every other one fails with EPERM (Linux).

It may use the files it has open, memory, clocks and its own signals. It cannot open, connect, run, fork or signal
anything else. Numbers are the kernel's, for x86-64 and 64-bit ARM; on other machines there is no filter.
"""

from __future__ import annotations

import ctypes
import os
import struct

_AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_ALLOWED = {  # name: (x86-64, 64-bit ARM)
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "readv": (19, 65),
    "writev": (20, 66),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "nanosleep": (35, 101),
    "setitimer": (38, 103),
    "getpid": (39, 172),
    "exit": (60, 93),
    "uname": (63, 160),
    "gettimeofday": (96, 169),
    "getrusage": (98, 165),
    "sysinfo": (99, 179),
    "times": (100, 153),
    "sigaltstack": (131, 132),
    "gettid": (186, 178),
    "futex": (202, 98),
    "sched_getaffinity": (204, 123),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "set_robust_list": (273, 99),
    "getcpu": (309, 168),
    "getrandom": (318, 278),
    "membarrier": (324, 283),
    "rseq": (334, 293),
}
# Calls that are allowed with one value of one argument: name: (x86-64, 64-bit ARM, which argument).
_FSTATAT, _DUPLICATE, _SIGNAL = (262, 79, 3), (72, 25, 1), (234, 131, 0)
_EMPTY_PATH, _F_DUPFD_CLOEXEC = 0x1000, 1030

_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | 1, 0x80000000  # 1 is EPERM
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_SET_SECCOMP, _FILTER_MODE = 22, 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def filter_calls() -> bool:
    """Leave this process only the calls above, for good. False where that cannot be had."""
    machine = os.uname().machine
    if os.uname().sysname != "Linux" or machine not in _AUDIT_ARCHITECTURES:
        return False
    code = _program(machine, os.getpid())
    program = _Program(len(code) // 8, code)
    control = ctypes.CDLL(None).prctl
    return bool(control(_SET_SECCOMP, _FILTER_MODE, ctypes.byref(program), 0, 0) == 0)


def _program(machine: str, pid: int) -> bytes:
    column = 0 if machine == "x86_64" else 1
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, _AUDIT_ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    for numbers in _ALLOWED.values():
        steps += [(_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, _ALLOW)]
    for rule, value in ((_FSTATAT, _EMPTY_PATH), (_DUPLICATE, _F_DUPFD_CLOEXEC), (_SIGNAL, pid)):
        steps += [
            (_EQUAL, 0, 4, rule[column]),
            (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * rule[2]),
            (_EQUAL, 0, 1, value),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _REFUSE),
        ]
    steps.append((_RETURN, 0, 0, _REFUSE))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
