// Days of the year and of the Chinese calendar: on_day, days_until, lunar, on_lunar_day. The rules are stated in
// docs/reference/trigger-api.md, which changes with this file.
//
// A day is a whole number, its days since 1 January 1970, counted from year, month and day in the time zone of the
// search. So a day of 23 or 25 hours is one day like any other.

const DAY_MS = 86400000;
const MONTH_DAYS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const MOST_LUNAR_DAYS = 30;
const MOST_DAYS_AROUND = 366;
const FIRST_LUNAR_YEAR = 1900;
const FIRST_LUNAR_DAY = -25537; // 31 January 1900, when the first year of the table begins
// Each year of the Chinese calendar from 1900 to 2100: the number of its leap month (0: none), then in hexadecimal a bit
// for each month in their order, from the lowest: 1 is a month of 30 days, 0 one of 29. nlp/holidays.py has the
// same table and says where it is from; a test holds both equal. Not Intl: its Chinese calendar has the wrong day on 477
// days of these years, among them the New Year of 2027.
const LUNAR_YEARS = (
  '816d2 00752 00ea5 5164a 0064b 00a9b 41556 0056a 00b59 21752 00752 61b25 00b25 00a4b 514ab 002ad '
  + '0056b 20b69 00da9 71d92 00e92 00d25 51a4d 00a56 002b6 415b5 006d4 00ea9 21e92 00e92 60d26 0052b '
  + '00a57 512b6 00b5a 006d4 30ec9 00749 71693 00a93 0052b 60a5b 00aad 0056a 41b55 00ba4 00b49 21a93 '
  + '00a95 7152d 00536 00aad 515aa 005b2 00da5 31d4a 00d4a 80a95 00a97 00556 60ab5 00ad5 006d2 40ea5 '
  + '00ea5 0064a 30c97 00a9b 7155a 0056a 00b69 51752 00b52 00b25 4164b 00a4b 814ab 002ad 0056d 60b69 '
  + '00da9 00d92 41d25 00d25 a1a4d 00a56 002b6 605b5 006d5 00ea9 51e92 00e92 00d26 30a56 00a57 814d6 '
  + '0035a 006d5 516c9 00749 00693 4152b 0052b 00a5b 2155a 0056a 71b55 00ba4 00b49 51a93 00a95 0052d '
  + '40aad 00ab5 915aa 005d2 00da5 61d4a 00d4a 00c95 4152e 00556 00ab5 215b2 006d2 60ea5 00725 0064b '
  + '50c97 00cab 0055a 30ad6 00b69 b1752 00b52 00b25 61a4b 00a4b 004ab 5055b 005ad 00b6a 21b52 00d92 '
  + '71d25 00d25 00a55 514ad 004b6 005b5 30daa 00ec9 81e92 00e92 00d26 60a56 00a57 004d6 406d5 00755 '
  + '00749 30e93 00693 7152b 0052b 00a5b 5155a 0056a 00b65 4174a 00b4a 81a95 00a95 0052d 60aad 00ab5 '
  + '005aa 40ba5 00da5 00d4a 31c95 00c96 7194e 00556 00ab5 515b2 006d2 00ea5 40e4a 0068b 80c97 004ab '
  + '0055b 60ad6 00b6a 00752 41725 00b45 00a8b 2149b 004ab'
).split(' ');
const { getTime, getFullYear, getMonth, getDate } = RealDate.prototype;
const LEAP_RULES = ['before', 'after', 'never'];
const lunarYears = { read: null };

/** The day of a year, a month from 1 and a day of the month. */
function dayNumber(year, month, day) {
  const moment = new RealDate(0);
  moment.setUTCFullYear(year, month - 1, day); // Date.UTC takes the year 99 for 1999
  return Math.round(moment.getTime() / DAY_MS);
}

function isLeapYear(year) {
  return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
}

/** The year, month and day of a moment in the time zone of the search. */
function civilDate(ms) {
  const moment = new RealDate(ms);
  return {
    year: Reflect.apply(getFullYear, moment, []),
    month: Reflect.apply(getMonth, moment, []) + 1,
    day: Reflect.apply(getDate, moment, []),
  };
}

function civilDay({ year, month, day }) {
  return dayNumber(year, month, day);
}

/** A whole number between two bounds, or an error that names the function and what is wrong. */
function wholeNumber(caller, name, value, least, most) {
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value;
  const shown = typeof value === 'number' ? `${value}` : `a value of the type ${value === null ? 'null' : typeof value}`;
  throw new RangeError(`${caller}: ${name} must be a whole number from ${least} to ${most}, not ${shown}`);
}

/** The month and the day of a call. Months count from 1, not from 0 as in Date. */
function checkDay(caller, month, day) {
  wholeNumber(caller, 'the month', month, 1, 12);
  wholeNumber(caller, `the day of month ${month}`, day, 1, MONTH_DAYS[month - 1]);
}

/** The options of a call, each read once. An option that does not exist is an error: it would be without effect. */
function readOptions(caller, options, names) {
  if (options === undefined) return {};
  if (Object(options) !== options) throw new TypeError(`${caller}: the third argument must be an object with the options`);
  const values = {};
  for (const key of Reflect.ownKeys(options)) {
    if (!names.includes(key)) {
      throw new TypeError(`${caller}: there is no option ${String(key)}; the options are ${names.join(', ')}`);
    }
    values[key] = options[key];
  }
  return values;
}

function daysAround(caller, { before = 0, after = 0 }) {
  return {
    before: wholeNumber(caller, 'before', before, 0, MOST_DAYS_AROUND),
    after: wholeNumber(caller, 'after', after, 0, MOST_DAYS_AROUND),
  };
}

