// SPDX-License-Identifier: Apache-2.0
// Elements and texts. Data becomes text nodes and attributes, never markup.

const kSvg = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'onclick') element.addEventListener('click', value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** An element with attributes, and children that are elements or texts. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(kSvg, tag), attributes, children);
}

/** Sets a text, if it is another one. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/**
 * Makes the children of a container those of a list, in its order: keeps those that it has, by key,
 * so that the keyboard's focus stays where it is.
 */
export function keyed(container, items, keyOf, create, update) {
  const known = container.keyed ?? (container.keyed = new Map());
  const seen = new Set();
  let next = container.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    if (seen.has(key)) continue;
    seen.add(key);
    let child = known.get(key);
    if (!child) known.set(key, child = create(item));
    if (child === next) next = next.nextElementSibling;
    else container.insertBefore(child, next);
    update(child, item);
  }
  for (const [key, child] of known) {
    if (seen.has(key)) continue;
    known.delete(key);
    child.remove();
  }
}

function scaled(value, units, base) {
  let i = 0;
  while (value >= base && i + 1 < units.length) {
    value /= base;
    ++i;
  }
  const digits = i === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[i]}`.trim();
}

export const bitRate = bits => scaled(bits, ['b/s', 'kb/s', 'Mb/s', 'Gb/s', 'Tb/s'], 1000);
export const bytes = n => scaled(n, ['B', 'kB', 'MB', 'GB', 'TB', 'PB'], 1000);
export const count = n => n.toLocaleString('en');
export const hex = n => '0x' + n.toString(16);

export function share(part) {
  if (part === 0) return '0 %';
  return part < 0.0001 ? '< 0.01 %' : `${(part * 100).toFixed(part < 0.1 ? 2 : 0)} %`;
}

export function time(ns) {
  if (ns === 0) return 'unknown';
  return ns < 1e6 ? `${(ns / 1e3).toFixed(ns < 1e4 ? 1 : 0)} µs` : `${(ns / 1e6).toFixed(1)} ms`;
}

export function clock(seconds) {
  const at = new Date(seconds * 1000);
  return Number.isNaN(at.getTime()) ? '' : at.toLocaleTimeString('en-GB');
}
