// The memory of a chat: before an answer it adds what comes to mind, and it remembers a turn once the next message comes,
// so that swipes, edits, regenerations and deletions of the newest turn cost nothing. It knows nothing of SillyTavern but
// `SillyTavern.getContext()`, and of memory-server its REST calls (docs/how-to/companion-over-http.md).
//
// What is remembered is reconciled and not reacted to: the turns of the chat against the list in `chatMetadata`. What is
// not stored yet is in an outbox in `localStorage`; the newest turn is `held` there until it is settled.

const KEY = 'memory_server';
const BOX = `${KEY}.outbox`;
const RECALL_MS = 2000; // an answer waits no longer
const DELIVERY_MS = 10000; // nobody waits for this one
const PAUSE_MS = 15000; // after a failure nobody asks for so long
const SETTLE_MS = 1500; // quick deletions one after the other are one change
const MOST_MESSAGES = 100; // sent with a recall, the newest
const MOST_ALSO = 20; // conversations that the server searches beside the first
const SHOWN_CHARS = 400; // of a memory under an answer
const DEFAULTS = { on: true, url: 'http://127.0.0.1:8460', token: '', per: 'character' };
const THROWN_AWAY = ['quiet', 'impersonate'];

const st = () => SillyTavern.getContext();
const t = (...said) => st().t(...said);
const settings = () => st().extensionSettings[KEY];
const usable = () => settings().on && settings().token !== '';

