// SPDX-License-Identifier: Apache-2.0
// A device: throughput, planes, the map of paths to each peer.

import {bitRate, clock, el, keyed, setAttribute, setText, time} from '/dom.js';
import {createLines, totalRates, updateLines} from '/lines.js';
import {createMap, updateMap} from '/map.js';
import {changePlane} from '/steer.js';

const kOpenPeers = 12;  // so many peers on the page: all maps are open; else those with bad paths

function createPlane() {
  return el('tr', {}, el('th', {scope: 'row'}), el('td'), el('td', {class: 'chart'},
            createLines(160, 26)), el('td', {class: 'number'}), el('td', {class: 'number'}),
            el('td', {class: 'address'}), el('td'));
}

function planeState(plane) {
  if (!plane.device.up) return ['unknown', '? unknown'];
  if (!plane.enabled) return ['off', '– out of use'];
  return plane.up ? ['good', '✓ up'] : ['bad', '▼ down'];
}

function updatePlane(row, plane, most) {
  const [number, state, chart, sent, received, address, action] = row.children;
  const [kind, words] = planeState(plane);
  setText(number, String(plane.number));
  setText(state, words);
  setAttribute(state, 'class', `state ${kind}`);
  updateLines(chart.firstElementChild, plane.rates, most);
  setText(sent, bitRate(plane.tx));
  setText(received, bitRate(plane.rx));
  setText(address, plane.address);
  updateAction(action, plane);
}

function updateAction(cell, plane) {
  cell.hidden = !plane.device.host.steer;
  if (cell.hidden) return;
  let button = cell.firstElementChild;
  if (!button) {
    cell.append(button = el('button', {type: 'button', onclick: () => changePlane(button.plane)}));
  }
  button.plane = plane;
  setText(button, plane.enabled ? 'Take out of use' : 'Use again');
  setAttribute(button, 'aria-label', `${button.textContent}: plane ${plane.number}`);
}

function createPeer(onPath) {
  return el('details', {class: 'peer'}, el('summary'), createMap(onPath));
}

function updatePeer(element, peer, measure, peers) {
  const [summary, map] = element.children;
  const rtt = peer.rtt > 0 ? `, round trip ${time(peer.rtt)}` : '';
  const bad = peer.bad > 0 ? `, ${peer.bad} bad` : '';
  const says = peer.device.up ? `${peer.up} paths can carry data${bad}${rtt}` : 'unknown';
  setText(summary, `to ${peer.name}: ${says}`);
  setAttribute(element, 'data-peer', peer.name);
  if (!element.touched && !element.open && (peers <= kOpenPeers || peer.bad > 0)) {
    element.open = true;
    summary.addEventListener('click', () => { element.touched = true; });
  }
  if (element.open) updateMap(map, peer, measure);
}

export function createDevice(onPath) {
  const device = el('section', {class: 'device'},
      el('h3', {}, el('span', {class: 'program'}), el('span', {class: 'note'})),
      el('div', {class: 'total'}, createLines(480, 72),
         el('p', {}, el('span', {class: 'tx'}), el('span', {class: 'rx'}))),
      el('div', {class: 'maps'}),
      el('details', {class: 'planes'}, el('summary', {}, 'Planes'),
         el('div', {class: 'scroll'}, el('table', {}, el('thead', {}, el('tr', {},
            ...['Plane', 'State', 'Last minute', 'Sends', 'Receives', 'Address', ''].map(
                head => el('th', {scope: 'col'}, head)))), el('tbody')))));
  device.onPath = onPath;
  return device;
}

export function updateDevice(element, device, measure, peers) {
  const [title, total, maps, planes] = element.children;
  setText(title.children[0], `${device.program} `);
  setText(title.children[1], `pid ${device.pid}, ${device.queuePairs} queue pair` +
                             (device.queuePairs === 1 ? '' : 's'));
  setAttribute(element, 'class', device.up ? 'device' : 'device silent');
  setAttribute(element, 'data-pid', String(device.pid));
  const rates = totalRates(device.planes);
  const most = Math.max(...rates.flat(), 1);
  updateLines(total.children[0], rates, most);
  const [tx, rx] = total.children[1].children;
  const last = device.seen > 0 ? `; what it said at ${clock(device.seen)} may be out of date` : '';
  setText(tx, device.up ? `sends ${bitRate(device.tx)}` : `✕ ${device.problem}${last}`);
  setText(rx, device.up ? `receives ${bitRate(device.rx)}` : '');
  keyed(maps, device.peers, peer => peer.key, () => createPeer(element.onPath),
        (child, peer) => updatePeer(child, peer, measure, peers));
  const off = device.planes.filter(plane => !plane.up || !plane.enabled).length;
  const state = !device.up ? ', state unknown' : off > 0 ? `, ${off} down or out of use` : '';
  setText(planes.firstElementChild, `${device.planes.length} planes${state}`);
  const busiest = Math.max(1, ...device.planes.flatMap(plane => plane.rates.flat()));
  keyed(planes.querySelector('tbody'), device.planes, plane => plane.key, createPlane,
        (row, plane) => updatePlane(row, plane, busiest));
}
