// Elements made of nodes, never of markup, and numbers for people.

const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]/gu;

/** Nodes of a text in which controls and marks of direction are shown as their codes, so that they do nothing. */
function textNodes(text) {
  const nodes = [];
  let last = 0;
  for (const found of text.matchAll(CONTROLS)) {
    if (found.index > last) nodes.push(document.createTextNode(text.slice(last, found.index)));
    const code = document.createElement('span');
    code.className = 'control';
    code.textContent = `U+${found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
    nodes.push(code);
    last = found.index + found[0].length;
  }
  if (last < text.length) nodes.push(document.createTextNode(text.slice(last)));
  return nodes;
}

/** A text for an attribute, with its controls as codes. */
function plainText(text) {
  return String(text).replace(CONTROLS, (c) => `<U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}>`);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'style') for (const [key, to] of Object.entries(value)) element.style.setProperty(key, to);
    else element.setAttribute(name, value === true ? '' : plainText(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(...(child instanceof Node ? [child] : textNodes(String(child))));
  }
}

/** An HTML element: h('p', {class: 'x', onclick: f}, 'text', node, [more]). */
function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same in SVG. */
function svg(tag, attributes, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

const isNumber = Number.isFinite;

/** What is no number is a dash. */
const show = {
  percent: (x) => (isNumber(x) ? `${(100 * x).toFixed(1)} %` : '–'),
  number: (x) => {
    if (!isNumber(x)) return '–';
    const size = Math.abs(x);
    if (size && (size < 0.001 || size >= 1e6)) return x.toExponential(1);
    return String(Number(x.toPrecision(size >= 100 ? 4 : 3)));
  },
  signed: (x) => {
    if (!isNumber(x)) return '–';
    const size = Math.abs(x), digits = size.toFixed(size && size < 0.1 ? 3 : 2);
    return `${Number(digits) ? (x > 0 ? '+' : '−') : ''}${digits}`;
  },
  usd: (x) => {
    if (!isNumber(x)) return '–';
    if (x === 0) return '$0';
    return `$${x >= 1 ? x.toFixed(2) : x.toFixed(1 - Math.floor(Math.log10(x)))}`;
  },
  ms: (x) => {
    if (!isNumber(x)) return '–';
    if (x < 1) return '<1 ms';
    return x < 1000 ? `${Math.round(x)} ms` : x < 120000 ? `${(x / 1000).toFixed(1)} s` : `${(x / 60000).toFixed(1)} min`;
  },
  count: (x) => Number(x).toLocaleString('en-US'),
};
show.share = show.percent;
show.nats = show.number;
show[''] = show.number;

/** A long text in a box of its own, behind a button where it is very long. */
function longText(text, label) {
  const most = 1600;
  const value = typeof text === 'string' ? text : JSON.stringify(text, null, 1);
  if (!value) return h('p', {class: 'nothing'}, 'empty');
  const box = h('pre', {class: 'text', dir: 'auto', tabindex: 0, role: 'region', 'aria-label': label ?? 'text'}, value.slice(0, most));
  if (value.length <= most) return box;
  const more = h('button', {type: 'button', class: 'quiet', onclick: () => { box.replaceChildren(...textNodes(value)); more.remove(); }},
    `Show all ${show.count(value.length)} characters`);
  return h('div', {}, box, more);
}

/** Name and value in pairs; pairs without a value are left out. */
function facts(pairs, className) {
  const given = pairs.filter(([, value]) => value !== null && value !== undefined && value !== '');
  return h('dl', {class: `facts ${className ?? ''}`}, given.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));
}

function section(title, lead, ...children) {
  return h('section', {class: 'card'}, h('h2', {}, title), lead && h('p', {class: 'lead'}, lead), ...children);
}

function table(columns, rows, caption) {
  return h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption},
    h('table', {}, h('caption', {class: 'hidden'}, caption),
      h('thead', {}, h('tr', {}, columns.map((c) => h('th', {scope: 'col', class: c.numeric && 'numeric'}, c.title)))),
      h('tbody', {}, rows.map((row) => h('tr', {class: row.className}, row.cells.map((cell, i) =>
        h(i ? 'td' : 'th', {scope: i ? null : 'row', class: columns[i].numeric && 'numeric'}, cell)))))));
}
