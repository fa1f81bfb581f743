// A list beside what is picked from it: search, filters, sorting, any number of rows, the keyboard.

const ROW_HEIGHT = 62;

/**
 * kind: name of the view; items: rows; haystack(row): what is searched, in lower case; filters: [{key, title, options: [[value, title]], keep(row, value)}];
 * sorts: [[key, title, compare]]; draw(row): content of a line; detail(row, params): promise of what is shown beside it.
 */
function listing({kind, items, haystack, filters, sorts, draw, detail, empty}) {
  const params = state.params;
  const search = h('input', {type: 'search', id: 'search', placeholder: 'Search  /', 'aria-label': 'Search', value: params.get('q') ?? '', autocomplete: 'off', spellcheck: 'false'});
  const selects = filters.map((filter) => h('select', {'aria-label': filter.title, 'data-filter': filter.key},
    h('option', {value: ''}, filter.title), filter.options.map(([value, title]) =>
      h('option', {value, selected: params.get(filter.key) === String(value)}, title))));
  const order = h('select', {'aria-label': 'Sort', 'data-filter': 'sort'}, sorts.map(([key, title]) =>
    h('option', {value: key, selected: params.get('sort') === key}, title)));
  const count = h('p', {class: 'count', role: 'status'});
  const space = h('div', {class: 'space'});
  const list = h('div', {class: 'list', id: 'list', role: 'listbox', tabindex: 0, 'aria-label': kind}, space);
  const side = h('div', {class: 'beside', id: 'detail', 'aria-live': 'off'});
  let shown = [], picked = params.has('id') ? Number(params.get('id')) : null, token = 0;
  const searched = searchTexts(items, haystack);

  function choose() {
    const words = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const texts = words.length ? searched() : [];
    const active = filters.map((f, i) => [f, selects[i].value]).filter(([, value]) => value !== '');
    shown = items.filter((row, i) => active.every(([f, value]) => f.keep(row, value)) && words.every((word) => texts[i].includes(word)));
    const compare = sorts.find(([key]) => key === order.value)?.[2];
    if (compare) shown.sort(compare);
    count.replaceChildren(`${show.count(shown.length)} of ${show.count(items.length)}`);
    space.style.setProperty('height', `${shown.length * ROW_HEIGHT}px`);
    paint();
  }

  function paint() {
    const first = Math.max(Math.floor(list.scrollTop / ROW_HEIGHT) - 4, 0);
    const last = Math.min(first + Math.ceil((list.clientHeight || 700) / ROW_HEIGHT) + 8, shown.length);
    space.replaceChildren(...shown.slice(first, last).map((row, i) => h('div', {
      class: `row ${row.id === picked ? 'picked' : ''}`, role: 'option', id: `row-${row.id}`, 'data-id': row.id, 'aria-selected': String(row.id === picked),
      'aria-setsize': shown.length, 'aria-posinset': first + i + 1, style: {top: `${(first + i) * ROW_HEIGHT}px`}, onclick: () => pick(row),
    }, draw(row))));
    if (shown.slice(first, last).some((row) => row.id === picked)) list.setAttribute('aria-activedescendant', `row-${picked}`);
    else list.removeAttribute('aria-activedescendant');
  }

  function remember() {
    const now = new URLSearchParams();
    if (search.value) now.set('q', search.value);
    [...filters.map((f, i) => [f.key, selects[i].value]), ['sort', order.value]].forEach(([key, value]) => {
      if (value && !(key === 'sort' && value === sorts[0][0])) now.set(key, value);
    });
    if (picked !== null) now.set('id', picked);
    replaceParams(now);
  }

  async function pick(row, keep) {
    picked = row.id;
    if (!keep) remember();
    paint();
    const mine = ++token;
    let content;
    try {
      content = await detail(row, keep ? params : new URLSearchParams());
    } catch (error) {
      content = h('p', {class: 'problem'}, String(error.message ?? error));
    }
    if (mine === token) side.replaceChildren(content);
  }

  function move(by) {
    const at = shown.findIndex((row) => row.id === picked);
    const to = Math.min(Math.max(at + by, 0), shown.length - 1);
    if (!shown.length) return;
    const top = to * ROW_HEIGHT;
    if (top < list.scrollTop) list.scrollTop = top;
    if (top + ROW_HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW_HEIGHT - list.clientHeight;
    pick(shown[to]);
  }

  const again = () => { list.scrollTop = 0; choose(); remember(); };
  search.addEventListener('input', again);
  [...selects, order].forEach((select) => select.addEventListener('change', again));
  list.addEventListener('scroll', () => requestAnimationFrame(paint), {passive: true});
  keys.move = move;
  keys.search = () => search.focus();
  new ResizeObserver(() => paint()).observe(list);

  choose();
  const start = items.find((row) => row.id === picked) ?? shown[0];
  if (start) {
    if (picked === start.id) requestAnimationFrame(() => {
      list.scrollTop = Math.max(shown.indexOf(start) * ROW_HEIGHT - 120, 0);
    });
    pick(start, true);
  } else {
    side.append(h('p', {class: 'nothing'}, empty));
  }
  return h('div', {class: 'panes'},
    h('div', {class: 'pane'}, h('div', {class: 'filters'}, search, h('div', {class: 'selects'}, selects, order), count), list), side);
}

const prepared = new WeakMap();

/** Gives what is searched of each item; it is written while the browser has nothing else to do, once for all visits. */
function searchTexts(items, haystack) {
  if (!prepared.has(items)) {
    const texts = [];
    const write = (idle) => {
      while (texts.length < items.length && idle.timeRemaining() > 2) {
        items.slice(texts.length, texts.length + 50).forEach((item) => texts.push(haystack(item)));
      }
      if (texts.length < items.length) requestIdleCallback(write);
    };
    requestIdleCallback(write);
    prepared.set(items, () => {
      while (texts.length < items.length) texts.push(haystack(items[texts.length]));
      return texts;
    });
  }
  return prepared.get(items);
}

/** Options of a filter from the values that rows have, the most frequent first. */
function optionsOf(items, values, title = String) {
  const counts = new Map();
  const count = (v) => { if (v !== '' && v !== null && v !== undefined) counts.set(v, (counts.get(v) ?? 0) + 1); };
  items.forEach((row) => { const given = values(row); if (Array.isArray(given)) given.forEach(count); else count(given); });
  return [...counts].sort((a, b) => b[1] - a[1]).slice(0, 200).map(([value, n]) => [value, `${title(value)} (${show.count(n)})`]);
}
