// SPDX-License-Identifier: Apache-2.0
// Asks for the state of all hosts once a second, and shows it.

import {refreshDetail, showPath} from '/detail.js';
import {createDevice, updateDevice} from '/device.js';
import {bitRate, clock, el, hex, keyed, setAttribute, setText} from '/dom.js';
import {shown, suspects} from '/fabric.js';
import {kStates, Model} from '/model.js';
import {plural, verdictOf} from '/verdict.js';

const kPeriod = 1000;      // ms
const kShownEvents = 60;
const byId = id => document.getElementById(id);
const model = new Model();
let measure = 'health';
let paused = false;

// ---- in one sentence

function updateVerdict() {
  const [state, sentence] = verdictOf(model);
  setAttribute(byId('verdict'), 'class', state);
  setText(byId('verdict').firstElementChild, sentence);
  const devices = model.devices;
  const total = way => devices.reduce((sum, device) => sum + device[way], 0);
  const note = devices.length === 0 ? '' :
      `${plural(model.hosts.length, 'host')}, ${plural(devices.length, 'device')}: ` +
      `sending ${bitRate(total('tx'))}, receiving ${bitRate(total('rx'))}`;
  let line = byId('verdict').children[1];
  if (!line) byId('verdict').append(line = el('p', {class: 'note'}));
  setText(line, note);
  document.title = state === 'bad' ? `✕ ${sentence} OpenMRC` : 'OpenMRC';
}

// ---- which part of the fabric

function createPart() {
  return el('tr', {}, el('th', {scope: 'row'}),
            el('td', {class: 'wide'}, el('div', {class: 'bar'}, el('span')),
               el('span', {class: 'of'})),
            el('td'));
}

function updatePart(row, part) {
  setText(row.children[0], part.name);
  const [bar, of] = row.children[1].children;
  bar.firstElementChild.style.setProperty('--fill', (part.bad / part.all).toFixed(3));
  setText(of, `${part.bad} of ${part.all}`);
  setText(row.children[2], [...part.hosts].sort().join(', '));
  setAttribute(row, 'class', part.bad === part.all ? 'dead' : '');
  setAttribute(row, 'data-part', part.name);
}

function updateSlow() {
  const slow = model.slow.filter(part => part.what);
  byId('slow').hidden = slow.length === 0;
  keyed(byId('slow').querySelector('tbody'), slow, part => part.what,
        () => el('tr', {}, el('th', {scope: 'row'}), el('td', {class: 'wide'}), el('td')),
        (row, part) => {
          setText(row.children[0], part.what);
          setText(row.children[1], part.detail + (part.alike.length === 0 ? '' :
              `; it may be ${part.alike.join(' or ')} as well`));
          setText(row.children[2], [...part.hosts].sort().join(', '));
          setAttribute(row, 'data-part', part.what);
        });
}

function updateFabric(parts) {
  byId('fabric').hidden = parts.length === 0;
  const known = model.hosts.some(host => host.fabric);
  setText(byId('fabric-note'), known
      ? 'Switches and links by the share of paths over them that are bad, over all hosts.'
      : 'Planes by their bad paths. With mrc_ctl serve --fabric FILE: switches and links.');
  keyed(byId('fabric').querySelector('tbody'), shown(parts), part => part.name, createPart,
        updatePart);
}

// ---- hosts

function createHost() {
  const host = el('article', {class: 'card host'}, el('h2'), el('p', {class: 'note'}), el('div'));
  return host;
}

function updateHost(element, host) {
  const [title, note, devices] = element.children;
  setText(title, host.name);
  const words = host.problem ? [`✕ ${host.at}: ${host.problem}`] : [];
  if (!host.problem && host.devices.length === 0) words.push('No device is open.');
  if (host.others > 0) words.push(`${plural(host.others, 'device')} of other users not shown.`);
  setText(note, words.join(' '));
  note.hidden = words.length === 0;
  setAttribute(element, 'class', `card host${host.problem ? ' silent' : ''}`);
  keyed(devices, host.devices, device => device.key, () => createDevice(onPath),
        (child, device) => updateDevice(child, device, measure, model.peers.length));
}

function onPath(path) { showPath(path, model); }

