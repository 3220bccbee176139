// The extension without a browser: its pure parts, and a chat in a stub of SillyTavern's context.

import assert from 'node:assert/strict';

const KEY = 'memory_server';
let ids = 0;
let asked = [];
let answers = () => ({});
const prompts = {};
const told = [];
const handlers = {};
const box = new Map();
const nothing = () => new Proxy(() => {}, { get: (_target, name) => (name === Symbol.toPrimitive ? () => '' : nothing()), set: () => true });
const context = {
  extensionSettings: { [KEY]: { token: 'mst_x', url: 'http://memory/' } },
  chat: [],
  chatMetadata: { integrity: 'chat-one' },
  characters: [{ avatar: 'Lin.png' }],
  characterId: 0,
  groups: [],
  groupId: null,
  name1: '小明',
  name2: 'Lin',
  t: (texts, ...values) => texts.reduce((whole, text, at) => whole + values[at - 1] + text),
  uuidv4: () => `id-${++ids}`,
  setExtensionPrompt: (key, text, ...how) => { prompts[key] = [text, ...how]; },
  saveMetadataDebounced() {},
  saveSettingsDebounced() {},
  eventTypes: new Proxy({}, { get: (_target, name) => name }),
  eventSource: { on: (name, act) => (handlers[name] ??= []).push(act) },
  renderExtensionTemplateAsync: async () => '',
  SlashCommandParser: { addCommandObject: given => { context.command = given; } },
  SlashCommand: { fromProps: given => given },
  SlashCommandArgument: { fromProps: given => given },
};
Object.assign(globalThis, {
  SillyTavern: { getContext: () => context },
  toastr: { warning: text => told.push(text), info: (...said) => { context.info = said; }, error: text => told.push(text) },
  localStorage: { getItem: name => box.get(name) ?? null, setItem: (name, value) => box.set(name, value) },
  document: { querySelectorAll: () => [], querySelector: () => nothing() },
  addEventListener() {},
  fetch: async (url, given) => {
    const body = JSON.parse(given.body);
    asked.push([url, body]);
    context.redirect = given.redirect;
    const answer = answers(url, body, given.signal);
    const { status = 200 } = context;
    if (status !== 200 && !url.endsWith('recall_turn')) return { ok: false, status, json: async () => ({ error: { message: 'No.' } }) };
    return { ok: true, json: async () => answer };
  },
});

// As the program serves it: the folder of the extension is in its address.
const { activate, conversationOf, hashOf, inert, itemsOf, reconciled, trunkOf, turnsOf, wordsOf } = await import(process.argv[2]);
const user = (mes, turn, more = {}) => ({ is_user: true, name: '小明', mes, extra: turn ? { [KEY]: { turn } } : {}, ...more });
const lin = (mes, more = {}) => ({ is_user: false, name: '林', mes, extra: {}, ...more });
const entry = (turn, chat = 'one') => ({ chat, hash: hashOf(turn), conversation_id: 'Lin' });

// Turns
const chat = [
  lin('你好。'), user('一', 'a'), lin('甲'), lin('乙', { name: '王' }), user('二', 'b'), user('三', 'c'),
  lin('评注', { is_system: true, extra: { type: 'comment' } }), lin('...'), lin('丙', { is_system: true }),
];
const turns = turnsOf(chat);
assert.deepEqual(turns.map(({ id, said, hidden }) => [id, said.map(one => one.content).join(''), hidden]),
  [['a', '一甲乙', false], ['b', '二三', true]]);
assert.deepEqual(turnsOf([lin('你好。')]), []);
const withHidden = turnsOf(chat, true).map(({ said, hidden }) => [said.map(one => one.content).join(''), hidden]);
assert.deepEqual(withHidden, [['一甲乙', false], ['二三丙', false]], 'the person wants it; a comment is nobody\'s words');

