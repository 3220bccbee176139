// match_keys and match_keys_all. The rules are stated in docs/reference/trigger-api.md and, for conditions on words, in
// sandbox/conditions.py: both change with this file.
// No object of ours is passed to objects of the caller: the caller's array may have getters, the caller's RegExp hooks.

const IDEOGRAPH = /\p{Unified_Ideograph}/u;
const WORD_EDGE = /^[A-Za-z0-9_]$/;
const SPECIAL = /[\\^$.*+?()[\]{}|/-]/gu;
const MOST_CACHED = 3000000; // bytes in each cache: a trigger must not fill the memory of the others with them
// Measured: a key is an object and an expression that V8 compiled for one and for two bytes a character.
const compiledKeys = { map: new Map(), size: 0, bytes: (key) => 1500 + 60 * key.length };
const foldedTexts = { map: new Map(), size: 0, bytes: (text) => 100 + 4 * text.length };
const seenTexts = { map: new Map(), size: 0, bytes: (text) => 100 + 4 * text.length };
const lastFolded = { text: '', spelling: '' }; // all keys are looked for in one text, then in the next
const spellings = { apart: false }; // whether each spelling is a word of its own
const loweredTexts = { map: new Map(), size: 0, bytes: (text) => 100 + 4 * text.length };
const ONLY_IDEOGRAPHS = /^\p{Unified_Ideograph}+$/u;
const FIRST_IDEOGRAPH = 0x4e00;
const LAST_IDEOGRAPH = 0x9fff;
const ONLY_ASCII = /^[\0-\x7f]+$/;
const sourceOf = Reflect.getOwnPropertyDescriptor(RegExp.prototype, 'source').get;
const exec = RegExp.prototype.exec;
const SCOPES = {
  __proto__: null,
  any: ['user', 'assistant', 'system', 'char', 'other'],
  named: ['user', 'assistant', 'system', 'char', 'other'],
  scanned: ['user', 'assistant', 'system', 'char', 'other'],
  scanned_unnamed: ['user', 'assistant', 'system', 'char', 'other'],
  user: ['user'],
  assistant: ['assistant', 'char'],
  system: ['system'],
  // The three names of GentianAphrodite: its character is the assistant here.
  char: ['assistant', 'char'],
  both: ['user', 'assistant', 'char'],
  other: ['system', 'other'],
};

// Who speaks in messages without a name, by role; conditions.py has the same rule.
const speakers = { names: { __proto__: null } };

// Stands before each message, and before each text of a book that is searched with the last one (rounds.py).
const MARK = '\n\x01';

/**
 * The messages as SillyTavern scans them for a lorebook (WorldInfoBuffer.get in its world-info.js): one text of all,
 * the newest first, each behind a mark. The texts of a book, which follow the content of the last message, are its end.
 */
function scannedText(messages, isNamed) {
  let scanned = '';
  let ofBook = '';
  for (let i = messages.length - 1; i >= 0; i -= 1) {
    let text = isNamed ? namedText(messages[i]) : `\x01${messages[i].content}`;
    const end = text.indexOf(MARK);
    if (ofBook === '' && scanned === '' && end !== -1) {
      ofBook = text.slice(end);
      text = text.slice(0, end);
    }
    scanned += `${scanned === '' ? '' : '\n'}\x01${text.slice(1).trim()}`;
  }
  return scanned + ofBook;
}

/** A message as lorebooks search it: behind a mark and the name of its speaker. */
function namedText(message) {
  const { name, role } = message;
  const speaker = typeof name === 'string' && name !== '' ? name : speakers.names[role];
  return typeof speaker === 'string' && speaker !== '' ? `\x01${speaker}: ${message.content}` : `\x01${message.content}`;
}

function cached(cache, text, make) {
  let value = cache.map.get(text);
  if (value === undefined) {
    value = make(text);
    const bytes = cache.bytes(text);
    if (bytes > MOST_CACHED) return value;
    cache.size += bytes;
    if (cache.size > MOST_CACHED) {
      cache.map.clear();
      cache.size = bytes;
    }
    cache.map.set(text, value);
  }
  return value;
}

