/** `Date`, `getTime`, `setTime` and the time zone of the board, on the injected clock. */
import type { Bridge } from "./bridge";
import type { Clock } from "./clock";

const DAY_MS = 86_400_000;
const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const DAYS = "Sun Mon Tue Wed Thu Fri Sat".split(" ");
/** What the interpreter can count days for. */
const MIN_MS = -3.95083256832e16;
const MAX_MS = 3.93840543168e16;

/** A time of day; the fields may lie outside of their usual ranges. */
interface Fields {
  year: number;
  month: number;
  day: number;
  hour: number;
  minute: number;
  second: number;
  ms: number;
}

/** `E.setDST`: minutes the clock is put forward, minutes east of GMT, and the two changes of a year. */
type DaylightSaving = number[];

const daysOf = (year: number, month: number, day: number): number => {
  const date = new Date(0);
  date.setUTCFullYear(year, month, day);
  return date.getTime() / DAY_MS;
};
const fieldsOf = (localMs: number): Fields & { weekday: number } => {
  const days = Math.floor(localMs / DAY_MS);
  // The interpreter takes whole milliseconds off the whole days.
  const rest = Math.trunc(localMs - days * DAY_MS);
  const date = new Date(days * DAY_MS);
  return {
    year: date.getUTCFullYear(),
    month: date.getUTCMonth(),
    day: date.getUTCDate(),
    weekday: date.getUTCDay(),
    hour: Math.floor(rest / 3_600_000),
    minute: Math.floor(rest / 60_000) % 60,
    second: Math.floor(rest / 1000) % 60,
    ms: rest % 1000,
  };
};
const msOf = (fields: Fields): number =>
  daysOf(fields.year, fields.month, fields.day) * DAY_MS +
  ((fields.hour * 60 + fields.minute) * 60 + fields.second) * 1000 +
  fields.ms;

const two = (value: number): string => String(value).padStart(2, "0");
const clockText = ({ hour, minute, second }: Fields): string => `${two(hour)}:${two(minute)}:${two(second)}`;
const isoText = (fields: Fields): string =>
  `${fields.year}-${two(fields.month + 1)}-${two(fields.day)}T${clockText(fields)}.${String(fields.ms).padStart(3, "0")}`;
const zoneText = (minutes: number): string => {
  const distance = Math.abs(minutes);
  return (minutes < 0 ? "-" : "+") + String(Math.floor(distance / 60) * 100 + (distance % 60)).padStart(4, "0");
};

/** Unix seconds of a change of daylight saving in a year; local ones where `isLocal`. */
const changeTime = (year: number, rule: number[], isStart: boolean, saving: DaylightSaving, isLocal: boolean): number => {
  const [week = 0, weekday = 0, month = 0, dayOffset = 0, minutes = 0] = rule;
  // The fifth week is the last: counted back from the month after.
  const isLast = week === 4;
  let days = daysOf(year, isLast ? month + 1 : month, 1);
  const toWeekday = (14 - (((days + 4) % 7) + 7) % 7 + weekday) % 7;
  days += isLast ? toWeekday - 7 : 7 * week + toWeekday;
  let time = (days + dayOffset) * 1440 + minutes;
  if (!isLocal) time -= saving[1]! + (isStart ? 0 : saving[0]!);
  return time * 60;
};

/**
 * Puts `Date` into the realm: an object with one field, `ms`. Unix time begins at `timeAtBootMs` and runs with the
 * clock; the time zone is GMT until the program sets another.
 */
