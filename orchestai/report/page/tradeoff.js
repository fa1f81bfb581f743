// Cost against success: every row with its interval, the hull of what mixtures reach, preferences, baselines by name.

const ROLES = {ours: 'trained planner', other: 'other ways to split and assign', whole: 'one worker asked for the whole', oracle: 'best in hindsight'};

function tradeoffView() {
  return [h('header', {class: 'head'}, h('h1', {}, 'Cost against success'),
    h('p', {class: 'lead'}, 'Each mark is a way of solving the same held-out tasks, with its 95 % interval. Above the gray line lies what no mixture of the rows reaches.')),
    page.evaluations.map(evaluationCard)];
}

function evaluationCard(one) {
  const rows = [...one.rows].sort((a, b) => (b.reward ?? b.success) - (a.reward ?? a.success));
  const most = Math.max(...rows.map((row) => row.success_ci?.[1] ?? row.success ?? 0));
  const columns = [{title: 'row'}, {title: 'solved', numeric: true}, {title: '95 %'}, {title: '', numeric: true},
    ...(rows.some((r) => r.reward !== undefined) ? [{title: 'reward', numeric: true}] : []),
    {title: 'USD per 1,000', numeric: true}, ...(rows.some((r) => r.latency_ms !== undefined) ? [{title: 'critical path', numeric: true}] : []),
    ...(rows.some((r) => r.unscorable) ? [{title: 'unscorable', numeric: true}] : [])];
  const body = rows.map((row) => ({className: row.role, cells: [
    [h('span', {class: `shape ${row.role}`, 'aria-hidden': 'true'}), row.name], show.percent(row.success),
    row.success_ci ? intervalBar(row.success, row.success_ci[0], row.success_ci[1], most, row.role) : '', h('span', {class: 'muted'}, between(row.success_ci, (x) => (100 * x).toFixed(1)) ?? ''),
    ...(columns.some((c) => c.title === 'reward') ? [show.number(row.reward)] : []),
    show.number(row.cost_usd === null ? null : row.cost_usd * 1000),
    ...(columns.some((c) => c.title === 'critical path') ? [show.ms(row.latency_ms)] : []),
    ...(columns.some((c) => c.title === 'unscorable') ? [show.percent(row.unscorable)] : []),
  ]}));
  return h('section', {class: 'card'}, h('h2', {}, [severalRuns ? runName(one.run) : '', one.suite].filter(Boolean).join(': ') || one.title),
    h('p', {class: 'lead'}, `${show.count(one.tasks)} held-out tasks`), scatter(one), table(columns, body, 'Rows of the evaluation'), differences(one), preferences(one));
}

function scatter(one) {
  const drawn = one.rows.filter((row) => isNumber(row.success) && isNumber(row.cost_usd));
  if (!drawn.length) return h('p', {class: 'nothing'}, 'Nothing could be judged.');
  const curve = one.preferences.filter((p) => isNumber(p.cost_usd) && isNumber(p.success.mean)).map((p) => ({cost: p.cost_usd, success: p.success.mean}));
  const paid = [...drawn.map((r) => r.cost_usd), ...curve.map((p) => p.cost)].filter((c) => c > 0);
  if (!paid.length) return h('p', {class: 'nothing'}, 'No row cost anything, so there is no cost to draw; the table has their success.');
  const floor = Math.min(...paid) * 0.3;
  const at = (cost) => Math.max(cost, floor) * 1000;
  const high = Math.max(...drawn.map((r) => r.success_ci?.[1] ?? r.success), ...curve.map((p) => p.success));
  const plot = frame({width: 940, height: 440, x: [at(0) / 1.6, Math.max(...paid) * 1000 * 3], y: [-0.02 * high, high * 1.08], xLog: true,
    label: 'Mean cost against share of tasks solved', xShow: show.usd, yShow: (v) => `${Math.round(v * 100)} %`, xTitle: 'mean cost per 1,000 tasks, USD (logarithmic)'});
  if (one.hull.length) {
    const steps = [];
    one.hull.forEach(([cost, success], i) => {
      const [from, low] = i ? one.hull[i - 1] : [0, 0];
      for (let k = 0; k <= 24; k += 1) {
        const share = k / 24, c = from + (cost - from) * share;
        if (c >= floor) steps.push([plot.toX(at(c)), plot.toY(low + (success - low) * share)]);
      }
    });
    steps.push([plot.width - plot.edge.right, plot.toY(one.hull.at(-1)[1])]);
    plot.image.append(svg('path', {class: 'hull', d: pathOf(steps)}));
  }
  const dots = curve.map((p) => [plot.toX(at(p.cost)), plot.toY(p.success)]);
  if (curve.length) {
    plot.image.append(svg('path', {class: 'preferences', d: pathOf(dots)}), ...dots.map(([x, y]) => svg('circle', {class: 'preference', cx: x, cy: y, r: 3})));
  }
  const places = drawn.map((row) => ({row, x: plot.toX(at(row.cost_usd)), y: plot.toY(row.success)}));
  for (const {row, x, y} of places) {
    const [low, top] = (row.success_ci ?? [row.success, row.success]).map(plot.toY);
    plot.image.append(svg('g', {class: `point ${row.role}`}, svg('title', {}, `${row.name}: ${show.percent(row.success)}, ${show.usd(row.cost_usd * 1000)} per 1,000`),
      svg('line', {x1: x, x2: x, y1: low, y2: top}), shape(row.role, x, y)));
  }
  plot.image.append(...labels(places, dots, plot));
  const roles = Object.keys(ROLES).filter((role) => drawn.some((row) => row.role === role));
  return h('div', {class: 'scatter'}, plot.image, h('ul', {class: 'legend'},
    roles.map((role) => h('li', {}, h('span', {class: `shape ${role}`}), ROLES[role])),
    curve.length ? h('li', {}, h('span', {class: 'key ours'}), 'the trained planner, prefer 0.1 to 0.9') : null,
    h('li', {}, h('span', {class: 'key hull'}), 'hull: what mixtures of the rows reach')));
}

