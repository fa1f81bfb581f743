// What the page holds: its data at once, rows of lists when they are unpacked, details when somebody asks.

const page = JSON.parse(document.getElementById('page-data').textContent);
const rows = {executions: [], groups: [], workers: []};
const CHUNKS_KEPT = 12;
const chunks = new Map();
const waiting = new Map();

async function unpack(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return JSON.parse(await new Response(stream).text());
}

async function readIndex() {
  const index = await unpack(document.getElementById('page-index').textContent);
  const named = (columns, row, id) => {
    const item = {id};
    for (let i = 0; i < columns.length; i += 1) item[columns[i]] = row[i];
    return item;
  };
  rows.workers = index.workers;
  rows.executions = index.executions.items.map((row, id) => named(index.columns, withTexts(row, index.executions.texts), id));
  rows.groups = index.groups.map((row, id) => named(index.groupColumns, row, id));
}

window.orchestaiChunk = (number, digest, base64) => waiting.get(number)?.(digest, base64);

function fetchChunk(number) {
  if (page.chunks.folder === null) return Promise.resolve(document.getElementById(`chunk-${number}`).textContent);
  return new Promise((resolve, reject) => {
    waiting.set(number, (digest, base64) => (digest === page.chunks.digests[number] ? resolve(base64)
      : reject(new Error('The details were written anew since this page was opened; reload it'))));
    const script = document.createElement('script');
    script.src = `${encodeURIComponent(page.chunks.folder)}/${Number(number)}.js`;
    script.onerror = () => reject(new Error(`${page.chunks.folder}/${number}.js is not beside this page; keep the folder with it`));
    script.onload = () => script.remove();
    document.head.append(script);
  });
}

/** The value with the texts that it refers to by number. */
function withTexts(value, texts) {
  if (typeof value === 'string') return value.startsWith('\0') ? texts[Number(value.slice(1))] : value;
  if (Array.isArray(value)) return value.map((item) => withTexts(item, texts));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withTexts(item, texts)]));
}

/** The details of a row. */
async function detailsOf(row) {
  let chunk = chunks.get(row.chunk);
  if (!chunk) {
    chunk = await unpack(await fetchChunk(row.chunk));
    if (chunks.size >= CHUNKS_KEPT) chunks.delete(chunks.keys().next().value);
  }
  chunks.delete(row.chunk);
  chunks.set(row.chunk, chunk);
  return withTexts(chunk.items[row.place], chunk.texts);
}

const runName = (run) => page.runs[run]?.name ?? '';
const severalRuns = page.runs.length > 1;
