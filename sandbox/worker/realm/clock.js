// One instant and one stream of random numbers per call, in every way that a trigger can ask for them.

const RealDate = Date;
const instant = { ms: 0 };
const dice = { seed: 0, state: null, source: '' };

function installClock() {
  const FixedDate = function Date(...parts) {
    if (new.target === undefined) return new RealDate(instant.ms).toString();
    return Reflect.construct(RealDate, parts.length === 0 ? [instant.ms] : parts, new.target);
  };
  Object.defineProperties(FixedDate, {
    length: { value: 7 },
    prototype: { value: RealDate.prototype, writable: false },
    now: { value: () => instant.ms },
    parse: { value: RealDate.parse },
    UTC: { value: RealDate.UTC },
  });
  // `new Date().constructor` is one of these ways.
  RealDate.prototype.constructor = FixedDate;
  Object.defineProperty(globalThis, 'Date', { value: FixedDate, writable: true, configurable: true });

  // A formatter without an argument means "now".
  const formatter = Intl.DateTimeFormat.prototype;
  const readFormat = Reflect.getOwnPropertyDescriptor(formatter, 'format').get;
  const { formatToParts } = formatter;
  Object.defineProperty(formatter, 'format', {
    get() {
      const format = Reflect.apply(readFormat, this, []);
      return (date) => format(date === undefined ? instant.ms : date);
    },
  });
  formatter.formatToParts = {
    formatToParts(date) {
      return Reflect.apply(formatToParts, this, [date === undefined ? instant.ms : date]);
    },
  }.formatToParts;
}

/** 32-bit FNV-1a of the UTF-16 code units, so that each trigger has its own stream in any order. */
function hashText(text, hash) {
  for (let i = 0; i < text.length; i += 1) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

/** The next 32 bits of a mulberry32 stream: a 32-bit counter through two rounds of multiply and xor-shift. */
function nextBits() {
  dice.state = (dice.state + 0x6d2b79f5) | 0;
  let bits = Math.imul(dice.state ^ (dice.state >>> 15), dice.state | 1);
  bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
  return (bits ^ (bits >>> 14)) >>> 0;
}

function installDice() {
  // 53 bits, as many as a double in [0, 1) can hold: 27 from one draw and 26 from the next.
  Math.random = { random: () => {
    if (dice.state === null) dice.state = hashText(dice.source, dice.seed ^ 0x811c9dc5);
    return ((nextBits() >>> 5) * 67108864 + (nextBits() >>> 6)) / 9007199254740992;
  } }.random;
}

/** The dice are seeded when first thrown: most triggers never throw them. */
function resetDice(source) {
  dice.state = null;
  dice.source = source;
}
