// The form of a trigger and how to run it: an expression or statements (last value), a body with `return`, or with
// `await` an async expression or an async body that returns. Also: which triggers may have left promise jobs.

const RealFunction = Function;
const RealAsyncFunction = (async () => {}).constructor;
const realEval = eval;
const NAMED = '\n//# sourceURL=trigger';
const STRICT = '"use strict";';
const watch = { later: false };
// Where the text of the running trigger begins within what V8 compiled (engine.py knows SCRIPT too).
const SCRIPT = { lines: 0, columns: `${STRICT}void 0;`.length };
const BODY = { lines: 2, columns: STRICT.length };
const EXPRESSION = { lines: 2, columns: `${STRICT}return (`.length };
let origin = SCRIPT;

/** Thrown for a text that does not compile; `form` tells engine.py how to find its line and column. */
class CompileFailure {
  constructor(message, form) {
    this.message = message;
    this.form = form;
  }
}

// Promise jobs come only from async syntax, from Promise, and from code made of strings. After a trigger that may have
// made some, the host lets V8 finish them under the name and the deadline of that trigger.
const mayMakeJobs = (source) => source.includes('async') || source.includes('await') || source.includes('import');
// Only a guess: a trigger that waits for jobs and does not show it here runs twice (board.js).
const mayWait = (source) => mayMakeJobs(source) || source.includes('Promise') || source.includes('then');
const AWAIT = /\bawait\b/;
const RETURN = /\breturn\b/;

function watched(Real) {
  const Maker = function (...parts) {
    watch.later = true;
    return Reflect.construct(Real, parts, new.target === undefined ? Maker : new.target);
  };
  Object.defineProperties(Maker, {
    name: { value: Real.name },
    length: { value: 1 },
    prototype: { value: Real.prototype, writable: false },
  });
  Object.setPrototypeOf(Maker, Object.getPrototypeOf(Real));
  Object.defineProperty(Real.prototype, 'constructor', { value: Maker });
  return Maker;
}

function watchForJobs() {
  const functions = [
    watched(RealAsyncFunction),
    watched((function* () {}).constructor),
    watched((async function* () {}).constructor),
  ];
  globalThis.Function = watched(RealFunction);
  for (const maker of functions) Object.setPrototypeOf(maker, globalThis.Function);
  globalThis.eval = {
    eval(code) {
      if (typeof code !== 'string') return code;
      watch.later = true;
      return realEval(`${STRICT}void 0;${code}`);
    },
  }.eval;
  Object.defineProperty(globalThis, 'Promise', {
    get() {
      watch.later = true;
      return RealPromise;
    },
    set: undefined,
    enumerable: false,
    configurable: false,
  });
}

function compileBody(Maker, text) {
  return Reflect.construct(Maker, [STRICT + text + NAMED]);
}

/** True when `await` stands at the top level: a static block forbids the word there, but not in inner async functions. */
function awaitsAtTop(source) {
  try {
    Reflect.construct(RealFunction, [`class A{static{${source}\n}}`]);
    return false;
  } catch {
    return true;
  }
}

/** Whether the text compiles, without running any of it. */
function compilesAsScript(source) {
  try {
    return realEval(`${STRICT}throw 0;${source}${NAMED}`);
  } catch (error) {
    return error === 0;
  }
}

function runAsync(source) {
  let run;
  try {
    run = Reflect.construct(RealAsyncFunction, [`${STRICT}return (${source.replace(/(?<![;\s])[;\s]+$/u, '')}\n)${NAMED}`]);
    origin = EXPRESSION;
  } catch {
    try {
      run = compileBody(RealAsyncFunction, source);
      origin = BODY;
    } catch (error) {
      throw new CompileFailure(error.message, 'async');
    }
    if (!RETURN.test(source)) {
      throw new CompileFailure('A trigger of several statements with await must return its verdict', 'none');
    }
  }
  return run();
}

/** Runs a trigger and gives its value. `again` makes the context new when a second form has to be tried. */
function runTrigger(source, again) {
  if (watch.later && AWAIT.test(source) && awaitsAtTop(source)) return runAsync(source);
  origin = SCRIPT;
  try {
    return realEval(`${STRICT}void 0;${source}${NAMED}`);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    // Either the text does not compile or the trigger threw a SyntaxError of its own, as JSON.parse does.
    // `using` at the top belongs into a body too, and V8 stumbles over it before it meets the `return`.
    const illegalReturn = error.message === 'Illegal return statement';
    const isBody = illegalReturn || (RETURN.test(source) && !compilesAsScript(source));
    let run;
    try {
      run = compileBody(RealFunction, source);
    } catch (inBody) {
      if (illegalReturn) throw new CompileFailure(inBody.message, 'body');
      throw new CompileFailure(error.message, 'script');
    }
    if (!isBody) throw error;
    again();
    origin = BODY;
    return run();
  }
}
