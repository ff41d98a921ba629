// SPDX-License-Identifier: Apache-2.0
// One path: what it has carried, and its way through the fabric.

import {bytes, count, el, hex, setText, share, time} from '/dom.js';
import {countsAt} from '/fabric.js';
import {kStates} from '/model.js';

const dialog = document.getElementById('detail');
let shownKey = null;

function way(path, model) {
  if (path.stops.length === 0)
    return el('p', {class: 'note'}, model.hosts.some(host => host.fabric)
        ? 'The description of the fabric does not have this path.'
        : 'Its route is shown if mrc_ctl serve gets the description of the fabric: --fabric FILE.');
  const counts = countsAt(path.stops, model.paths);
  return el('ol', {class: 'way', 'aria-label': 'Route'}, ...path.stops.map((stop, i) => {
    const {bad, all} = counts.get(stop);
    const isEnd = i === 0 || i + 1 === path.stops.length;
    const suspect = !isEnd && all > 0 && bad === all;
    return el('li', {class: isEnd ? 'end' : suspect ? 'stop suspect' : 'stop'},
              el('strong', {}, stop === '?' ? 'chosen by hash' : stop),
              el('span', {}, isEnd || stop === '?' ? (isEnd ? 'host' : '')
                                                   : `${bad} of ${all} paths bad`));
  }));
}

function table(path) {
  const rows = [
    ['Packets sent', count(path.packets)], ['Payload', bytes(path.bytes)],
    ['Reported received', count(path.delivered ?? 0)],
    ['Taken for lost', count(path.losses)], ['Trimmed by switches', count(path.trims)],
    ['Congestion marks', count(path.marks ?? 0)], ['Timeouts', count(path.timeouts ?? 0)],
    ['Probes, answered', `${count(path.probes_sent ?? 0)}, ${count(path.probes_answered ?? 0)}`],
    ['Times bad', count(path.times_bad ?? 0)], ['Loss in the last 10 s', share(path.loss)],
    ['Round trip', path.rtt_ns > 0 ? time(path.rtt_ns) : `${time(path.peer.rtt)} (of the peer)`],
  ];
  return el('table', {class: 'values'}, el('tbody', {}, ...rows.map(
      ([name, value]) => el('tr', {}, el('th', {scope: 'row'}, name), el('td', {}, value)))));
}

function render(path, model) {
  const {device} = path.peer;
  setText(document.getElementById('detail-title'), `Path ${hex(path.ev)}, plane ${path.plane}`);
  const state = kStates[path.state];
  document.getElementById('detail-body').replaceChildren(
      el('p', {},
         `${device.program} (pid ${device.pid}) on ${device.host.name} to ${path.peer.name}`),
      el('p', {class: `sentence ${path.state}`},
         el('span', {class: `cell ${path.state}`, 'aria-hidden': 'true'}, state.glyph),
         ` ${state.word}: ${state.meaning}`),
      way(path, model), table(path));
}

export function showPath(path, model) {
  shownKey = path.key;
  render(path, model);
  if (!dialog.open) dialog.showModal();
}

/** Keeps what is shown up to date. */
export function refreshDetail(model) {
  if (!dialog.open) return;
  const path = model.paths.find(candidate => candidate.key === shownKey);
  if (path) render(path, model);
}

dialog.addEventListener('click', event => {
  if (event.target === dialog) dialog.close();  // beside it
});
