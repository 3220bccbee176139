// Runs SillyTavern's own scan of world info: `node scan.mjs PATH_OF_world-info.js < jobs.json > answers.json`.
// The file is read where npm installed it. Its imports are replaced by the few parts that a scan needs, and the rest by
// something that swallows every call; the result is loaded from a temporary folder. `books.py` says what a job is.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const IMPORT = /^import\s+\{([^}]*)\}\s+from\s+'[^']*';\s*$/gm;
const SWALLOW = `new Proxy(function () {}, {
    get: (_, key) => (key === Symbol.toPrimitive ? () => '' : swallow__), apply: () => swallow__, construct: () => swallow__,
})`;
/** What a scan really asks of other files of SillyTavern. `scene` is set for each job. */
const PARTS = {
  power_user: '({ get persona_description_lorebook() { return globalThis.scene.persona; } })',
  chat_metadata: '({ get world_info() { return globalThis.scene.chatBook; }, get timedWorldInfo() { return globalThis.scene.timed; },'
    + ' set timedWorldInfo(value) { globalThis.scene.timed = value; } })',
  this_chid: '0',
  characters: '[{ name: "", data: { extensions: { get world() { return globalThis.scene.characterBook; } } } }]',
  extension_settings: '({ note: {} })',
  shouldWIAddPrompt: 'false',
  getRegexedString: '((text) => text)',
  regex_placement: '({})',
  extension_prompt_roles: '({ SYSTEM: 0, USER: 1, ASSISTANT: 2 })',
  getTokenCountAsync: '(async (text) => globalThis.scene.count(text))',
  getCharaFilename: '(() => globalThis.scene.character)',
  getTagKeyForEntity: '(() => null)',
  getContext: '(() => ({ extensionPrompts: {}, tagMap: {}, setExtensionPrompt() {} }))',
  substituteParams: '((text) => globalThis.scene.fill(text))',
  eventSource: '({ emit: async () => {}, on() {}, once() {}, makeFirst() {}, makeLast() {} })',
  event_types: 'new Proxy({}, { get: (_, key) => key })',
  escapeRegex: String.raw`((text) => text.replace(/[/\-\\^$*+?.()|[\]{}]/g, '\\$&'))`,
  getStringHash: '((text) => { let hash = 0; for (const char of text) hash = (Math.imul(hash, 31) + char.codePointAt(0)) | 0; return hash; })',
  onlyUnique: '((value, index, all) => all.indexOf(value) === index)',
  debounce: '((call) => () => {})',
  t: '((texts, ...values) => String.raw({ raw: texts }, ...values))',
  FilterHelper: 'class {}',
  StructuredCloneMap: 'class extends Map { constructor() { super(); } get(key) { const value = super.get(key); return value && structuredClone(value); } }',
};
/** The settings that SillyTavern ships. */
const SHIPPED = {
  world_info_depth: 2, world_info_min_activations: 0, world_info_min_activations_depth_max: 0, world_info_budget: 25,
  world_info_include_names: true, world_info_recursive: true, world_info_case_sensitive: false,
  world_info_match_whole_words: true, world_info_use_group_scoring: false, world_info_character_strategy: 1,
  world_info_budget_cap: 0, world_info_max_recursion_steps: 0,
};
const NO_BUDGET = 1e9;

const source = readFileSync(process.argv[2], 'utf8');
const imported = [];
const body = source.replace(IMPORT, (_, list) => {
  for (const part of list.split(',')) imported.push(part.trim().split(/\s+as\s+/).pop());
  return '';
});
let head = `const swallow__ = ${SWALLOW};\nconst [$, jQuery, toastr, document, window] = Array(5).fill(swallow__);\n`;
for (const name of new Set(imported.filter(Boolean))) head += `const ${name} = ${PARTS[name] ?? 'swallow__'};\n`;
const tail = `
export function setScene__(settings, chosen) {
  for (const name of Object.keys(settings)) eval(name + ' = settings[name]');
  selected_world_info = chosen;
}\n`;

/** The macros that the books of the tests have, as SillyTavern's engines fill them. */
const filler = (user, character) => (text) => String(text ?? '')
  .replace(/\{\{\/\/[^]*?\}\}/g, '').replace(/\{\{user\}\}|<USER>/gi, user).replace(/\{\{char\}\}|<BOT>|<CHAR>/gi, character)
  .replace(/\{\{newline\}\}/gi, '\n').replace(/\{\{noop\}\}/gi, '').replace(/(?:\r?\n)*\{\{trim\}\}(?:\r?\n)*/gi, '');

globalThis.scene = {};
const say = console.log;
for (const name of ['debug', 'log', 'warn', 'error']) console[name] = () => {};
const folder = mkdtempSync(join(tmpdir(), 'world-info-'));
let scanner;
try {
  writeFileSync(join(folder, 'scan.mjs'), head + body + tail);
  scanner = await import(pathToFileURL(join(folder, 'scan.mjs')));
} finally {
  rmSync(folder, { recursive: true });
}

const answers = [];
for (const job of JSON.parse(readFileSync(0, 'utf8'))) {
  const named = (owner) => job.books.filter((book) => book.owner === owner).map((book) => book.name);
  globalThis.scene = {
    character: job.character, timed: {}, fill: filler(job.user, job.character),
    characterBook: named('character')[0], chatBook: named('chat')[0], persona: named('persona')[0] ?? '',
    // The product counts the name of an entry too, which stands before its text.
    count: (text) => text.split('\n').reduce((sum, line) => sum + (line ? line.length + 1 + (job.heads?.[line] ?? 0) : 0), 0),
  };
  scanner.worldInfoCache.clear();
  for (const { name, data, isCard } of job.books) {
    scanner.worldInfoCache.set(name, isCard ? scanner.convertCharacterBook(structuredClone(data)) : data);
  }
  const settings = { ...SHIPPED, ...job.settings };
  scanner.setScene__(settings, named('all'));
  const scans = [];
  for (const at of job.scans) {
    const chat = job.chat.slice(0, at)
      .map(({ name, text }) => (settings.world_info_include_names ? `${name}: ${text}` : text)).reverse();
    const budget = job.budgets?.[at] ?? NO_BUDGET;
    const context = Math.round((budget * 100) / settings.world_info_budget);
    const scan = await scanner.checkWorldInfo(chat, context, false, { trigger: 'normal' });
    const active = [...scan.allActivatedEntries];
    const shown = [...active].sort((one, other) => other.order - one.order).reverse();
    scans.push({
      came: active.filter((entry) => entry.content?.trim()).map((entry) => `${entry.world}/${entry.uid}`),
      text: shown.filter((entry) => entry.content?.trim()).map((entry) => `${entry.world}/${entry.uid}`),
    });
  }
  answers.push(scans);
}
say(JSON.stringify(answers));
