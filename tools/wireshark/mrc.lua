-- SPDX-License-Identifier: Apache-2.0
-- Wireshark dissector for MRC 1.0 (OCP Multipath Reliable Connection) in UDP, over IPv4, IPv6 and
-- SRv6. Wireshark and tshark 4.0 or later; docs/wireshark.md has installation and filters. Written
-- from the document, not from OpenMRC's C++ code, whose packets the tests check with it; but for
-- verification tags, SEND, READ and atomics, which are OpenMRC's own (docs/extensions.md).
-- References such as §1.3, [C-5], [O-10] are to mrc-1.0 (docs/conformance.md).

local mrc = Proto("mrc", "Multipath Reliable Connection")
local band, bxor, bnot, rshift = bit.band, bit.bxor, bit.bnot, bit.rshift
local byte, format, floor = string.byte, string.format, math.floor
local PSNS, ICRC_SIZE, UDP_SIZE, BTH_SIZE = 2 ^ 24, 4, 8, 12
local LEAST_TRIMMED = 28 -- bytes from UDP on that a switch leaves [O-10]
local CE = 3 -- of the ECN field
-- var_res of a packet whose iCRC covers so many bytes only, from BTH on.
local HEAD_CHECK, HEAD_SIZE = 1, 48
local PLAIN = 0xFFFF0 -- p_key and inv_res of a packet without a verification tag

-- ------------------------------------------------------------------------------- names
local OPCODES = { -- §1.11
  [0xC6] = "Write First", [0xC7] = "Write Middle", [0xC8] = "Write Last",
  [0xC9] = "Write Last with Immediate", [0xCA] = "Write Only",
  [0xCB] = "Write Only with Immediate", [0xD1] = "ACK", [0xD8] = "Endpoint Request",
  [0xD9] = "Endpoint Response", [0xDC] = "SACK", [0xDD] = "NACK", [0xDE] = "Probe",
  [0xDF] = "Resolution", -- of OpenMRC, shown as bytes
  -- the extension:
  [0xC0] = "Send First", [0xC1] = "Send Middle", [0xC2] = "Send Last",
  [0xC3] = "Send Last with Immediate", [0xC4] = "Send Only", [0xC5] = "Send Only with Immediate",
  [0xCC] = "Read Request", [0xCD] = "Read Response First", [0xCE] = "Read Response Middle",
  [0xCF] = "Read Response Last", [0xD0] = "Read Response Only", [0xD2] = "Atomic Response",
  [0xD3] = "Compare and Swap", [0xD4] = "Fetch and Add" }
local ACK, REQUEST, RESPONSE, SACK, NACK, PROBE = 0xD1, 0xD8, 0xD9, 0xDC, 0xDD, 0xDE
local RESOLUTION = 0xDF
local READ, ATOMIC_RESPONSE, CMP_SWAP, FETCH_ADD = 0xCC, 0xD2, 0xD3, 0xD4
local NOT_READY = 0x80 -- NACK reason
local SYNDROMES = { [0x1F] = "ACK", [0x60] = "NAK: PSN sequence error",
  [0x61] = "NAK: invalid request", [0x62] = "NAK: remote access error",
  [0x63] = "NAK: remote operational error" }
local REASONS = { -- §1.13
  [0x01] = "TRIMMED", [0x02] = "TRIMMED_LASTHOP", [0x06] = "NO_BITMAP", [0x07] = "NO_PKT_BUFFER",
  [0x0A] = "NO_RESOURCE", [0x0B] = "PSN_OOR_WINDOW", [0x19] = "UNEXP_EVENT",
  [NOT_READY] = "RECEIVER_NOT_READY" } -- of the extension
local M_FLAGS = { [0] = "none", "SKIP_ONCE", "ALWAYS_SKIP", "reserved" }
local OPERATIONS = { [0] = "port status update", "EV probe" }
local CC_TYPES = { [0] = "NSCC state", [2] = "NACK" }
local FTYPES = { [0] = "none", "timestamp" }
local ICRC_STATES = { [0] = "bad", "good", "unverified", "not present" } -- as Wireshark's checksums
local TAG_WRONG, TAG_RIGHT, TAG_UNKNOWN = 0, 1, 2
local TAG_STATES = { [TAG_WRONG] = "wrong", [TAG_RIGHT] = "right",
  [TAG_UNKNOWN] = "tagged, not checked" }

-- ------------------------------------------------------------------------------- layouts
-- {name, bits, label, and by name: the allowed value(s), display base, names of values, note(value)
-- in brackets after it}. `strict`: checked only if the preference says so. `tag`: it has bits of the
-- verification tag in a tagged packet; "endpoint": those that endpoint packets have besides. The
-- display filter of a field is mrc.GROUP.NAME, that of a whole header mrc.GROUP.
local HEX, DEC_HEX = base.HEX, base.DEC_HEX
local function ticks(value) return format("%.3f us, if ticks are of 128 ns", value * 0.128) end
local function reserved(bits, number, tag)
  return { "reserved" .. (number or ""), bits, "Reserved", allowed = 0, tag = tag }
end
local function start(bits) -- of all control headers but the ACK's; [C-4]
  return { "type", 4, "Type", allowed = 0 }, { "nh", 5, "Next header", allowed = 0 },
    reserved(bits, 1)