export const installDate = (bridge: Bridge, clock: Clock, timeAtBootMs: number): void => {
  const { library, global, native, functions, fail } = bridge;
  const { method, toInteger, toNumber, typeName } = library;
  let timeOffset = timeAtBootMs;
  let zoneMinutes = 0;
  let saving: DaylightSaving | undefined;
  const now = () => timeOffset + clock.now();

  /** Minutes east of GMT at a time, and whether daylight saving is in effect. */
  const zoneAt = (ms: number, isLocal: boolean): { minutes: number; isSaving: boolean } => {
    if (!saving?.[0]) return { minutes: saving ? saving[1]! : zoneMinutes, isSaving: false };
    const { year } = fieldsOf(ms);
    const start = changeTime(year, saving.slice(2, 7), true, saving, isLocal);
    const end = changeTime(year, saving.slice(7, 12), false, saving, isLocal);
    const seconds = ms / 1000;
    const isSaving = start < end ? seconds >= start && seconds < end : seconds < end || seconds >= start;
    return { minutes: saving[1]! + (isSaving ? saving[0] : 0), isSaving };
  };
  const localFields = (ms: number) => fieldsOf(ms + zoneAt(ms, false).minutes * 60_000);
  const fromLocal = (fields: Fields): number => {
    const ms = msOf(fields);
    return ms - zoneAt(ms, true).minutes * 60_000;
  };

  /** As the interpreter's own parser goes through a text; what it cannot read leaves 1970, or midnight. */
  const parseDate = (text: string): number => {
    const fields: Fields = { year: 1970, month: 0, day: 1, hour: 0, minute: 0, second: 0, ms: 0 };
    let rest: string | undefined;
    const iso = /^\s*(\d+)\s*-\s*(\d+)\s*-\s*(\d+)\s*(?:T(?=\d)([^]*))?/.exec(text);
    const american = /^\s*([A-Z][a-z]{2})\w*\s+(\d+)\s*,\s*(\d+)([^]*)/.exec(text);
    const british = /^\s*(Sun|Mon|Tue|Wed|Thu|Fri|Sat)\s*,\s*(\d+)\s*([A-Z][a-z]{2})\w*\s+(\d+)([^]*)/.exec(text);
    const set = (year: string, month: number, day: string, time: string | undefined): void => {
      Object.assign(fields, { year: Number(year), month, day: Number(day) });
      rest = time;
    };
    if (iso) set(iso[1]!, Number(iso[2]) - 1, iso[3]!, iso[4]);
    else if (british && MONTHS.includes(british[3]!)) set(british[4]!, MONTHS.indexOf(british[3]!), british[2]!, british[5]);
    else if (american && MONTHS.includes(american[1]!))
      set(american[3]!, MONTHS.indexOf(american[1]!), american[2]!, american[4]);
    const time = /^\s*(\d+)(?:\s*:\s*(\d+)(?:\s*:\s*(\d+\.?\d*)([^]*))?)?/.exec(rest ?? "");
    if (!time) return fromLocal(fields);
    fields.hour = Number(time[1]);
    if (time[2] !== undefined) fields.minute = Number(time[2]);
    if (time[3] === undefined) return fromLocal(fields);
    const seconds = Number(time[3]);
    fields.second = Math.trunc(seconds);
    fields.ms = Math.trunc(seconds * 1000) % 1000;
    const zone = /^\s*(GMT|Z|[A-Za-z_$][\w$]*)?\s*(?:([+-])\s*(\d+)(?:\s*:\s*(\d+))?)?/.exec(time[4]!)!;
    const isGmt = (zone[1] === "GMT" || zone[1] === "Z") && zone[0].trim() === zone[1] && time[4]!.trim() === zone[1];
    if (isGmt) return msOf(fields);
    if (!zone[2]) return fromLocal(fields);
    let minutes = Number(zone[3]);
    minutes = zone[3]!.length === 4 ? (minutes % 100) + Math.floor(minutes / 100) * 60 : minutes * 60;
    if (zone[3]!.length === 2 && zone[4] !== undefined) minutes += Number(zone[4]);
    return msOf(fields) - (zone[2] === "-" ? -minutes : minutes) * 60_000;
  };

  const setTime = (date: any, ms: number): number => {
    if (ms < MIN_MS || ms >= MAX_MS) return fail("Error", "Date out of bounds");
    date.ms = ms;
    return ms;
  };
  const timeOf = (date: any): number => toNumber(date.ms);
  const EspruinoDate: any = native(function (...list: unknown[]) {
    const date = library.newObject(EspruinoDate.prototype);
    const [first] = list;
    if (list.length === 0) setTime(date, now());
    else if (list.length > 1) {
      const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, ms = 0] = list.map(toInteger);
      setTime(date, fromLocal({ year, month, day, hour, minute, second, ms }));
    } else if (typeof first === "string") setTime(date, parseDate(first));
    else if (typeof first === "number" || typeof first === "boolean") setTime(date, Number(first));
    else fail("TypeError", `Variables of type ${typeName(first)} are not supported in date constructor`);
    return date;
  });
  functions(EspruinoDate, {
    now,
    parse: (text: unknown) => (typeof text === "string" ? parseDate(text) : 0),
  });

  const getters: Record<string, keyof ReturnType<typeof fieldsOf>> = {
    FullYear: "year",
    Month: "month",
    Date: "day",
    Day: "weekday",
    Hours: "hour",
    Minutes: "minute",
    Seconds: "second",
    Milliseconds: "ms",
  };
  /** What `set…` takes, in this order. */
  const setters: Record<string, (keyof Fields)[]> = {
    FullYear: ["year", "month", "day"],
    Month: ["month", "day"],
    Date: ["day"],
    Hours: ["hour", "minute", "second", "ms"],
    Minutes: ["minute", "second", "ms"],
    Seconds: ["second", "ms"],
    Milliseconds: ["ms"],
  };
  const prototype: Record<string, (this: any, ...list: unknown[]) => unknown> = {};
  for (const [name, field] of Object.entries(getters)) {
    prototype[`get${name}`] = function () {
      return localFields(timeOf(this))[field];
    };
    prototype[`getUTC${name}`] = function () {
      return fieldsOf(timeOf(this))[field];
    };
  }
  for (const [name, fields] of Object.entries(setters))
    prototype[`set${name}`] = function (...list) {
      const changed = localFields(timeOf(this));
      fields.forEach((field, index) => {
        if (index === 0 || typeof list[index] === "number") changed[field] = toInteger(list[index]);
      });
      return setTime(this, fromLocal(changed));
    };
  const isoString = function (this: any) {
    return `${isoText(fieldsOf(timeOf(this)))}Z`;
  };
  functions(EspruinoDate.prototype, {
    ...prototype,
    getTime(this: any) {
      return timeOf(this);
    },
    valueOf(this: any) {
      return timeOf(this);
    },
    setTime(this: any, ms: unknown) {
      return setTime(this, toNumber(ms));
    },
    getTimezoneOffset(this: any) {
      return 0 - zoneAt(timeOf(this), false).minutes;
    },
    getIsDST(this: any) {
      return zoneAt(timeOf(this), false).isSaving;
    },
    toString(this: any) {
      const fields = localFields(timeOf(this));
      const zone = zoneText(zoneAt(timeOf(this), false).minutes);
      return `${DAYS[fields.weekday]} ${MONTHS[fields.month]} ${fields.day} ${fields.year} ${clockText(fields)} GMT${zone}`;
    },
    toUTCString(this: any) {
      const fields = fieldsOf(timeOf(this));
      return `${DAYS[fields.weekday]}, ${fields.day} ${MONTHS[fields.month]} ${fields.year} ${clockText(fields)} GMT`;
    },
    toISOString: isoString,
    toJSON: isoString,
    toLocalISOString(this: any) {
      const ms = timeOf(this);
      return isoText(localFields(ms)) + zoneText(zoneAt(ms, false).minutes);
    },
  });
  method(EspruinoDate.prototype, "constructor", EspruinoDate);
  method(global, "Date", EspruinoDate);
  functions(global, {
    getTime: () => now() / 1000,
    setTime: (seconds: unknown) => void (timeOffset = toNumber(seconds) * 1000 - clock.now()),
  });
  functions(global.E, {
    setTimeZone(hours: unknown) {
      saving = undefined;
      zoneMinutes = Math.trunc(toNumber(hours) * 60);
    },
    setDST(...list: unknown[]) {
      if (list.length === 0) saving = undefined;
      else if (list.length !== 12) fail("Error", "Unexpected arguments");
      else saving = list.map(toInteger);
    },
  });
};
