// SPDX-License-Identifier: Apache-2.0
// What the hosts have said, checked and with what follows from it: rates, shares, states in words.
// Hosts and devices are other people's programs: whatever they send has to be shown or left out.

const kHistory = 60;       // samples of throughput
const kWindow = 10;        // samples over which loss and load are counted
const kMostEvents = 300;
const kMostPeers = 512;
const kMostSlow = 32;

const num = x => (typeof x === 'number' && Number.isFinite(x) && x >= 0 ? x : 0);
const str = x => (typeof x === 'string' ? x.slice(0, 300) : '');
const list = x => (Array.isArray(x) ? x : []);
const object = x => (x !== null && typeof x === 'object' && !Array.isArray(x) ? x : {});

/** States of a path: glyph, word, what it means. In the order of the legend. */
export const kStates = {
  good: {glyph: '', word: 'good', meaning: 'carries data'},
  skip: {glyph: '~', word: 'marked', meaning: 'congested a moment ago: passed over once'},
  bad: {glyph: '✕', word: 'bad', meaning: 'packets were lost: out of use until probes succeed'},
  denied: {glyph: '⊘', word: 'denied', meaning: 'must not be used, says the administrator'},
  unknown: {glyph: '?', word: 'unknown', meaning: 'the process does not answer'},
  off: {glyph: '–', word: 'plane off', meaning: 'its plane is down or out of use'},
  idle: {glyph: '', word: 'idle', meaning: 'carries nothing, while others do; or has not yet'},
  backup: {glyph: '·', word: 'backup', meaning: 'replaces a path that fails'},
};

function stateOf(path, plane, device) {
  if (!device.up) return 'unknown';
  if (path.health === 'denied') return 'denied';
  if (plane && (!plane.up || !plane.enabled)) return 'off';
  if (path.health === 'assumed_bad') return 'bad';
  if (!path.active) return 'backup';
  if (path.health === 'skip') return 'skip';
  return path.packets === 0 ? 'idle' : 'good';
}

/** What a host has found to be slow: {what, detail, alike}. */
function slowOf(raw) {
  const part = object(raw);
  return {what: str(part.what), detail: str(part.detail), alike: list(part.alike).map(str)};
}

/** Counters of a path by name, from a row. */
function pathOf(row, fields) {
  const path = {};
  fields.forEach((field, i) => {
    if (field !== 'state' && field !== 'active') path[field] = num(row[i]);
  });
  path.health = str(row[fields.indexOf('state')]);
  path.active = row[fields.indexOf('active')] === true;
  const route = row[fields.indexOf('route')];
  path.route = typeof route === 'number' ? route : -1;
  for (const field of ['ev', 'plane', 'packets', 'losses', 'trims', 'bytes', 'rtt_ns'])
    path[field] ??= 0;
  return path;
}

export class Model {
  hosts = [];
  events = [];
  #histories = new Map();  // of planes and paths: samples, by key
  #seen = new Set();       // events
  #last = new Map();       // by host: time of its last sample