function updateChips() {
  keyed(byId('chips'), model.hosts, host => host.key, () => el('li'), (chip, host) => {
    const bad = host.devices.flatMap(d => d.peers).reduce((sum, peer) => sum + peer.bad, 0);
    const silent = host.devices.filter(device => !device.up).length;
    const words = [...(bad > 0 ? [`${bad} bad`] : []), ...(silent > 0 ? [`${silent} silent`] : [])];
    setText(chip, host.problem ? `✕ ${host.name}`
        : words.length > 0 ? `${host.name}: ${words.join(', ')}` : `✓ ${host.name}`);
    setAttribute(chip, 'class', host.problem || words.length > 0 ? 'bad' : 'good');
  });
}

// ---- events

const kEvents = {
  path_bad: ['bad', '✕', (e, way) => `path ${hex(e.ev)}${way} of plane ${e.plane} to ` +
                                     `${e.destination} is bad`],
  path_good: ['good', '✓', (e, way) => `path ${hex(e.ev)}${way} of plane ${e.plane} to ` +
                                       `${e.destination} is good again`],
  plane_down: ['bad', '▼', e => `plane ${e.plane} is down`],
  plane_up: ['good', '▲', e => `plane ${e.plane} is up`],
  qp_error: ['bad', '✕', e => `queue pair ${e.qpn} failed: ${e.cause}`],
};

function deviceOf(event) {
  return event.host.devices.find(candidate => candidate.id === event.device);
}

function hostOf(event) { return deviceOf(event)?.hostName ?? event.host.name; }

/** " over p1t1-2", where the route of an event's path is known. */
function wayOf(event, fields) {
  if (fields.over) return ` over ${fields.over}`;
  const device = deviceOf(event);
  for (const peer of device?.peers ?? []) {
    const path = peer.paths.find(p => p.ev === fields.ev && p.plane === fields.plane);
    const t1 = path?.stops.find(stop => /t1-\d+$/.test(stop));
    if (t1) return ` over ${t1}`;
  }
  return '';
}

function eventText(event) {
  const fields = {};
  for (const [name, value] of Object.entries(event.raw))
    if (typeof value === 'number' || typeof value === 'string') fields[name] = value;
  for (const name of ['ev', 'qpn']) fields[name] = Number(fields[name] ?? 0);
  const [state, glyph, text] = kEvents[event.kind] ?? ['idle', '•', () => event.kind];
  return [state, glyph, text(fields, wayOf(event, fields))];
}

function updateEvents() {
  const list = byId('events').querySelector('ol');
  keyed(list, model.events.slice(0, kShownEvents), event => event.key, event => {
    const [state, glyph, text] = eventText(event);
    return el('li', {class: state}, el('time', {}, clock(event.time)),
              el('span', {class: 'glyph', 'aria-hidden': 'true'}, glyph), el('span', {}, text),
              el('span', {class: 'note'},
                 `${event.program} (pid ${event.pid}) on ${hostOf(event)}`));
  }, () => {});
  setAttribute(byId('events'), 'class', model.events.length ? 'card' : 'card empty');
}

// ---- all of it

function render() {
  const parts = suspects(model.paths);
  updateVerdict();
  updateFabric(parts);
  updateSlow();
  updateChips();
  keyed(byId('hosts'), model.hosts, host => host.key, createHost, updateHost);
  updateEvents();
  refreshDetail(model);
}

async function round() {
  if (paused) return;
  try {
    const answer = await fetch('/api/hosts', {cache: 'no-store'});
    if (!answer.ok) throw new Error(`HTTP status ${answer.status}`);
    model.take(await answer.json());
    render();
    document.body.classList.remove('lost');
    document.body.dataset.rounds = String(Number(document.body.dataset.rounds ?? 0) + 1);
  } catch (error) {
    document.body.classList.add('lost');
    setAttribute(byId('verdict'), 'class', 'bad');
    setText(byId('verdict').firstElementChild, `mrc_ctl serve does not answer: ${error.message}`);
  }
}

async function run() {
  const begin = performance.now();
  if (document.visibilityState === 'visible') await round();
  setTimeout(run, Math.max(100, kPeriod - (performance.now() - begin)));
}

byId('measures').addEventListener('change', event => {
  measure = event.target.value;
  render();
});
byId('pause').addEventListener('click', () => {
  paused = !paused;
  setAttribute(byId('pause'), 'aria-pressed', String(paused));
  setText(byId('pause'), paused ? 'Go on' : 'Pause');
});
for (const [state, {glyph, word, meaning}] of Object.entries(kStates))
  byId('legend').append(el('li', {title: meaning},
      el('span', {class: `cell ${state}`, 'aria-hidden': 'true'}, glyph), ` ${word}`));
run();
