// The memory of a chat: before an answer it adds what comes to mind, and it remembers a turn once the next message
// comes, so that swipes, edits, regenerations and deletions of the newest turn cost nothing. It knows nothing of
// SillyTavern but `SillyTavern.getContext()`, and of memory-server its REST calls (docs/how-to/companion.md).
//
// What is remembered is reconciled and not reacted to: the turns of the chat against the list in `chatMetadata`. What
// is not stored yet is in an outbox in `localStorage`; the newest turn is `held` there until it is settled.

const [KEY, BOX, COMMAND] = ['memory_server', 'memory_server.outbox', 'on | off | status | search … | forget …'];
// An answer waits for a recall, nobody for a delivery; after a failure nobody asks for a while; quick changes are one.
// Words: at 20 tokens a second, as a model at home writes, 20 words (60 tokens) take 3 s, and 1 s to read the messages.
const MS = { recall: 2000, words: 4000, delivery: 10000, pause: 15000, settle: 1500 };
// Messages sent with a recall; further conversations that the server takes, and turns of these; characters of a memory
// under an answer, and memories there that were left out.
const MOST = { messages: 100, also: 20, turns: 5000, chars: 400, leftOut: 50 };
// Messages that the chat's model sees to name words, and characters of each; tokens of its answer; words that the
// server takes, characters of one, and blanks in one: what has more is a sentence.
const WORDS = { messages: 4, seen: 1000, tokens: 200, most: 40, chars: 60, blanks: 3 };
const WORDS_ASKED = 'Name up to 20 other words for what the last message touches and may have been said before in this '
  + 'chat: things, people, places, occasions, feelings, in the language of the chat. Write only the words, with commas '
  + 'between them. Where it is small talk, write only -';
const DEFAULTS = { on: true, url: 'http://127.0.0.1:8460', token: '', per: 'character', words: false, hidden: false };
const [NOT_IN_CHAT, REFUSED] = [['quiet', 'impersonate'], [400, 413, 414, 415, 422, 431]];

// `due`: a look at the chat that waits; `came` for the newest turn: { key, prompt, items }; `stopping` ends the recall.
// `took`: milliseconds in which words were last named.
let [pausedUntil, noticed, delivering, due, came, stopping, took] = [0, false, null, null, null, null, null];

const st = () => SillyTavern.getContext();
const t = (...said) => st().t(...said);
const settings = () => st().extensionSettings[KEY];
const usable = () => settings().on && settings().token !== '';
const tell = (kind, text) => toastr[kind](text, 'memory-server', { escapeHtml: true });

