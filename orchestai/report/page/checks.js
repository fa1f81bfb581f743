// Whether forecasts come true, and whether the right workers were chosen.

function reliabilityView() {
  return [h('header', {class: 'head'}, h('h1', {}, 'Reliability'), h('p', {class: 'lead'}, 'Forecast probability of success against the share that succeeded; on the diagonal, forecasts come true. Larger dots hold more attempts.')),
    h('div', {class: 'charts'}, page.reliability.map(reliabilityCard))];
}

function reliabilityCard(one) {
  const most = Math.max(...one.bins.map((bin) => bin[2]), 1);
  const plot = frame({width: 420, height: 320, x: [0, 1], y: [0, 1], label: `${one.title}: forecast against outcome`, xShow: (v) => `${Math.round(v * 100)} %`, yShow: (v) => `${Math.round(v * 100)} %`, xTitle: 'forecast'});
  plot.image.append(svg('line', {class: 'diagonal', x1: plot.toX(0), y1: plot.toY(0), x2: plot.toX(1), y2: plot.toY(1)}),
    svg('path', {class: 'line', d: pathOf(one.bins.map(([p, s]) => [plot.toX(p), plot.toY(s)])), style: {stroke: PALETTE[0]}}),
    ...one.bins.map(([p, s, n]) => svg('circle', {class: 'dot', cx: plot.toX(p), cy: plot.toY(s), r: 2.5 + 3.5 * Math.sqrt(n / most), style: {fill: PALETTE[0]}}, svg('title', {}, `forecast ${show.percent(p)}, came true ${show.percent(s)}, ${n} attempts`))));
  return h('figure', {class: 'card small'}, h('figcaption', {}, h('h3', {}, `${severalRuns ? `${runName(one.run)}, ` : ''}${one.title}`), one.ece !== null && one.ece !== undefined ? h('span', {class: 'muted'}, `expected calibration error ${show.number(one.ece)}`) : null), plot.image);
}

function workersView() {
  const lead = 'Steps with a visible check in the logs: who was asked first, against the cheapest worker whose answer passed that check in any execution here.';
  return [h('header', {class: 'head'}, h('h1', {}, 'Workers')), confusion('Asked first against best known', lead, page.choices)];
}

function confusion(title, lead, {workers, best: bests, counts}) {
  const all = sum(counts.flat());
  const right = sum(workers.map((w, i) => counts[i][bests.indexOf(w)] ?? 0));
  const cells = workers.map((worker, i) => {
    const line = sum(counts[i]);
    return {cells: [worker, ...bests.map((name, j) => h('span', {class: `cell ${name === worker ? 'same' : ''}`, style: {'--heat': String(line ? counts[i][j] / line : 0)}, title: `${show.percent(line ? counts[i][j] / line : 0)} of ${worker}'s`}, show.count(counts[i][j]))), show.count(line)]};
  });
  return section(title, lead, h('p', {}, h('b', {}, show.percent(right / (all || 1))), ` of ${show.count(all)} steps asked the best worker first.`),
    h('div', {class: 'matrix'}, table([{title: 'asked first ↓  best →'}, ...bests.map((name) => ({title: name, numeric: true})), {title: 'steps', numeric: true}], cells, title)));
}
