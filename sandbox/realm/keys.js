// match_keys and match_keys_all. The rules are stated in docs/reference/trigger-api.md, which changes with this file.
// Nothing of ours is ever handed to the caller's objects: a caller's array may have getters, a caller's RegExp hooks.

const IDEOGRAPH = /\p{Unified_Ideograph}/u;
const WORD_EDGE = /^[A-Za-z0-9_]$/;
const SPECIAL = /[\\^$.*+?()[\]{}|/-]/gu;
const MOST_COMPILED = 4096;
const compiledKeys = new Map();
const sourceOf = Reflect.getOwnPropertyDescriptor(RegExp.prototype, 'source').get;
const exec = RegExp.prototype.exec;
const SCOPES = {
  __proto__: null,
  any: ['user', 'assistant', 'system', 'char', 'other'],
  user: ['user'],
  assistant: ['assistant', 'char'],
  system: ['system'],
  // The three names of GentianAphrodite: its character is the assistant here.
  char: ['assistant', 'char'],
  both: ['user', 'assistant', 'char'],
  other: ['system', 'other'],
};

/** A word key as a RegExp: a substring where it has an ideograph, else with word boundaries beside word characters. */
function wordPattern(key) {
  const body = key.replace(SPECIAL, (c) => (c === '-' ? '\\x2d' : `\\${c}`));
  if (IDEOGRAPH.test(key)) return new RegExp(body, 'iu');
  const head = WORD_EDGE.test(key[0]) ? '\\b' : '';
  const tail = WORD_EDGE.test(key[key.length - 1]) ? '\\b' : '';
  return new RegExp(head + body + tail, 'iu');
}

function isRegExp(value) {
  if (Object(value) !== value) return false;
  try {
    Reflect.apply(sourceOf, value, []);
    return true;
  } catch {
    return false;
  }
}

/** The compiled form of one key; null for the empty key, which matches nothing. Throws TypeError for other things. */
function compileKey(key, caller) {
  if (typeof key === 'string') {
    if (key === '') return null;
    let pattern = compiledKeys.get(key);
    if (pattern === undefined) {
      pattern = wordPattern(key);
      if (compiledKeys.size >= MOST_COMPILED) compiledKeys.clear();
      compiledKeys.set(key, pattern);
    }
    return pattern;
  }
  // A copy has no hooks and a lastIndex of its own.
  if (isRegExp(key)) return new RegExp(key);
  throw new TypeError(`${caller}: a key must be a string or a RegExp, not ${key === null ? 'null' : typeof key}`);
}

function found(pattern, text) {
  pattern.lastIndex = 0;
  return Reflect.apply(exec, pattern, [text]) !== null;
}

/** The distinct keys of a caller's list, compiled. */
function compileKeys(keys, caller) {
  if (!Array.isArray(keys)) throw new TypeError(`${caller}: keys must be a list, such as ['birthday', /cake/i]`);
  const distinct = new Map();
  for (let i = 0; i < keys.length; i += 1) {
    const key = keys[i];
    const pattern = compileKey(key, caller);
    if (pattern !== null) distinct.set(typeof key === 'string' ? key : `${pattern}`, pattern);
  }
  return [...distinct.values()];
}

/** The texts that count: the last `depth` messages, then those of the scope. Content that is no text is skipped. */
function textsInScope(messages, scope, depth, caller) {
  const list = Array.isArray(messages) ? messages : messages?.messages;
  if (!Array.isArray(list)) throw new TypeError(`${caller}: the first argument must be context.messages or context`);
  const roles = SCOPES[scope] ?? [scope];
  const length = list.length;
  const span = depth === null ? 0 : Math.trunc(Number(depth)) || 0;
  // As slice(-depth): 0 is all, a negative depth leaves out the first ones.
  const from = span > 0 ? Math.max(0, length - span) : Math.min(length, -span);
  const texts = [];
  for (let i = from; i < length; i += 1) {
    const message = list[i];
    const content = message?.content;
    if (typeof content === 'string' && (scope === 'any' || roles.includes(message.role))) texts.push(content);
  }
  return texts;
}

// Methods, so that they are no constructors: `new match_keys()` would be an object and so always true.
const { match_keys, match_keys_all } = {
  match_keys(messages, keys, scope = 'any', depth = 4) {
    const patterns = compileKeys(keys, 'match_keys');
    let count = 0;
    for (const text of textsInScope(messages, scope, depth, 'match_keys')) {
      for (const pattern of patterns) if (found(pattern, text)) count += 1;
    }
    return count;
  },

  match_keys_all(messages, keys, scope = 'any', depth = 4) {
    const patterns = compileKeys(keys, 'match_keys_all');
    // An empty key matches nothing, so a list that holds one is never wholly found; nor is an empty list.
    let complete = patterns.length > 0;
    for (let i = 0; i < keys.length; i += 1) if (keys[i] === '') complete = false;
    if (!complete) return false;
    const text = textsInScope(messages, scope, depth, 'match_keys_all').join(' ');
    return patterns.every((pattern) => found(pattern, text));
  },
};