// The text as no macro: what somebody once said must not act.
export const inert = text => text
  .replace(/\{(?=\{)/g, '{ ')
  .replace(/<(?=(?:USER|BOT|CHAR|GROUP|CHARIFNOTGROUP)>)/gi, '< ');

// FNV-1a, 32 bits, with the length.
function hashed(text) {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193) >>> 0;
  return `${hash.toString(36)}.${text.length}`;
}

function asSent(message) {
  const time = Date.parse(message.send_date);
  return {
    role: message.is_user ? 'user' : 'assistant',
    content: message.mes,
    name: message.name,
    ...(Number.isNaN(time) ? {} : { timestamp: new Date(time).toISOString() }),
  };
}

// The turns of a chat: each begins with a message of the user and has all answers up to the next one. The greeting is
// nobody's words; comments and messages of the program have a type; what is hidden from the prompt has `is_system`.
export function turnsOf(chat) {
  const turns = [];
  for (const [index, message] of chat.entries()) {
    if (message.extra?.type || !message.mes?.trim() || message.mes === '...') continue;
    if (message.is_user && (!turns.length || turns.at(-1).answered)) {
      const { turn, skip } = message.extra?.[KEY] ?? {};
      turns.push({ id: turn, skip: Boolean(skip), start: index, said: [], hidden: false, answered: false });
    }
    if (!turns.length) continue;
    const last = turns.at(-1);
    last.end = index;
    last.answered ||= !message.is_user;
    last.hidden ||= Boolean(message.is_system);
    if (!message.is_system) last.said.push(asSent(message));
  }
  for (const turn of turns) {
    turn.asked = hashed(JSON.stringify(turn.said.filter(one => one.role === 'user').map(one => one.content)));
    turn.hash = hashed(JSON.stringify(turn.said.map(one => [one.role, one.name, one.content])));
  }
  return turns;
}

// What the memory should do so that it knows these turns: to keep one (again), or to forget one. `list` says what it was
// told, and by which chat: a branch has copies of both, and nobody takes back what another chat stored. A turn of which a
// message is hidden stays as it was stored: people hide what the memory is to carry.
export function reconciled(turns, list, chat, deleted) {
  const keep = [];
  const forget = [];
  for (const [number, turn] of turns.entries()) {
    const entry = list[turn.id];
    if (!turn.id) continue;
    if (turn.skip) {
      if (entry) forget.push(turn.id);
    } else if (entry ? entry.hash !== turn.hash && !turn.hidden : turn.answered) {
      keep.push({ turn, held: number === turns.length - 1, renamed: Boolean(entry) && entry.chat !== chat });
    }
  }
  const there = new Set(turns.map(turn => turn.id));
  if (deleted) forget.push(...Object.keys(list).filter(id => list[id].chat === chat && !there.has(id)));
  return { keep, forget, settled: turns.slice(0, -1).map(turn => turn.id) };
}

// The conversation of a character or a group, under a name that nobody else has.
export function conversationOf(names, key, label) {
  const taken = Object.values(names);
  let name = label;
  for (let number = 2; !names[key] && taken.includes(name); number++) name = `${label} ${number}`;
  return names[key] ??= name;
}

const ofCharacter = avatar => conversationOf(settings().names, avatar, avatar.replace(/\.[^.]*$/, ''));

// Where the open chat is remembered and what it may recall beside; null: no chat is open.
function place() {
  const { groupId, groups, characters, characterId, chatMetadata } = st();
  const session = chatMetadata?.integrity;
  if (!session) return null;
  const group = groupId && groups.find(one => one.id === groupId);
  const avatar = characters[characterId]?.avatar;
  if (!group && !avatar) return null;
  const own = group ? conversationOf(settings().names, `group ${group.id}`, `${group.name} ${group.id}`) : ofCharacter(avatar);
  if (settings().per === 'chat') return { conversation: `${own} · ${session.slice(0, 8)}`, session, also: [] };
  return { conversation: own, session, also: (group?.members ?? []).slice(0, MOST_ALSO).map(ofCharacter) };
}

// Asking the server

class Refused extends Error {
  constructor(status, { kind = 'server', message = `HTTP ${status}` } = {}) {
    super(message);
    Object.assign(this, { status, kind });
  }
}

async function ask(path, body, limit = RECALL_MS, stopping = new AbortController()) {
  const timer = setTimeout(() => stopping.abort(new Error(t`no answer in time`)), limit);
  try {
    const answer = await fetch(settings().url.replace(/\/+$/, '') + path, {
      method: body ? 'POST' : 'GET',
      headers: { Authorization: `Bearer ${settings().token}`, ...(body && { 'Content-Type': 'application/json' }) },
      body: body && JSON.stringify(body),
      signal: stopping.signal,
    });
    const said = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Refused(answer.status, said.error);
    [pausedUntil, noticed] = [0, false];
    return said;
  } finally {
    clearTimeout(timer);
  }
}

let pausedUntil = 0;
let noticed = false;

// One notice until it answers again, and nobody asks for a while; the chat goes on.
function away(error) {
  pausedUntil = Date.now() + PAUSE_MS;
  if (noticed) return;
  noticed = true;
  toastr.warning(t`The chat goes on without memory, and what is said now is remembered later: ${error.message}`, 'memory-server');
}

// What is not stored yet

const waiting = () => JSON.parse(localStorage.getItem(BOX) ?? '[]');

function changeBox(change) {
  try {
    localStorage.setItem(BOX, JSON.stringify(change(waiting())));
  } catch (error) {
    away(error);
  }
}

// `fresh`: nobody has sent anything of this turn, so that to forget it needs no request.
function put(job) {
  changeBox(jobs => {
    const before = jobs.find(one => one.turn === job.turn);
    if (!job.said && before?.fresh) return jobs.filter(one => one !== before);
    const made = { ...job, fresh: before ? before.fresh : Boolean(job.fresh), version: st().uuidv4() };
    return before ? jobs.map(one => (one === before ? made : one)) : [...jobs, made];
  });
}

const release = ids => changeBox(jobs => jobs.map(one => ({ ...one, held: one.held && Boolean(ids) && !ids.includes(one.turn) })));

let delivering = null;
const deliver = () => (delivering ??= delivered().finally(() => { delivering = null; }));

async function delivered() {
  while (usable() && Date.now() >= pausedUntil) {
    const job = waiting().find(one => !one.held);
    if (!job) return;
    changeBox(jobs => jobs.map(one => (one.version === job.version ? { ...one, fresh: false } : one)));
    const { turn, said, session, conversation } = job;
    try {
      if (said) await ask('/v1/remember_turn', { messages: said, turn_id: turn, session, conversation_id: conversation }, DELIVERY_MS);
      else await ask('/v1/forget', { ids: [turn], conversation_id: conversation, confirm: true }, DELIVERY_MS);
    } catch (error) {
      // What will never be taken must not keep the others waiting.
      if (![400, 404, 413].includes(error.status)) return away(error);
      toastr.warning(t`A turn cannot be remembered: ${error.message}`, 'memory-server');
    }
    changeBox(jobs => jobs.filter(one => one.version !== job.version));
    draw();
  }
}

// Looking at the chat

let due = null; // a look that waits: { timer, chat, list, at, deleted }

// `list` belongs to the chat, and the program empties the chat before it says that another one is open: so a look that
// waits has its own copy.
function look(wait = SETTLE_MS, deleted = false) {
  const at = place();
  if (!at) return;
  if (due) clearTimeout(due.timer);
  const list = (st().chatMetadata[KEY] ??= {});
  due = { chat: [...st().chat], list, at, deleted: deleted || Boolean(due?.deleted) };
  if (wait) due.timer = setTimeout(lookNow, wait);
  else lookNow();
}

function lookNow() {
  if (!due) return;
  const { chat, list, at: { conversation, session }, deleted, timer } = due;
  clearTimeout(timer);
  due = null;
  const { keep, forget, settled } = reconciled(turnsOf(chat), list, session, deleted);
  for (const { turn, held, renamed } of keep) {
    if (renamed) turn.id = (chat[turn.start].extra[KEY] = { turn: st().uuidv4() }).turn;
    put({ turn: turn.id, said: turn.said, conversation, session, held, fresh: !list[turn.id] });
    list[turn.id] = { chat: session, hash: turn.hash, conversation };
  }
  for (const id of forget) {
    put({ turn: id, conversation: list[id].conversation, held: false });
    delete list[id];
  }
  if (keep.length || forget.length) st().saveMetadataDebounced();
  release(settled);
  deliver();
  draw();
}

// Recalling

let came = null; // of the newest turn: { key, prompt, items }
let stopping = null;

function itemsOf({ shortTerm, longTerm }) {
  const { topRelevant, nextRelevant, randomFlashback } = shortTerm;
  const items = [...topRelevant, ...nextRelevant, ...randomFlashback].map(({ id, text, timestamp, matched, reason, keptIn }) => (
    { id, text: text.slice(0, SHOWN_CHARS), at: timestamp, matched, reason, keptIn }));
  return [...items, ...longTerm.activated.map(({ name, prompt }) => ({ text: prompt, reason: t`The trigger “${name}” fired.` }))];
}

globalThis.memory_server_recalls = async (_chat, _size, _abort, type = 'normal') => {
  const { setExtensionPrompt, chat, chatMetadata } = st();
  setExtensionPrompt(KEY, '', 1, 1, false, 0);
  const [at, turn] = [place(), turnsOf(chat).at(-1)];
  if (!usable() || !at || !turn || THROWN_AWAY.includes(type)) return;
  const key = `${at.session} ${turn.start} ${turn.asked}`;
  if (came?.key !== key) {
    came = null;
    if (Date.now() < pausedUntil) return;
    const inPrompt = chat.slice(0, turn.end + 1).filter((one, index) => !one.is_system && one.mes?.trim()
      && index >= Math.min(chatMetadata.lastInContextMessageId ?? 0, turn.start));
    const messages = inPrompt.slice(-MOST_MESSAGES).map(asSent);
    const { conversation, session, also } = at;
    const asked = { messages, session, also, conversation_id: conversation, reinforce: type === 'normal' };
    try {
      const answer = await ask('/v1/recall_turn', asked, RECALL_MS, stopping = new AbortController());
      came = { key, prompt: inert(answer.prompt), items: itemsOf(answer) };
    } catch (error) {
      return error.name === 'AbortError' ? undefined : away(error);
    }
    deliver();
  }
  setExtensionPrompt(KEY, came.prompt, 1, 1, false, 0);
};

// The line under an answer

function element(tag, given = {}, ...inside) {
  const made = Object.assign(document.createElement(tag), given);
  made.append(...inside);
  return made;
}

const button = (label, act) => element('button', { type: 'button', className: `${KEY}_button`, textContent: label, onclick: act });

function marked(text, words) {
  const escaped = words.map(word => word.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
  const parts = words.length ? text.split(new RegExp(`(${escaped.join('|')})`, 'gi')) : [text];
  return parts.map((part, number) => (number % 2 ? element('mark', { textContent: part }) : part));
}

// What a button does: it never throws, and the line says how it is then.
async function done(act) {
  try {
    await act();
    st().saveChat();
  } catch (error) {
    toastr.error(error.message, 'memory-server');
  }
  draw();
}

const forgetIds = async (ids, conversation) => (await ask('/v1/forget', { ids, conversation_id: conversation, confirm: true })).changeId;
const undo = (changeId, conversation) => ask('/v1/undo_change', { changeId, conversation_id: conversation });

function itemLine(item, conversation) {
  const where = item.keptIn ?? conversation;
  const when = item.at ? `${new Date(item.at).toLocaleDateString(st().getCurrentLocale(), { dateStyle: 'medium' })} · ` : '';
  const says = element('div', { className: `${KEY}_text` }, ...marked(item.text, item.matched ?? []));
  const act = !item.id ? [] : item.gone
    ? [t`forgotten`, ' · ', button(t`undo`, () => done(async () => { await undo(item.gone, where); delete item.gone; }))]
    : [button(t`forget`, () => done(async () => { item.gone = await forgetIds([item.id], where) ?? ''; }))];
  return element('li', { className: item.gone ? `${KEY}_gone` : '' }, says, element('small', {}, when, item.reason, ' ', ...act));
}

function stateOf(turn, list, jobs) {
  const job = jobs.find(one => one.turn === turn.id && one.said);
  const skip = value => () => done(() => { st().chat[turn.start].extra[KEY].skip = value; look(0); });
  if (turn.skip) return [t`not remembered`, ' · ', button(t`remember`, skip(false))];
  if (job?.held) return [t`will be remembered with your next message`, ' · ', button(t`don't`, skip(true))];
  if (job) return [t`will be remembered when memory-server answers`, ' · ', button(t`don't`, skip(true))];
  return list[turn.id] ? [t`remembered`, ' · ', button(t`undo`, skip(true))] : [];
}

function draw() {
  const { chat, chatMetadata } = st();
  const [turns, jobs, at] = [turnsOf(chat), waiting(), place()];
  for (const shown of document.querySelectorAll('#chat .mes[mesid]')) {
    const index = Number(shown.getAttribute('mesid'));
    const before = shown.querySelector(`.${KEY}`);
    const open = before?.querySelector('details')?.open ?? false;
    before?.remove();
    const items = (at && !chat[index]?.is_user && chat[index]?.extra?.[KEY]?.came) || [];
    const turn = turns.find(one => one.id && one.answered && one.end === index);
    const state = turn ? stateOf(turn, chatMetadata[KEY] ?? {}, jobs) : [];
    if (!items.length && !state.length) continue;
    const title = items.length === 1 ? t`1 memory came` : t`${items.length} memories came`;
    const list = items.length ? [element('details', { open }, element('summary', {}, title),
      element('ul', {}, ...items.map(item => itemLine(item, at.conversation))))] : [];
    const line = element('div', { className: KEY }, ...list, element('small', {}, ...state));
    shown.querySelector('.mes_block').insertBefore(line, shown.querySelector('.mes_bias'));
  }
}

// Panel and commands

async function whyNot() {
  try {
    const { name, tenant, version, paused } = await ask('/v1/me');
    const who = t`Connected to memory-server ${version} as ${name ?? '-'}, memories of ${tenant ?? t`everybody`}.`;
    return paused ? `${who} ${t`It is paused: ${paused}.`}` : who;
  } catch (error) {
    if (error.status === 401) return t`The token does not count. “memory-server install sillytavern” makes one.`;
    if (error instanceof Refused) return error.message;
    // A page of a foreign origin may read only an answer to which the browser sends no token beforehand.
    const refused = await fetch(settings().url.replace(/\/+$/, '') + '/healthz').then(answer => answer.status === 403, () => false);
    return refused
      ? t`memory-server refuses pages of ${location.origin}. Add this origin to http.origins in memory-server.toml, and start “memory-server serve --http” again.`
      : t`Nothing answers at ${settings().url}. Is “memory-server serve --http” running there?`;
  }
}

async function panel() {
  const [, folder] = new URL('.', import.meta.url).pathname.match(/\/scripts\/extensions\/(.*)\//);
  const html = await st().renderExtensionTemplateAsync(decodeURIComponent(folder), 'settings');
  document.querySelector('#extensions_settings2').insertAdjacentHTML('beforeend', html);
  for (const field of document.querySelectorAll(`#${KEY} [name]`)) {
    const value = field.type === 'checkbox' ? 'checked' : 'value';
    field[value] = settings()[field.name];
    field.addEventListener('change', () => {
      settings()[field.name] = value === 'value' ? field.value.trim() : field.checked;
      [pausedUntil, noticed] = [0, false];
      st().saveSettingsDebounced();
    });
  }
  document.querySelector(`#${KEY}_test`).onclick = async () => {
    document.querySelector(`#${KEY}_told`).textContent = await whyNot();
    deliver();
  };
}

const said = items => items.map(({ text }) => `- ${text.replace(/\s+/g, ' ').slice(0, SHOWN_CHARS)}`).join('\n');

const COMMANDS = {
  on: () => switched(true),
  off: () => switched(false),
  status: async () => `${await whyNot()} ${t`Switched on: ${settings().on}. Turns that wait: ${waiting().length}.`}`,
  async search(words) {
    const { conversation, also } = place();
    const asked = { messages: [{ role: 'user', content: words }], conversation_id: conversation, also, reinforce: false, flashbacks: 0 };
    return said(itemsOf(await ask('/v1/recall_turn', asked))) || t`Nothing comes to mind.`;
  },
  async forget(words) {
    const { conversation } = place();
    const { found, items } = await ask('/v1/forget', { words, conversation_id: conversation });
    if (!found) return t`Nothing has these words.`;
    if (!await st().Popup.show.confirm(t`Forget this?`, element('div', { innerText: said(items) }).innerHTML)) return t`Nothing was forgotten.`;
    const change = await forgetIds(items.map(({ id }) => id), conversation);
    return t`Forgotten: ${items.length}. “memory-server undo ${change}” brings it back.`;
  },
};

function switched(on) {
  settings().on = document.querySelector(`#${KEY} [name=on]`).checked = on;
  st().saveSettingsDebounced();
  return on ? t`Memory is on.` : t`Memory is off.`;
}

function commands() {
  const { SlashCommandParser, SlashCommand, SlashCommandArgument, ARGUMENT_TYPE } = st();
  SlashCommandParser.addCommandObject(SlashCommand.fromProps({
    name: 'memory',
    returns: 'text',
    helpString: t`Memory: on, off, status, search WORDS, forget WORDS.`,
    unnamedArgumentList: [SlashCommandArgument.fromProps({ description: 'on | off | status | search … | forget …', typeList: [ARGUMENT_TYPE.STRING], isRequired: true })],
    async callback(_named, given) {
      const [, name, rest] = String(given).trim().match(/^(\S*)\s*([^]*)$/);
      const told = await (COMMANDS[name] && (COMMANDS[name].length === 0 || (rest && place()))
        ? COMMANDS[name](rest) : t`Memory: on, off, status, search WORDS, forget WORDS.`).catch?.(error => error.message);
      toastr.info(told, 'memory-server');
      return told;
    },
  }));
}

// The hook of the manifest, called once when the program is ready.
export async function activate() {
  const { extensionSettings, eventSource, eventTypes } = st();
  extensionSettings[KEY] = { ...DEFAULTS, names: {}, ...extensionSettings[KEY] };
  const on = (name, act) => eventSource.on(eventTypes[name], act);
  on('MESSAGE_SENT', index => {
    const message = st().chat[index];
    if (usable() && message?.is_user) (message.extra ??= {})[KEY] = { turn: st().uuidv4() };
    look(0);
  });
  on('MESSAGE_RECEIVED', (index, type = 'normal') => {
    const message = st().chat[index];
    if (['first_message', 'command', ...THROWN_AWAY].includes(type) || !message) return;
    const { [KEY]: _before, ...extra } = message.extra ?? {};
    message.extra = came?.items.length ? { ...extra, [KEY]: { came: structuredClone(came.items) } } : extra;
    look();
  });
  for (const name of ['MESSAGE_UPDATED', 'MESSAGE_SWIPED', 'MESSAGE_SWIPE_DELETED']) on(name, () => look());
  on('MESSAGE_DELETED', () => look(SETTLE_MS, true));
  for (const name of ['CHARACTER_MESSAGE_RENDERED', 'MESSAGE_UPDATED', 'MESSAGE_SWIPED', 'MORE_MESSAGES_LOADED']) on(name, draw);
  on('GENERATION_STOPPED', () => stopping?.abort());
  on('CHARACTER_RENAMED', (before, after) => {
    settings().names[after] = ofCharacter(before);
    delete settings().names[before];
    st().saveSettingsDebounced();
  });
  const left = () => { lookNow(); release(); came = null; };
  on('CHAT_CHANGED', () => { left(); deliver(); draw(); });
  addEventListener('pagehide', lookNow);
  await panel();
  commands();
  left();
  deliver();
}
