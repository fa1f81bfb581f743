// Attempts at one task side by side: what each decided, what it earned, what it was credited with.

function groupsView() {
  const items = rows.groups;
  const rewarded = (row) => row.rewards.filter((r) => r !== null);
  const spread = (row) => { const some = rewarded(row); return some.length ? Math.max(...some) - Math.min(...some) : 0; };
  return [h('h1', {class: 'hidden'}, 'Groups of attempts'),
    listing({
      kind: 'Groups', items, empty: 'No group was kept. orchestai train-phase2 and agents train write phase2_rollouts.jsonl.',
      haystack: (row) => `${row.task} update ${row.update} ${row.fault}`.toLowerCase(),
      filters: [
        {key: 'spread', title: 'any spread', options: [['some', 'rewards differ'], ['none', 'all the same']], keep: (r, v) => (spread(r) > 0) === (v === 'some')},
        ...(new Set(items.map((r) => r.agents)).size > 1 ? [{key: 'kind', title: 'plans and agents', options: [['plans', 'plans'], ['agents', 'agents']], keep: (r, v) => r.agents === (v === 'agents')}] : []),
        ...(items.some((r) => r.fault) ? [{key: 'fault', title: 'any fault', options: optionsOf(items, (r) => r.fault), keep: (r, v) => r.fault === v}] : []),
        ...(severalRuns ? [{key: 'run', title: 'any run', options: optionsOf(items, (r) => r.run, runName), keep: (r, v) => r.run === Number(v)}] : []),
      ],
      sorts: [['', 'in order of training', null], ['spread', 'widest spread first', (a, b) => spread(b) - spread(a)],
        ['worst', 'least reward first', (a, b) => Math.min(...rewarded(a), Infinity) - Math.min(...rewarded(b), Infinity)]],
      draw: (row) => [h('span', {class: `status ${spread(row) ? 'mixed' : 'flat'}`}),
        h('span', {class: 'main'}, h('span', {class: 'name'}, row.task || 'a task'), h('span', {class: 'words'}, row.update === null ? 'evaluation' : `update ${row.update}`)),
        h('span', {class: 'side'}, strip(row.rewards), h('span', {}, `${row.attempts} attempt${row.attempts === 1 ? '' : 's'}`))],
      detail: groupDetail,
    })];
}

/** Rewards as small bars, the group's highest at full height. */
function strip(rewards) {
  const most = Math.max(...rewards.map((r) => Math.abs(r ?? 0)), 1e-9);
  return h('span', {class: 'strip', 'aria-hidden': 'true'}, rewards.slice(0, 16).map((r) => h('i', {class: r === null ? 'lost' : r < 0 ? 'below' : '', style: {height: `${Math.max(Math.abs(r ?? 0) / most * 100, 6)}%`}})));
}

async function groupDetail(row, params) {
  const attempts = await detailsOf(row);
  const agents = row.agents;
  const known = agents ? null : rows.executions.find((e) => e.task === row.task && e.task);
  const shown = params.get('attempt') ?? (agents ? '0' : null);
  return h('article', {class: 'group'},
    h('header', {class: 'title'}, h('h2', {}, row.task || 'Group'), h('span', {class: 'muted'}, row.update === null ? 'evaluation' : `update ${row.update}${severalRuns ? `, ${runName(row.run)}` : ''}`)),
    known ? h('div', {class: 'instruction', dir: 'auto'}, known.text, (await detailsOf(known)).rest) : null,
    h('p', {class: 'lead'}, agents ? 'What roles wrote is learned from and colored by its advantage; what they read is masked.' : 'Each column is one sampled plan. Green was credited with more than the group, red with less.'),
    agents ? transcripts(attempts, Number(shown)) : h('div', {class: 'columns'}, attempts.map(planColumn)));
}

const tone = (advantage, most) => (advantage === null || advantage === undefined ? {} : {'--tone': String(Math.min(Math.abs(advantage) / (most || 1), 1)), '--side': advantage >= 0 ? 'var(--good)' : 'var(--bad)'});

function mostOf(attempts) {
  return Math.max(...attempts.flatMap((a) => (a.turns ?? []).flatMap((t) => [t.advantage ?? 0, ...(t.decisions ?? []).map((d) => d[2])].map(Math.abs))), 1e-9);
}

function planColumn(attempt, number, attempts) {
  const turn = attempt.turns?.[0];
  return h('section', {class: 'column', 'aria-label': `Attempt ${number + 1}`},
    h('div', {class: 'bar'}, h('b', {}, `Attempt ${number + 1}`), h('span', {class: 'credit', style: tone(turn?.advantage, mostOf(attempts))}, `advantage ${show.signed(turn?.advantage)}`)),
    facts([['reward', attempt.reward === null ? null : show.number(attempt.reward)], ['tests', attempt.tests === undefined ? null : show.percent(attempt.tests)], ['cost', attempt.cost_usd === undefined ? null : show.usd(attempt.cost_usd)],
      ['critical path', attempt.latency_ms === undefined ? null : show.ms(attempt.latency_ms)], ['decisions', turn?.slots]]),
    attempt.unscorable ? h('div', {class: 'problem'}, `${attempt.fault}: ${attempt.unscorable}`) : null,
    attempt.valid === false ? h('div', {class: 'problem'}, 'not a valid plan') : null,
    rewardParts(attempt.rewards), planSteps(attempt, turn, mostOf(attempts)));
}

