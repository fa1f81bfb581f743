// A workflow as a drawing: steps in layers from left to right, edges that carry outputs.

const NODE = {least: 150, most: 216, height: 98, right: 46, below: 18, passing: 14};

/**
 * Place steps in layers, children after parents, near the mean of their parents; an edge over several layers passes
 * through a gap in each, so that it never runs behind a step.
 */
function layout(steps, room) {
  const byId = new Map(steps.map((step) => [step.id, step]));
  const depth = new Map();
  const depthOf = (id, path) => {
    if (!depth.has(id)) {
      const parents = byId.get(id).depends_on.filter((p) => byId.has(p) && !path.has(p));
      depth.set(id, parents.length ? 1 + Math.max(...parents.map((p) => depthOf(p, new Set(path).add(id)))) : 0);
    }
    return depth.get(id);
  };
  const layers = [];
  const put = (at, item) => (layers[at] ??= []).push(item);
  steps.forEach((step) => put(depthOf(step.id, new Set([step.id])), {key: step.id, before: [], height: NODE.height}));
  const edges = [];
  steps.forEach((step) => step.depends_on.filter((p) => byId.has(p)).forEach((parent) => {
    const route = [parent];
    for (let at = depth.get(parent) + 1; at < depth.get(step.id); at += 1) {
      const key = JSON.stringify([parent, at]);
      if (!layers[at].some((item) => item.key === key)) put(at, {key, before: [route.at(-1)], height: NODE.passing});
      route.push(key);
    }
    layers[depth.get(step.id)].find((item) => item.key === step.id).before.push(route.at(-1));
    edges.push({parent, child: step.id, route: [...route, step.id]});
  }));
  const width = Math.min(Math.max((room + NODE.right) / layers.length - NODE.right, NODE.least), NODE.most);
  const middle = new Map();
  layers.forEach((items) => {
    const wish = (item) => (item.before.length ? sum(item.before.map((b) => middle.get(b))) / item.before.length : 0);
    items.sort((a, b) => wish(a) - wish(b));
    let y = -(sum(items.map((item) => item.height)) + NODE.below * (items.length - 1)) / 2;
    items.forEach((item) => { middle.set(item.key, y + item.height / 2); y += item.height + NODE.below; });
  });
  const top = Math.min(...layers.flat().map((item) => middle.get(item.key) - item.height / 2));
  const bottom = Math.max(...layers.flat().map((item) => middle.get(item.key) + item.height / 2));
  const places = new Map(layers.flatMap((items, at) => items.map((item) => [item.key, {x: at * (width + NODE.right), y: middle.get(item.key) - top}])));
  return {places, edges, nodeWidth: width, width: layers.length * (width + NODE.right) - NODE.right, height: bottom - top};
}

/** Through the gaps to the left side of the child. */
function edgePath(route, places, nodeWidth) {
  const spots = route.map((key, i) => ({...places.get(key), first: i === 0, last: i === route.length - 1}));
  let [x, y] = [spots[0].x + nodeWidth, spots[0].y];
  let d = `M${x},${y}`;
  spots.slice(1).forEach((spot) => {
    const to = spot.last ? spot.x - 7 : spot.x;
    const bend = (to - x) / 2;
    d += ` C${x + bend},${y} ${to - bend},${spot.y} ${to},${spot.y}`;
    if (!spot.last) d += ` L${spot.x + nodeWidth},${spot.y}`;
    [x, y] = [spot.x + nodeWidth, spot.y];
  });
  return d;
}

/** The path whose latencies add up to the most. */
function criticalPath(steps) {
  const best = new Map();
  const byId = new Map(steps.map((step) => [step.id, step]));
  const visit = (id, path) => {
    if (best.has(id)) return best.get(id);
    const before = byId.get(id).depends_on.filter((p) => byId.has(p) && !path.has(p)).map((p) => visit(p, new Set(path).add(id)));
    const longest = before.reduce((a, b) => (b.ms > a.ms ? b : a), {ms: 0, ids: []});
    const found = {ms: longest.ms + latencyOf(byId.get(id)), ids: [...longest.ids, id]};
    best.set(id, found);
    return found;
  };
  return steps.map((step) => visit(step.id, new Set([step.id]))).reduce((a, b) => (b.ms > a.ms ? b : a), {ms: -1, ids: []});
}