function leapRule(caller, { leap = 'before' }) {
  if (LEAP_RULES.includes(leap)) return leap;
  throw new TypeError(`${caller}: leap must be 'before', 'after' or 'never'`);
}

/** The day on which a month and a day fall in a year; null if a year without 29 February has none. */
function dayIn(year, month, day, leap) {
  if (month !== 2 || day !== 29 || isLeapYear(year)) return dayNumber(year, month, day);
  if (leap === 'never') return null;
  return leap === 'before' ? dayNumber(year, 2, 28) : dayNumber(year, 3, 1);
}

function isAround(today, day, { before, after }) {
  return day !== null && day - today <= before && today - day <= after;
}

// --- the Chinese calendar --------------------------------------------------------------------------------------------

/** The years of the table with their first days and their months, made when first asked for. */
function readLunarYears() {
  if (lunarYears.read !== null) return lunarYears.read;
  const years = [];
  let first = FIRST_LUNAR_DAY;
  for (const code of LUNAR_YEARS) {
    const leapMonth = parseInt(code[0], 16);
    const lengths = parseInt(code.slice(1), 16);
    const count = leapMonth === 0 ? 12 : 13;
    const months = [];
    const start = first;
    for (let index = 0; index < count; index += 1) {
      const leap = leapMonth > 0 && index === leapMonth;
      const month = leapMonth > 0 && index >= leapMonth ? index : index + 1;
      const days = 29 + ((lengths >> index) & 1);
      months.push({ month, leap, first, days });
      first += days;
    }
    years.push({ year: FIRST_LUNAR_YEAR + years.length, first: start, end: first, months });
  }
  lunarYears.read = years;
  return years;
}

/** The year of the table in which a day lies; null for a day outside of the table. */
function lunarYearOf(day) {
  const years = readLunarYears();
  const guess = Math.floor((day - FIRST_LUNAR_DAY) / 365.2425);
  for (let index = guess - 1; index <= guess + 1; index += 1) {
    const year = years[index];
    if (year !== undefined && year.first <= day && day < year.end) return year;
  }
  return null;
}

function lunarYearNumbered(year) {
  return readLunarYears()[year - FIRST_LUNAR_YEAR] ?? null;
}

/**
 * The day on which a month and a day fall in a year of the table. In a year without the leap month it is the ordinary
 * month of that number; the 30th of a month of 29 days is its 29th.
 */
function lunarDayIn({ months }, month, day, leap) {
  const ordinary = months.find((candidate) => candidate.month === month && !candidate.leap);
  const second = months.find((candidate) => candidate.month === month && candidate.leap);
  const chosen = leap && second !== undefined ? second : ordinary;
  return chosen.first + Math.min(day, chosen.days) - 1;
}

/** The moment of a Date of the caller, in which nothing of the caller runs. */
function momentOf(caller, date) {
  if (date === undefined) return instant.ms;
  let ms;
  try {
    ms = Reflect.apply(getTime, date, []);
  } catch {
    throw new TypeError(`${caller}: give a Date, such as new Date()`);
  }
  if (Number.isNaN(ms)) throw new RangeError(`${caller}: the date is not valid`);
  return ms;
}

// Methods, so that they are not constructors: `new on_day()` would be an object and so always true.
const { on_day, days_until, lunar, on_lunar_day } = {
  on_day(month, day, options = undefined) {
    checkDay('on_day', month, day);
    const values = readOptions('on_day', options, ['before', 'after', 'leap']);
    const around = daysAround('on_day', values);
    const leap = leapRule('on_day', values);
    const today = civilDate(instant.ms);
    const number = civilDay(today);
    return [today.year - 1, today.year, today.year + 1].some(
      (year) => isAround(number, dayIn(year, month, day, leap), around),
    );
  },

  days_until(month, day, options = undefined) {
    checkDay('days_until', month, day);
    const leap = leapRule('days_until', readOptions('days_until', options, ['leap']));
    const today = civilDate(instant.ms);
    const number = civilDay(today);
    // 1896 and 1904 are the farthest apart of two years with a 29 February.
    for (let year = today.year; year <= today.year + 8; year += 1) {
      const next = dayIn(year, month, day, leap);
      if (next !== null && next >= number) return next - number;
    }
    return NaN; // not reached
  },

  lunar(date = undefined) {
    const day = civilDay(civilDate(momentOf('lunar', date)));
    const year = lunarYearOf(day);
    if (year === null) throw new RangeError('lunar: the Chinese calendar is known from 31 January 1900 to January 2101');
    const month = year.months.find(({ first, days }) => first <= day && day < first + days);
    return { year: year.year, month: month.month, day: day - month.first + 1, leap: month.leap };
  },

  on_lunar_day(month, day, options = undefined) {
    wholeNumber('on_lunar_day', 'the month', month, 1, 12);
    wholeNumber('on_lunar_day', 'the day', day, 1, MOST_LUNAR_DAYS);
    const values = readOptions('on_lunar_day', options, ['before', 'after', 'leap']);
    const around = daysAround('on_lunar_day', values);
    const { leap = false } = values;
    if (typeof leap !== 'boolean') {
      throw new TypeError('on_lunar_day: leap must be true, for a day of a leap month, or false');
    }
    const today = civilDay(civilDate(instant.ms));
    const present = lunarYearOf(today);
    if (present === null) return false;
    return [present.year - 1, present.year, present.year + 1].some((number) => {
      const year = lunarYearNumbered(number);
      return year !== null && isAround(today, lunarDayIn(year, month, day, leap), around);
    });
  },
};
