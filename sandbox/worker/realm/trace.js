// The notes of an author's traced copy of a trigger: values of operands, calls of match_keys. Off in searches.
// sandbox/workbench/explain.py makes the copies, `probe(7, (operand))` in place of each operand, and reads the notes.
// This file runs no code of a trigger (no getter, toString or toJSON; only a Proxy could notice), so it changes nothing.

const MOST_CALLS = 20; // that are noted; the others are counted
const MOST_HITS = 6; // messages that are noted for one key
const MOST_KEYS = 60;
const TRACED_CHARACTERS = 120;
const BEFORE = 16; // characters that are noted before a match
// operands: null, or of each operand its number, how often it was evaluated, and its last value.
// given: the messages in their order before the trigger began, which may turn them round.
const tracing = { operands: null, calls: 0, given: null };
const isoText = Date.prototype.toISOString;

function beginTrace(isCopy) {
  tracing.operands = isCopy ? new Map() : null;
  tracing.calls = 0;
}

function rememberMessages() {
  const all = tracing.operands !== null && Object(context) === context ? context.messages : null;
  tracing.given = Array.isArray(all) ? [...all] : null;
}

function endTrace() {
  if (tracing.operands === null) return;
  const rows = [...tracing.operands.values()];
  const operands = rows.map(([id, times, value]) => [id, times, value ? 1 : 0, traced(value)]);
  note({ trace: 'values', operands, calls: tracing.calls });
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

const probe = Object.freeze((id, value) => {
  if (tracing.operands === null) return value;
  let row = tracing.operands.get(id);
  if (row === undefined) tracing.operands.set(id, (row = [id, 0, null]));
  row[1] += 1;
  row[2] = value;
  return value;
});

/** The text around the first match of a key, and how the key is spelled there if otherwise; null where there is none. */
function excerpt(key, text) {
  if (!found(key, text)) return null;
  const [form, spelling] = match(key, text);
  if (form.pattern !== null) form.pattern.lastIndex = 0;
  const [what, start] = form.exact === null
    ? (({ 0: what, index }) => [what, index])(Reflect.apply(exec, form.pattern, [spelling]))
    : [form.exact, spelling.indexOf(form.exact)];
  const from = start > BEFORE ? start - BEFORE : 0;
  // Only where each character has its own place, a place in the spelling is one in the text.
  const shown = see(text).normalize('NFKC').length === text.length && see(text) === text ? text : spelling;
  const other = form === key && spelling === text ? '' : clippedTo(shown.slice(start, start + what.length), BEFORE);
  return [(from > 0 ? '…' : '') + clippedTo(shown.slice(from), TRACED_CHARACTERS), other];
}

/** `messages`: those of `texts`. The place of a message in the context is -1 for one that the trigger made. */
function traceCall(name, wanted, texts, messages, scope, depth, result) {
  tracing.calls += 1;
  if (tracing.calls > MOST_CALLS) return;
  const places = messages.map((message) => tracing.given?.indexOf(message) ?? -1);
  const keys = wanted.slice(0, MOST_KEYS).map((key) => {
    const hits = [];
    for (let m = 0; m < texts.length && hits.length < MOST_HITS; m += 1) {
      const text = excerpt(key, texts[m]);
      // A text of several messages has no place of its own.
      if (text !== null) hits.push([texts.length === places.length ? places[m] : -1, ...text]);
    }
    return [clippedTo(key.name, TRACED_CHARACTERS), hits];
  });
  note({ trace: name, keys, scope: traced(scope), depth: traced(depth), result: traced(result), places });
}
