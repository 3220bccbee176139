// Takes away, freezes and mends, once per isolate and before any trigger runs.
// Sources: ECMA-262 (the well-known intrinsics of section 6.1.7.4 and where each can be reached from).

// What a trigger does not need: threads and shared memory, raw memory (lives outside the V8 heap limit), hooks into
// the garbage collector, code that runs later, and a second clock.
const TAKEN_AWAY = [
  'WebAssembly', 'SharedArrayBuffer', 'Atomics', 'ArrayBuffer', 'DataView',
  'Uint8Array', 'Int8Array', 'Uint16Array', 'Int16Array', 'Uint32Array', 'Int32Array', 'BigUint64Array',
  'BigInt64Array', 'Uint8ClampedArray', 'Float16Array', 'Float32Array', 'Float64Array',
  'WeakRef', 'FinalizationRegistry', 'AsyncDisposableStack', 'ShadowRealm', 'Temporal',
  'setTimeout', 'clearTimeout', '__timer_manager',
];

// Inherited properties that programs assign on their own objects. Frozen prototypes would refuse that ("override
// mistake"), so on these names an assignment makes an own property, as it did before freezing.
const OFTEN_OVERRIDDEN = ['toString', 'toLocaleString', 'valueOf', 'toJSON', 'name', 'message'];

const NOTHING = /(?:)/;

/** Removes globals, and the ways around the rest of this file. */
function takeAway() {
  for (const name of TAKEN_AWAY) {
    // A `var` cannot be deleted, only emptied.
    if (!Reflect.deleteProperty(globalThis, name)) globalThis[name] = undefined;
  }
  // RegExp.$1 and its kin report what the last match of *any* code was.
  for (const key of Reflect.ownKeys(RegExp)) {
    const held = Reflect.getOwnPropertyDescriptor(RegExp, key);
    if (held.get && key !== Symbol.species) delete RegExp[key];
  }
  // Makes a promise without naming Promise: see watched() in forms.js.
  delete Array.fromAsync;
  delete Date.prototype.toTemporalInstant;
}

let registered = new Map(); // symbols of the trigger that runs, by name

/** V8 keeps the symbols of `Symbol.for` as long as the realm, so each trigger has its own registry. */
function installRegistry() {
  Object.assign(Symbol, {
    for(key) {
      const name = `${key}`;
      if (!registered.has(name)) registered.set(name, Symbol(name));
      return registered.get(name);
    },
    keyFor(symbol) {
      if (typeof symbol !== 'symbol') throw new TypeError(`${String(symbol)} is not a symbol`);
      return registered.get(symbol.description) === symbol ? symbol.description : undefined;
    },
  });
}

/** Forgets what V8 and this realm would keep of a trigger: its symbols, and the text that was searched last. */
function forget() {
  if (registered.size > 0) registered = new Map();
  NOTHING.test('');
}

/** Errors of every origin: V8 gives each an own accessor `stack`, whose two functions are shared by all of a realm. */
function errors() {
  const made = [AggregateError, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError]
    .map((Kind) => new Kind([]));
  for (const act of [() => null.x, () => (0, eval)('('), () => new Array(-1), () => JSON.parse('('), function deep() { deep(); }]) {
    try {
      act();
    } catch (error) {
      made.push(error);
    }
  }
  const target = {};
  Error.captureStackTrace(target);
  made.push(target);
  return made;
}

/** One live object of each kind that no global name reaches: for its prototype and the functions of its accessors. */
function hiddenRoots() {
  const generator = function* () {};
  const asynchronous = async function () {};
  const asyncGenerator = async function* () {};
  const segments = new Intl.Segmenter('en').segment('a');
  const roots = [
    generator, generator(), asynchronous, asyncGenerator, asyncGenerator(),
    [].values(), ''[Symbol.iterator](), new Map().values(), new Set().values(), 'a'.matchAll(/a/g),
    segments, segments[Symbol.iterator](),
    Object.getOwnPropertyDescriptor((function () { 'use strict'; return arguments; })(), 'callee').get,
    ...errors(),
  ];
  if (typeof Iterator === 'function') {
    roots.push(Iterator.from({ next() {} }), [].values().map((x) => x));
    if (Iterator.concat) roots.push(Iterator.concat([]));
  }
  return roots;
}

/** Every object that can be reached from `roots` by properties, accessors and prototypes. */
function reachable(roots) {
  const seen = new Set();
  const pending = [...roots];
  const add = (value) => {
    if ((typeof value === 'object' && value !== null) || typeof value === 'function') pending.push(value);
  };
  while (pending.length > 0) {
    const object = pending.pop();
    if (seen.has(object)) continue;
    seen.add(object);
    add(Reflect.getPrototypeOf(object));
    for (const key of Reflect.ownKeys(object)) {
      const held = Reflect.getOwnPropertyDescriptor(object, key);
      add(held.value);
      add(held.get);
      add(held.set);
    }
  }
  return seen;
}

function mend(owner, key) {
  const held = Reflect.getOwnPropertyDescriptor(owner, key);
  if (held === undefined || !held.configurable || !('value' in held)) return;
  const { value } = held;
  const accessors = {
    get() { return value; },
    set(next) {
      if (this === owner || Object(this) !== this) throw new TypeError(`Cannot assign to '${String(key)}' here`);
      Object.defineProperty(this, key, { value: next, writable: true, enumerable: true, configurable: true });
    },
  };
  Object.defineProperty(owner, key, { ...accessors, enumerable: held.enumerable, configurable: false });
}

/** Freezes all that a trigger can reach, also from `extra`, which our accessors give. No trigger can leave traces then. */
function freezeRealm(extra) {
  const roots = [globalThis, ...hiddenRoots(), ...extra];
  const before = reachable(roots);
  for (const key of Reflect.ownKeys(Object.prototype)) mend(Object.prototype, key);
  for (const object of before) {
    if (typeof object !== 'function') continue;
    const held = Reflect.getOwnPropertyDescriptor(object, 'prototype');
    if (held === undefined || Object(held.value) !== held.value) continue;
    for (const key of OFTEN_OVERRIDDEN) mend(held.value, key);
    if (held.value instanceof Error || held.value === Error.prototype) mend(held.value, 'constructor');
  }
  // Collected twice: mending made new accessor functions, and hid the values behind them.
  for (const objects of [before, reachable(roots)]) {
    for (const object of objects) if (object !== globalThis) Object.freeze(object);
  }
  Object.freeze(globalThis);
}
