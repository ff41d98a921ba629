// SPDX-License-Identifier: Apache-2.0
// Throughput over time: sent as a solid line over an area, received as a dashed one.

import {bitRate, setAttribute, svg} from '/dom.js';

const kSamples = 60;

function points(values, most, width, height) {
  return values.map((value, i) => {
    const x = width - (values.length - 1 - i) * width / (kSamples - 1);
    return `${x.toFixed(1)},${(height - 1 - value / most * (height - 2)).toFixed(1)}`;
  });
}

export function createLines(width, height) {
  return svg('svg', {class: 'lines', viewBox: `0 0 ${width} ${height}`, role: 'img',
                     preserveAspectRatio: 'none'},
             svg('polygon', {class: 'area'}), svg('polyline', {class: 'sent'}),
             svg('polyline', {class: 'received'}));
}

/** `rates`: [[sent, received], ..] in bits per second. */
export function updateLines(element, rates, most) {
  const [, , width, height] = element.getAttribute('viewBox').split(' ').map(Number);
  const [area, sent, received] = element.children;
  const top = most > 0 ? most : 1;
  const up = points(rates.map(r => r[0]), top, width, height);
  setAttribute(sent, 'points', up.join(' '));
  const start = up.length ? up[0].split(',')[0] : width;
  setAttribute(area, 'points', up.length ? `${start},${height} ${up.join(' ')} ${width},${height}`
                                         : '');
  setAttribute(received, 'points', points(rates.map(r => r[1]), top, width, height).join(' '));
  const [tx, rx] = rates.at(-1) ?? [0, 0];
  setAttribute(element, 'aria-label', `sends ${bitRate(tx)}, receives ${bitRate(rx)}`);
}

/** Sums of the planes' rates. */
export function totalRates(planes) {
  const most = Math.max(0, ...planes.map(plane => plane.rates.length));
  const total = Array.from({length: most}, () => [0, 0]);
  for (const {rates} of planes)
    rates.forEach(([tx, rx], i) => {
      total[most - rates.length + i][0] += tx;
      total[most - rates.length + i][1] += rx;
    });
  return total;
}
