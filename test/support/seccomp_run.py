#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program that may use the system calls of a container's seccomp profile, and no others.

usage: seccomp_run.py PROFILE.json [CALL=ERRNO] COMMAND...

A call that the profile does not allow kills the program by SIGSYS. CALL=ERRNO makes that one call
fail with this number, as a filter of somebody else may. Needs a C compiler, for the calls' numbers.
"""

import ctypes
import json
import os
import re
import struct
import subprocess
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
KILL_PROCESS, ERRNO, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06


def numbers():
    """{name: number} of this machine's system calls."""
    macros = subprocess.run(["cc", "-E", "-dM", "-"], input="#include <sys/syscall.h>\n",
                            text=True, capture_output=True, check=True).stdout
    return {name: int(number)
            for name, number in re.findall(r"#define __NR_(\w+) (\d+)\n", macros)}


def instruction(code, value, if_true=0, if_false=0):
    return struct.pack("HBBI", code, if_true, if_false, value)


def main(profile, *arguments):
    with open(profile) as file:
        allowed = [name for rule in json.load(file)["syscalls"] for name in rule["names"]]
    known = numbers()
    program = [instruction(LOAD, 0)]  # the number of the call
    if re.fullmatch(r"\w+=\d+", arguments[0]):
        name, error = arguments[0].split("=")
        arguments = arguments[1:]
        program += [instruction(JUMP_IF_EQUAL, known[name], 0, 1),
                    instruction(RETURN, ERRNO | int(error))]
    for name in allowed:
        if name in known:  # not every architecture has every call
            program += [instruction(JUMP_IF_EQUAL, known[name], 0, 1), instruction(RETURN, ALLOW)]
    program.append(instruction(RETURN, KILL_PROCESS))
    code = ctypes.create_string_buffer(b"".join(program))
    filter_ = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program),
                                                      ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if (libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_) != 0):
        sys.exit(f"seccomp_run.py: {os.strerror(ctypes.get_errno())}")
    os.execv(arguments[0], arguments)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
