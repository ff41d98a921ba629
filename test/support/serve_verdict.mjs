// SPDX-License-Identifier: Apache-2.0
// What the page of `mrc_ctl serve` says of made-up hosts, without a browser.
// usage: node serve_verdict.mjs FOLDER: that of the page's files
import assert from 'node:assert/strict';
import {pathToFileURL} from 'node:url';

const from = file => import(pathToFileURL(`${process.argv[2]}/${file}`));
const {Model} = await from('model.js');
const {verdictOf} = await from('verdict.js');
const {smallestCover, suspects} = await from('fabric.js');

const kFields = ['ev', 'plane', 'state', 'active', 'route', 'packets'];

/**
 * Hosts of a fabric, two under each T0, that have used a path over each T1 to each other host.
 * `alter(path)` changes {plane, t1, from, to, state, packets, active}; it has `backups` besides,
 * which were never tried.
 */
function fabric({planes = 4, t1 = 2, hosts = 4, backups = 0, alter = () => {}} = {}) {
  const t0 = host => Math.floor(host / 2);
  const peer = (a, b) => {
    const routes = [], rows = [];
    for (let plane = 0; plane < planes; ++plane)
      for (let i = 0; i < t1 + backups; ++i) {
        const local = t0(a) === t0(b);
        const path = {plane, t1: i % t1, from: `h${a}`, to: `h${b}`, state: 'good',
                      packets: i < t1 ? 100 : 0, active: i < t1};
        if (i < t1) alter(path);
        const up = [`h${a}`, `p${plane}t0-${t0(a)}`];
        routes.push(local ? [...up, `h${b}`]
                          : [...up, `p${plane}t1-${path.t1}`, `p${plane}t0-${t0(b)}`, `h${b}`]);
        rows.push([i + 1, plane, path.state, path.active, routes.length - 1, path.packets]);
      }
    return {number: b, from: `h${a}`, to: `h${b}`, addresses: `10.0.0.${b}:1`, routes, paths: rows};
  };
  return [...Array(hosts).keys()].map(a => ({
    at: `h${a}`, host: `h${a}`, time: 1, fabric: 'f', path_fields: kFields, devices: [{
      device: `d${a}`, pid: 100 + a, program: 'job', host: `h${a}`, up: true, seen: 1000,
      planes: [...Array(planes).keys()].map(() => ({address: 'x', up: true, enabled: true})),
      peers: [...Array(hosts).keys()].filter(b => b !== a).map(b => peer(a, b)),
    }],
  }));
}

function modelOf(hosts) {
  const model = new Model();
  model.take({hosts});
  return model;
}

const says = hosts => verdictOf(modelOf(hosts));
const bad = text => ['bad', text];
const over = (plane, t1) => path => {
  if (path.plane === plane && path.t1 === t1) path.state = 'assumed_bad';
};

// All is well; backups that were never tried count for nothing.
assert.deepEqual(says([]), ['idle', 'No device is open.']);
assert.deepEqual(says(fabric({backups: 2})), ['good', 'All 96 paths of 4 devices are fine.']);

// A T1, and two failures at once: the fewest parts that explain all.
const local = ({from: a, to: b}) => Math.floor(a.slice(1) / 2) === Math.floor(b.slice(1) / 2);
const t1Down = (plane, t1) => path => { if (!local(path)) over(plane, t1)(path); };
const dead = name => `${name} looks dead: all 8 paths over it are bad.`;
const alike = (plane, t1) => ` (or link p${plane}t0-0 – p${plane}t1-${t1}, ` +
    `link p${plane}t0-1 – p${plane}t1-${t1})`;
assert.deepEqual(says(fabric({alter: t1Down(1, 0)})), bad(dead(`p1t1-0${alike(1, 0)}`)));
assert.deepEqual(
    says(fabric({backups: 1, alter: path => { t1Down(1, 0)(path); t1Down(3, 1)(path); }})),
    bad(`${dead(`p1t1-0${alike(1, 0)}`)} ${dead(`p3t1-1${alike(3, 1)}`)}`));
// A link between T0 and T1 in a larger fabric: neither switch is dead.
const link = path => {
  if (path.plane === 2 && path.t1 === 1 && !local(path) && [path.from, path.to].some(
      host => ['h0', 'h1'].includes(host))) path.state = 'assumed_bad';
};
assert.deepEqual(says(fabric({hosts: 6, alter: link})),
                 bad('link p2t0-0 – p2t1-1 looks dead: all 16 paths over it are bad.'));