  /** Takes an answer of /api/hosts. */
  take(answer) {
    const used = new Set();
    this.hosts = list(object(answer).hosts).map((raw, i) => this.#host(object(raw), i, used));
    for (const key of this.#histories.keys())
      if (!used.has(key)) this.#histories.delete(key);
    this.events.sort((a, b) => b.time - a.time || b.number - a.number);
    for (const event of this.events.splice(kMostEvents)) this.#seen.delete(event.key);
  }

  #host(raw, index, used) {
    const at = str(raw.at);
    const host = {
      key: `${index}`, own: index === 0, at, name: str(raw.host) || at || 'unknown',
      problem: str(raw.problem), steer: raw.steer === true && index === 0, time: num(raw.time),
      fabric: str(raw.fabric), others: num(raw.others), devices: [],
      slow: list(raw.slow).slice(0, kMostSlow).map(slowOf),
    };
    const fields = list(raw.path_fields).map(str);
    const fresh = this.#last.get(host.key) !== host.time;
    this.#last.set(host.key, host.time);
    const context = {host, fields, fresh, used};
    host.devices = list(raw.devices).map(d => this.#device(object(d), context));
    for (const event of list(raw.events)) this.#event(object(event), host);
    return host;
  }

  #device(raw, context) {
    const device = {
      key: `${context.host.key}/${str(raw.device)}`, id: str(raw.device), host: context.host,
      program: str(raw.program) || '?', pid: num(raw.pid), version: str(raw.version),
      hostName: str(raw.host) || context.host.name, up: raw.up === true,
      problem: str(raw.problem), seen: num(raw.seen), queuePairs: num(raw.queue_pairs),
      counters: object(raw.counters),
    };
    device.planes = list(raw.planes).map((p, i) => this.#plane(object(p), i, device, context));
    device.peers = list(raw.peers).slice(0, kMostPeers)
                       .map(p => this.#peer(object(p), device, context));
    device.tx = sum(device.planes, 'tx');
    device.rx = sum(device.planes, 'rx');
    return device;
  }

  #plane(raw, number, device, context) {
    const plane = {
      key: `${device.key}/${number}`, number, address: str(raw.address), up: raw.up === true,
      enabled: raw.enabled !== false, device,
    };
    const samples = this.#sample(plane.key, context, [num(raw.tx_bytes), num(raw.rx_bytes)]);
    plane.rates = ratesOf(samples);
    const newest = plane.rates.at(-1) ?? [0, 0];
    [plane.tx, plane.rx] = device.up ? newest : [0, 0];
    return plane;
  }

  #peer(raw, device, context) {
    const peer = {
      key: `${device.key}/${num(raw.lane)}/${num(raw.number)}`, device, lane: num(raw.lane),
      addresses: str(raw.addresses), rtt: num(raw.rtt_ns), queuePairs: num(raw.queue_pairs),
      from: str(raw.from), to: str(raw.to), count: num(raw.path_count), up: num(raw.paths_up),
      routes: list(raw.routes).map(route => list(route).map(str)),
    };
    peer.name = peer.to || peer.addresses.split(',')[0] || '?';
    peer.paths = list(raw.paths).map(row => this.#path(list(row), peer, context));
    const busiest = Math.max(0, ...peer.paths.map(path => path.sent));
    for (const path of peer.paths) {
      path.load = busiest > 0 ? path.sent / busiest : 0;
      if (path.state === 'good' && busiest > 0 && path.sent === 0) path.state = 'idle';
    }
    peer.paths.sort((a, b) => a.plane - b.plane || a.ev - b.ev);
    peer.bad = peer.paths.filter(path => path.state === 'bad').length;
    return peer;
  }

  #path(row, peer, context) {
    const path = pathOf(row, context.fields);
    path.key = `${peer.key}/${path.plane}/${path.ev}`;
    path.peer = peer;
    path.state = stateOf(path, peer.device.planes[path.plane], peer.device);
    path.stops = peer.routes[path.route] ?? [];
    const samples =
        this.#sample(path.key, context, [path.packets, path.losses + path.trims], kWindow);
    const first = samples[0].values, last = samples.at(-1).values;
    path.sent = Math.max(0, last[0] - first[0]);
    path.lost = Math.max(0, last[1] - first[1]);
    path.loss = path.sent > 0 ? Math.min(1, path.lost / path.sent) : 0;
    return path;
  }

  /** Adds a sample of counters, and returns those that are kept. */
  #sample(key, context, values, most = kHistory) {
    context.used.add(key);
    let samples = this.#histories.get(key);
    if (!samples) this.#histories.set(key, samples = []);
    if (context.fresh || samples.length === 0) samples.push({time: context.host.time, values});
    if (samples.length > most + 1) samples.shift();
    return samples;
  }

  #event(raw, host) {
    const event = {
      key: `${host.key}/${str(raw.device)}/${num(raw.number)}/${num(raw.time)}`, host,
      number: num(raw.number), time: num(raw.time), kind: str(raw.event), program: str(raw.program),
      pid: num(raw.pid), device: str(raw.device), raw,
    };
    if (this.#seen.has(event.key)) return;
    this.#seen.add(event.key);
    this.events.push(event);
  }

  get devices() { return this.hosts.flatMap(host => host.devices); }
  get peers() { return this.devices.flatMap(device => device.peers); }
  get paths() { return this.peers.flatMap(peer => peer.paths); }

  /** What is slow, by name: {what, detail, alike, hosts}, with what the first host says of it. */
  get slow() {
    const parts = new Map();
    for (const host of this.hosts)
      for (const part of host.slow) {
        const known = parts.get(part.what) ?? {...part, hosts: new Set()};
        parts.set(part.what, known);
        known.hosts.add(host.name);
      }
    return [...parts.values()];
  }
}

const sum = (items, field) => items.reduce((total, item) => total + item[field], 0);

/** Bits per second between samples of bytes. */
function ratesOf(samples) {
  const rates = [];
  for (let i = 1; i < samples.length; ++i) {
    const seconds = samples[i].time - samples[i - 1].time;
    rates.push(samples[i].values.map((value, k) =>
        (seconds > 0 ? Math.max(0, value - samples[i - 1].values[k]) * 8 / seconds : 0)));
  }
  return rates;
}
