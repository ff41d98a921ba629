#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program in a terminal of 80 x 24 characters, and presses keys.

usage: press_keys.py SECONDS [TEXT KEYS]... -- COMMAND...

Waits until TEXT is on the screen, then types KEYS, and so on in this order; KEYS may have \\n,
\\x1b and the like. Then the program has to end. Exits with its status; with 1, and what was on the
screen, if a text does not come within SECONDS, a line is longer than the terminal, or the program
stays.
"""

import os
import pty
import re
import select
import struct
import sys
import termios
import time
import fcntl

WIDTH, HEIGHT = 80, 24
SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def main():
    seconds = float(sys.argv[1])
    split = sys.argv.index("--")
    steps = sys.argv[2:split]
    command = sys.argv[split + 1:]
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    seen = ""

    def fail(why):
        os.kill(child, 9)
        sys.exit(f"{why}; the screen:\n{seen}")

    def read(until):
        """What comes next; None at the program's end."""
        if not select.select([terminal], [], [], max(0, until - time.monotonic()))[0]:
            return ""
        try:
            return os.read(terminal, 65536).decode(errors="replace") or None
        except OSError:
            return None

    for text, keys in zip(steps[::2], steps[1::2]):
        seen, end = "", time.monotonic() + seconds
        while text not in SEQUENCE.sub("", seen):
            more = read(end)
            if more is None:
                fail(f"it ended before '{text}'")
            seen += more
            if time.monotonic() > end:
                fail(f"no '{text}'")
        for line in SEQUENCE.sub("", seen).replace("\r", "").split("\n"):
            if len(line) > WIDTH:
                fail(f"a line of {len(line)} characters")
        os.write(terminal, keys.encode().decode("unicode_escape").encode())
    end = time.monotonic() + seconds
    while read(end) is not None:
        if time.monotonic() > end:
            fail("it does not end")
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))


main()
