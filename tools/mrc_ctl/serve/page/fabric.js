// SPDX-License-Identifier: Apache-2.0
// Which switch or link the bad paths of all hosts have in common.

const kMostShown = 8;

/** Order of a stop on the way up: hosts, T0s, T1s. */
function tier(stop) {
  const found = /^p\d+t(\d)-\d+$/.exec(stop);
  return found ? Number(found[1]) + 1 : 0;
}

/** "link p1t0-0 - p1t1-1", the same in both directions. */
export function linkName(a, b) {
  const ends = [a, b].sort((x, y) => tier(x) - tier(y) || x.localeCompare(y));
  return `link ${ends[0]} – ${ends[1]}`;
}

/** The switches and links of a path; without a description of the fabric, its plane. */
function partsOf(path) {
  if (path.stops.length === 0) return [{name: `plane ${path.plane}`, kind: 'plane'}];
  const parts = [];
  path.stops.forEach((stop, i) => {
    if (stop === '?') return;
    if (tier(stop) > 0) parts.push({name: stop, kind: 'switch'});
    const next = path.stops[i + 1];
    if (!next || next === '?') return;
    const plane = tier(stop) === 0 || tier(next) === 0 ? path.plane : null;
    parts.push({name: linkName(stop, next), kind: 'link', plane});
  });
  return parts;
}

/** Who does not answer, and which planes are off, of the hosts that have paths. */
function surroundings(paths) {
  const silent = new Set(), off = new Set();
  for (const {device, from} of new Set(paths.map(path => path.peer))) {
    if (!from) continue;
    if (!device.up) silent.add(from);
    for (const plane of device.up ? device.planes : [])
      if (!plane.up || !plane.enabled) off.add(`${from}/${plane.number}`);
  }
  return {silent, off};
}

/**
 * Whether the path says something of the fabric between its ends: it was used, both answer, and
 * have its plane up. A process that is stopped looks to others like paths that are bad.
 */
function isWitness(path, {silent, off}) {
  if (path.packets === 0 && path.state !== 'bad') return false;
  if (['denied', 'off', 'unknown'].includes(path.state)) return false;
  return path.peer.device.up && !silent.has(path.peer.to) &&
         !off.has(`${path.peer.to}/${path.plane}`);
}

/** Parts with bad paths, the worst first: {name, kind, bad, all, hosts}. */
export function suspects(paths) {
  const parts = new Map();
  const around = surroundings(paths);
  for (const path of paths) {
    if (!isWitness(path, around)) continue;
    for (const part of partsOf(path)) {
      const known = parts.get(part.name) ?? {...part, bad: 0, all: 0, hosts: new Set()};
      parts.set(part.name, known);
      ++known.all;
      if (path.state !== 'bad') continue;
      ++known.bad;
      known.hosts.add(path.peer.from || path.peer.device.hostName);
    }
  }
  const rank = {switch: 0, link: 1, plane: 2};
  return [...parts.values()].filter(part => part.bad > 0).sort((a, b) =>
      b.bad / b.all - a.bad / a.all || b.bad - a.bad || rank[a.kind] - rank[b.kind] ||
      a.name.localeCompare(b.name, 'en', {numeric: true}));
}

/** All that can fail and take the path with it: also its plane, and its hosts in all planes. */
function causesOf(path) {
  const parts = partsOf(path);
  const {from, to} = path.peer;
  if (path.stops.length > 0) parts.push({name: `plane ${path.plane}`, kind: 'plane'});
  if (from && to) parts.push({name: `host ${from}`, kind: 'host'}, {name: `host ${to}`, kind: 'host'});
  return parts;
}

/** Of causes that explain the same, the first is named. */
function rankOf({name, kind, plane}) {
  if (kind === 'switch') return /t1-/.test(name) ? 0 : 3;
  if (kind === 'link') return plane === null ? 1 : 2;  // between switches, or to a host
  return kind === 'plane' ? 4 : 5;
}

const kMostSteps = 20000;

/** The fewest of the sets that together have all elements that are in any of them. */
export function smallestCover(sets) {
  const owners = new Map();  // of each element: indices of its sets
  sets.forEach((set, i) => {
    for (const element of set) owners.set(element, [...owners.get(element) ?? [], i]);
  });
  const rows = [...new Map([...owners.values()].map(row => [row.join(), row])).values()]
                   .sort((a, b) => a.length - b.length);
  const chosen = new Set();
  const isCovered = row => row.some(i => chosen.has(i));
  let best = null, steps = 0;
  const search = at => {
    while (at < rows.length && isCovered(rows[at])) ++at;
    if (at === rows.length) {
      if (!best || chosen.size < best.length) best = [...chosen];
      return;
    }
    if (best && chosen.size + 1 >= best.length) return;
    // Those that explain most come first, so that the first cover is the greedy one.
    for (const i of [...rows[at]].sort((a, b) => sets[b].size - sets[a].size || a - b)) {
      if (best && ++steps > kMostSteps) return;
      chosen.add(i);
      search(at + 1);
      chosen.delete(i);
    }
  };
  search(0);
  return best.sort((a, b) => a - b);
}

/**
 * The smallest set of parts such that bad paths lead over one, and no path that works leads over
 * any, as mrc_probe finds it: {parts: [{name, alike, count}], rest, tried}. `alike`: others that
 * explain the same; `count`: paths over it; `rest`: bad paths of which all parts work on others;
 * `tried`: paths that say something.
 */
export function explain(paths) {
  const around = surroundings(paths);
  const witnesses = paths.filter(path => isWitness(path, around));
  const works = new Set(witnesses.filter(path => path.state !== 'bad')
                                 .flatMap(path => causesOf(path).map(part => part.name)));
  const causes = new Map();  // {name, rank, paths}, by name
  let rest = 0;
  for (const path of witnesses.filter(witness => witness.state === 'bad')) {
    const suspect = causesOf(path).filter(part => !works.has(part.name));
    rest += suspect.length === 0;
    for (const part of suspect) {
      const known = causes.get(part.name) ??
          {name: part.name, rank: rankOf(part), paths: new Set()};
      causes.set(part.name, known);
      known.paths.add(path);
    }
  }
  const byRank = [...causes.values()].sort((a, b) =>
      a.rank - b.rank || a.name.localeCompare(b.name, 'en', {numeric: true}));
  const same = (a, b) => a.size === b.size && [...a].every(path => b.has(path));
  const firsts = byRank.filter((cause, i) =>
      byRank.findIndex(other => same(other.paths, cause.paths)) === i);
  const parts = smallestCover(firsts.map(cause => cause.paths)).map(i => firsts[i]).map(cause => ({
    name: cause.name, count: cause.paths.size,
    alike: byRank.filter(other => other !== cause && other.rank < 4 &&
                                  same(other.paths, cause.paths)).map(other => other.name),
  }));
  return {parts, rest, tried: witnesses.length};
}

export const shown = parts => parts.slice(0, kMostShown);

/** How much goes over each stop of a path: {bad, all} by name. */
export function countsAt(stops, paths) {
  const counts = new Map(stops.map(stop => [stop, {bad: 0, all: 0}]));
  for (const path of paths) {
    if (path.packets === 0 && path.state !== 'bad') continue;
    for (const stop of path.stops) {
      const at = counts.get(stop);
      if (!at) continue;
      ++at.all;
      at.bad += path.state === 'bad';
    }
  }
  return counts;
}