const sum = (values) => values.reduce((a, b) => a + b, 0);
const costOf = (step) => sum((step.attempts ?? []).map((a) => a.cost_usd ?? 0));
const latencyOf = (step) => sum((step.attempts ?? []).map((a) => a.latency_ms ?? 0));

function stateOf(step) {
  if (step.status === 'skipped' || step.status === 'failed') return step.status;
  if (step.passed_check === true) return 'passed';
  return step.passed_check === false ? 'refused' : step.status === 'done' ? 'done' : 'planned';
}

const STATES = {
  passed: ['✓', 'passed its check'], done: ['•', 'done, has no check'], refused: ['!', 'failed its check'],
  failed: ['✕', 'no answer'], skipped: ['–', 'skipped'], planned: ['•', 'planned'],
};

/** Who was asked, in turn: each fallback after what it escalated from. */
function escalation(step) {
  const asked = step.attempts?.length
    ? step.attempts.map((a) => ({name: a.worker, ok: a.error ? false : a.passed_check}))
    : (step.workers ?? [step.worker, ...(step.fallback ?? [])]).filter(Boolean).map((name) => ({name, ok: null}));
  return h('span', {class: 'asked'}, asked.map((one, i) => [
    i ? h('span', {class: 'then', 'aria-label': 'then'}, '→') : null,
    h('span', {class: `worker ${one.ok === true ? 'ok' : one.ok === false ? 'no' : ''}`}, one.name),
  ]));
}

/** The drawing; `color` is outcome, cost or time, `onpick` is called with the id of a step. */
function drawDag(steps, {color = 'outcome', picked = null, onpick = null} = {}) {
  const room = innerWidth > 900 ? innerWidth - 460 : innerWidth - 40;
  const {places, edges: lines, nodeWidth, width, height} = layout(steps, room);
  const path = criticalPath(steps);
  const onPath = new Set(steps.some((s) => latencyOf(s)) ? path.ids : []);
  const measure = color === 'cost' ? costOf : color === 'time' ? latencyOf : () => 0;
  const most = Math.max(...steps.map(measure), 1e-12);
  const edges = svg('svg', {class: 'edges', width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true'});
  for (const {parent, child, route} of lines) {
    const critical = color === 'time' && onPath.has(parent) && onPath.has(child) ? 'critical' : '';
    const {x, y} = places.get(child);
    edges.append(svg('path', {class: `edge ${critical}`, d: edgePath(route, places, nodeWidth)}), svg('path', {class: `arrow ${critical}`, d: `M${x - 8},${y - 4} L${x - 1},${y} L${x - 8},${y + 4} Z`}));
  }
  const nodes = steps.map((step) => {
    const state = stateOf(step), {x, y} = places.get(step.id);
    const value = color === 'cost' ? show.usd(costOf(step)) : color === 'time' ? show.ms(latencyOf(step)) : STATES[state][1];
    return h(onpick ? 'button' : 'div', {
      type: onpick ? 'button' : null, 'data-step': step.id, 'aria-pressed': onpick ? String(step.id === picked) : null,
      class: `node ${color === 'outcome' ? state : 'heat'} ${step.id === picked ? 'picked' : ''} ${color === 'time' && onPath.has(step.id) ? 'critical' : ''}`,
      style: {left: `${x}px`, top: `${y - NODE.height / 2}px`, width: `${nodeWidth}px`, height: `${NODE.height}px`, '--heat': String(measure(step) / most)},
      onclick: onpick && (() => onpick(step.id)),
      title: `${step.instruction ?? ''}\n${STATES[state][1]} · ${show.usd(costOf(step))} · ${show.ms(latencyOf(step))}`,
    },
    h('span', {class: 'head'}, h('span', {class: 'id'}, step.id), step.task_type && h('span', {class: 'type'}, step.task_type),
      h('span', {class: 'value'}, color === 'outcome' ? h('span', {class: 'sign', 'aria-label': STATES[state][1]}, STATES[state][0]) : value)),
    h('span', {class: 'words'}, step.instruction ?? ''), escalation(step));
  });
  const box = h('div', {class: 'canvas', style: {width: `${width}px`, height: `${height}px`}}, edges, nodes);
  return h('div', {class: 'dag', role: 'group', 'aria-label': 'Workflow'}, box);
}