/** A word key as a RegExp: a substring where it has an ideograph, else with word boundaries beside word characters. */
function wordPattern(key) {
  const body = key.replace(SPECIAL, (c) => (c === '-' ? '\\x2d' : `\\${c}`));
  if (IDEOGRAPH.test(key)) return new RegExp(body, 'iu');
  const head = WORD_EDGE.test(key[0]) ? '\\b' : '';
  const tail = WORD_EDGE.test(key[key.length - 1]) ? '\\b' : '';
  return new RegExp(head + body + tail, 'iu');
}

/**
 * A word key, ready to be looked for. Plain searches are many times as fast as expressions, so they come first:
 * `exact`, all there is to say of a key of ideographs, which have no case; `lower`, a text that a match must contain.
 */
function compileWord(key) {
  const word = formOf(key);
  if (spellings.apart) return word;
  const other = fold(key);
  // A key of which nothing can be seen is found only as it is written: an empty one would be in every text.
  if (other !== '') word.folded = other === key ? word : formOf(other);
  return word;
}

function formOf(key) {
  const form = { name: key, exact: null, lower: null, pattern: null, folded: null, spell: folded, also: null };
  if (ONLY_IDEOGRAPHS.test(key)) {
    form.exact = key;
  } else {
    form.lower = ONLY_ASCII.test(key) ? key.toLowerCase() : null;
    form.pattern = wordPattern(key);
  }
  return form;
}

/** The text without signs that nobody sees, and with letters and their marks in one: spelling.py has the same rule. */
function see(text) {
  if (ONLY_ASCII.test(text)) return text;
  return text.replace(UNSEEN_SIGNS, '').normalize('NFC');
}

const seen = (text) => (spellings.apart ? text : cached(seenTexts, text, see));

/** The text in which words are compared: spelling.py has the same rule and makes IDEOGRAPHS. */
function fold(text) {
  return ONLY_ASCII.test(text) ? text : simplify(see(text).normalize('NFKC'));
}

/** The text with Simplified characters in place of Traditional ones, as long as before. */
function simplify(text) {
  let made = '';
  let end = 0; // where the part of the text ends that `made` has
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code < FIRST_IDEOGRAPH || code > LAST_IDEOGRAPH) continue;
    const other = IDEOGRAPHS.charCodeAt(code - FIRST_IDEOGRAPH);
    if (other === code) continue;
    made += text.slice(end, i) + String.fromCharCode(other);
    end = i + 1;
  }
  return end === 0 ? text : made + text.slice(end);
}

function folded(text) {
  if (spellings.apart) return text;
  if (text !== lastFolded.text) {
    lastFolded.spelling = cached(foldedTexts, text, fold);
    lastFolded.text = text;
  }
  return lastFolded.spelling;
}

/** The text in lower case; null for one with a long s, the only letter that folds to ASCII and is not a capital. */
const lower = (text) => (text.includes('\u017f') ? null : text.toLowerCase());
const lowered = (text) => cached(loweredTexts, text, lower);

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
    return cached(compiledKeys, key, compileWord);
  }
  // A copy has no hooks and a lastIndex of its own.
  if (isRegExp(key)) {
    const pattern = new RegExp(key);
    const form = { name: `${pattern}`, exact: null, lower: null, pattern, folded: null, spell: seen, also: null };
    form.folded = spellings.apart ? null : form; // as it is, in texts as people see them
    return form;
  }
  throw new TypeError(`${caller}: a key must be a string or a RegExp, not ${key === null ? 'null' : typeof key}`);
}

/** Whether the key in one spelling is in a text where the key itself is not. */
function foundFolded(key, text) {
  if (key.folded === null) return false;
  const other = key.spell(text);
  return (other !== text || key.folded !== key) && isIn(key.folded, other);
}

const found = (key, text) =>
  isIn(key, text) || foundFolded(key, text) || (key.also !== null && found(key.also, text));