end
local function control(bits, ...) -- that start, and the fields after it
  local fields = { start(bits) }
  for _, field in ipairs({ ... }) do fields[#fields + 1] = field end
  return fields
end
local TIMESTAMP = { "tx_timestamp", 16, "TX timestamp", note = ticks }
local TSR = { "tsr", 1, "Tick is not 128 ns", allowed = 0 }
local SPDCID = { "spdcid", 16, "SPDCID: low bits of the sender's QPN", base = HEX }
local DPDCID = { "dpdcid", 16, "DPDCID: low bits of the receiver's QPN", base = HEX }
local ENTROPY = { "entropy", 32, "Reflected EV", base = HEX }
local VENDOR = { "vendor_info", 8, "Vendor info", base = HEX }
local OP = { "op", 2, "Operation", allowed = { 0, 1 }, names = OPERATIONS }
local FTYPE = { "ftype", 4, "Timestamp type", allowed = { 0, 1 }, names = FTYPES }

local function ports(mask)
  local list = {}
  for port = 1, 32 do -- [O-19]: bit 0 is port 1
    if band(rshift(mask, port - 1), 1) == 1 then list[#list + 1] = port end
  end
  return "reachable ports: " .. (#list > 0 and table.concat(list, ", ") or "none")
end

local LAYOUTS = {
  bth = { "BTH", { -- §1.3
    { "opcode", 8, "Opcode", base = HEX, names = OPCODES },
    { "se", 1, "Solicited event", allowed = 0 }, { "m", 1, "Migration state", allowed = 0 },
    { "pad", 2, "Pad bytes" }, { "tver", 4, "Transport version", allowed = 0 },
    { "p_key", 16, "Partition key", base = HEX, allowed = 0xFFFF, strict = true, tag = "bth" },
    { "var_res", 8, "Variant reserved", base = HEX, allowed = 0, strict = true },
    { "dqp", 24, "Destination QP", base = HEX, least = 2 },
    { "a", 1, "ACK request" }, { "reserved", 1, "Reserved", allowed = 0 },
    { "rtx", 1, "Retransmission" }, { "ts", 1, "Timestamp follows" },
    { "inv_res", 4, "Invariant reserved", allowed = 0, tag = "bth" },
    { "psn", 24, "Packet sequence number", base = DEC_HEX } } },
  meth = { "METH", { -- §1.4
    { "rqmsn", 16, "Receive queue message number" }, { "msn", 16, "Message number" } } },
  tseth = { "TSETH", { -- §1.5
    TIMESTAMP, TSR, reserved(11), { "ftype", 4, "Type", allowed = 1, names = FTYPES } } },
  reth = { "RETH", { -- §1.6
    { "va", 64, "Virtual address of this payload", base = HEX },
    { "r_key", 32, "Remote key", base = HEX }, { "dmalen", 32, "Message length" } } },
  atomic = { "Atomic operands", {
    { "swap_or_add", 64, "New value, or number to add", base = HEX },
    { "compare", 64, "Value to compare with", base = HEX } } },
  atomic_response = { "Atomic response", { { "original", 64, "Former value", base = HEX } } },
  immdt = { "ImmDt", { { "immediate", 32, "Immediate value", base = HEX } } },
  aeth = { "AETH", {
    { "syndrome", 8, "Syndrome", base = HEX, names = SYNDROMES,
      allowed = { 0x1F, 0x61, 0x62, 0x63 } },
    { "msn", 24, "Message number", most = 0xFFFF, strict = true } } }, -- [O-15]
  sack = { "SETH", { -- §1.7
    { "type", 4, "Type", allowed = 0 }, { "nh", 5, "Next header", allowed = 0 },
    { "m", 2, "M", names = M_FLAGS, allowed = { 0, 1, 2 } }, reserved(3, 1),
    { "pr", 1, "Answers a probe" }, reserved(1, 2),
    { "ack_psn_offset", 16, "PSN that caused it, from cumulative PSN", signed = true },
    ENTROPY, SPDCID, DPDCID, reserved(8, 3),
    { "cack_psn", 24, "Cumulative PSN", base = DEC_HEX },
    { "cc_type", 4, "Congestion control type", allowed = 0, names = CC_TYPES },
    { "cc_fl", 4, "Congestion control flags", base = HEX, allowed = 0 },
    { "mpr", 8, "Maximum PSN range",
      note = function(v) return v == 0 and "fixed" or format("%d PSNs", v * 128) end },
    { "sack_offset", 16, "Bitmap base, from cumulative PSN", signed = true },
    { "bitmap", 64, "Received", base = HEX } } },
  cc = { "CC_STATE", { -- §1.7
    TIMESTAMP, reserved(1), { "ooo_count", 15, "Packets out of order" },
    { "r_c", 1, "Restore window" },
    { "rcv_cwnd_pen", 7, "Window penalty",
      note = function(v) return format("%d/128", v) end },
    { "rcvd_bytes", 24, "Received bytes / 256",
      note = function(v) return format("%d bytes", v * 256) end } } },
  nack = { "NETH", control(7, -- §1.8
    { "reason", 8, "Reason", base = HEX, names = REASONS,
      allowed = { 0x01, 0x02, 0x06, 0x07, 0x0A, 0x0B, 0x19, NOT_READY } },
    VENDOR, ENTROPY, SPDCID, DPDCID, reserved(8, 2), { "psn", 24, "PSN", base = DEC_HEX },
    { "cc_type", 4, "Congestion control type", allowed = 2, names = CC_TYPES },
    { "cc_fl", 4, "Congestion control flags", base = HEX, allowed = 0 }, reserved(8, 3),
    TIMESTAMP) },
  probe = { "PETH", control(7, -- §1.9
    reserved(8, 2), VENDOR, { "id", 16, "Probe ID" }, reserved(16, 3), SPDCID, DPDCID, TIMESTAMP,
    TSR, reserved(11, 4), FTYPE) },
  request = { "ERTH", control(5, OP, reserved(8, 2), VENDOR, -- §1.10
    { "port_status_mask", 32, "Port status", base = HEX, note = ports },
    reserved(32, 3, "endpoint"), TIMESTAMP, TSR, reserved(11, 4), FTYPE) },
  response = { "EETH", control(3, OP, reserved(2, 2), reserved(208, 3), TIMESTAMP, -- [C-3]
    reserved(16, 4, "endpoint"), reserved(32, 5)) },
}
local WRITE, WRITE_IMM = { "meth", "reth" }, { "meth", "reth", "immdt" }
local HEADERS = { -- after BTH; TSETH comes after METH where BTH.ts is set
  [0xC6] = WRITE, [0xC7] = WRITE, [0xC8] = WRITE, [0xC9] = WRITE_IMM, [0xCA] = WRITE,
  [0xCB] = WRITE_IMM, [ACK] = { "aeth" }, [REQUEST] = { "request" }, [RESPONSE] = { "response" },
  [SACK] = { "sack", "cc" }, [NACK] = { "nack" }, [PROBE] = { "probe" }, [READ] = WRITE,
  [ATOMIC_RESPONSE] = { "meth", "reth", "atomic_response" } }
local SENDS, REQUESTS, RESPONSES, DATA = {}, {}, {}, {} -- by opcode
for opcode = 0xC0, 0xC5 do
  HEADERS[opcode] = (opcode == 0xC3 or opcode == 0xC5) and WRITE_IMM or WRITE
  SENDS[opcode] = true
end
for opcode = 0xCD, 0xD0 do
  HEADERS[opcode], RESPONSES[opcode] = WRITE, true
end
RESPONSES[ATOMIC_RESPONSE] = true
for _, opcode in ipairs({ CMP_SWAP, FETCH_ADD }) do
  HEADERS[opcode], REQUESTS[opcode] = { "meth", "reth", "atomic" }, true
end
REQUESTS[READ] = true
for opcode, headers in pairs(HEADERS) do DATA[opcode] = headers[1] == "meth" end

-- ------------------------------------------------------------------------------- fields
local f, all_fields = {}, {} -- of mrc.X: f.X
local function field(name, ...)
  f[name] = ProtoField.new((...), "mrc." .. name, select(2, ...))
  all_fields[#all_fields + 1] = f[name]
end

for group, layout in pairs(LAYOUTS) do
  field(group, layout[1], ftypes.NONE)
  local at = 0
  for i, shared in ipairs(layout[2]) do
    local row = {} -- a copy, as headers share some
    for key, value in pairs(shared) do row[key] = value end
    layout[2][i] = row
    local width = row[2]
    row.first, row.at = at % 8, floor(at / 8) -- first bit within its first byte
    row.size = floor((at + width - 1) / 8) - row.at + 1 -- bytes
    row.key = (group == "bth" and "" or group .. ".") .. row[1]
    local bits = row.size * 8
    local mask = (2 ^ width - 1) * 2 ^ (bits - row.first - width)
    if width == bits or bits > 32 then mask = nil end
    if width == 1 then
      field(row.key, row[3], ftypes.BOOLEAN, nil, bits, mask)
    elseif bits > 64 then
      field(row.key, row[3], ftypes.BYTES)
      row.bytes = true
    else
      field(row.key, row[3], ftypes[(row.signed and "INT" or "UINT") .. bits], row.names,
        row.base or base.DEC, mask)
    end
    at = at + width
  end
  layout.size = at / 8
end
field("sack.probe_id", "ID of the probe", ftypes.UINT16, nil, base.DEC)
field("sack.trigger_psn", "PSN that caused it", ftypes.UINT24, nil, DEC_HEX)
field("sack.base_psn", "PSN of the bitmap's lowest bit", ftypes.UINT24, nil, DEC_HEX)
field("sack.received", "PSNs reported beyond the cumulative one", ftypes.UINT8, nil, base.DEC)
field("sack.missing", "Missing PSN", ftypes.UINT24, nil, DEC_HEX)
field("ev", "EV", ftypes.UINT32, nil, HEX)
field("path", "SRv6 path", ftypes.IPv6)
field("segment", "SRv6 path, segment of the SRH", ftypes.IPv6)
field("trimmed", "Trimmed", ftypes.BOOLEAN)
field("ce", "Congestion experienced", ftypes.BOOLEAN)
field("cut", "Not captured as a whole", ftypes.BOOLEAN)
field("payload_length", "Payload length", ftypes.INT32, nil, base.DEC)
field("payload", "Payload", ftypes.BYTES)
field("partial", "Rest of the packet", ftypes.BYTES)
field("padding", "Padding", ftypes.BYTES)
field("icrc", "iCRC", ftypes.UINT32, nil, HEX)
field("icrc.status", "iCRC status", ftypes.UINT8, ICRC_STATES, base.DEC)
field("tag", "Verification tag", ftypes.UINT64, nil, HEX)
field("tag.status", "Verification tag", ftypes.UINT8, TAG_STATES, base.DEC)
field("answer_in", "Answer in frame", ftypes.FRAMENUM, frametype.RESPONSE)
field("answer_to", "Answer to frame", ftypes.FRAMENUM, frametype.REQUEST)
field("answer_time", "Time to the answer", ftypes.RELATIVE_TIME)
mrc.fields = all_fields

local groups, severities = expert.group, expert.severity
local e = {
  malformed = ProtoExpert.new("mrc.malformed", "Malformed packet", groups.MALFORMED,
    severities.ERROR),
  other_malformed = ProtoExpert.new("mrc.other_malformed",
    "Malformed packet of another protocol on a port of MRC", groups.MALFORMED, severities.ERROR),
  bad_icrc = ProtoExpert.new("mrc.bad_icrc", "Bad iCRC", groups.CHECKSUM, severities.ERROR),
  bad_tag = ProtoExpert.new("mrc.bad_tag", "Verification tag of another connection, or none",
    groups.CHECKSUM, severities.ERROR),
  violation = ProtoExpert.new("mrc.violation", "Value that MRC does not allow", groups.PROTOCOL,
    severities.WARN),
  nak = ProtoExpert.new("mrc.nak", "NAK", groups.RESPONSE_CODE, severities.WARN),
  nacked = ProtoExpert.new("mrc.nacked", "NACK", groups.SEQUENCE, severities.NOTE),
  retransmitted = ProtoExpert.new("mrc.retransmitted", "Retransmission", groups.SEQUENCE,
    severities.NOTE),
  was_trimmed = ProtoExpert.new("mrc.was_trimmed", "Trimmed by a switch: no payload, no iCRC",
    groups.SEQUENCE, severities.NOTE),
  gaps = ProtoExpert.new("mrc.gaps", "PSNs are missing", groups.SEQUENCE, severities.CHAT),
}
mrc.experts = { e.malformed, e.other_malformed, e.bad_icrc, e.bad_tag, e.violation, e.nak,
  e.nacked, e.retransmitted, e.was_trimmed, e.gaps }

-- ------------------------------------------------------------------------------- preferences
local prefs = mrc.prefs
prefs.ports = Pref.range("UDP ports", "4791,4971", "UDP ports of MRC, such as "
  .. "4791,4971,12000-12511. RoCE packets to them go to the InfiniBand dissector.", 65535)
prefs.verify_icrc = Pref.bool("Verify the iCRC", true, "Off is faster")
prefs.keylog = Pref.string("Key log", "", "File to which OpenMRC appends the verification tags of "
  .. "its connections (option keylog, MRC_KEYLOG). Without it their packets are not checked")
prefs.find_answers = Pref.bool("Match requests and answers", true,
  "Links between packets and the SACKs, NACKs and responses to them; takes memory")
prefs.strict = Pref.bool("Strict", false, "Also report values that operators or vendors may have "
  .. "changed: DSCP by class, ECN, partition key, queue pair numbers in SACKs, NACKs and probes")
prefs.ev_format = Pref.enum("EV in a packet", 1, "How 32 bits of EV are carried in a packet", {
  { 1, "flow label (high half) and UDP source port", 1 },
  { 2, "UDP source port (high half) and flow label", 2 },
  { 3, "UDP source port only", 3 } }, false)
local CLASSES = { -- §1.14
  { "no_trim", "not to be trimmed", 0 }, { "trimmable", "trimmable packets", 4 },
  { "trimmable_retx", "trimmable retransmissions", 8 }, { "trimmed", "trimmed packets", 12 },
  { "trimmed_last_hop", "packets trimmed at the last hop", 16 },
  { "control", "control packets", 46 } }
for _, class in ipairs(CLASSES) do
  prefs["dscp_" .. class[1]] = Pref.uint("DSCP: " .. class[2], class[3], "0 .. 63")
end

-- ------------------------------------------------------------------------------- iCRC (§1.12)
-- CRC-32 of 16 bytes at a time: T[k][b] is the CRC of byte b with k bytes of zeros after it.
local T = { [0] = {} }
for i = 0, 255 do
  local crc = i
  for _ = 1, 8 do
    crc = band(crc, 1) == 1 and bxor(rshift(crc, 1), 0xEDB88320) or rshift(crc, 1)
  end
  T[0][i] = crc
end
for k = 1, 15 do
  T[k] = {}
  for i = 0, 255 do
    local crc = T[k - 1][i]
    T[k][i] = bxor(rshift(crc, 8), T[0][band(crc, 255)])
  end
end
local T0, T1, T2, T3, T4, T5, T6, T7 = T[0], T[1], T[2], T[3], T[4], T[5], T[6], T[7]
local T8, T9, T10, T11, T12, T13, T14, T15 = T[8], T[9], T[10], T[11], T[12], T[13], T[14], T[15]

local function crc32(s)
  local crc, at = -1, 1
  while at + 15 <= #s do
    local b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15 =
      byte(s, at, at + 15)
    crc = bxor(crc, b0 + b1 * 256 + b2 * 65536 + b3 * 16777216)
    crc = bxor(T15[band(crc, 255)], T14[band(rshift(crc, 8), 255)],
      T13[band(rshift(crc, 16), 255)], T12[rshift(crc, 24)], T11[b4], T10[b5], T9[b6], T8[b7],
      T7[b8], T6[b9], T5[b10], T4[b11], T3[b12], T2[b13], T1[b14], T0[b15])
    at = at + 16
  end
  for i = at, #s do crc = bxor(rshift(crc, 8), T0[band(bxor(crc, byte(s, i)), 255)]) end
  return bnot(crc) % 2 ^ 32
end

local ONES = "\255\255\255\255\255\255\255\255"
local function computed_icrc(ip, udp, tvb, size) -- with what may change on the way as ones
  local masked
  if ip.version == 6 then
    masked = "\111" .. ONES:sub(1, 3) .. ip.raw:sub(5, 7) .. "\255" .. ip.raw:sub(9, 40)
  else
    masked = ip.raw:sub(1, 1) .. "\255" .. ip.raw:sub(3, 8) .. "\255" .. ip.raw:sub(10, 10)
      .. "\255\255" .. ip.raw:sub(13)
  end
  return crc32(ONES .. masked .. udp.raw:sub(1, 6) .. "\255\255" .. tvb:raw(0, 4) .. "\255"
    .. tvb:raw(5, size - 5))
end

-- What the iCRC has more than it should without a tag, modulo 2^32; nil if it can't be computed.
local function icrc_difference(p)
  local size = p.tvb:len()
  if not p.ip or p.trimmed or p.lengths_differ then return end
  if size < p.sent or size < BTH_SIZE + ICRC_SIZE then return end
  local covered = size - ICRC_SIZE
  local found = p.tvb(covered):le_uint()
  -- Between OpenMRC processes of one host the iCRC may cover the head only (docs/security.md).
  if p.tvb(4, 1):uint() == HEAD_CHECK and covered > HEAD_SIZE then
    p.head_difference = (found - computed_icrc(p.ip, p.udp, p.tvb, HEAD_SIZE)) % 2 ^ 32
  end
  return (found - computed_icrc(p.ip, p.udp, p.tvb, covered)) % 2 ^ 32
end

-- ------------------------------------------------------------------------------- headers around
local ipv4_fields, ipv6_fields, udp_fields = Field.new("ip"), Field.new("ipv6"), Field.new("udp")
local segment_fields = Field.new("ipv6.routing.srh.addr")

local function last_of(getter, size)
  local found = { getter() }
  for i = #found, 1, -1 do
    if found[i].len >= size and found[i].range then return found[i], found[i - 1] end
  end
end
local function word(s, at) return byte(s, at) * 256 + byte(s, at + 1) end

local function ip_header(info, version)
  local range = info.range
  local ip = { version = version, range = range, offset = info.offset }
  if version == 6 then
    ip.raw = range:raw(0, 40)
    local class = floor(word(ip.raw, 1) / 16) % 256
    ip.dscp, ip.ecn, ip.label = floor(class / 4), class % 4, byte(ip.raw, 2) % 16 * 65536
      + word(ip.raw, 3)
    ip.next, ip.says = byte(ip.raw, 7), word(ip.raw, 5) + 40 -- bytes from here on
  else
    ip.raw = range:raw(0, info.len)
    local class = byte(ip.raw, 2)
    ip.dscp, ip.ecn, ip.label, ip.says = floor(class / 4), class % 4, 0, word(ip.raw, 3)
  end
  return ip
end

-- The IP header nearest to UDP, the SRv6 header before it or nil, and UDP; nil if one is missing.
local function surroundings()
  local udp_info = last_of(udp_fields, UDP_SIZE)
  local info, before = last_of(ipv6_fields, 40)
  local info4 = last_of(ipv4_fields, 20)
  if not udp_info or not (info or info4) then return end
  local range = udp_info.range
  local udp = { raw = range:raw(0, UDP_SIZE), offset = udp_info.offset, range = range }
  udp.source, udp.destination = word(udp.raw, 1), word(udp.raw, 3)
  udp.length = word(udp.raw, 5)
  if info4 and (not info or info4.offset > info.offset) then
    return ip_header(info4, 4), nil, udp
  end
  local outer = before and before.len >= 40 and before.range and ip_header(before, 6)
  if not outer or outer.next ~= 41 and outer.next ~= 43 then outer = nil end
  return ip_header(info, 6), outer, udp
end

local function ev_of(ip, udp) -- as the other side reflects it; [C-5]
  local label = ip.label % 65536 -- its upper bits carry no EV
  if prefs.ev_format == 1 then return label * 65536 + udp.source end
  if prefs.ev_format == 2 then return udp.source * 65536 + label end
  return udp.source
end

-- ------------------------------------------------------------------------------- tags
-- Not in MRC: OpenMRC's queue pairs tell peers that know of it 64 bits for the packets sent to them
-- (docs/security.md). 32 are added to the iCRC, 20 replace p_key and inv_res, and endpoint packets
-- are addressed to a queue pair and have 12 more. The key log says which: "MRC_TAG ADDRESS QPN TAG".
local keys -- read up to byte `size`; of[ADDRESS/QPN]: tags
local function forget_keys() keys = { size = 0, of = {}, lines = {}, failed = false } end
forget_keys()

local function groups_of(text) -- the 16-bit groups of a part of an IPv6 address, as bytes
  local bytes = ""
  for group in text:gmatch("%x+") do
    local value = tonumber(group, 16) % 65536
    bytes = bytes .. string.char(floor(value / 256), value % 256)
  end
  return bytes
end

local function address_bytes(text) -- as in an IP header; "" if it is none
  local v4 = { text:match("^(%d+)%.(%d+)%.(%d+)%.(%d+)$") }
  if v4[1] then
    for i = 1, 4 do v4[i] = string.char(tonumber(v4[i]) % 256) end
    return table.concat(v4)
  end
  local left, right = text:match("^(.-)::(.*)$")
  left, right = groups_of(left or text), groups_of(right or "")
  return left .. ("\0"):rep(16 - #left - #right) .. right
end

local function add_key(line)
  local address, qpn, digits = line:match("^MRC_TAG (%S+) 0x(%x+) 0x(%x+)%s*$")
  if not address or #digits > 16 or keys.lines[line] then return end -- both ends write it
  keys.lines[line] = true
  digits = ("0"):rep(16 - #digits) .. digits
  local endpoint, header, check = digits:match("^(...)(.....)(........)$")
  local tag = { bits = UInt64.fromhex(digits), endpoint = tonumber(endpoint, 16),
    header = tonumber(header, 16), check = tonumber(check, 16) }
  local queue_pair = address_bytes(address) .. "/" .. tonumber(qpn, 16)
  local tags = keys.of[queue_pair] or {}
  keys.of[queue_pair] = tags
  tags[#tags + 1] = tag
end

-- Reads what was appended to the key log since. True if there was something.
local function read_keys()
  if prefs.keylog == "" then return false end
  local file, why = io.open(prefs.keylog, "rb")
  if not file then
    if not keys.failed then report_failure("mrc.keylog: " .. why) end
    keys.failed = true
    return false
  end
  local size = file:seek("end") or 0
  if size < keys.size then forget_keys() end -- another file
  file:seek("set", keys.size)
  local text = size > keys.size and file:read("*a") or ""
  file:close()
  text = text:match("^.*\n") or "" -- a line may be half written
  keys.size = keys.size + #text
  for line in text:gmatch("[^\n]+") do add_key(line) end
  return text ~= ""
end

-- The tags of the queue pair that are right in the BTH, and all of them, or nil if it is unknown.
local function tags_of(queue_pair, header)
  local known, right = keys.of[queue_pair], {}
  for _, tag in ipairs(known or {}) do
    if tag.header == header then right[#right + 1] = tag end
  end
  return right, known
end

-- p.tag, and p.tag_state; no state: the packet has no tag, and has to have none for all we know. An
-- iCRC that is right without one shows that there is none, whatever p_key is.
local function find_tag(p)
  if not p.ip or p.tvb:len() < BTH_SIZE then return end
  p.tag_header = p.tvb(2, 2):uint() * 16 + p.tvb(8, 1):uint() % 16
  local destination = p.ip.version == 6 and p.ip.raw:sub(25, 40) or p.ip.raw:sub(17, 20)
  local queue_pair = destination .. "/" .. p.tvb(5, 3):uint()
  local right, known = tags_of(queue_pair, p.tag_header)
  if #right == 0 and (p.tag_header ~= PLAIN or keys.size == 0) and read_keys() then
    right, known = tags_of(queue_pair, p.tag_header)
  end
  if #right > 0 then
    p.tag, p.tag_state = right[#right], TAG_RIGHT
    for _, tag in ipairs(right) do -- chance may have made several
      if tag.check == p.difference then p.tag = tag end
      if tag.check == p.head_difference and p.tag.check ~= p.difference then
        p.tag, p.difference, p.head_check = tag, p.head_difference, true
      end
    end
  elseif known then
    p.tag_state, p.known_tags = TAG_WRONG, known
  elseif p.tag_header ~= PLAIN and p.difference ~= 0 then
    p.tag_state = TAG_UNKNOWN
  end
end

-- ------------------------------------------------------------------------------- checks
local function show(value)
  return value < 10 and format("%d", value) or format("%d (0x%x)", value, value)
end

-- One form for all findings: "FIELD is VALUE, expected WHAT".
local function wrong(p, name, value, expected, kind, item)
  if type(value) == "number" then value = show(value) end
  if type(expected) == "number" then expected = show(expected) end
  item = item or p.items[name:gsub("^mrc%.", "")] or p.tree
  item:add_proto_expert_info(kind or e.violation,
    format("%s is %s, expected %s", name, value, expected))
end
local function expect(p, name, value, expected, kind)
  if value ~= expected then wrong(p, name, value, expected, kind) end
end

local function check_endpoint_tag(p, name, value, item)
  if p.tag and value ~= p.tag.endpoint then
    wrong(p, name, value, show(p.tag.endpoint) .. " of mrc.tag", e.bad_tag, item)
    p.tag_state = TAG_WRONG
  elseif value > 0xFFF then
    wrong(p, name, value, "12 bits of a tag", nil, item)
  end
end

local function check_row(p, row, value, item)
  if row.key == "var_res" and value == HEAD_CHECK and p.tag_state then return end
  if row.tag and p.tag_state then
    if row.tag == "endpoint" then check_endpoint_tag(p, "mrc." .. row.key, value, item) end
    return
  end
  if row.strict and not prefs.strict then return end
  local name, allowed = "mrc." .. row.key, row.allowed
  if type(allowed) == "table" then
    local texts = {}
    for _, one in ipairs(allowed) do
      if value == one then return end
      texts[#texts + 1] = show(one)
    end
    wrong(p, name, value, "one of " .. table.concat(texts, ", "), nil, item)
  elseif allowed and value ~= allowed then
    wrong(p, name, value, allowed, nil, item)
  elseif row.least and value < row.least then
    wrong(p, name, value, "at least " .. show(row.least), nil, item)
  elseif row.most and value > row.most then
    wrong(p, name, value, "at most " .. show(row.most), nil, item)
  end
end

-- DSCP classes that the document has for a packet that no switch has trimmed; §1.14, §2.9.
local function classes_of(p)
  if p.data then return { "no_trim", p.v.rtx == 1 and "trimmable_retx" or "trimmable" } end
  if p.opcode == PROBE then return { "no_trim", "trimmable" } end
  if p.opcode == REQUEST then return { "no_trim", "trimmable", "trimmable_retx", "control" } end
  return { "control" }
end
local function in_class(dscp, names)
  for _, name in ipairs(names) do
    if prefs["dscp_" .. name] == dscp then return true end
  end
  return false
end

-- Data, reliability probes, which are of its class, and requests, which may be; §1.14.
local function may_be_trimmed(p)
  for _, name in ipairs(classes_of(p)) do
    if name:find("^trimmable") then return true end
  end
  return false
end

local function check_classes(p)
  local first, ip, names = p.outer or p.ip, p.ip, classes_of(p)
  local wanted = table.concat(names, ", ")
  if p.trimmed then
    if first ~= ip and ip.dscp ~= first.dscp and not in_class(ip.dscp, names) then
      wrong(p, "inner ip.dscp", ip.dscp, wanted)
    end
  else
    if not in_class(first.dscp, names) then
      wrong(p, "ip.dscp", first.dscp, wanted)
    elseif in_class(first.dscp, { "control" }) then
      expect(p, "ip.ecn", first.ecn, 0) -- [O-22]
    end
    if p.data and first.ecn == 0 then wrong(p, "ip.ecn", 0, "ECT(0), ECT(1) or CE") end
    if first ~= ip then expect(p, "outer ip.dscp", first.dscp, ip.dscp) end -- §4.1
  end
  if first.ecn ~= ip.ecn and not (first.ecn == CE and ip.ecn ~= 0) then
    wrong(p, "outer ip.ecn", first.ecn, format("%d, or CE if that is ECT", ip.ecn))
  end
  if ip.label >= 65536 then -- [O-23]
    wrong(p, "flow label, bits 19:16,", floor(ip.label / 65536), 0)
  end
end

local function check_lengths(p)
  local first, ip, udp = p.outer or p.ip, p.ip, p.udp
  local room = first.says - (udp.offset - first.offset) -- bytes from UDP on
  if p.outer then
    local says = ip.says - 40
    -- A switch may leave the inner length as it was.
    if says ~= room and not (p.trimmed and says == udp.length) then
      p.lengths_differ = true
      wrong(p, "inner ipv6.plen", says, room, e.malformed)
    end
  end
  if not p.trimmed then
    p.lengths_differ = p.lengths_differ or udp.length ~= room
    expect(p, "udp.length", udp.length, room, e.malformed)
  elseif udp.length <= room then
    wrong(p, "udp.length", udp.length, format("more than the %d bytes left", room))
  elseif room < LEAST_TRIMMED then
    wrong(p, "room from UDP on", room, "at least 28 bytes")
  end
end

-- What docs/extensions.md says of SEND, READ and atomics.
local function check_extension(p)
  local v, opcode = p.v, p.opcode
  if (SENDS[opcode] or RESPONSES[opcode]) and v["reth.r_key"] then
    expect(p, "mrc.reth.r_key", v["reth.r_key"], 0)
  end
  if REQUESTS[opcode] or opcode == ATOMIC_RESPONSE then -- operands are no payload here
    expect(p, "mrc.payload_length", p.payload, 0)
    if opcode ~= READ and v["reth.dmalen"] then
      expect(p, "mrc.reth.dmalen", v["reth.dmalen"], 8)
    end
  end
end

local function check_transport(p)
  local v, payload = p.v, p.payload
  if not p.data then
    if v.pad ~= 0 then wrong(p, "mrc.pad", v.pad, 0, e.malformed) end
    expect(p, "mrc.ts", v.ts, 0) -- §1.5
    -- OpenMRC's own EV probes may be as long as data (docs/extensions.md).
    if payload < 0 or not (p.opcode == REQUEST and p.tag_state) then
      expect(p, "mrc.payload_length", payload, 0, e.malformed)
    end
    if p.trimmed and not may_be_trimmed(p) then
      wrong(p, "ip.dscp", (p.outer or p.ip).dscp, table.concat(classes_of(p), ", "))
    end
  elseif payload < 0 then
    wrong(p, "mrc.payload_length", format("%d", payload), "room for headers and iCRC", e.malformed)
  else
    expect(p, "mrc.pad", v.pad, -payload % 4, e.malformed)
    check_extension(p)
  end
  local endpoint = p.opcode == REQUEST or p.opcode == RESPONSE -- §1.3
  if endpoint and v.psn > 0xFFFF then wrong(p, "mrc.psn", v.psn, "16 bits of id") end
  if endpoint and not p.tag_state then
    expect(p, "mrc.dqp", v.dqp, 2)
  elseif v.dqp == 2 then
    wrong(p, "mrc.dqp", 2, "the number of a queue pair")
  end
end

-- ------------------------------------------------------------------------------- SACK and the like
local function check_qpns(p, group)
  if prefs.strict then -- [C-21]: others may say it the other way round
    expect(p, "mrc." .. group .. ".dpdcid", p.v[group .. ".dpdcid"], p.v.dqp % 65536)
  end
end

local function generated(p, name, value, range)
  local item = p.tree:add(f[name], range or p.tvb(0, 0), value)
  item:set_generated()
  p.items[name] = item
  return item
end

local function sack_details(p)
  local v = p.v
  local cack, offset = v["sack.cack_psn"], v["sack.sack_offset"]
  local low, high = p.bitmap(4, 4):uint(), p.bitmap(0, 4):uint()
  local function bit_at(i)
    return band(rshift(i < 32 and low or high, i % 32), 1) == 1
  end
  local base_psn = (cack + offset) % PSNS
  generated(p, "sack.base_psn", base_psn)
  if v["sack.pr"] == 0 then
    v["sack.trigger_psn"] = (cack + v["sack.ack_psn_offset"]) % PSNS
    generated(p, "sack.trigger_psn", v["sack.trigger_psn"])
  end
  local highest, received, cleared = -1, 0, false
  for i = 0, 63 do -- bit i is cack + offset + i: known to be in up to cack (§2.7)
    if bit_at(i) then
      highest = i
      if offset + i > 0 then received = received + 1 end
    elseif offset + i <= 0 then
      cleared = true
    end
  end
  generated(p, "sack.received", received)
  local missing = 0
  for i = 0, highest do
    if not bit_at(i) and offset + i > 0 then
      generated(p, "sack.missing", (base_psn + i) % PSNS)
      missing = missing + 1
    end
  end
  p.missing, p.received = missing, received
  if missing > 0 then
    p.tree:add_proto_expert_info(e.gaps, format("PSNs missing below received ones: %d", missing))
  end
  expect(p, "mrc.psn", v.psn, cack) -- §1.3
  if cleared then
    wrong(p, "mrc.sack.bitmap", format("0x%08x%08x", high, low), "all bits up to cack_psn set")
  end
  if offset <= 1 and offset > -63 and bit_at(1 - offset) then
    wrong(p, "mrc.sack.bitmap", format("0x%08x%08x", high, low), "the bit of cack_psn + 1 clear")
  end
  if v["cc.ooo_count"] and v["cc.ooo_count"] < received then
    wrong(p, "mrc.cc.ooo_count", v["cc.ooo_count"],
      format("at least %d, what the bitmap has above cack_psn", received))
  end
  check_qpns(p, "sack")
end

-- Microseconds of the timer code of an RNR NAK.
local function rnr_time(code)
  if code == 0 then return 655360 end
  code = code % 32
  if code < 4 then return 10 * code end
  return (code % 2 == 0 and 40 or 60) * 2 ^ floor((code - 4) / 2)
end

-- What the info column says, and what else there is to check, by opcode; §1.3.
local DETAILS = {
  [SACK] = function(p)
    local v = p.v
    sack_details(p)
    local cause = v["sack.pr"] == 1 and format("for probe %d", v["sack.probe_id"])
      or format("for PSN %d", v["sack.trigger_psn"])
    local text = format("cack %d %s", v["sack.cack_psn"], cause)
    if p.received > 0 then text = text .. format(" received +%d", p.received) end
    if p.missing > 0 then text = text .. format(" missing %d", p.missing) end
    return v["sack.m"] == 0 and text or text .. " [" .. M_FLAGS[v["sack.m"]] .. "]"
  end,
  [NACK] = function(p)
    local v = p.v
    local reason = REASONS[v["nack.reason"]] or format("reason 0x%02x", v["nack.reason"])
    expect(p, "mrc.psn", v.psn, v["nack.psn"])
    check_qpns(p, "nack")
    p.tree:add_proto_expert_info(e.nacked, format("NACK of PSN %d: %s", v["nack.psn"], reason))
    if v["nack.reason"] == NOT_READY then
      return format("%s PSN %d wait %g us", reason, v["nack.psn"], rnr_time(v["nack.vendor_info"]))
    end
    return format("%s PSN %d", reason, v["nack.psn"])
  end,
  [PROBE] = function(p)
    expect(p, "mrc.psn", p.v.psn, 0)
    check_qpns(p, "probe")
    return format("id %d", p.v["probe.id"])
  end,
  [ACK] = function(p)
    local v = p.v
    local name = SYNDROMES[v["aeth.syndrome"]]
      or format("syndrome 0x%02x", v["aeth.syndrome"])
    if v["aeth.syndrome"] ~= 0x1F then
      p.tree:add_proto_expert_info(e.nak, name)
      p.name = name
    end
    return format("PSN %d MSN %d", v.psn, v["aeth.msn"])
  end,
  [REQUEST] = function(p)
    local v = p.v
    if v["request.op"] == 1 then
      expect(p, "mrc.request.port_status_mask", v["request.port_status_mask"], 0) -- §1.10
    end
    return format("%s id %d", OPERATIONS[v["request.op"]] or "?", v.psn)
  end,
  [RESPONSE] = function(p)
    return format("%s id %d", OPERATIONS[p.v["response.op"]] or "?", p.v.psn)
  end,
}
local function data_details(p)
  local v = p.v
  local text = format("PSN %d", v.psn)
  if v["meth.msn"] then text = text .. format(" MSN %d", v["meth.msn"]) end
  if v["meth.rqmsn"] and (REQUESTS[p.opcode] or RESPONSES[p.opcode]) then
    text = text .. format(" Request %d", v["meth.rqmsn"])
  end
  if v["reth.dmalen"] then
    text = text .. (REQUESTS[p.opcode] and format(" Len %d", v["reth.dmalen"])
      or format(" Len %d of %d", p.opcode == ATOMIC_RESPONSE and 8 or p.payload,
        v["reth.dmalen"]))
  end
  if v.a == 1 then text = text .. " [A]" end
  if v.rtx == 1 then
    text = text .. " [RTX]"
    p.tree:add_proto_expert_info(e.retransmitted, format("Retransmission of PSN %d", v.psn))
  end
  return text
end

-- ------------------------------------------------------------------------------- matching
-- What answers reflect (timestamp and EV, of it the half in the UDP port, as the flow label is not
-- known in Wireshark's first pass), the number of what is answered and the low bits of the QPN tell
-- packets apart well enough without addresses, which differ by plane.
local asked, answered, answers -- key: {frame, time}; frame: frame; frame: {frame, time}
local function forget() asked, answered, answers = {}, {}, {} end
function mrc.init() -- at the start of each file
  forget()
  forget_keys()
end
forget()

local function key(kind, qpn, number, port, timestamp)
  return format("%s %d %d %d %d", kind, qpn, number, port, timestamp or 0)
end
local function port_of(ev) return prefs.ev_format == 2 and floor(ev / 65536) or ev % 65536 end

local function match(p, pinfo)
  local v, question, answer, other = p.v, nil, nil, nil
  if p.data then
    question = key("data", v.dqp % 65536, v.psn, pinfo.src_port, v["tseth.tx_timestamp"])
  elseif p.opcode == PROBE then
    question = key("probe", v.dqp % 65536, v["probe.id"], pinfo.src_port, v["probe.tx_timestamp"])
  elseif p.opcode == REQUEST then
    question = key("endpoint", 0, v.psn, v["request.op"], v["request.tx_timestamp"])
  elseif p.opcode == RESPONSE then
    answer = key("endpoint", 0, v.psn, v["response.op"], v["response.tx_timestamp"])
  elseif p.opcode == SACK or p.opcode == NACK then
    local group = p.opcode == SACK and "sack." or "nack."
    local kind = v["sack.pr"] == 1 and "probe" or "data"
    local number = v["nack.psn"] or v["sack.trigger_psn"] or v["sack.probe_id"]
    local time = v["nack.tx_timestamp"] or v["cc.tx_timestamp"]
    local port = port_of(v[group .. "entropy"])
    answer = key(kind, v[group .. "spdcid"], number, port, time)
    other = key(kind, v[group .. "dpdcid"], number, port, time) -- [C-21]
  end
  if not pinfo.visited then
    if question then asked[question] = { pinfo.number, pinfo.rel_ts } end
    local found = answer and (asked[answer] or asked[other])
    if found then
      answers[pinfo.number] = { found[1], pinfo.rel_ts - found[2] }
      answered[found[1]] = answered[found[1]] or pinfo.number
    end
  end
  if answered[pinfo.number] then generated(p, "answer_in", answered[pinfo.number]) end
  local found = answers[pinfo.number]
  if found then
    generated(p, "answer_to", found[1])
    if found[2] >= 0 then
      local seconds = floor(found[2])
      generated(p, "answer_time", NSTime.new(seconds, floor((found[2] - seconds) * 1e9 + 0.5)))
    end
  end
end

-- ------------------------------------------------------------------------------- dissection
local function read_row(p, row, tree, at)
  local range = p.tvb(at + row.at, row.size)
  local value
  if row.bytes then
    value = range:raw():find("[^%z]") and 1 or 0
  elseif row[2] == 64 then
    p.bitmap = range -- or a virtual address, which nothing reads
  else
    value = range:bitfield(row.first, row[2])
    if row.signed and value >= 2 ^ (row[2] - 1) then value = value - 2 ^ row[2] end
  end
  local name = row.key
  if name == "sack.ack_psn_offset" and p.v["sack.pr"] == 1 then
    name, value = "sack.probe_id", range:uint()
  end
  local item = tree:add(f[name], range)
  if row.note then item:append_text(" (" .. row.note(value) .. ")") end
  p.v[name], p.items[name] = value, item
  if value then check_row(p, row, value, item) end
end

local function read_header(p, group)
  local layout = LAYOUTS[group]
  if p.at + layout.size > p.sent then return "ends" end
  if p.at + layout.size > p.tvb:len() then return "cut" end
  local tree = p.tree:add(f[group], p.tvb(p.at, layout.size))
  for _, row in ipairs(layout[2]) do read_row(p, row, tree, p.at) end
  p.at = p.at + layout.size
end

-- All headers from BTH on; returns "ends" or "cut" at the first that is not there.
local function read_headers(p)
  local stop = read_header(p, "bth")
  if stop then return stop, "BTH" end
  p.payload = p.length - UDP_SIZE - BTH_SIZE - p.v.pad - ICRC_SIZE
  local groups_after = {}
  for i, group in ipairs(HEADERS[p.opcode] or {}) do
    groups_after[#groups_after + 1] = group
    if i == 1 and p.data and p.v.ts == 1 then groups_after[2] = "tseth" end
  end
  for _, group in ipairs(groups_after) do p.payload = p.payload - LAYOUTS[group].size end
  for _, group in ipairs(groups_after) do
    stop = read_header(p, group)
    if stop then return stop, LAYOUTS[group][1] end
  end
end

local function read_icrc(p)
  local range = p.tvb(p.sent - ICRC_SIZE, ICRC_SIZE)
  local item = p.tree:add_le(f.icrc, range)
  if not p.difference then return 2 end
  local added = p.tag and p.tag.check or 0
  if p.difference == added then
    item:append_text(p.head_check and " (right, with the tag; it leaves the payload out)"
      or p.tag and " (right, with the tag)" or " (right)")
    return 1
  end
  if p.tag_state and not p.tag and p.tag_header ~= PLAIN then
    item:append_text(" (the tag is not known)")
    return 2
  elseif p.tag and added == 0 then -- option icrc=off
    item:append_text(" (the receiver does not check it)")
    return 2
  end
  local found = range:le_uint()
  local computed = (found - p.difference + added) % 2 ^ 32
  item:append_text(format(" (computed 0x%08x)", computed))
  item:add_proto_expert_info(e.bad_icrc,
    format("mrc.icrc is 0x%08x, expected 0x%08x", found, computed))
  return 0
end

local function add_tag(p)
  if not p.tag_state then return end
  if p.tag then generated(p, "tag", p.tag.bits, p.tvb(2, 2)) end
  local item = generated(p, "tag.status", p.tag_state, p.tvb(2, 2))
  if p.tag_state == TAG_WRONG and p.known_tags then
    local expected = #p.known_tags == 1 and format("0x%05x of the key log", p.known_tags[1].header)
      or format("one of %d of the key log", #p.known_tags)
    wrong(p, "mrc.tag in the BTH", format("0x%05x", p.tag_header), expected, e.bad_tag, item)
  end
end

local function read_rest(p, stop)
  local left = math.max(0, math.min(p.sent, p.tvb:len()) - p.at)
  if stop then
    if left > 0 then p.tree:add(f.partial, p.tvb(p.at, left)) end
    return
  end
  local icrc_there = not p.trimmed and p.sent - p.at >= ICRC_SIZE
  local payload = icrc_there and math.min(left, p.sent - p.at - p.v.pad - ICRC_SIZE) or left
  if payload > 0 then p.tree:add(f.payload, p.tvb(p.at, payload)) end
  if p.tvb:len() < p.sent then return end
  if icrc_there and p.v.pad > 0 and payload >= 0 then
    p.tree:add(f.padding, p.tvb(p.sent - ICRC_SIZE - p.v.pad, p.v.pad))
  end
  return icrc_there and read_icrc(p) or nil
end

-- How the path is chosen: 32 bits in the packet itself, and with SRv6 the outer address; §3.1.
local function add_path(p)
  p.ev = ev_of(p.ip, p.udp)
  generated(p, "ev", p.ev, p.udp.range(0, 2))
  if not p.outer then return end
  generated(p, "path", p.outer.range(24, 16):ipv6(), p.outer.range(24, 16))
  for _, info in ipairs({ segment_fields() }) do
    if info.offset > p.outer.offset and info.offset < p.ip.offset then
      generated(p, "segment", info.value, info.range)
    end
  end
end

-- Bytes from BTH on that were sent. Of what an ICMP error quotes, which may end early, Wireshark
-- knows no more than there is; its IP header says it.
local function sent_size(tvb, pinfo, ip, outer, udp)
  local size, first = tvb:reported_len(), outer or ip
  if not (pinfo.in_error_pkt and first and udp) then return size end
  return math.max(size, first.says - (udp.offset - first.offset) - UDP_SIZE)
end

local function dissect(tvb, pinfo, root)
  local ip, outer, udp = surroundings()
  local sent = sent_size(tvb, pinfo, ip, outer, udp)
  local p = { tvb = tvb, at = 0, sent = sent, v = {}, items = {}, ip = ip,
    outer = outer, udp = udp, opcode = tvb(0, 1):uint(), payload = 0 }
  p.length = udp and udp.length or p.sent + UDP_SIZE
  p.data = DATA[p.opcode] or false
  p.name = OPCODES[p.opcode] or format("opcode 0x%02x", p.opcode)
  p.tree = root:add(mrc, tvb(0, math.min(p.sent, tvb:len())))
  p.trimmed = ip and in_class((outer or ip).dscp, { "trimmed", "trimmed_last_hop" }) or false
  if ip and not pinfo.in_error_pkt then check_lengths(p) end
  if prefs.verify_icrc then p.difference = icrc_difference(p) end
  find_tag(p)
  local stop, header = read_headers(p)
  local whole = not stop and HEADERS[p.opcode] ~= nil
  local state
  if HEADERS[p.opcode] then
    state = read_rest(p, stop)
  elseif p.opcode ~= RESOLUTION then
    wrong(p, "mrc.opcode", p.opcode, "one of MRC's", e.malformed)
  end
  if stop == "ends" and not p.trimmed then -- a trimmed one may end after any header [O-10]
    wrong(p, "udp.length", p.length, "room for " .. header, e.malformed)
  end
  if stop == "cut" or tvb:len() < p.sent then generated(p, "cut", true) end
  local details = ""
  if ip then add_path(p) end
  if p.v.psn and HEADERS[p.opcode] then
    generated(p, "payload_length", p.payload)
    check_transport(p)
    if ip and prefs.strict and not pinfo.in_error_pkt then check_classes(p) end
    details = format("QP 0x%06x", p.v.dqp)
    if p.data then
      details = details .. " " .. data_details(p)
    elseif whole then
      details = details .. " " .. DETAILS[p.opcode](p)
    end
    if whole or p.data then
      if prefs.find_answers and not pinfo.in_error_pkt then match(p, pinfo) end
    end
  end
  if ip and ((outer or ip).ecn == CE or ip.ecn == CE) then
    generated(p, "ce", true)
    details = details .. " [CE]"
  end
  if p.trimmed then
    generated(p, "trimmed", true)
    p.tree:add_proto_expert_info(e.was_trimmed)
    details = details .. " [TRIMMED]"
  end
  state = state or (p.trimmed and 3 or 2)
  generated(p, "icrc.status", state)
  add_tag(p)
  if p.tag_state == TAG_WRONG then details = details .. " [BAD TAG]" end
  if state == 0 then details = details .. " [BAD iCRC]" end
  pinfo.cols.protocol = "MRC"
  pinfo.cols.info = p.name .. " " .. details
  p.tree:append_text(", " .. p.name .. ", " .. details)
  return tvb:len()
end

-- ------------------------------------------------------------------------------- registration
-- Bits 7:5 of the opcode are 110 in MRC, and never in RoCE (§1.3).
local function is_mrc(tvb)
  return tvb:len() > 0 and tvb:reported_len() >= BTH_SIZE and floor(tvb(0, 1):uint() / 32) == 6
end

local udp_ports = DissectorTable.get("udp.port")
local others = {} -- port: who had it before, or false
function mrc.dissector(tvb, pinfo, root)
  if is_mrc(tvb) then return dissect(tvb, pinfo, root) end
  local other = others[pinfo.match_uint]
  if not other then return 0 end
  local ok, used = pcall(other.call, other, tvb, pinfo, root)
  if ok then return used end
  root:add_proto_expert_info(e.other_malformed) -- it ended early: no error of this script
  pinfo.cols.info:append(" [Malformed Packet]")
  return tvb:len()
end

-- On other ports, and where the source port (the EV) is that of another protocol: packets whose
-- iCRC is right, if need be with a tag of the key log. Wireshark asks before it looks at ports if
-- udp.try_heuristic_first is set.
local function heuristic(tvb, pinfo, root)
  if not is_mrc(tvb) or not HEADERS[tvb(0, 1):uint()] then return false end
  if others[pinfo.dst_port] == nil then
    if tvb:len() < tvb:reported_len() or tvb:len() < BTH_SIZE + 4 + ICRC_SIZE then return false end
    local ip, _, udp = surroundings()
    local p = { tvb = tvb, ip = ip, udp = udp, sent = tvb:len() }
    p.difference = icrc_difference(p)
    find_tag(p)
    if not ip or p.difference ~= (p.tag and p.tag.check or 0) then return false end
  end
  dissect(tvb, pinfo, root)
  return true
end
mrc:register_heuristic("udp", heuristic)

local function register()
  for port, other in pairs(others) do
    udp_ports:remove(port, mrc)
    if other then udp_ports:add(port, other) end
  end
  others = {}
  for first, last in prefs.ports:gmatch("(%d+)%-?(%d*)") do
    for port = tonumber(first), tonumber(last) or tonumber(first) do
      if others[port] == nil then
        others[port] = udp_ports:get_dissector(port) or false
        udp_ports:add(port, mrc)
      end
    end
  end
end
function mrc.prefs_changed()
  register()
  forget_keys()
end
register()
