// Curves of both phases; several runs lie over each other.

function trainingView() {
  const phases = [['phase1', 'Phase 1', 'Supervised, on the best executions of the logs.'], ['phase2', 'Phase 2', 'From the reward of executed plans or attempts.']];
  return [h('header', {class: 'head'}, h('h1', {}, 'Training'), h('p', {class: 'lead'}, 'Move the pointer over a chart to read values. Dashed red lines are the bounds at which training gives up.')),
    phases.map(([phase, title, lead]) => phaseSection(phase, title, lead))];
}

function phaseSection(phase, title, lead) {
  const mine = page.curves.filter((curve) => curve.phase === phase);
  if (!mine.length) return null;
  const group = (first) => {
    const titles = [...new Set(mine.filter((c) => c.first === first).map((c) => c.title))];
    return titles.map((name) => chartCard(name, mine.filter((c) => c.title === name && c.first === first)));
  };
  const rest = group(false);
  return h('section', {}, h('h2', {class: 'part'}, title), h('p', {class: 'lead'}, lead), h('div', {class: 'charts'}, group(true)),
    rest.length ? h('details', {class: 'more'}, h('summary', {}, `${rest.length} more figures`), h('div', {class: 'charts'}, rest)) : null);
}

function chartCard(title, curves) {
  const runs = [...new Set(curves.map((c) => c.run))];
  const series = curves.flatMap((curve) => curve.series.map((line, i) => ({
    ...line, label: runs.length > 1 ? `${runName(curve.run)}, ${line.label}` : line.label,
    color: PALETTE[(runs.length > 1 ? runs.indexOf(curve.run) : i) % PALETTE.length], dash: runs.length > 1 ? ['', 'dashed', 'dotted'][Math.min(i, 2)] : '',
  })));
  const format = show[curves[0].unit] ?? show.number;
  return h('figure', {class: 'card small'}, h('figcaption', {}, h('h3', {}, title), curves[0].note && h('span', {class: 'muted'}, curves[0].note)),
    lineChart({series, guards: curves.flatMap((c) => c.guards).slice(0, 2), along: curves[0].along, label: `${title} by ${curves[0].along}`, format}));
}