/** The form of a key that was found in the text, and the spelling of the text in which it is. */
function match(key, text) {
  if (isIn(key, text)) return [key, text];
  return foundFolded(key, text) ? [key.folded, key.spell(text)] : match(key.also, text);
}

function isIn(key, text) {
  if (key.exact !== null) return text.includes(key.exact);
  if (key.lower !== null && lowered(text)?.includes(key.lower) === false) return false;
  const { pattern } = key;
  pattern.lastIndex = 0;
  return Reflect.apply(exec, pattern, [text]) !== null;
}

/** The distinct keys of a caller's list, compiled. Two spellings of one key are one, found where either is. */
function compileKeys(keys, caller) {
  if (!Array.isArray(keys)) throw new TypeError(`${caller}: keys must be a list, such as ['birthday', /cake/i]`);
  const distinct = [];
  const seen = new Map();
  for (let i = 0; i < keys.length; i += 1) {
    const key = keys[i];
    const compiled = compileKey(key, caller);
    if (compiled === null) continue;
    const word = compiled.folded === null ? compiled.name : compiled.folded.name;
    const place = seen.get(word);
    if (place === undefined) seen.set(word, distinct.push(compiled) - 1);
    else if (distinct[place].name !== compiled.name) distinct[place] = { ...compiled, also: distinct[place] };
  }
  return distinct;
}

/**
 * The texts that count: the last `depth` messages, then those of the scope. Content that is not a text is skipped.
 * `kept`, if not null, receives their messages.
 */
function textsInScope(messages, scope, depth, caller, kept) {
  const list = Array.isArray(messages) ? messages : messages?.messages;
  if (!Array.isArray(list)) throw new TypeError(`${caller}: the first argument must be context.messages or context`);
  const roles = SCOPES[scope] ?? [scope];
  const length = list.length;
  const span = depth === null ? 0 : Math.trunc(Number(depth)) || 0;
  // As slice(-depth): 0 is all, a negative depth leaves out the first ones.
  const from = span > 0 ? Math.max(0, length - span) : Math.min(length, -span);
  const isScanned = scope === 'scanned' || scope === 'scanned_unnamed';
  const isOfAll = scope === 'any' || scope === 'named' || isScanned;
  const texts = [];
  const scanned = [];
  for (let i = from; i < length; i += 1) {
    const message = list[i];
    const content = message?.content;
    if (typeof content === 'string' && (isOfAll || roles.includes(message.role))) {
      if (isScanned) scanned.push(message);
      else texts.push(scope === 'named' ? namedText(message) : content);
      if (kept !== null) kept.push(message);
    }
  }
  if (scanned.length > 0) texts.push(scannedText(scanned, scope === 'scanned'));
  return texts;
}

// Methods, so that they are not constructors: `new match_keys()` would be an object and so always true.
const { match_keys, match_keys_all } = {
  match_keys(messages, keys, scope = 'any', depth = 4) {
    const wanted = compileKeys(keys, 'match_keys');
    const kept = tracing.operands === null ? null : [];
    const texts = textsInScope(messages, scope, depth, 'match_keys', kept);
    let count = 0;
    for (const text of texts) {
      for (let i = 0; i < wanted.length; i += 1) if (found(wanted[i], text)) count += 1;
    }
    if (kept !== null) traceCall('match_keys', wanted, texts, kept, scope, depth, count);
    return count;
  },

  match_keys_all(messages, keys, scope = 'any', depth = 4) {
    const wanted = compileKeys(keys, 'match_keys_all');
    // An empty key matches nothing, so a list that holds one is never wholly found; nor is an empty list.
    let complete = wanted.length > 0;
    for (let i = 0; i < keys.length; i += 1) if (keys[i] === '') complete = false;
    if (!complete) return false;
    const kept = tracing.operands === null ? null : [];
    const texts = textsInScope(messages, scope, depth, 'match_keys_all', kept);
    const text = texts.join(' ');
    const all = wanted.every((key) => found(key, text));
    if (kept !== null) traceCall('match_keys_all', wanted, texts, kept, scope, depth, all);
    return all;
  },
};