// The text without macros: what somebody once said must not act.
export const inert = text => text.replace(/\{(?=\{)/g, '{ ').replace(/<(?=(?:USER|BOT|CHAR\w*|GROUP)>)/gi, '< ');

// FNV-1a of 32 bits, and the length.
const mixed = (hash, character) => Math.imul(hash ^ character.codePointAt(0), 0x01000193) >>> 0;
const hashed = text => `${[...text].reduce(mixed, 0x811c9dc5).toString(36)}.${text.length}`;

const asSent = ({ is_user, mes, name, send_date }) => (
  { role: is_user ? 'user' : 'assistant', content: mes, name, timestamp: Date.parse(send_date) || undefined });

// The turns of a chat: each begins with a message of the user and has all answers up to the next one. The greeting is
// nobody's words; comments and messages of the program have a type; what is hidden from the prompt has `is_system`, and
// is no part of a turn unless the person wants it (`withHidden`).
export function turnsOf(chat, withHidden = false) {
  const turns = [];
  for (const [index, message] of chat.entries()) {
    if (message.extra?.type || ['', '...', undefined].includes(message.mes?.trim())) continue;
    if (message.is_user && (turns.at(-1)?.answered ?? true)) {
      const { turn, skip = false } = message.extra?.[KEY] ?? {};
      turns.push({ id: turn, skip, start: index, said: [], hidden: false, answered: false });
    }
    const last = turns.at(-1);
    if (!last) continue;
    last.end = index;
    last.answered ||= !message.is_user;
    const isHidden = message.is_system && !withHidden;
    last.hidden ||= Boolean(isHidden);
    if (!isHidden) last.said.push(asSent(message));
  }
  return turns;
}

export const hashOf = ({ said }) => hashed(JSON.stringify(said.map(({ role, name, content }) => [role, name, content])));

// What the memory should do so that it knows these turns: keep one (again), or forget one. `list` says what it was
// told, and by which chat: a branch has a copy of both, and nobody takes back what another chat stored. A turn of which
// a message is hidden stays as it was stored: people hide what the memory is to carry. `own`: the conversation of a chat
// with a memory of its own. It keeps the newest turn that it was copied with too, because the trunk may swipe that.
export function reconciled(turns, list, chat, deleted, own = '') {
  const [keep, forget, there] = [[], [], turns.map(turn => turn.id)];
  for (const turn of turns.filter(one => one.id)) {
    const entry = list[turn.id];
    if (turn.skip && entry) forget.push(turn.id);
    const isKept = entry?.hash === hashOf(turn) && !(own && entry.chat !== chat && turn === turns.at(-1));
    if (turn.skip || (entry ? isKept || turn.hidden : !turn.answered)) continue;
    keep.push({ turn, held: turn === turns.at(-1), renamed: Boolean(entry) && entry.chat !== chat });
  }
  if (deleted) forget.push(...Object.keys(list).filter(id => list[id].chat === chat && !there.includes(id)));
  return { keep, forget, settled: there.slice(0, -1) };
}

// What a chat with a memory of its own recalls beside it: the turns that it has from its trunk, where the trunk stored
// them. So what is forgotten there is gone here, and what came there after the branch is not in it.
export function trunkOf(turns, list, own) {
  const [alsoTurns, from] = [{}, ({ id }) => list[id]?.conversation_id ?? own];
  const isOfTrunk = turn => !turn.skip && from(turn) !== own && haveOneOwner(from(turn), own);
  for (const turn of turns.slice(-MOST.turns).filter(isOfTrunk)) (alsoTurns[from(turn)] ??= []).push(turn.id);
  return { conversation_id: own, also: Object.keys(alsoTurns).slice(-MOST.also), alsoTurns };
}

// The conversation of a character or a group, under a name that nobody else has.
export function conversationOf(names, key, label) {
  let name = label;
  for (let number = 2; Object.values(names).includes(name); number++) name = `${label} ${number}`;
  return names[key] ??= name;
}

const ofCharacter = avatar => conversationOf(settings().names, avatar, avatar.replace(/\.[^.]*$/, ''));
const ofGroup = ({ id, name }) => conversationOf(settings().names, `group ${id}`, `${name} ${id}`);

// Whether two conversations are of one character or group, also where each chat has one of its own.
const haveOneOwner = (...two) => new Set(two.map(one => String(one).replace(/ · .{1,8}$/, ''))).size === 1;

// Where the open chat is remembered and what it may recall beside; null: no chat is open.
function place() {
  const { groupId, groups, characters, characterId, chat, chatMetadata: { integrity: session, [KEY]: list = {} } = {} } = st();
  const group = groupId && groups.find(one => one.id === groupId);
  const avatar = characters[characterId]?.avatar;
  if (!session || !(group || avatar)) return null;
  const own = group ? ofGroup(group) : ofCharacter(avatar);
  if (settings().per === 'chat') return { session, ...trunkOf(turnsOf(chat, settings().hidden), list, `${own} · ${session.slice(0, 8)}`) };
  return { conversation_id: own, session, also: (group?.members ?? []).slice(0, MOST.also).map(ofCharacter) };
}

// Messages by which sticky, cooldown and delay count, as there: without hidden ones, and without the answer that a swipe
// replaces.
const countOf = (chat, type) => chat.filter(one => !one.is_system).length - (type === 'swipe' && !chat.at(-1)?.is_user);

function participants() {
  const { name1, name2, groupId } = st();
  return { ...(name1 ? { user: name1 } : {}), ...(name2 && !groupId ? { char: name2 } : {}) };
}

const address = path => settings().url.replace(/\/+$/, '') + path;

async function ask(path, body, limit = MS.recall, stop = new AbortController().signal) {
  const headers = { Authorization: `Bearer ${settings().token}`, 'Content-Type': 'application/json' };
  const content = body ? { method: 'POST', body: JSON.stringify(body) } : {};
  const signal = AbortSignal.any([AbortSignal.timeout(limit), stop]);
  const answer = await fetch(address(path), { ...content, headers, signal, redirect: 'error' });
  const said = await answer.json().catch(() => ({})); // a page of something in between
  if (!answer.ok) throw Object.assign(new Error(said.error?.message ?? answer.status), { status: answer.status });
  [pausedUntil, noticed] = [0, false];
  return said;
}

// One notice until it answers again; the chat goes on.
function away({ name, status, message }) {
  if (name === 'AbortError') return; // the person stopped it
  pausedUntil = Date.now() + MS.pause;
  const why = status ? message : t`memory-server does not answer`;
  if (!noticed) tell('warning', t`The chat goes on without memory; what is said is remembered later. (${why})`);
  noticed = true;
}

const waiting = () => JSON.parse(localStorage.getItem(BOX) ?? '[]');

const changeBox = change => localStorage.setItem(BOX, JSON.stringify(change(waiting())));

// `fresh`: nothing of this turn was sent, so that to forget it needs no request.
const put = job => changeBox(jobs => {
  const before = jobs.find(one => one.turn === job.turn);
  if (!job.said && before?.fresh) return jobs.filter(one => one !== before);
  const made = { ...job, fresh: before?.fresh ?? job.fresh, version: st().uuidv4() };
  return before ? jobs.map(one => (one === before ? made : one)) : [...jobs, made];
});

const release = may => changeBox(jobs => jobs.map(one => ({ ...one, held: one.held && !may(one) })));

const deliver = () => (delivering ??= delivered().finally(() => { delivering = null; }));

async function delivered() {
  await null; // whoever asks now may still put something into the box
  while (usable() && Date.now() >= pausedUntil) {
    const job = waiting().find(one => !one.held);
    if (!job) return;
    changeBox(jobs => jobs.map(one => (one.version === job.version ? { ...one, fresh: false } : one)));
    const { turn, said, session, conversation_id } = job;
    const sent = said
      ? ask('/v1/remember_turn', { messages: said, turn_id: turn, session, conversation_id }, MS.delivery)
      : ask('/v1/forget', { ids: [turn], conversation_id, confirm: true }, MS.delivery);
    // Only an answer that says what became of the turn is one; what is refused for good keeps no other turn waiting.
    const failed = await sent.then(answer => answer?.[said ? 'stored' : 'forgotten'] === undefined && {}, error => error);
    if (failed && !REFUSED.includes(failed.status)) return away(failed);
    if (failed) tell('warning', t`A turn cannot be remembered: ${failed.message}`);
    changeBox(jobs => jobs.filter(one => one.version !== job.version));
    draw();
  }
}

// A copy of the chat, because the program empties it before it says that another one is open.
function look(wait = MS.settle, deleted = false) {
  const [at, { chat, chatMetadata }] = [place(), st()];
  clearTimeout(due?.timer);
  const timer = setTimeout(lookNow, wait);
  due = at && { chat: [...chat], list: chatMetadata[KEY] ??= {}, at, deleted: deleted || due?.deleted, timer };
  if (!wait) lookNow();
}

function lookNow() {
  if (!due) return;
  const { chat, list, at: { conversation_id, session, alsoTurns: alone }, deleted, timer } = due;
  clearTimeout(timer);
  due = null;
  const { keep, forget, settled } = reconciled(turnsOf(chat, settings().hidden), list, session, deleted, alone && conversation_id);
  for (const { turn, held, renamed } of keep) {
    const id = renamed ? st().uuidv4() : turn.id;
    chat[turn.start].extra[KEY] = { turn: id };
    put({ turn: id, said: turn.said, conversation_id, session, held, fresh: !list[id] });
    list[id] = { chat: session, hash: hashOf(turn), conversation_id };
  }
  // The list is in the chat, which somebody else may have made: it names no memories of others.
  const ours = forget.filter(id => haveOneOwner(list[id].conversation_id, conversation_id));
  for (const id of ours) put({ turn: id, conversation_id: list[id].conversation_id });
  for (const id of forget) delete list[id];
  if (keep.length || forget.length) st().saveMetadataDebounced();
  release(job => settled.includes(job.turn));
  deliver();
  draw();
}

// The chat is left: its newest turn is settled too.
function left() {
  lookNow();
  release(() => true);
  came = null;
  deliver();
  draw();
}

// The line of a memory with a trigger, whose text stands in the prompt alone.
const lineOf = (name, prompt) => prompt.split('\n').find(line => [`[${name}] `, `【${name}】`].some(head => line.startsWith(head)));

// What came, and what fired and is not in the prompt.
export const itemsOf = ({ prompt, shortTerm: { topRelevant, nextRelevant, randomFlashback }, longTerm: { activated, leftOut = [] } }) => [
  ...[...topRelevant, ...nextRelevant, ...randomFlashback].map(({ id, text, timestamp, reason, keptIn }) => (
    { id, text: text.slice(0, MOST.chars), timestamp, reason, keptIn })),
  ...activated.map(({ name, chars, cut }) => (
    { text: (lineOf(name, prompt) ?? name).slice(0, MOST.chars), trigger: name, chars, cut })),
  ...leftOut.slice(0, MOST.leftOut).map(({ name, chars, reason }) => ({ text: name, chars, leftOut: reason })),
];

// Why a memory whose trigger fired is not in the prompt.
const notInPrompt = reason => ({
  room: t`no room left`,
  same_text: t`the same text came already`,
  group: t`another one of its group came`,
  chance: t`its probability was against it`,
  cooldown: t`it came a few messages ago`,
  delay: t`the chat is too short yet`,
  once: t`it came in this chat before`,
  character: t`it is for other characters`,
  recursion: t`it waits for a text of its book`,
})[reason] ?? reason;

// The words of an answer that is a list of words; none if it is anything else, such as a sentence or a single mark.
export function wordsOf(answer) {
  const list = String(answer).replace(/<think>[^]*?<\/think>/gi, '').replace(/^```\w*|```$/gm, '').trim();
  const bare = word => word.replace(/^(\s|[-*•["'“「]|\d+[.)])+|[\s"'”」\]]+$/g, '');
  const words = list.split(/[,，、;；\n]/).map(bare).filter(Boolean);
  const blanks = word => word.split(/\s+/).length - 1;
  const isWord = word => word.length <= WORDS.chars && blanks(word) <= WORDS.blanks && !/[.!?:。！？：<>{}]/.test(word);
  return words.length > 1 && words.every(isWord) ? [...new Set(words)].slice(0, WORDS.most) : [];
}

// Other words for what may have been said before, from the chat's own model. What is late counts as nothing.
async function wordsFor(messages, stop) {
  const prompt = messages.slice(-WORDS.messages).map(({ name, mes }) => inert(`${name}: ${mes.slice(-WORDS.seen)}`)).join('\n');
  const began = performance.now();
  const late = new Promise((_done, fail) => {
    AbortSignal.any([AbortSignal.timeout(MS.words), stop]).addEventListener('abort', fail);
  });
  const asked = Promise.resolve().then(() => st().generateRaw({
    prompt, systemPrompt: WORDS_ASKED, responseLength: WORDS.tokens, trimNames: false }));
  const words = await Promise.race([asked, late]).then(wordsOf, () => []);
  took = performance.now() - began;
  return words;
}

globalThis.memory_server_recalls = async (_chat, _size, _abort, type = 'normal') => {
  const { setExtensionPrompt, chat, chatMetadata } = st();
  setExtensionPrompt(KEY, '', 1, 1, false, 0);
  if (NOT_IN_CHAT.includes(type)) return;
  const [at, turn] = [place(), turnsOf(chat, settings().hidden).at(-1)];
  const key = usable() && at && turn && JSON.stringify([at, turn.start, turn.said.filter(one => one.role === 'user')]);
  if (came?.key !== key) came = null;
  if (!key || (!came && Date.now() < pausedUntil)) return;
  if (!came) {
    const first = Math.min(chatMetadata.lastInContextMessageId ?? 0, turn.start);
    const seen = chat.slice(first, turn.end + 1).filter(one => !one.is_system && one.mes?.trim());
    // What a page that was loaded again asks for the same turn leaves no trace.
    const about = { ...at, reinforce: type === 'normal', messages: seen.slice(-MOST.messages).map(asSent) };
    about.messageCount = countOf(chat, type);
    about.participants = participants();
    stopping = new AbortController();
    const otherWords = settings().words ? await wordsFor(seen, stopping.signal) : [];
    if (otherWords.length) about.otherWords = otherWords;
    const answer = await ask('/v1/recall_turn', about, MS.recall, stopping.signal).catch(away);
    if (typeof answer?.prompt !== 'string') return;
    came = { key, prompt: inert(answer.prompt), items: itemsOf(answer) };
  }
  setExtensionPrompt(KEY, came.prompt, 1, 1, false, 0);
};

function element(tag, given, ...inside) {
  const made = Object.assign(document.createElement(tag), given);
  return made.append(...inside), made;
}

// A button that says what went wrong; the line under the answer says how it is then.
function button(textContent, act) {
  const onclick = () => Promise.resolve().then(act).then(() => st().saveChat())
    .catch(error => tell('error', error.message)).then(draw);
  return element('button', { textContent, type: 'button', className: `${KEY}_button`, onclick });
}

function itemLine(item, conversation) {
  const about = { conversation_id: item.keptIn ?? conversation };
  const forget = () => ask('/v1/forget', { ...about, ids: [item.id], confirm: true }).then(done => { item.gone = done.changeId; });
  const undo = () => ask('/v1/undo_change', { ...about, changeId: item.gone }).then(() => { item.gone = undefined; });
  const time = item.timestamp ? `${new Date(item.timestamp).toLocaleDateString(st().getCurrentLocale())} · ` : '';
  const why = item.leftOut ? t`Left out: ${notInPrompt(item.leftOut)}.` : t`The trigger “${item.trigger}” fired.`;
  const size = item.chars ? t`${item.chars} characters` + (item.cut ? `, ${t`cut`}` : '') + ' · ' : '';
  const act = item.gone ? [t`forgotten`, ' · ', button(t`undo`, undo)] : [button(t`forget`, forget)];
  return element('li', { className: item.gone || item.leftOut ? `${KEY}_gone` : '' },
    element('div', { className: `${KEY}_text`, textContent: item.text }),
    element('small', {}, time, size, item.reason ?? why, ' ', ...(item.id ? act : [])));
}

function stateOf(turn, list, jobs) {
  const job = jobs.find(one => one.turn === turn.id && one.said);
  const skip = value => () => { st().chat[turn.start].extra[KEY].skip = value; look(0); };
  if (turn.skip) return [t`not remembered`, ' · ', button(t`remember`, skip(false))];
  if (job?.held) return [t`will be remembered with your next message`, ' · ', button(t`don't`, skip(true))];
  if (job) return [t`will be remembered when memory-server answers`, ' · ', button(t`don't`, skip(true))];
  return list[turn.id] ? [t`remembered`, ' · ', button(t`undo`, skip(true))] : [];
}

// The line under each answer: what came and why, and what becomes of the turn.
function draw() {
  const { chat, chatMetadata } = st();
  const [turns, jobs, at] = [turnsOf(chat, settings().hidden), waiting(), place()];
  for (const shown of at ? document.querySelectorAll('#chat .mes[mesid]') : []) {
    const [index, before] = [Number(shown.getAttribute('mesid')), shown.querySelector(`.${KEY}`)];
    const open = before?.querySelector('details')?.open ?? false;
    before?.remove();
    const items = chat[index]?.extra?.[KEY]?.came ?? [];
    const turn = turns.find(one => one.id && one.answered && one.end === index);
    const state = turn ? stateOf(turn, chatMetadata[KEY] ?? {}, jobs) : [];
    if (!items.length && !state.length) continue;
    const count = items.filter(item => !item.leftOut).length;
    const title = element('summary', {}, count === 1 ? t`1 memory came` : t`${count} memories came`);
    const lines = element('ul', {}, ...items.map(item => itemLine(item, at.conversation_id)));
    const list = items.length ? [element('details', { open }, title, lines)] : [];
    shown.querySelector('.mes_bias').before(element('div', { className: KEY }, ...list, element('small', {}, ...state)));
  }
}

async function connection() {
  const { name, tenant, version, paused, status, message } = await ask('/v1/me').catch(error => error);
  const who = version && t`Connected to memory-server ${version}: token ${name ?? '-'}, tenant ${tenant ?? '-'}.`;
  const state = paused && t`The memory is paused: ${paused}.`;
  const words = settings().words && took !== null && t`Naming words took ${(took / 1000).toFixed(1)} s the last time.`;
  if (version) return [who, state, words].filter(Boolean).join(' ');
  if (status) return message;
  // A page of a foreign origin may read only what needs no preflight, and so no token.
  const refused = await fetch(address('/healthz')).then(answer => answer.status === 403, () => false);
  if (!refused) return t`Nothing answers at ${settings().url}: start “memory-server serve --http”.`;
  return t`Pages of ${location.origin} are refused: add it to http.origins in memory-server.toml, then restart it.`;
}

const listed = items => items.filter(item => !item.leftOut).map(({ text }) => `- ${text.replace(/\s+/g, ' ').slice(0, MOST.chars)}`).join('\n');

async function switched(on) {
  settings().on = document.querySelector(`#${KEY} [name=on]`).checked = on;
  st().saveSettingsDebounced();
  return on ? t`Memory is on.` : t`Memory is off.`;
}

const COMMANDS = {
  on: () => switched(true),
  off: () => switched(false),
  status: async () => `${await switched(settings().on)} ${await connection()} ${t`Turns waiting: ${waiting().length}.`}`,
  async search(words) {
    const { session: _session, ...at } = place();
    const about = { ...at, reinforce: false, flashbacks: 0, messages: [{ role: 'user', content: words }] };
    return listed(itemsOf(await ask('/v1/recall_turn', about))) || t`Nothing comes to mind.`;
  },
  async forget(words) {
    const about = { conversation_id: place().conversation_id };
    const { items } = await ask('/v1/forget', { ...about, words });
    if (!items.length) return t`Nothing has these words.`;
    const shown = element('div', { innerText: listed(items) }).innerHTML;
    if (!await st().Popup.show.confirm(t`Forget this?`, shown)) return t`Nothing was forgotten.`;
    const { changeId } = await ask('/v1/forget', { ...about, ids: items.map(({ id }) => id), confirm: true });
    return t`Forgotten: ${items.length}. “memory-server undo ${changeId} --tenant sillytavern” brings it back.`;
  },
};

async function memory(_named, given) {
  const [, name, words] = String(given).trim().match(/^(\S*)\s*([^]*)$/);
  const known = Object.hasOwn(COMMANDS, name) && (!COMMANDS[name].length || (words && place()));
  const said = known ? await COMMANDS[name](words).catch(error => error.message) : COMMAND;
  tell('info', said);
  return inert(said); // a script may put it into a message
}

async function panel() {
  const [, folder] = new URL('.', import.meta.url).pathname.match(/\/scripts\/extensions\/(.*)\//);
  const html = await st().renderExtensionTemplateAsync(decodeURIComponent(folder), 'settings');
  document.querySelector('#extensions_settings2').insertAdjacentHTML('beforeend', html);
  for (const field of document.querySelectorAll(`#${KEY} [name]`)) {
    const value = field.type === 'checkbox' ? 'checked' : 'value';
    field[value] = settings()[field.name];
    field.onchange = () => {
      settings()[field.name] = value === 'value' ? field.value.trim() : field.checked;
      [pausedUntil, noticed] = [0, false];
      st().saveSettingsDebounced();
    };
  }
  document.querySelector(`#${KEY}_test`).onclick = async () => {
    document.querySelector(`#${KEY}_told`).textContent = await connection();
    deliver();
  };
}

// The hook of the manifest, called once when the program is ready.
export async function activate() {
  const { extensionSettings, eventSource, eventTypes, SlashCommandParser, SlashCommand, SlashCommandArgument } = st();
  extensionSettings[KEY] = { ...DEFAULTS, names: {}, ...extensionSettings[KEY] };
  const on = (names, act) => names.split(' ').forEach(name => eventSource.on(eventTypes[name], act));
  on('MESSAGE_SENT', index => {
    const message = st().chat[index];
    if (usable() && message?.is_user) (message.extra ??= {})[KEY] = { turn: st().uuidv4() };
    look(0);
  });
  on('MESSAGE_RECEIVED', (index, type) => {
    const message = st().chat[index];
    if (!message || ['first_message', 'command', ...NOT_IN_CHAT].includes(type)) return;
    message.extra = { ...message.extra, [KEY]: came?.items.length ? { came: structuredClone(came.items) } : undefined };
    look();
  });
  on('MESSAGE_UPDATED MESSAGE_SWIPED MESSAGE_SWIPE_DELETED', () => look());
  on('MESSAGE_DELETED', () => look(MS.settle, true));
  on('CHARACTER_MESSAGE_RENDERED MESSAGE_UPDATED MESSAGE_SWIPED MORE_MESSAGES_LOADED', draw);
  on('GENERATION_STOPPED', () => stopping?.abort());
  on('CHARACTER_RENAMED', (before, after) => {
    settings().names[after] = ofCharacter(before);
    delete settings().names[before];
    st().saveSettingsDebounced();
  });
  on('CHAT_CHANGED', left);
  addEventListener('pagehide', lookNow);
  await panel();
  const unnamedArgumentList = [SlashCommandArgument.fromProps({ description: COMMAND, isRequired: true })];
  const command = { name: 'memory', callback: memory, returns: 'text', helpString: COMMAND, unnamedArgumentList };
  SlashCommandParser.addCommandObject(SlashCommand.fromProps(command));
  left();
}
