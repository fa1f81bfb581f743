// Every execution: a list to search, and beside it the workflow with all that was asked and answered.

const COLORS = {outcome: 'outcome', cost: 'cost', time: 'time'};

function executionsView() {
  const items = rows.executions;
  const length = (n) => (n >= 8 ? '8+' : String(n));
  return [h('h1', {class: 'hidden'}, 'Executions'),
    page.leftOut.executions ? h('p', {class: 'problem'}, `${show.count(page.leftOut.executions)} more executions are in the logs; name fewer files to see them.`) : null,
    listing({
      kind: 'Executions', items, empty: 'No execution was logged here. orchestai collect, evaluate and run write execution logs.',
      haystack: (row) => `${row.task} ${row.planner} ${row.reason} ${row.text} ${row.workers.map((w) => rows.workers[w]).join(' ')}`.toLowerCase(),
      filters: [
        {key: 'outcome', title: 'any outcome', options: optionsOf(items, (r) => r.outcome, (v) => OUTCOMES[v]), keep: (r, v) => r.outcome === v},
        {key: 'reason', title: 'any reason', options: optionsOf(items, (r) => r.reason), keep: (r, v) => r.reason === v},
        {key: 'worker', title: 'any worker', options: optionsOf(items, (r) => r.workers, (w) => rows.workers[w]), keep: (r, v) => r.workers.includes(Number(v))},
        {key: 'steps', title: 'any length', options: optionsOf(items, (r) => length(r.steps), (n) => `${n} step${n === '1' ? '' : 's'}`).sort((a, b) => parseInt(a[0], 10) - parseInt(b[0], 10)), keep: (r, v) => length(r.steps) === v},
        ...(new Set(items.map((r) => r.planner)).size > 1 ? [{key: 'planner', title: 'any planner', options: optionsOf(items, (r) => r.planner), keep: (r, v) => r.planner === v}] : []),
        ...(severalRuns ? [{key: 'run', title: 'any run', options: optionsOf(items, (r) => r.run, runName), keep: (r, v) => r.run === Number(v)}] : []),
      ],
      sorts: [['', 'in order of the log', null], ['cost', 'most expensive first', (a, b) => b.cost - a.cost], ['latency', 'slowest first', (a, b) => b.latency - a.latency],
        ['escalations', 'most escalations first', (a, b) => b.escalations - a.escalations], ['steps', 'longest first', (a, b) => b.steps - a.steps],
        ['reward', 'least reward first', (a, b) => (a.reward ?? Infinity) - (b.reward ?? Infinity)]],
      draw: (row) => [h('span', {class: `status ${row.outcome}`, title: OUTCOMES[row.outcome]}),
        h('span', {class: 'main'}, h('span', {class: 'name'}, row.task || row.text.slice(0, 60) || 'an execution'), h('span', {class: 'words'}, row.text.slice(0, 120))),
        h('span', {class: 'side'}, h('span', {}, show.usd(row.cost)), h('span', {}, `${row.steps} step${row.steps === 1 ? '' : 's'}${row.escalations ? ` · ${row.escalations}↗` : ''}`))],
      detail: executionDetail,
    })];
}

function stepsOf(execution) {
  if (execution.subtasks) return execution.subtasks;
  const matrix = execution.adjacency ?? [];
  return Object.entries(execution.outputs ?? {}).map(([id, output], j) => ({
    id, instruction: typeof output === 'string' ? output : JSON.stringify(output), depends_on: matrix.flatMap((line, i) => (line[j] ? [Object.keys(execution.outputs)[i]] : [])),
  }));
}

