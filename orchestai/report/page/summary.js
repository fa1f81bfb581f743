// What was claimed, what is there, and what is missing.

const OUTCOMES = {solved: 'solved', failed: 'failed', invalid: 'no valid plan', unscorable: 'unscorable', answered: 'answered, not judged', unanswered: 'no answer'};

function summaryView() {
  return [
    h('header', {class: 'head'}, h('h1', {}, page.title),
      h('p', {class: 'lead'}, `Made ${page.made.replace('T', ' ').replace('+00:00', ' UTC')} by orchestai ${page.version}.`)),
    page.evaluations.filter((one) => one.conclusion.length).map(claims),
    page.totals.length ? section('Executions', null, page.totals.map(outcomeBar)) : null,
    comparisons(),
    section('What was read', null, page.runs.map(runRead)),
    page.missing.length ? section('Not here', 'These views have nothing to show.',
      h('ul', {}, page.missing.map((one) => h('li', {}, h('b', {}, one.what), `: ${one.how}`)))) : null,
  ];
}

function claims(one) {
  const ours = one.rows.filter((row) => row.role === 'ours').at(-1);
  const other = best(one.rows.filter((row) => row.role !== 'ours' && row.role !== 'oracle'));
  const tiles = [ours && tile(`${ours.name} solves`, show.percent(ours.success), between(ours.success_ci, show.percent), 'ours'),
    other && tile(`best of the others: ${other.name}`, show.percent(other.success), between(other.success_ci, show.percent)),
    ours && tile('cost per 1,000 tasks', show.usd(ours.cost_usd * 1000), ours.reward === undefined ? null : `reward ${show.number(ours.reward)} ${between(ours.reward_ci, show.number)}`)];
  return section(severalRuns ? `${runName(one.run)}: what was learned` : 'What was learned', null,
    h('div', {class: 'tiles'}, tiles), h('ul', {class: 'claims'}, one.conclusion.map((line) => h('li', {}, line))));
}

const best = (some) => some.reduce((a, b) => (a && a.success >= b.success ? a : b), null);
const between = (interval, format) => (interval?.[0] === null || !interval ? null : `[${format(Math.max(interval[0], 0) === 0 ? 0 : interval[0])}, ${format(interval[1])}]`);

function tile(title, value, note, className) {
  return h('div', {class: `tile ${className ?? ''}`}, h('span', {class: 'name'}, title), h('strong', {}, value), note && h('span', {class: 'note'}, note));
}

function outcomeBar(total) {
  const all = sum(Object.values(total.counts));
  const known = Object.keys(OUTCOMES).filter((name) => total.counts[name]);
  return h('div', {class: 'outcomes'},
    h('div', {class: 'line'}, h('b', {}, total.name), h('span', {}, `${show.count(all)} executions, ${show.usd(total.spent)} together`)),
    total.scores.length ? h('p', {class: 'muted'}, `Users scored ${show.count(total.scores.length)} served answer${total.scores.length === 1 ? '' : 's'}, ${show.number(sum(total.scores) / total.scores.length)} of 1 on average.`) : null,
    h('div', {class: 'stack', 'aria-hidden': 'true'}, known.map((name) => h('span', {class: name, style: {'flex-grow': String(total.counts[name])}}))),
    h('ul', {class: 'legend'}, known.map((name) => h('li', {}, h('a', {href: link('executions', {outcome: name, run: severalRuns ? total.run : null})},
      h('span', {class: `key ${name}`}), `${OUTCOMES[name]} ${show.count(total.counts[name])} (${show.percent(total.counts[name] / all)})`)))));
}

/** Evaluations of one suite beside each other. */
function comparisons() {
  const suites = [...new Set(page.evaluations.map((one) => one.suite))];
  return suites.map((suite) => page.evaluations.filter((one) => one.suite === suite)).filter((some) => some.length > 1).map((some) => {
    const names = [...new Set(some.flatMap((one) => one.rows.map((row) => row.name)))];
    const columns = [{title: 'solved'}, ...some.map((one) => ({title: severalRuns ? runName(one.run) : one.title, numeric: true}))];
    const cells = names.map((name) => ({cells: [name, ...some.map((one) => {
      const row = one.rows.find((other) => other.name === name);
      return row ? [show.percent(row.success), ' ', h('span', {class: 'muted'}, between(row.success_ci, (x) => (100 * x).toFixed(0)))] : '';
    })]}));
    return section(`Runs compared: ${some[0].suite}`, 'Share of tasks solved, with 95 % intervals.', table(columns, cells, 'Success by run'));
  });
}

function figuresView() {
  return [h('header', {class: 'head'}, h('h1', {}, 'Figures'), h('p', {class: 'lead'}, 'Every figure with an interval, by its place in its file.')),
    page.figures.map((one) => h('details', {class: 'card', open: page.figures.length === 1}, h('summary', {}, h('h2', {}, severalRuns ? `${runName(one.run)}: ${one.title}` : one.title), h('span', {class: 'muted'}, one.figures.length)),
      table([{title: 'figure'}, {title: 'mean', numeric: true}, {title: '95 %', numeric: true}, {title: 'n', numeric: true}],
        one.figures.map((f) => ({cells: [f.name, show.number(f.mean), between([f.low, f.high], show.number) ?? '', f.n ?? '']})), `Figures of ${one.title}`)))];
}

function runRead(run) {
  const kinds = {executions: ['execution log', 'execution logs'], phase1: ['metrics file of phase 1', 'metrics files of phase 1'], phase2: ['metrics file of phase 2', 'metrics files of phase 2'],
    rollouts: ['file of sampled groups', 'files of sampled groups'], evaluation: ['evaluation', 'evaluations'], agents: ["evaluation of agents", "evaluations of agents"],
    figures: ['file of figures', 'files of figures'], run: ['file of settings', 'files of settings']};
  const counts = Object.entries(kinds).map(([kind, titles]) => [titles, run.files.filter((file) => file.kind === kind).length]).filter(([, n]) => n);
  const versions = run.facts.find((fact) => fact.versions)?.versions;
  return h('div', {class: 'found'}, h('h3', {}, run.name), h('p', {class: 'muted'}, counts.length ? `Read: ${counts.map(([[one, several], n]) => `${n} ${n === 1 ? one : several}`).join(', ')}.` : 'Nothing here that this page can show; a run may not have written anything yet.'),
    run.problems.length ? h('div', {class: 'problem', role: 'note'}, h('b', {}, 'Not readable'), h('ul', {}, run.problems.map((line) => h('li', {}, line)))) : null,
    run.facts.length ? h('details', {}, h('summary', {}, 'Settings and versions'),
      run.facts.map((fact) => facts(Object.entries(fact).filter(([key]) => key !== 'versions').map(([key, value]) => [key.replaceAll('_', ' '), String(value)]))),
      versions && facts(Object.entries(versions))) : null);
}
