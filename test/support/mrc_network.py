# SPDX-License-Identifier: Apache-2.0
"""What the decoder knows of the network: from options or from a fabric description, a JSON file
that may hold comments: the json module takes none, so it is read as Python."""

import ast
import operator
import re
import socket

from mrc_fields import DSCP


class BadInput(Exception):
    """An option or a file that can't be used; the text says why and what to do."""


def number(text, least, most, what):
    """A number out of a JSON value or an option: 12, "12", "0x0c"."""
    try:
        value = int(text, 0) if isinstance(text, str) else operator.index(text)
    except (TypeError, ValueError):
        raise BadInput(f"{what}: '{text}' is no number; give {least} .. {most}") from None
    if not least <= value <= most:
        raise BadInput(f"{what}: {value} is not allowed; give {least} .. {most}")
    return value


def address(text, what):
    """An IPv4 or IPv6 address as a number."""
    try:
        family = socket.AF_INET6 if ":" in text else socket.AF_INET
        return int.from_bytes(socket.inet_pton(family, text), "big")
    except (OSError, TypeError, ValueError):
        raise BadInput(f"{what}: '{text}' is no IPv4 or IPv6 address") from None


def text_of(value):
    """An address as text; IPv4 addresses are below 2^32, and of IPv6 only ::1 and the like."""
    if 1 << 24 <= value < 1 << 32:
        return socket.inet_ntop(socket.AF_INET, value.to_bytes(4, "big"))
    return socket.inet_ntop(socket.AF_INET6, value.to_bytes(16, "big"))


def block(text, what="--block"):
    """The upper 32 bits of a uSID block such as fcbb::/32 (mrc-1.0 §4.1)."""
    prefix, slash, length = str(text).partition("/")
    value = address(prefix, what)
    if slash and length != "32" or value & ((1 << 96) - 1) or ":" not in prefix:
        raise BadInput(f"{what}: '{text}' is no uSID block; give 32 bits such as fcbb::/32")
    return value >> 96


def bits(mask, value):
    """`value` put into the bits of a contiguous mask."""
    return value * (mask & -mask) & mask


def read_json(path):
    """The object in a JSON file."""
    def to_python(match):
        token = match.group()
        words = {"true": "True", "false": "False", "null": "None"}
        return token if token[0] == '"' else words.get(token, "")
    other_in_python = r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*(?s:.*?)\*/|\b(?:true|false|null)\b'
    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.literal_eval(re.sub(other_in_python, to_python, file.read()).strip())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        raise BadInput(f"{path}: no JSON{f', line {line}' if line else ''}: {error}") from None
    if not isinstance(tree, dict):
        raise BadInput(f"{path}: a fabric description is a JSON object, this is not")
    return tree


class Network:
    """Addresses, uSIDs and settings. Without a description most of it is empty, and what it would
    decide is not checked."""

    def __init__(self):
        self.ports = {4791, 4971}  # [C-1]
        self.mtu = None  # payload bytes; None: the first FIRST or MIDDLE of a queue pair tells
        self.blocks = []  # one for all planes, or one per plane
        self.plane_mask = 0  # the plane's bits in every uSID (§4.2)
        self.dscp = dict(DSCP)
        self.hosts = {}  # address: (host's name, plane or None)
        self.host_usids = {}  # (host's name, plane): the uSID that ends a path to it
        self.partial = False

    def classes_of(self, dscp):
        return [name for name, value in self.dscp.items() if value == dscp]

    def host(self, value):
        """Name of the host that has the address; a host that is not known is its address."""
        return self.hosts.get(value, (value, None))[0]

    def plane(self, value):
        return self.hosts.get(value, (None, None))[1]

    def set_dscp(self, name, value, what):
        if name not in DSCP:
            raise BadInput(f"{what}: '{name}' is no DSCP class; there are {', '.join(DSCP)}")
        self.dscp[name] = number(value, 0, 63, f"{what}: {name}")

    def read_description(self, path):
        """Takes over what docs/fabric.md describes, as far as packets show it."""
        try:
            self.take(read_json(path), path)
        except (AttributeError, TypeError, KeyError):
            raise BadInput(f"{path}: a field has a value of the wrong kind; mrc_fabric names it, "
                           "and docs/fabric.md has all fields") from None

    def take(self, tree, path):
        planes = number(tree.get("planes", 1), 1, 64, f"{path}: planes")
        blocks = tree.get("blocks") or [tree.get("block", "fcbb::/32")]
        self.blocks = [block(b, f"{path}: block") for b in blocks]
        usids = {"plane": 0x0F00, "host": 0x3000, "host_t0": 0x00F0, "downlink": 0x000F}
        for name in usids:
            value = tree.get("usids", {}).get(name, usids[name])
            usids[name] = number(value, 0, 0xFFFF, f"{path}: usids.{name}")
        self.plane_mask = usids["plane"]
        for name, value in tree.get("dscp", {}).items():
            self.set_dscp(name, value, f"{path}: dscp")
        for name, t0, downlink, addresses in listed_hosts(tree, path, planes):
            for plane in range(planes):
                self.hosts[address(addresses[plane], f"{path}: host {name}")] = (name, plane)
                self.host_usids[name, plane] = (
                    usids["host"] | bits(usids["plane"], plane) | bits(usids["host_t0"], t0)
                    | bits(usids["downlink"], downlink))


def listed_hosts(tree, path, planes):
    """(name, T0, downlink, addresses) of each host; what an entry lacks has its default."""
    hosts = tree.get("hosts", [])
    if not isinstance(hosts, list):
        hosts = [{}] * number(hosts, 1, 4096, f"{path}: hosts")
    t0s = number(tree.get("t0", 1), 1, 0xFFFF, f"{path}: t0")
    under = [0] * t0s  # hosts seen of each T0
    result = []
    for k, host in enumerate(hosts):
        name = host.get("name", f"h{k}")
        t0 = number(host.get("t0", k * t0s // len(hosts)), 0, t0s - 1, f"{path}: t0 of {name}")
        downlink = number(host.get("downlink", under[t0]), 0, 0xFFFF, f"{path}: {name}")
        under[t0] += 1
        addresses = host.get("addresses", [f"fd00:{p + 1:x}::{k + 1:x}" for p in range(planes)])
        if len(addresses) < planes:
            raise BadInput(f"{path}: host {name} has {len(addresses)} addresses, not {planes}")
        result.append((name, t0, downlink, addresses))
    return result
