// Tabs, addresses, keys, colors.

const state = {view: 'summary', params: new URLSearchParams()};
const keys = {move: null, search: null};
const VIEWS = {
  summary: ['Summary', summaryView, () => true],
  training: ['Training', trainingView, () => page.curves.length],
  tradeoff: ['Cost', tradeoffView, () => page.evaluations.length],
  executions: ['Executions', executionsView, () => rows.executions.length],
  groups: ['Groups', groupsView, () => rows.groups.length],
  reliability: ['Reliability', reliabilityView, () => page.reliability.length],
  workers: ['Workers', workersView, () => page.choices],
  figures: ['Figures', figuresView, () => page.figures.length],
};

function link(view, params) {
  const given = new URLSearchParams(Object.entries(params ?? {}).filter(([, value]) => value !== null && value !== undefined));
  return `#/${view}${given.size ? `?${given}` : ''}`;
}

/** Change the address without a step in the history. */
function replaceParams(params) {
  state.params = params;
  history.replaceState(null, '', `#/${state.view}${params.size ? `?${params}` : ''}`);
}

function changeParams(changes) {
  const params = new URLSearchParams(state.params);
  Object.entries(changes).forEach(([key, value]) => (value === null ? params.delete(key) : params.set(key, value)));
  replaceParams(params);
}

const available = () => Object.keys(VIEWS).filter((view) => VIEWS[view][2]());

/** A view's elements, or what kept it from being drawn, which is no reason to lose the others. */
function drawn(view) {
  try {
    return [view()].flat(Infinity).filter(Boolean);
  } catch (error) {
    return [h('p', {class: 'problem'}, `This view could not be drawn: ${error.message}. A file holds something else than orchestai writes; the other views are not affected.`)];
  }
}

function route() {
  const [view, query] = location.hash.replace(/^#\/?/, '').split('?');
  state.view = available().includes(view) ? view : 'summary';
  state.params = new URLSearchParams(query ?? '');
  Object.assign(keys, {move: null, search: null});
  const main = document.getElementById('main');
  main.className = state.view;
  main.replaceChildren(...drawn(VIEWS[state.view][1]));
  document.getElementById('tabs').replaceChildren(...available().map((name) =>
    h('a', {href: link(name), 'aria-current': name === state.view ? 'page' : null}, VIEWS[name][0])));
  window.scrollTo(0, 0);
}

function toggleTheme() {
  const dark = document.documentElement.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  document.documentElement.dataset.theme = dark === 'dark' ? 'light' : 'dark';
}

const KEYS = [['/', 'search'], ['j, k or arrows', 'next or previous in a list'], ['1 to 8', 'views'], ['t', 'light or dark'], ['?', 'these keys'], ['Esc', 'leave the search, close']];

function toggleHelp() {
  const open = document.querySelector('dialog');
  if (open) return open.remove();
  const dialog = h('dialog', {'aria-label': 'Keys', onclose: () => dialog.remove()}, h('h2', {}, 'Keys'), facts(KEYS, 'keys'), h('button', {type: 'button', onclick: () => dialog.close()}, 'Close'));
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest('input, select, textarea, dialog');
  if (event.key === 'Escape' && typing) { typing.blur(); document.getElementById('list')?.focus(); return; }
  if (typing) return;
  const inText = event.target.closest('pre, button, summary, .scroll');
  const step = {j: 1, k: -1, ...(inText ? {} : {ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10})}[event.key];
  const view = available()[Number(event.key) - 1];
  if (step && keys.move) { event.preventDefault(); keys.move(step); }
  else if (event.key === '/' && keys.search) { event.preventDefault(); keys.search(); }
  else if (event.key === 't') toggleTheme();
  else if (event.key === '?') toggleHelp();
  else if (view) location.hash = link(view);
});

document.getElementById('theme').addEventListener('click', toggleTheme);
document.getElementById('help').addEventListener('click', toggleHelp);
window.addEventListener('hashchange', route);
route();

readIndex().then(() => { if (rows.executions.length || rows.groups.length) route(); document.documentElement.dataset.ready = 'true'; })
  .catch((error) => document.getElementById('main').prepend(h('p', {class: 'problem'}, `The lists could not be unpacked: ${error.message}`)));