async function executionDetail(row, params) {
  const execution = await detailsOf(row);
  const steps = stepsOf(execution);
  const reference = row.reference === null ? null : await detailsOf(rows.executions[row.reference]);
  let color = COLORS[params.get('color')] ?? 'outcome';
  let picked = steps.some((s) => s.id === params.get('step')) ? params.get('step') : null;
  const drawing = h('div', {}), below = h('div', {class: 'step'});
  const onpick = (id) => {
    picked = id === picked ? null : id;
    changeParams({step: picked});
    draw();
    drawing.querySelector(`[data-step="${CSS.escape(id)}"]`)?.focus();
  };
  const draw = () => {
    drawing.replaceChildren(drawDag(steps, {color, picked, onpick}));
    const step = steps.find((s) => s.id === picked);
    below.replaceChildren(...(step ? [stepCard(step, execution)] : []));
  };
  const modes = h('div', {class: 'modes', role: 'group', 'aria-label': 'Color of the steps'}, Object.keys(COLORS).map((mode) => h('button', {
    type: 'button', 'aria-pressed': String(mode === color), onclick: (event) => {
      color = mode;
      modes.querySelectorAll('button').forEach((b) => b.setAttribute('aria-pressed', String(b === event.currentTarget)));
      changeParams({color: mode === 'outcome' ? null : mode});
      draw();
    }}, mode === 'time' ? 'time (critical path)' : mode)));
  if (steps.length) draw();
  return h('article', {class: 'execution'},
    h('header', {class: 'title'}, h('span', {class: `badge ${row.outcome}`}, OUTCOMES[row.outcome]), h('h2', {}, row.task || 'Execution'),
      row.reason && h('span', {class: 'muted'}, row.reason)),
    h('div', {class: 'instruction', dir: 'auto'}, row.text, execution.rest),
    facts([['cost', show.usd(row.cost)], ['critical path', show.ms(row.latency)], ['score', row.score], ['tests', execution.tests_total ? `${execution.tests_passed ?? 0} of ${execution.tests_total}` : null],
      ['reward', row.reward === null ? null : show.number(row.reward)], ['planner', row.planner], ['suite', [execution.suite, execution.split].filter(Boolean).join(', ')], ['scorer', execution.scorer],
      ['sandbox', execution.sandbox], ['run', severalRuns ? runName(row.run) : null], ['logged', execution.timestamp?.slice(0, 19).replace('T', ' ')]]),
    execution.error ? h('div', {class: 'problem'}, h('b', {}, 'Error: '), execution.error) : null,
    steps.length ? h('section', {}, h('div', {class: 'bar'}, h('h3', {}, 'Workflow'), modes), drawing, h('p', {class: 'hint'}, picked ? '' : 'Click a step for its prompts, answers and checks.'), below)
      : h('p', {class: 'nothing'}, 'There was no workflow to run.'),
    reference?.subtasks ? h('section', {}, h('div', {class: 'bar'}, h('h3', {}, 'Reference plan'), h('span', {class: 'muted'}, compared(steps, reference.subtasks))),
      drawDag(reference.subtasks)) : null,
    execution.answer ? h('section', {}, h('h3', {}, 'Answer'), longText(execution.answer, 'answer')) : null,
    execution.feedback ? feedbackCard(execution.feedback) : null,
    execution.receipt ? receiptCard(execution.receipt) : null);
}

/** What the user of a served answer said of it. */
function feedbackCard({score, answer, tests}) {
  return h('section', {class: 'feedback'}, h('h3', {}, 'Feedback'), facts([['score, 0 to 1', isNumber(score) ? show.number(score) : null]]),
    answer ? [h('h4', {}, 'The right answer'), longText(answer, 'the right answer')] : null,
    tests ? [h('h4', {}, 'Tests'), longText(tests, 'tests')] : null);
}

/** In words, how the steps and edges of a plan differ from the reference's. */
function compared(steps, reference) {
  const words = (some) => new Set(some.map((s) => s.instruction));
  const edges = (some) => new Set(some.flatMap((s) => s.depends_on.map((p) => JSON.stringify([some.find((o) => o.id === p)?.instruction, s.instruction]))));
  const less = (a, b) => [...a].filter((x) => !b.has(x)).length;
  const [a, b, c, d] = [words(steps), words(reference), edges(steps), edges(reference)];
  const parts = [[less(b, a), 'step', 'missing'], [less(a, b), 'step', 'of its own'], [less(d, c), 'edge', 'missing'], [less(c, d), 'edge', 'of its own']]
    .filter(([n]) => n).map(([n, what, how]) => `${n} ${what}${n > 1 ? 's' : ''} ${how}`);
  return parts.length ? parts.join(', ') : 'same steps and edges';
}

