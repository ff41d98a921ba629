// SPDX-License-Identifier: Apache-2.0
// The map of a peer's paths: a row for each plane, a cell for each path.

import {el, keyed, setAttribute, setText, share, time} from '/dom.js';
import {kStates} from '/model.js';

/** What fills a cell, 0 to 1; null: only its state. And in words. */
const kMeasures = {
  health: () => [null, ''],
  loss: path => [path.sent > 0 ? Math.min(1, Math.sqrt(path.loss)) : null,
                 `loss ${share(path.loss)}`],
  rtt: (path, scale) => [path.rtt_ns > 0 && path.state !== 'backup' ? path.rtt_ns / scale : null,
                         `round trip ${time(path.rtt_ns)}`],
  load: path => [path.state === 'backup' && path.load === 0 ? null : path.load,
                 `load ${share(path.load)} of the busiest`],
};

function pathName(path) {
  const t1 = path.stops.find(stop => /t1-\d+$/.test(stop));
  return `plane ${path.plane}, EV 0x${path.ev.toString(16)}${t1 ? `, over ${t1}` : ''}`;
}

function updateCell(cell, path, measure, scale) {
  const [value, words] = kMeasures[measure](path, scale);
  const state = kStates[path.state];
  const filled = value !== null && path.state !== 'bad' && path.state !== 'denied';
  setAttribute(cell, 'class',
               `cell ${path.state}${filled ? ' filled' : ''}${path.begins ? ' begins' : ''}`);
  setText(cell, filled ? '' : state.glyph);
  cell.style.setProperty('--fill', filled ? value.toFixed(3) : '0');
  const label = `${pathName(path)}: ${state.word}${words ? `, ${words}` : ''}`;
  setAttribute(cell, 'aria-label', label);
  setAttribute(cell, 'title', label);
  setAttribute(cell, 'data-state', path.state);
  setAttribute(cell, 'data-plane', String(path.plane));
  setAttribute(cell, 'data-ev', String(path.ev));
  setAttribute(cell, 'data-route', path.stops.join(' '));
  cell.path = path;
}

/** Arrows move along rows and columns. */
function move(event) {
  const step = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
  const by = step[event.key];
  if (!by || !event.target.classList.contains('cell')) return;
  const rows = [...event.currentTarget.querySelectorAll('.cells')];
  const row = rows.indexOf(event.target.parentElement);
  const column = [...rows[row].children].indexOf(event.target);
  const cells = rows[row + by[0]]?.children ?? [];
  const next = cells[Math.min(column + by[1], cells.length - 1)] ?? null;
  if (!next) return;
  event.preventDefault();
  take(event.currentTarget, next);
  next.focus();
}

/** Tab leads to one cell of a map; arrows to the others. */
function take(map, cell) {
  for (const other of map.querySelectorAll('.cell[tabindex="0"]')) other.tabIndex = -1;
  cell.tabIndex = 0;
}

export function createMap(onPath) {
  const map = el('div', {class: 'map', role: 'group'});
  map.addEventListener('keydown', move);
  map.addEventListener('click', event => {
    const cell = event.target.closest('.cell');
    if (!cell) return;
    take(map, cell);
    onPath(cell.path);
  });
  return map;
}

export function updateMap(map, peer, measure) {
  setAttribute(map, 'aria-label', `Paths to ${peer.name}`);
  const planes = Map.groupBy ? Map.groupBy(peer.paths, path => path.plane) : grouped(peer.paths);
  const used = peer.paths.filter(path => path.state !== 'backup' && path.state !== 'bad');
  const scale = Math.max(1, ...used.map(path => path.rtt_ns));
  // A second EV of the same route (docs/fabric.md) differs in its upper half.
  for (const paths of planes.values())
    paths.forEach((path, i) => {
      path.begins = i > 0 && path.ev >>> 16 !== paths[i - 1].ev >>> 16;
    });
  keyed(map, [...planes], ([plane]) => plane,
        ([plane]) => el('div', {class: 'row'}, el('span', {class: 'plane'}, `plane ${plane}`),
                        el('div', {class: 'cells'})),
        (row, [, paths]) =>
            keyed(row.lastElementChild, paths, path => path.key,
                  () => el('button', {type: 'button', class: 'cell', tabindex: '-1'}),
                  (cell, path) => updateCell(cell, path, measure, scale)));
  const first = map.querySelector('.cell');
  if (first && !map.querySelector('.cell[tabindex="0"]')) take(map, first);
}

function grouped(paths) {
  const planes = new Map();
  for (const path of paths) planes.set(path.plane, [...planes.get(path.plane) ?? [], path]);
  return planes;
}