// Macros
for (const text of ['{{setvar::x::1}}', '{{{user}}}', '<USER> <char> <CHARIFNOTGROUP>']) {
  assert.ok(!/\{\{|<(user|char|bot)/i.test(inert(text)), inert(text));
}
assert.equal(inert('a {b} <b> {c'), 'a {b} <b> {c');

// Words: a list or nothing
const listed = ['芝麻、打雷，害怕; 橘猫\n3. 宠物', 'a, b', '["vet", "cat food"]', '<think>A cat?\nYes.</think>\n- vet\n- cat food', '```\nvet, cat\n```'];
assert.deepEqual(listed.map(answer => wordsOf(answer).join('|')), ['芝麻|打雷|害怕|橘猫|宠物', 'a|b', 'vet|cat food', 'vet|cat food', 'vet|cat']);
const unlisted = ['', '-', '无', 'cat', 'Your cat, I think, is called Sesame now.', '好的！芝麻、打雷', "I'm sorry, but I can't help with that one.",
  '其他说法：芝麻、打雷', 'x, {{setvar::a::b}}', `${'猫'.repeat(61)}、狗`, undefined];
for (const answer of unlisted) assert.deepEqual(wordsOf(answer), [], answer);
assert.equal(wordsOf(Array.from({ length: 90 }, (_each, number) => `w${number}`).join(', ')).length, 40);

// What came, as the line under an answer shows it: a memory with a trigger by its line of the prompt
const none = { topRelevant: [], nextRelevant: [], randomFlashback: [] };
const activated = [{ name: 'Sword', order: 7, chars: 5, conversation_id: 'Lin', cut: true }, { name: '剑', chars: 2 }, { name: 'gone', chars: 1 }];
const leftOut = [{ name: 'Bow', chars: 900, reason: 'room' }, { name: 'Rain', reason: 'cooldown' }];
const lore = itemsOf({ prompt: '<r>\n[Sword] sharp\n【剑】锋利\n</r>', shortTerm: none, longTerm: { activated, leftOut } });
assert.deepEqual(lore.map(({ text, trigger, chars, cut, leftOut }) => [text, trigger, chars, cut, leftOut]), [
  ['[Sword] sharp', 'Sword', 5, true, undefined], ['【剑】锋利', '剑', 2, undefined, undefined],
  ['gone', 'gone', 1, undefined, undefined], ['Bow', undefined, 900, undefined, 'room'], ['Rain', undefined, undefined, undefined, 'cooldown'],
]);

// Names
const names = {};
assert.deepEqual(['Lin.png', 'Lin.jpg', 'Lin.png'].map(key => conversationOf(names, key, 'Lin')), ['Lin', 'Lin 2', 'Lin']);

// What the memory should do
const [one, two] = turnsOf([user('一', 'a'), lin('甲'), user('二', 'b'), lin('乙')]);
const plan = (...given) => {
  const { keep, forget, settled } = reconciled(...given);
  return [keep.map(({ turn, held, renamed }) => [turn.id, held, renamed]), forget, settled];
};
assert.deepEqual(plan([one, two], {}, 'one'), [[['a', false, false], ['b', true, false]], [], ['a']]);
assert.deepEqual(plan([one, two], { a: entry(one), b: entry(two) }, 'one'), [[], [], ['a']]);
assert.deepEqual(plan([one, two], { a: entry(two), b: entry(two) }, 'one')[0], [['a', false, false]]);
assert.deepEqual(plan([one], { a: entry(one), b: entry(two) }, 'one'), [[], [], []], 'nothing is forgotten without a deletion');
assert.deepEqual(plan([one], { a: entry(one), b: entry(two) }, 'one', true)[1], ['b']);
assert.deepEqual(plan([one], { a: entry(one, 'main'), b: entry(two, 'main') }, 'branch', true), [[], [], []]);
assert.deepEqual(plan([one], { a: entry(two, 'main') }, 'branch')[0], [['a', true, true]]);
assert.deepEqual(plan([{ ...one, skip: true }], { a: entry(one) }, 'one'), [[], ['a'], []]);

// A branch with a memory of its own: it recalls what it has from its trunk, and keeps the newest turn itself
const copied = { a: { ...entry(one, 'main'), conversation_id: 'Lin · main' }, b: { ...entry(two, 'main'), conversation_id: 'Lin · main' } };
assert.deepEqual(plan([one, two], copied, 'branch', false, 'Lin · branch')[0], [['b', true, true]], 'the trunk may swipe it');
assert.deepEqual(plan([one], copied, 'branch', false, 'Lin · branch')[0], [['a', true, true]]);
assert.deepEqual(plan([one, two], copied, 'main', false, 'Lin · main')[0], [], 'the trunk itself');
const there = { conversation_id: 'Lin · branch', also: ['Lin · main'], alsoTurns: { 'Lin · main': ['a', 'b'] } };
assert.deepEqual(trunkOf([one, two], copied, 'Lin · branch'), there);
assert.deepEqual(trunkOf([one], copied, 'Lin · branch').alsoTurns, { 'Lin · main': ['a'] }, 'nothing that came after the branch');
const twice = { ...copied, b: { ...entry(two, 'mid'), conversation_id: 'Lin · mid' } };
assert.deepEqual(trunkOf([one, two], twice, 'Lin · branch').alsoTurns, { 'Lin · main': ['a'], 'Lin · mid': ['b'] }, 'a branch of a branch');
assert.deepEqual(trunkOf([one, two], copied, 'Lin · main').also, [], 'the trunk itself');
assert.deepEqual(trunkOf([{ ...one, skip: true }, two], copied, 'Lin · branch').alsoTurns, { 'Lin · main': ['b'] });
assert.deepEqual(trunkOf([one], { a: { ...entry(one), conversation_id: 'Mia · main' } }, 'Lin · branch').also, [], 'nothing of others');
const inGroup = { a: { ...entry(one), conversation_id: 'Crew 17 · main' } };
assert.deepEqual(trunkOf([one], inGroup, 'Crew 17 · branch').also, ['Crew 17 · main'], 'a branch in a group');
assert.deepEqual(plan([{ ...one, hidden: true }], { a: entry(two) }, 'one'), [[], [], []]);
assert.deepEqual(plan([{ ...one, id: undefined }], {}, 'one'), [[], [], []], 'said while the memory was off');

// A chat
const emit = async (name, ...given) => {
  for (const act of handlers[name] ?? []) await act(...given);
  for (let turn = 0; turn < 50; turn++) await null;
};
const recalled = { prompt: '<recalled>{{user}}</recalled>', shortTerm: { topRelevant: [], nextRelevant: [], randomFlashback: [] }, longTerm: { activated: [] } };
const said = async mes => {
  context.chat.push(user(mes));
  await emit('MESSAGE_SENT', context.chat.length - 1);
  await globalThis.memory_server_recalls([], 4096, () => {}, undefined);
};
const answered = async (mes, type = 'normal') => {
  context.chat.push(lin(mes));
  await emit('MESSAGE_RECEIVED', context.chat.length - 1, type);
};
const calls = () => asked.splice(0).map(([url, body]) => [url.replace('http://memory/v1/', ''), body]);
const usual = url => (url.endsWith('recall_turn') ? recalled : url.endsWith('forget') ? { forgotten: true } : { stored: true });
answers = usual;
await activate();
await said('一');
let [[name, body]] = calls();
assert.equal(name, 'recall_turn');
assert.deepEqual([body.conversation_id, body.session, body.also, body.reinforce], ['Lin', 'chat-one', [], true]);
assert.deepEqual([body.messageCount, body.participants], [context.chat.length, { user: '小明', char: 'Lin' }]);
assert.deepEqual(prompts[KEY], ['<recalled>{ {user}}</recalled>', 1, 1, false, 0]);
await answered('甲');
await globalThis.memory_server_recalls([], 4096, () => {}, 'swipe');
assert.deepEqual(calls(), [], 'a swipe asks nothing');
assert.equal(prompts[KEY][0], '<recalled>{ {user}}</recalled>');
await globalThis.memory_server_recalls([], 4096, () => {}, 'quiet');
assert.equal(prompts[KEY][0], '', 'a quiet prompt has none');
await emit('CHAT_CHANGED'); // of the same chat, as after a renaming
[[name, body]] = calls();
assert.deepEqual([name, body.messages.map(one => one.content), body.turn_id], ['remember_turn', ['一', '甲'], context.chat[0].extra[KEY].turn]);
await emit('CHAT_CHANGED');
assert.deepEqual(calls(), []);
await said('二');
await answered('乙');
await said('三');
assert.deepEqual(calls().map(call => call[0]), ['recall_turn', 'remember_turn', 'recall_turn']);

// Other words: only where the person wants them, once for a turn, and never those of an answer that fails or is late
let quiet = [];
let named = () => '芝麻、打雷';
context.generateRaw = async given => { quiet.push(given); return named(given); };
const wordsSent = async mes => {
  await said(mes);
  const sent = calls().filter(call => call[0] === 'recall_turn').map(call => call[1].otherWords);
  await answered('嗯');
  return sent;
};
assert.equal(context.extensionSettings[KEY].hidden, false, 'off at first');
assert.deepEqual([context.extensionSettings[KEY].words, await wordsSent('没问'), quiet], [false, [undefined], []]);
context.extensionSettings[KEY].words = true;
assert.deepEqual(await wordsSent('它{{user}}怕什么？'), [['芝麻', '打雷']]);
assert.equal(quiet.length, 1);
assert.match(quiet[0].prompt, /小明: 它\{ \{user\}\}怕什么？$/);
assert.equal(quiet[0].prompt.split('\n').length, 4);
await globalThis.memory_server_recalls([], 4096, () => {}, 'swipe');
assert.deepEqual([calls(), quiet.length], [[], 1], 'a swipe has the words of its turn');
for (const odd of [() => '我不知道。', () => { throw new Error('no'); }, () => null]) {
  named = odd;
  assert.deepEqual(await wordsSent('还有呢'), [undefined]);
}
named = () => new Promise(() => {});
const { timeout } = AbortSignal;
const limits = [];
AbortSignal.timeout = limit => (limits.push(limit), timeout.call(AbortSignal, limit === 4000 ? 20 : limit));
const [lively] = await Promise.all([wordsSent('再问'), new Promise(done => { setTimeout(done, 100); })]); // keeps Node alive
AbortSignal.timeout = timeout;
assert.deepEqual([lively, limits.filter(limit => limit < 10_000)], [[undefined], [4000, 2000]], 'not that of a delivery');
context.chat.push(user('停'));
await emit('MESSAGE_SENT', context.chat.length - 1);
const running = globalThis.memory_server_recalls([], 4096, () => {}, undefined);
for (let turn = 0; turn < 50; turn++) await null;
await emit('GENERATION_STOPPED');
await running;
context.extensionSettings[KEY].words = false;
await answered('嗯');
await said('三');
calls();

// Away: one notice, nothing lost, in order
const silent = () => { throw new TypeError('Failed to fetch'); };
answers = silent;
await answered('丙');
await said('四');
await answered('丁');
await said('五');
assert.equal(told.length, 1);
assert.equal(prompts[KEY][0], '');
calls();
answers = usual;
const { now } = Date;
Date.now = () => now() + 60_000;
await answered('戊');
await said('六');
assert.deepEqual(calls().filter(call => call[0] === 'remember_turn').map(call => call[1].messages[0].content), ['三', '四', '五']);

// What somebody said is shown as text, and acts in no script; no answer may send the token on
const memory = { id: 'a', text: '<img src=x onerror=alert(1)> {{user}} <USER>', timestamp: 0 };
answers = () => ({ ...recalled, shortTerm: { ...recalled.shortTerm, topRelevant: [memory] } });
assert.equal(await context.command.callback({}, 'search x'), '- <img src=x onerror=alert(1)> { {user}} < USER>');
assert.equal(context.info[2].escapeHtml, true);
assert.equal(context.redirect, 'error');
answers = usual;
calls();

// A renamed character keeps its memory, and one with its former file does not get it
await emit('CHARACTER_RENAMED', 'Lin.png', 'Mei.png');
assert.deepEqual(context.extensionSettings[KEY].names, { 'Mei.png': 'Lin' });
context.characters = [{ avatar: 'Lin.png' }];
await said('七');
assert.equal(calls().find(call => call[0] === 'recall_turn')[1].conversation_id, 'Lin 2');
// A turn leaves the box only for an answer that says what became of it, or if it is refused for good
const waiting = () => JSON.parse(box.get('memory_server.outbox') ?? '[]').length;
const refusing = status => (url, _body) => (url.endsWith('recall_turn') ? recalled : status);
await emit('CHAT_CHANGED');
calls();
for (const odd of [{}, { status: 'ok' }, null, { success: true }]) {
  answers = refusing(odd);
  await said('八');
  await answered('辛');
  await emit('CHAT_CHANGED');
  assert.ok(waiting() > 0, JSON.stringify(odd));
  Date.now = (before => () => before() + 60_000)(Date.now);
}
answers = usual;
await emit('CHAT_CHANGED');
assert.equal(waiting(), 0);
calls();
for (const status of [400, 413, 431]) {
  context.status = status;
  await said('九');
  await answered('壬');
  await emit('CHAT_CHANGED');
  assert.equal(waiting(), 0, `${status}`);
}
context.status = 200;
calls();

// The list of a chat that somebody else made names memories of other conversations: they are not forgotten
const list = context.chatMetadata[KEY];
const mine = Object.keys(list).at(-1);
for (const conversation_id of ['private', 'Lin', '小明', null, { a: 1 }, 'Lin 3']) {
  list[`foreign ${conversation_id}`] = { chat: 'chat-one', hash: 'x', conversation_id };
}
list.own = { chat: 'chat-one', hash: 'x', conversation_id: 'Lin 2' };
list.before = { chat: 'chat-one', hash: 'x', conversation_id: 'Lin 2 · chat-one' };
context.chat.splice(0);
await emit('MESSAGE_DELETED');
await emit('CHAT_CHANGED');
const forgotten = calls().filter(call => call[0] === 'forget').map(call => call[1]);
assert.ok(forgotten.some(body => body.ids[0] === mine));
assert.ok(['own', 'before'].every(id => forgotten.some(body => body.ids[0] === id)));
assert.ok(forgotten.every(body => /^Lin 2( · chat-one)?$/.test(body.conversation_id)), JSON.stringify(forgotten));
assert.deepEqual(list, {}, 'and they are in the list no more');
console.log('done');
process.exit(0);