// A host's link in one plane, and all of its planes.
const port = (host, planes) => path => {
  if (planes.includes(path.plane) && [path.from, path.to].includes(host)) path.state = 'assumed_bad';
};
assert.deepEqual(says(fabric({alter: port('h3', [2])})),
                 bad('link h3 – p2t0-1 looks dead: all 12 paths over it are bad.'));
assert.deepEqual(says(fabric({alter: port('h3', [0, 1, 2, 3])})),
                 bad('host h3 looks dead: all 48 paths over it are bad.'));
// A plane of which every path is bad, while links are up.
assert.deepEqual(says(fabric({alter: path => { if (path.plane === 3) path.state = 'assumed_bad'; }})),
                 bad('plane 3 looks dead: all 24 paths over it are bad.'));
// Bad paths of which each part works elsewhere.
assert.deepEqual(says(fabric({hosts: 6, alter: path => {
  if (path.plane === 0 && path.t1 === 0 && path.from === 'h0' && path.to === 'h2')
    path.state = 'assumed_bad';
}})), bad('1 path of 240 bad.'));

// Planes that are down: said once, and paths in them prove nothing.
const off = (hosts, plane, which, change) => {
  for (const i of which) Object.assign(hosts[i].devices[0].planes[plane], change);
  return hosts;
};
const down = {up: false}, unused = {up: false, enabled: false};
const flapped = path => {
  if (path.plane === 3 && path.from === 'h0' && path.to === 'h1') path.state = 'assumed_bad';
};
assert.deepEqual(says(off(fabric({alter: flapped}), 3, [0, 1, 2, 3], down)),
                 bad('Plane 3 is down at all 4 hosts.'));
assert.deepEqual(suspects(modelOf(off(fabric({alter: flapped}), 3, [0, 1, 2, 3], down)).paths), []);
assert.deepEqual(says(off(fabric({alter: port('h1', [2])}), 2, [1], down)),
                 bad('Plane 2 is down at h1.'));
assert.deepEqual(says(off(off(fabric(), 1, [0, 1, 2, 3], unused), 2, [0, 1, 2, 3], unused)),
                 bad('Planes 1, 2 are out of use at all 4 hosts.'));
const two = fabric({hosts: 2});
two[0].devices.push({...two[0].devices[0], device: 'other', pid: 7});
two[0].devices[1].planes = two[0].devices[0].planes.map(plane => ({...plane}));
assert.deepEqual(says(off(two, 0, [0], unused)), bad('Plane 0 is out of use in 1 device of h0.'));

// A process that does not answer: nothing that it said before counts, and it is said since when.
const stopped = off(fabric({alter: port('h2', [0, 1])}), 1, [2], down);
stopped[2].devices[0].up = false;
const [state, text] = says(stopped);
assert.equal(state, 'bad');
assert.match(text, /^job \(pid 102\) on h2 does not answer since \d\d:\d\d:\d\d\.$/);
const model = modelOf(stopped);
assert.equal(model.hosts[2].devices[0].peers[0].bad, 0);
assert.ok(model.hosts[2].devices[0].peers.every(
    peer => peer.paths.every(path => path.state === 'unknown')));

// Without a description of the fabric: planes.
const plain = fabric({hosts: 2, alter: path => { if (path.plane === 1) path.state = 'assumed_bad'; }});
for (const host of plain)
  for (const peer of host.devices[0].peers) Object.assign(peer, {from: '', to: '', routes: []});
assert.deepEqual(says(plain), bad('plane 1 looks dead: all 4 paths over it are bad.'));

// Covers, against all that there are.
let seed = 1;
const random = below => (seed = (seed * 48271) % 2147483647) % below;
for (let round = 0; round < 300; ++round) {
  const sets = [...Array(1 + random(7))].map(
      () => new Set([...Array(1 + random(5))].map(() => random(8))));
  const all = new Set(sets.flatMap(set => [...set]));
  let fewest = sets.length;
  for (let mask = 0; mask < 1 << sets.length; ++mask) {
    const some = sets.filter((_, i) => mask >> i & 1);
    if (new Set(some.flatMap(set => [...set])).size === all.size)
      fewest = Math.min(fewest, some.length);
  }
  const found = smallestCover(sets);
  assert.equal(found.length, fewest);
  assert.equal(new Set(found.flatMap(i => [...sets[i]])).size, all.size);
}
console.log('ok');
