# SPDX-License-Identifier: Apache-2.0
"""Copies of the project with planted mistakes in them, each of which waits for its number in the
environment: so one build has all of them. For scripts/mistakes and test/sanitizer/plant."""
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VARIABLE = "PLANTED_MISTAKE"  # not MRC_...: tests take those out of the environment
HEADER = """#pragma once
#include <cstdlib>
namespace mrc::planted {
inline bool chosen(int number) {
  static const char* const text = std::getenv("PLANTED_MISTAKE");
  static const int planted = text == nullptr ? 0 : std::atoi(text);
  return planted == number;
}
"""


def files_of(tree):
    """The names of a checkout's files, those about to be committed among them."""
    names = subprocess.run(["git", "-C", tree, "ls-files", "-co", "--exclude-standard", "-z"],
                           check=True, capture_output=True, text=True).stdout.split("\0")
    return [name for name in names if (tree / name).is_file()]


def mirror(tree, copy, texts):
    """Makes `copy` the same as the checkout `tree`, but for the files in `texts`, which have these
    texts there. What has not changed keeps its time; the copy's build/ stays."""
    files = {name: (tree / name).read_bytes() for name in files_of(tree)}
    files |= {name: text.encode() for name, text in texts.items()}
    for name, data in files.items():
        to = copy / name
        if not to.is_file() or to.read_bytes() != data:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(data)
            if (tree / name).is_file():
                shutil.copymode(tree / name, to)
    wanted = {copy / name for name in files}
    for path in copy.rglob("*"):  # what the project has no more
        if path.is_file() and not {copy / "build", copy / ".git"} & set(path.parents) \
                and path not in wanted:
            path.unlink()


def jobs():
    return subprocess.run([ROOT / "scripts/jobs"], check=True, capture_output=True,
                          text=True).stdout.strip()


def fixed_addresses():
    """What runs a program without address randomisation, which sanitizers may not bear."""
    command = ["setarch", os.uname().machine, "-R"]
    return command if subprocess.run([*command, "true"], capture_output=True,
                                     check=False).returncode == 0 else []


def run(command, cwd):
    """The output of a command, and whether it succeeded."""
    done = subprocess.run([*fixed_addresses(), *command], cwd=cwd, capture_output=True, text=True,
                          errors="replace", check=False)
    return done.stdout + done.stderr, done.returncode == 0