function stepCard(step, execution) {
  const receipt = execution.receipt?.nodes?.find((node) => node.node === step.id);
  return h('section', {class: 'stepcard', 'aria-label': `Step ${step.id}`},
    h('h4', {}, `Step ${step.id}`, step.task_type && h('span', {class: 'type'}, step.task_type)),
    h('p', {class: 'instruction', dir: 'auto'}, step.instruction ?? ''),
    facts([['role', step.role], ['reads', step.depends_on?.join(', ')], ['answered by', step.answered_by], ['cost', show.usd(costOf(step))], ['time', show.ms(latencyOf(step))]]),
    step.error ? h('div', {class: 'problem'}, step.error) : null,
    (step.attempts ?? []).map((attempt, i) => attemptCard(attempt, i, receipt?.asked?.[i])),
    step.attempts?.length ? null : h('p', {class: 'nothing'}, 'Nobody was asked.'));
}

function attemptCard(attempt, number, receipt) {
  const state = attempt.error ? 'no' : attempt.passed_check === true ? 'ok' : attempt.passed_check === false ? 'no' : '';
  const word = attempt.error ? 'no answer' : {ok: 'check passed', no: 'check failed'}[state] ?? 'no check';
  return h('div', {class: `attempt ${state}`},
    h('div', {class: 'bar'}, h('b', {}, `${number + 1}. ${attempt.worker}`), h('span', {class: `verdict ${state}`}, word), attempt.truncated ? h('span', {class: 'verdict no'}, 'cut off') : null, h('span', {class: 'muted'},
      [show.usd(attempt.cost_usd), show.ms(attempt.latency_ms), `${show.count(attempt.prompt_tokens ?? 0)} + ${show.count(attempt.completion_tokens ?? 0)} tokens${attempt.usage_estimated ? ' (estimated)' : ''}`, attempt.source].filter(Boolean).join(' · '))),
    attempt.error ? h('div', {class: 'problem'}, attempt.error) : null,
    receipt ? h('p', {class: 'muted'}, `reserved ${show.usd(receipt.reserved_usd)}, spent ${show.usd(receipt.spent_usd)}${receipt.why_next ? `; next asked because: ${receipt.why_next}` : ''}`) : null,
    attempt.prompt ? h('details', {}, h('summary', {}, 'Prompt'), longText(attempt.prompt, 'prompt')) : null,
    attempt.answer ? h('details', {open: true}, h('summary', {}, 'Answer'), longText(attempt.answer, 'answer')) : null,
    attempt.tool_calls?.length ? h('details', {open: true}, h('summary', {}, 'Calls of tools'), longText(attempt.tool_calls, 'calls of tools')) : null);
}

function receiptCard(receipt) {
  const limits = receipt.contract ?? {};
  return h('section', {class: 'receipt'}, h('h3', {}, 'Receipt'),
    facts([['status', receipt.status], ['most it might cost', isNumber(limits.max_cost_usd) ? show.usd(limits.max_cost_usd) : null], ['deadline', limits.deadline_s ? `${limits.deadline_s} s` : null], ['reserved', show.usd(receipt.reserved_usd)],
      ['spent', show.usd(receipt.spent_usd)], ['requests', receipt.calls], ['wall clock', show.ms(receipt.wall_ms)], ['planning', show.ms(receipt.planning_ms)],
      ['probably right', receipt.success === undefined || receipt.success === null ? null : show.percent(receipt.success)], ['plan confidence', receipt.confidence === undefined || receipt.confidence === null ? null : show.percent(receipt.confidence)],
      ['planner', receipt.planner], ['critical path', receipt.critical_path?.join(' → ')]]),
    receipt.best_single ? h('p', {}, `The best single worker asked for the whole: ${Object.entries(receipt.best_single).filter(([, v]) => typeof v !== 'object').map(([k, v]) => `${k.replaceAll('_', ' ')} ${typeof v === 'number' ? show.number(v) : v}`).join(', ')}.`) : null,
    receipt.changes?.length ? h('ul', {}, receipt.changes.map((change) => h('li', {}, change))) : null,
    receipt.replay ? h('p', {}, 'Again: ', h('code', {}, receipt.replay)) : null);
}
