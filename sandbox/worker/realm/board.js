// The batch: runs triggers one after the other and writes what happened on a board of shared memory, which the host can
// read at any moment, also while V8 does not return from one of its own functions. No value of a trigger leaves the
// isolate. worker/board.py has the layout of the board and changes with this file.

const QUIET = 1;
const FIRED = 2;
const FAILED = 3;
const HEADER_BYTES = 64;
const NOTE_CHARACTERS = 300;
const NEVER = 'The promise of this trigger never settles: nothing is left that could settle it';
// What moves a terminal's cursor or turns the direction of writing, but for tab and line feed.
const UNSEEN = /[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;
const SHARE = 420; // characters of notes that are kept free for the failure of each trigger (board.py)
const MOST_LITERAL = 200000; // characters; a program of that size takes some MB to compile
const MOST_CONSOLE_LINES = 200;
const RealPromise = Promise;
const Shared = SharedArrayBuffer;
const Ints = Int32Array;
const Bytes = Uint8Array;
const Doubles = Float64Array;
const Units = Uint16Array;
const { then } = RealPromise.prototype;
const readClock = RealDate.now;
let positions = new WeakMap(); // of the errors of the trigger that runs

let header; // [0] the trigger that runs, [1] characters of notes, [2] whether only jobs run
let verdicts;
let ends; // ms since 1970 of the real clock, when each trigger ended
let notes;
let sources = [];
let original = null; // of a traced copy: the text whose dice it throws
let makeContext = () => null;
let context = null;
let firings = { __proto__: null }; // when memories last came, by the place of their trigger
let at = 0;
let waiting = null;
let strays = false; // whether triggers ended since V8 last ran all promise jobs
let busy = false;
let consoleLines = 0;
let consoleLimit = 0;

/** Appends one JSON line to the notes. Drops it when it would take the room of later failures. */
function note(record) {
  const line = `${JSON.stringify(record)}\n`;
  if (header[1] + line.length <= notes.length - (sources.length - at) * SHARE) write(line);
}

/**
 * Notes the failure of the trigger `at`. Each failure has its own share of room. A longer message is cut; kind and place
 * are always whole.
 */
function noteFailure(record) {
  let line = `${JSON.stringify(record)}\n`;
  for (let most = record.m.length; line.length > SHARE; line = `${JSON.stringify(record)}\n`) {
    most = Math.floor(most * 0.7);
    record.m = `${record.m.slice(0, most)}…`.toWellFormed();
  }
  write(line);
}

function write(line) {
  const start = header[1];
  for (let i = 0; i < line.length; i += 1) notes[start + i] = line.charCodeAt(i);
  header[1] = start + line.length;
}

function clipped(text) {
  return clippedTo(text, NOTE_CHARACTERS).replace(UNSEEN, '\ufffd');
}

/** Called by V8 when `error.stack` is first read: shows only frames of the trigger, and remembers the first. */
function formatStack(error, frames) {
  const lines = [];
  for (let i = 0; i < frames.length; i += 1) {
    const frame = frames[i];
    if (frame.getScriptNameOrSourceURL() !== 'trigger') continue;
    const line = frame.getLineNumber() - origin.lines;
    const column = frame.getColumnNumber() - (line === 1 ? origin.columns : 0);
    if (lines.length === 0) positions.set(error, [line, column]);
    lines.push(`\n    at ${frame.getFunctionName() ?? 'trigger'} (${line}:${column})`);
  }
  return `${error}${lines.join('')}`;
}

/** Kind, text and place of what was thrown. Runs code of the trigger: getters, toString. */
function describe(error) {
  if (!(error instanceof Error)) return ['thrown', `Threw ${typeof error === 'string' ? error : String(error)}`, null];
  const kind = error instanceof ReferenceError ? 'reference' : 'thrown';
  const text = `${error.name}: ${error.message}`;
  void error.stack;
  return [kind, text, positions.get(error) ?? null];
}

/**
 * The note of a failure. Made where the failure is caught, within the trigger's time and before its promise jobs run.
 * After the verdict no code of a trigger may run: it could leave jobs, and the next trigger would be blamed for them.
 */
function failure(error) {
  try {
    // Asking may run code too: the error may be a proxy.
    if (error instanceof CompileFailure) {
      return { i: at, k: 'syntax', m: clipped(`SyntaxError: ${error.message}`), f: error.form };
    }
    const [kind, text, place] = describe(error);
    return { i: at, k: kind, m: clipped(text), p: place };
  } catch {
    return { i: at, k: 'thrown', m: 'Threw something that cannot be shown', p: null };
  }
}

function conclude(verdict) {
  verdicts[at] = verdict;
  ends[at] = readClock();
  at += 1;
  header[0] = at;
  positions = new WeakMap(); // a trigger may have set lines for an error that all triggers can reach
  forget();
  context = null; // code that still runs may not read the context of the next trigger
}

/**
 * True when V8 must first run the jobs that earlier triggers may have left unseen. No trigger runs meanwhile. If those
 * jobs do not end, the host discards the isolate and blames no trigger.
 */
function mustClear(needed) {
  if (!needed || !strays) return false;
  context = null;
  header[2] = 1;
  return true;
}

/**
 * Starts the trigger `at`. Returns true when the host must first let V8 finish promise jobs: those of this trigger, or
 * those that others left. A trigger that waits for jobs never begins while jobs of others remain.
 */
function start() {
  const source = sources[at];
  if (mustClear(mayWait(source))) return true;
  const renew = () => {
    context = makeContext();
    if (Object(context) === context) context.last_fired = firingOf(at);
    rememberMessages();
  };
  watch.later = mayMakeJobs(source);
  beginTrace(original !== null);
  resetDice(original ?? source);
  let outcome;
  try {
    renew();
    const value = runTrigger(source, renew);
    if (Object(value) === value && typeof value.then === 'function') {
      const settled = { state: 'pending' };
      const promise = new RealPromise((resolve) => { resolve(value); });
      // Only the truth of the value is kept.
      Reflect.apply(then, promise, [
        (result) => { settled.state = 'value'; settled.truth = !!result; },
        (error) => { settled.state = 'failed'; settled.note = failure(error); },
      ]);
      outcome = settled;
      watch.later = true;
    } else {
      outcome = { state: 'value', truth: !!value };
    }
  } catch (error) {
    outcome = { state: 'failed', note: failure(error) };
  }
  if (!watch.later) {
    finish(outcome);
    strays = true;
    return false;
  }
  if (mustClear(true)) return true; // then the trigger starts again
  waiting = outcome;
  return true;
}

/** When the memory of a trigger last came: messages and milliseconds ago; null where it never did. */
function firingOf(place) {
  const firing = firings[place];
  return firing === undefined ? null : { messages: firing.messages, ms: firing.ms };
}

/** Writes the verdict. Does not run code of the trigger. */
function finish(outcome) {
  endTrace();
  if (outcome.state === 'value') {
    conclude(outcome.truth ? FIRED : QUIET);
    return;
  }
  noteFailure(outcome.state === 'failed' ? outcome.note : { i: at, k: 'thrown', m: NEVER, p: null });
  conclude(FAILED);
}

/** Runs up to trigger `until`. Returns 1 to be called again after V8 has run its promise jobs, else 0. */
function go(until) {
  if (header[2] === 1) {
    header[2] = 0;
    strays = false;
  }
  if (waiting !== null) {
    const outcome = waiting;
    waiting = null;
    strays = false;
    finish(outcome);
  }
  while (at < until) if (start()) return 1;
  if (strays) header[2] = 1; // V8 runs jobs when this call is over
  return 0;
}

/**
 * Continues after the trigger `at`, which the host has stopped at any point. All state that may be half done is set
 * again. V8 runs the jobs of that trigger when this call is over, and no trigger runs then.
 */
function skip() {
  busy = false;
  waiting = null;
  context = null;
  positions = new WeakMap();
  forget();
  strays = true;
  header[2] = 1;
  at = header[0] + 1;
  header[0] = at;
  return 0;
}

/**
 * Gives the function that makes a fresh context for each trigger. V8 copies an object literal 25 times as fast as it
 * parses JSON, from its second evaluation on. A literal means the same as the JSON, except for the key __proto__.
 */
function contextMaker(text, count) {
  const parse = () => JSON.parse(text);
  if (count < 4 || text.length > MOST_LITERAL || text.includes('__proto__')) return parse;
  try {
    return realEval(`() => (${text})`);
  } catch {
    return parse; // too deeply nested for the parser of programs
  }
}

function load(text) {
  const job = JSON.parse(text);
  sources = job.triggers;
  instant.ms = job.now;
  dice.seed = job.seed;
  original = job.original ?? null;
  spellings.apart = job.apart === true;
  speakers.names = { __proto__: null, ...job.names };
  firings = { __proto__: null, ...job.lastFired };
  consoleLimit = job.console ? MOST_CONSOLE_LINES : 0;
  const count = sources.length;
  makeContext = contextMaker(job.context, count);
  const endsAt = HEADER_BYTES + Math.ceil(count / 8) * 8;
  const notesAt = endsAt + count * 8;
  const memory = new Shared(notesAt + job.noteUnits * 2);
  header = new Ints(memory, 0, 16);
  verdicts = new Bytes(memory, HEADER_BYTES, count);
  ends = new Doubles(memory, endsAt, count);
  notes = new Units(memory, notesAt, job.noteUnits);
  return memory;
}

function shown(value) {
  if (typeof value === 'string') return value;
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}

function makeConsole() {
  const record = (...values) => {
    if (consoleLines >= consoleLimit) return;
    consoleLines += 1;
    let line = '';
    for (let i = 0; i < values.length; i += 1) line += (i === 0 ? '' : ' ') + clipped(shown(values[i]));
    note({ i: at, c: clipped(line) });
  };
  const made = {};
  for (const name of ['log', 'info', 'warn', 'error', 'debug', 'dir', 'table', 'trace']) made[name] = record;
  for (const name of ['assert', 'count', 'group', 'groupEnd', 'time', 'timeEnd']) made[name] = () => undefined;
  return made;
}

function openRealm() {
  takeAway();
  installRegistry();
  installClock();
  installDice();
  watchForJobs();
  globalThis.console = makeConsole();
  Error.prepareStackTrace = formatStack;
  Object.defineProperty(globalThis, 'context', { get: () => context, configurable: false });
  Object.defineProperty(globalThis, 'args', { get: () => context, configurable: false });
  globalThis.match_keys = match_keys;
  globalThis.match_keys_all = match_keys_all;
  Object.assign(globalThis, { on_day, days_until, lunar, on_lunar_day });
  freezeRealm([RealPromise]);
}

openRealm();

/** The one entry point for the host. It is closed while a trigger runs, so a trigger that guessed its name could only fail. */
return (step, argument) => {
  if (step === 'skip') return skip();
  if (busy) throw new TypeError('Not available to triggers');
  busy = true;
  try {
    if (step === 'load') return load(argument);
    if (step === 'probe') return probe;
    if (step === 'globals') return Object.getOwnPropertyNames(globalThis).join(' ');
    return go(argument);
  } finally {
    busy = false;
  }
};
