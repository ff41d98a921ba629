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

/** Whether the path says something of the fabric: it was used, and both ends answer. */
function isWitness(path, silentHosts) {
  if (path.packets === 0 && path.state !== 'bad') return false;
  if (path.state === 'denied' || path.state === 'off') return false;
  return path.peer.device.up && !silentHosts.has(path.peer.to);
}

/**
 * Parts with bad paths, the worst first: {name, kind, bad, all, hosts}. A process that is stopped
 * looks to others like paths that are bad, so those to its host don't count.
 */
export function suspects(paths) {
  const parts = new Map();
  const silentHosts = new Set(paths.filter(path => !path.peer.device.up && path.peer.from)
                                   .map(path => path.peer.from));
  for (const path of paths) {
    if (!isWitness(path, silentHosts)) continue;
    for (const part of partsOf(path)) {
      const known = parts.get(part.name) ?? {...part, bad: 0, all: 0, hosts: new Set()};
      parts.set(part.name, known);
      ++known.all;
      if (path.state !== 'bad') continue;
      ++known.bad;
      known.hosts.add(path.peer.from || path.peer.device.host.name);
    }
  }
  const rank = {switch: 0, link: 1, plane: 2};
  return [...parts.values()].filter(part => part.bad > 0).sort((a, b) =>
      b.bad / b.all - a.bad / a.all || b.bad - a.bad || rank[a.kind] - rank[b.kind] ||
      a.name.localeCompare(b.name, 'en', {numeric: true}));
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
