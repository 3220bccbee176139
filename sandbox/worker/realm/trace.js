// The notes of an author's traced copy of a trigger: values of operands, calls of match_keys. Off in searches.
// sandbox/workbench/explain/operands.py makes the copies: `probe(7, (operand))` in place of each operand, and
// `probe(8, (operand), 1, m)` within a callback that is asked about `m`.
// This file runs no code of a trigger (no getter, toString or toJSON; only a Proxy could notice), so it changes nothing.

const MOST_TRACED = 400; // values and calls of one run: more is a loop
const MOST_SPANS = 20; // of one key in one message
const MOST_KEYS = 60;
const TRACED_CHARACTERS = 120;
const OPERANDS = 250; // truth values in one note
// values: write every value down; bits: one string of truth values per run, for long chats.
// tallies: of each operand how often it was evaluated and true, and for which messages where a callback asks about one.
const tracing = { mode: null, values: false, bits: null, left: 0, tallies: null, given: null };
const MOST_PLACES = 6;
const isoText = Date.prototype.toISOString;

function beginTrace(isCopy) {
  tracing.values = isCopy && tracing.mode === 'values';
  tracing.bits = isCopy && tracing.mode === 'bits' ? [] : null;
  tracing.tallies = tracing.values ? new Map() : null;
  tracing.given = null;
  tracing.left = MOST_TRACED;
}

/** Notes the messages in their order before the trigger begins: it may turn them round. */
function rememberMessages() {
  const all = Object(context) === context ? context.messages : null;
  tracing.given = tracing.values && Array.isArray(all) ? [...all] : null;
}

/** The index of a message in the context as it was given, -1 for anything else. */
function placeOf(message) {
  return tracing.given === null || Object(message) !== message ? -1 : tracing.given.indexOf(message);
}

function tally(id, value, element) {
  let held = tracing.tallies.get(id);
  if (held === undefined) tracing.tallies.set(id, (held = [id, 0, 0, [], -1]));
  held[1] += 1;
  if (!value) return;
  held[2] += 1;
  const place = placeOf(element);
  if (place < 0) return;
  if (held[3].length < MOST_PLACES && !held[3].includes(place)) held[3].push(place);
  held[4] = place;
}

/** Of a run in mode bits: per operand 0 not reached, 1 false, 2 true, 3 both. */
function endTrace() {
  if (tracing.tallies !== null && tracing.tallies.size > 0) note({ i: at, t: 'n', n: [...tracing.tallies.values()] });
  if (tracing.bits === null) return;
  let text = '';
  for (let i = 0; i < tracing.bits.length && i < OPERANDS; i += 1) text += tracing.bits[i] ?? 0;
  note({ i: at, t: 'b', b: text });
}

/** A value in a few characters. */
function traced(value) {
  switch (typeof value) {
    case 'string': return JSON.stringify(clippedTo(value, TRACED_CHARACTERS).replace(UNSEEN, '\ufffd'));
    case 'symbol': return 'a symbol';
    case 'function': return 'a function';
    case 'bigint': return value > -(2n ** 200n) && value < 2n ** 200n ? `${value}n` : 'a bigint';
    case 'object': return value === null ? 'null' : tracedObject(value);
    default: return `${value}`;
  }
}

function tracedObject(value) {
  if (Array.isArray(value)) return 'a list';
  if (isRegExp(value)) return 'a regular expression';
  try {
    return Reflect.apply(isoText, value, []);
  } catch (error) {
    return error instanceof RangeError ? 'an invalid date' : 'an object';
  }
}

function clippedTo(text, most) {
  return (text.length > most ? `${text.slice(0, most)}…` : text).toWellFormed();
}

const probe = Object.freeze((id, value, inner, element) => {
  if (tracing.bits !== null) tracing.bits[id] = (tracing.bits[id] ?? 0) | (value ? 2 : 1);
  if (tracing.tallies !== null) tally(id, value, element);
  if (tracing.values && tracing.left > 0 && !inner) {
    tracing.left -= 1;
    note({ i: at, t: 'o', o: id, b: value ? 1 : 0, v: traced(value) });
  }
  return value;
});

/** Where a key matches in a text: [start, end] in UTF-16 units. */
function spansOf(key, text) {
  const spans = [];
  if (key.exact !== null) {
    for (let from = text.indexOf(key.exact); from >= 0 && spans.length < MOST_SPANS; from = text.indexOf(key.exact, from)) {
      spans.push([from, from += key.exact.length]);
    }
    return spans;
  }
  if (!found(key, text)) return spans;
  const { flags } = key.pattern;
  const pattern = new RegExp(key.pattern, flags.includes('g') ? flags : `${flags}g`);
  for (let match = Reflect.apply(exec, pattern, [text]); match !== null && spans.length < MOST_SPANS;) {
    const end = match.index + match[0].length;
    spans.push([match.index, end]);
    if (match[0] === '') pattern.lastIndex = end + 1;
    match = Reflect.apply(exec, pattern, [text]);
  }
  return spans;
}

/** `messages`: those of `texts`. The place of a message in the context is -1 for one that the trigger made. */
function traceCall(name, wanted, texts, messages, scope, depth, result) {
  if (tracing.left <= 0) return;
  tracing.left -= 1;
  const hits = [];
  const seen = [];
  for (let m = 0; m < texts.length; m += 1) {
    for (let k = 0; k < wanted.length && k < MOST_KEYS; k += 1) {
      const spans = spansOf(wanted[k], texts[m]);
      if (spans.length > 0) hits.push([m, k, spans]);
    }
    const place = placeOf(messages[m]);
    seen.push(place < 0 ? [place, clippedTo(texts[m], 300)] : [place]);
  }
  const keys = [];
  for (let k = 0; k < wanted.length && k < MOST_KEYS; k += 1) keys.push(clippedTo(wanted[k].name, TRACED_CHARACTERS));
  note({ i: at, t: 'm', f: name, k: keys, s: traced(scope), d: traced(depth), r: traced(result), x: seen, h: hits });
}