function rewardParts(parts) {
  const some = Object.entries(parts ?? {}).filter(([, part]) => part.value);
  return some.length ? h('ul', {class: 'parts'}, some.map(([name, part]) => h('li', {}, h('span', {}, name), h('b', {}, show.signed(part.value * part.weight))))) : null;
}

/** Advantage of each decision about a step, by kind: worker first, then its fallbacks in turn. */
function decisionsOf(turn, step) {
  return (turn?.decisions ?? []).filter(([number]) => String(number) === step.id);
}

function planSteps(attempt, turn, most) {
  if (!attempt.steps?.length) return attempt.plan ? longText(attempt.plan, 'plan') : h('p', {class: 'nothing'}, 'no plan');
  return h('ol', {class: 'steps'}, attempt.steps.map((step) => h('li', {}, h('div', {class: 'words'}, h('span', {class: 'id'}, step.id), step.instruction, step.depends_on.length ? h('span', {class: 'muted'}, ` reads ${step.depends_on.join(', ')}`) : null),
    h('div', {class: 'asked'}, workerCredits(step, decisionsOf(turn, step), most)), otherCredits(decisionsOf(turn, step), most))));
}

/** The workers in the order in which they are asked, each in the color of what choosing it was credited with. */
function workerCredits(step, decisions, most) {
  const credits = [...decisions.filter(([, kind]) => kind === 'worker'), ...decisions.filter(([, kind]) => kind === 'fallback')].map(([, , value]) => value);
  return step.workers.map((worker, i) => [i ? h('span', {class: 'then'}, '→') : null,
    credits[i] === undefined ? h('span', {class: 'worker'}, worker) : h('span', {class: 'credit', style: tone(credits[i], most), title: `advantage ${show.signed(credits[i])}`}, `${worker} ${show.signed(credits[i])}`)]);
}

function otherCredits(decisions, most) {
  const others = decisions.filter(([, kind]) => kind !== 'worker' && kind !== 'fallback');
  return others.length ? h('div', {class: 'asked'}, others.map(([, kind, value]) => h('span', {class: 'credit', style: tone(value, most)}, `${kind} ${show.signed(value)}`))) : null;
}

/** Tokens from left to right, each run of them in the color of its advantage; nothing where all have the same. */
function tokenStrip(turn, most) {
  const runs = (turn?.decisions ?? []).filter(([, kind]) => kind === 'tokens');
  return runs.length > 1 ? h('div', {class: 'tokens', role: 'img', 'aria-label': `advantages of ${turn.slots} tokens in turn`}, runs.map(([n, , value]) => h('span', {style: {...tone(value, most), 'flex-grow': String(n)}, title: `${n} tokens: ${show.signed(value)}`}))) : null;
}

function transcripts(attempts, first) {
  const shown = h('div', {class: 'transcript'});
  const most = mostOf(attempts);
  const draw = (i) => {
    tabs.querySelectorAll('button').forEach((b, k) => b.setAttribute('aria-pressed', String(k === i)));
    shown.replaceChildren(...transcript(attempts[i], most).filter(Boolean));
  };
  const tabs = h('div', {class: 'modes', role: 'group', 'aria-label': 'Attempts'}, attempts.map((a, i) => h('button', {type: 'button', onclick: () => { changeParams({attempt: i || null}); draw(i); }},
    attempts.length > 1 ? `${i + 1}: ` : '', a.reward === null || a.reward === undefined ? 'unscorable' : `reward ${show.number(a.reward)}`)));
  draw(attempts[first] ? first : 0);
  return h('div', {}, tabs, shown);
}

/** Speeches in turn; those that a role wrote are matched with its turns by their order. */
function transcript(attempt, most) {
  const pending = new Map();
  (attempt.turns ?? []).forEach((turn) => { if (!pending.has(turn.role)) pending.set(turn.role, []); pending.get(turn.role).push(turn); });
  const speeches = attempt.speeches ?? [];
  return [attempt.unscorable ? h('div', {class: 'problem'}, `${attempt.fault || 'unscorable'}: ${attempt.unscorable}`) : null,
    rewardParts(attempt.rewards),
    h('ol', {class: 'speeches'}, speeches.map((speech) => {
      const wrote = speech.speaker === 'assistant';
      const next = wrote ? pending.get(speech.role)?.[0] : null;
      const turn = next && (!next.text || next.text === speech.text) ? pending.get(speech.role).shift() : null;
      return h('li', {class: `speech ${wrote ? 'wrote' : 'read'} ${speech.speaker}`, style: tone(turn?.advantage, most)},
        h('div', {class: 'bar'}, h('b', {}, speech.role || 'text'), h('span', {class: 'speaker'}, speech.speaker),
          wrote ? h('span', {class: 'mask'}, turn ? (turn.slots ? `learned, ${turn.slots} tokens` : 'not in the loss') : 'written') : h('span', {class: 'mask'}, 'read, masked'),
          turn?.advantage !== null && turn?.advantage !== undefined ? h('span', {class: 'credit', style: tone(turn.advantage, most)}, `advantage ${show.signed(turn.advantage)}`) : null,
          turn?.reward !== null && turn?.reward !== undefined ? h('span', {class: 'muted'}, `own reward ${show.number(turn.reward)}`) : null,
          turn?.truncated ? h('span', {class: 'verdict no'}, 'cut off') : null),
        tokenStrip(turn, most),
        speech.text.length > 600 && !wrote ? h('details', {}, h('summary', {}, `${speech.text.slice(0, 120)} …`), longText(speech.text)) : longText(speech.text));
    }))];
}
