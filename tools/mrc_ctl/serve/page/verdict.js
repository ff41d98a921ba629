// SPDX-License-Identifier: Apache-2.0
// What all hosts say, in one sentence or some.

import {clock} from './dom.js';
import {explain} from './fabric.js';

const kMostNamed = 4;

export function plural(n, word) { return `${n} ${word}${n === 1 ? '' : 's'}`; }

function listOf(names) {
  const some = names.slice(0, kMostNamed).join(', ');
  return names.length > kMostNamed ? `${some} and ${names.length - kMostNamed} more` : some;
}

/** Where a plane is in a state, of all places where devices that answer have it. */
function placeOf(those, all) {
  const hosts = devices => [...new Set(devices.map(device => device.hostName))].sort();
  const total = hosts(all).length;
  if (those.length === all.length) return total > 1 ? ` at all ${total} hosts` : '';
  const names = hosts(those);
  const whole = all.filter(device => names.includes(device.hostName)).length === those.length;
  return whole ? ` at ${listOf(names)}` : ` in ${plural(those.length, 'device')} of ${listOf(names)}`;
}

function planeSentences(devices) {
  const planes = new Map();  // numbers by what is said of them
  const most = Math.max(0, ...devices.map(device => device.planes.length));
  for (let number = 0; number < most; ++number) {
    const all = devices.filter(device => number < device.planes.length);
    for (const [word, isSo] of [['down', plane => plane.enabled && !plane.up],
                                ['out of use', plane => !plane.enabled]]) {
      const those = all.filter(device => isSo(device.planes[number]));
      if (those.length === 0) continue;
      const where = `${word}${placeOf(those, all)}`;
      planes.set(where, [...planes.get(where) ?? [], number]);
    }
  }
  return [...planes].map(([where, numbers]) => numbers.length === 1
      ? `Plane ${numbers[0]} is ${where}.` : `Planes ${numbers.join(', ')} are ${where}.`);
}

function partSentence({name, alike, count}) {
  const others = alike.length > 0 ? ` (or ${listOf(alike)})` : '';
  const paths = count === 1 ? 'the only path' : `all ${count} paths`;
  return `${name}${others} looks dead: ${paths} over it ${count === 1 ? 'is' : 'are'} bad.`;
}

function silentSentences(devices) {
  if (devices.length > 1) return [`${devices.length} devices do not answer.`];
  return devices.map(({program, pid, hostName, seen}) => `${program} (pid ${pid}) on ${hostName} ` +
      `does not answer${seen > 0 ? ` since ${clock(seen)}` : ''}.`);
}

/** ['good', 'bad' or 'idle', text]. What devices that do not answer said before counts for nothing. */
export function verdictOf(model) {
  const answer = model.devices.filter(device => device.up);
  const {parts, rest, tried} = explain(model.paths);
  const silent = model.hosts.filter(host => host.problem).length;
  const sentences = [
    ...planeSentences(answer),
    ...parts.map(partSentence),
    ...model.slow.filter(part => part.what).slice(0, 1).map(part => `${part.what} is slow.`),
    ...(rest > 0 ? [`${plural(rest, 'path')} of ${tried} bad.`] : []),
    ...silentSentences(model.devices.filter(device => !device.up)),
    ...(silent > 0 ? [`${plural(silent, 'host')} can't be reached.`] : []),
  ];
  if (sentences.length > 0) return ['bad', sentences.join(' ')];
  if (model.devices.length === 0) return ['idle', 'No device is open.'];
  const used = model.paths.filter(path => path.state !== 'backup').length;
  return ['good', `All ${used} paths of ${plural(model.devices.length, 'device')} are fine.`];
}
