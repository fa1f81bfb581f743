// Plots in SVG: axes with round numbers, lines, points with intervals.

const PALETTE = ['var(--series-1)', 'var(--series-2)', 'var(--series-3)', 'var(--series-4)', 'var(--series-5)', 'var(--series-6)'];

function ticks(low, high, most) {
  const rough = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const first = Math.ceil(low / step), count = Math.floor((high - first * step) / step + 1e-6) + 1;
  return Array.from({length: Math.max(count, 0)}, (_, i) => (first + i) * step);
}

function decades(low, high) {
  const found = [];
  for (let p = Math.ceil(Math.log10(low) - 1e-9); 10 ** p <= high * 1.000001; p += 1) found.push(10 ** p);
  return found;
}

/** A frame with axes; gives the SVG and the functions from values to places. */
function frame({width, height, x, y, label, xTitle, xLog, xWhole, xShow, yShow}) {
  const edge = {left: 54, right: 14, top: 12, bottom: xTitle ? 42 : 26};
  const place = xLog ? (v) => Math.log10(v) : (v) => v;
  const [x0, x1] = [place(x[0]), place(x[1])];
  const toX = (v) => edge.left + ((place(v) - x0) / (x1 - x0 || 1)) * (width - edge.left - edge.right);
  const toY = (v) => height - edge.bottom - ((v - y[0]) / (y[1] - y[0] || 1)) * (height - edge.top - edge.bottom);
  const image = svg('svg', {viewBox: `0 0 ${width} ${height}`, class: 'plot', role: 'img', 'aria-label': label});
  const across = ticks(y[0], y[1], 5), apart = across.length > 1 ? across[1] - across[0] : 1;
  for (const at of across) {
    image.append(svg('line', {class: 'grid', x1: edge.left, x2: width - edge.right, y1: toY(at), y2: toY(at)}),
      svg('text', {class: 'tick', x: edge.left - 8, y: toY(at) + 4, 'text-anchor': 'end'}, yShow(at, apart)));
  }
  for (const at of xLog ? decades(x[0], x[1]) : ticks(x[0], x[1], 6).filter((v) => !xWhole || Number.isInteger(v))) {
    image.append(svg('line', {class: 'tickmark', x1: toX(at), x2: toX(at), y1: height - edge.bottom, y2: height - edge.bottom + 4}),
      svg('text', {class: 'tick', x: toX(at), y: height - edge.bottom + 17, 'text-anchor': 'middle'}, xShow(at)));
  }
  image.append(svg('line', {class: 'axis', x1: edge.left, x2: width - edge.right, y1: height - edge.bottom, y2: height - edge.bottom}));
  if (xTitle) image.append(svg('text', {class: 'title', x: (edge.left + width - edge.right) / 2, y: height - 6, 'text-anchor': 'middle'}, xTitle));
  return {image, toX, toY, edge, width, height};
}

/** A share in as many digits as tell neighboring ticks apart. */
const shareTick = (share, apart) => `${(100 * share).toFixed(Math.max(Math.ceil(-Math.log10(100 * apart) - 1e-9), 0))} %`;

const pathOf = (points) => points.map(([px, py], i) => `${i ? 'L' : 'M'}${px.toFixed(1)},${py.toFixed(1)}`).join('');

/** Lines over updates, with the values beneath the pointer, and the bounds at which training stops. */
function lineChart({series, guards, along, label, format}) {
  const all = series.flatMap((s) => s.points);
  const xs = all.map((p) => p[0]), ys = [...all.map((p) => p[1]), ...guards.map((g) => g.value)];
  let [low, high] = [Math.min(...ys), Math.max(...ys)];
  const air = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
  low = low >= 0 && low < high / 3 ? 0 : low - air;
  const plot = frame({width: 420, height: 210, x: [Math.min(...xs), Math.max(...xs)], y: [low, format === show.share && high <= 1 ? Math.min(high + air, 1) : high + air],
    label, xWhole: true, xShow: show.number, yShow: format === show.share ? shareTick : format});
  for (const guard of guards) {
    const at = plot.toY(guard.value);
    plot.image.append(svg('line', {class: 'guard', x1: plot.edge.left, x2: plot.width - plot.edge.right, y1: at, y2: at}),
      svg('text', {class: 'guard-label', x: plot.width - plot.edge.right, y: at - 5, 'text-anchor': 'end'}, guard.label));
  }
  for (const line of series) {
    const points = line.points.map(([x, y]) => [plot.toX(x), plot.toY(y)]);
    plot.image.append(svg('path', {class: `line ${line.dash}`, d: pathOf(points), style: {stroke: line.color}}));
    if (points.length < 25) plot.image.append(...points.map(([x, y]) => svg('circle', {class: 'dot', cx: x, cy: y, r: 2.5, style: {fill: line.color}})));
  }
  const rule = svg('line', {class: 'rule', y1: plot.edge.top, y2: plot.height - plot.edge.bottom, visibility: 'hidden'});
  plot.image.append(rule);
  const readings = series.map(() => h('b', {}));
  const legend = h('ul', {class: 'legend'}, series.map((line, i) => h('li', {},
    h('span', {class: `key ${line.dash}`, style: {'--color': line.color}}), line.label, ' ', readings[i])));
  const read = (x) => series.forEach((line, i) => {
    const near = line.points.reduce((best, p) => (Math.abs(p[0] - x) < Math.abs(best[0] - x) ? p : best));
    readings[i].replaceChildren(format(near[1]));
  });
  const last = Math.max(...xs);
  read(last);
  plot.image.addEventListener('pointermove', (event) => {
    const box = plot.image.getBoundingClientRect();
    const inside = ((event.clientX - box.left) / box.width) * plot.width;
    const near = xs.reduce((best, x) => (Math.abs(plot.toX(x) - inside) < Math.abs(plot.toX(best) - inside) ? x : best));
    rule.setAttribute('x1', plot.toX(near));
    rule.setAttribute('x2', plot.toX(near));
    rule.setAttribute('visibility', 'visible');
    plot.image.setAttribute('data-at', near);
    read(near);
    at.replaceChildren(`${along} ${near}`);
  });
  plot.image.addEventListener('pointerleave', () => { rule.setAttribute('visibility', 'hidden'); read(last); at.replaceChildren(`${along} ${last}`); });
  const at = h('span', {class: 'at'}, `${along} ${last}`);
  return h('div', {class: 'chart'}, plot.image, h('div', {class: 'under'}, legend, at));
}

/** A bar from low to high with a tick at the mean, all shares of `most`. */
function intervalBar(mean, low, high, most, className) {
  const scale = 100 / (most || 1);
  return h('span', {class: `interval ${className ?? ''}`, 'aria-hidden': 'true'},
    h('span', {class: 'range', style: {left: `${low * scale}%`, width: `${Math.max((high - low) * scale, 0.6)}%`}}),
    h('span', {class: 'mean', style: {left: `${mean * scale}%`}}));
}