function shape(role, x, y) {
  if (role === 'ours') return svg('path', {d: `M${x},${y - 7} L${x + 7},${y} L${x},${y + 7} L${x - 7},${y} Z`});
  if (role === 'whole') return svg('rect', {x: x - 4.5, y: y - 4.5, width: 9, height: 9});
  if (role === 'oracle') return svg('path', {d: `M${x},${y - 8} L${x + 7},${y + 5} L${x - 7},${y + 5} Z`});
  return svg('circle', {cx: x, cy: y, r: 5});
}

/** Names where they cover neither a mark nor another name; those without room are in the table. */
function labels(places, dots, plot) {
  const taken = [...places.map(({x, y}) => [x - 7, y - 7, x + 7, y + 7]), ...dots.map(([x, y]) => [x - 4, y - 4, x + 4, y + 4])];
  const free = (box) => box[0] > plot.edge.left && box[2] < plot.width && box[1] > 0 && box[3] < plot.height - plot.edge.bottom &&
    taken.every((other) => box[2] < other[0] || box[0] > other[2] || box[3] < other[1] || box[1] > other[3]);
  const order = [...places].sort((a, b) => (a.row.role === 'ours' ? -1 : 0) - (b.row.role === 'ours' ? -1 : 0) || b.row.success - a.row.success);
  return order.flatMap(({row, x, y}) => {
    const width = row.name.length * 6.3;
    for (const far of [0, 14, 28, 44, 62]) for (const side of [1, -1]) for (const dy of far ? [-far, far] : [0]) {
      const left = side > 0 ? x + 11 : x - 11 - width;
      const box = [left, y + dy - 8, left + width, y + dy + 7];
      if (!free(box)) continue;
      taken.push(box);
      return [far > 14 ? svg('line', {class: 'leader', x1: x, y1: y, x2: side > 0 ? left - 2 : left + width + 2, y2: y + dy}) : null,
        svg('text', {class: `name ${row.role}`, x: left, y: y + dy + 4}, row.name)].filter(Boolean);
    }
    return [];
  });
}

function differences(one) {
  const rows = one.differences ?? [];
  if (!rows.length) return null;
  const cell = (interval, format) => [format(interval.mean), ' ', h('span', {class: 'muted'}, `[${format(interval.low)}, ${format(interval.high)}]`)];
  const points = (x) => show.signed(100 * x);
  return h('details', {}, h('summary', {}, 'Paired differences'),
    table([{title: 'of'}, {title: 'to'}, {title: 'reward', numeric: true}, {title: 'success, points', numeric: true}],
      rows.map((d) => ({className: d.reward.low > 0 ? 'better' : d.reward.high < 0 ? 'worse' : '', cells: [d.of, d.to, cell(d.reward, show.signed), cell(d.success, points)]})), 'Paired differences'));
}

function preferences(one) {
  if (!one.preferences.length) return null;
  return h('details', {}, h('summary', {}, 'One checkpoint at every preference'),
    table([{title: 'setting'}, {title: 'solved', numeric: true}, {title: 'expected', numeric: true}, {title: 'USD per 1,000', numeric: true}, {title: 'expected', numeric: true}],
      one.preferences.map((p) => ({cells: [p.setting, show.percent(p.success.mean), show.percent(p.expected_success), show.number(p.cost_usd * 1000), show.number(p.expected_cost_usd * 1000)]})), 'Preferences'));
}
