// Errors that name the key, what it must be, and what came, in the words of the Python library.

const LONGEST_SHOWN = 500;

/** An error about what a user gave, as opposed to one of this program. */
export class WrongInput extends Error {}

/** Return a value as Python prints it. */
export function repr(value) {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "string") {
    const quote = value.includes("'") && !value.includes('"') ? '"' : "'";
    const text = value.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
    return quote + (quote === "'" ? text.replaceAll("'", "\\'") : text) + quote;
  }
  if (Array.isArray(value)) return `[${value.map(repr).join(", ")}]`;
  if (typeof value === "object") {
    const items = Object.entries(value).map(([key, item]) => `${repr(key)}: ${repr(item)}`);
    return `{${items.join(", ")}}`;
  }
  return String(value);
}

export function shown(value) {
  const text = repr(value);
  return text.length <= LONGEST_SHOWN ? text : `${text.slice(0, LONGEST_SHOWN)}...`;
}

export function wrong(name, requirement, came, hint = "") {
  return new WrongInput(`\`${name}\` must ${requirement}, got ${came}.${hint}`);
}

function typeName(value) {
  if (value === null || value === undefined) return "NoneType";
  if (Array.isArray(value)) return "list";
  if (typeof value === "number") return Number.isInteger(value) ? "int" : "float";
  return { boolean: "bool", string: "str", object: "dict" }[typeof value];
}

function wrongKind(name, value, what) {
  return wrong(name, `be ${what}`, `${shown(value)} of type ${typeName(value)}`);
}

export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Tell whether Python takes a value as true: not for 0, "", [], {}, None and False. */
export function isTrue(value) {
  if (Array.isArray(value)) return value.length > 0;
  return isObject(value) ? Object.keys(value).length > 0 : Boolean(value);
}

export function positiveInteger(name, value, { even = false, most } = {}) {
  const what = `a positive${even ? " even" : ""} integer`;
  if (!Number.isInteger(value)) throw wrongKind(name, value, what);
  if (value < 1 || (even && value % 2)) throw wrong(name, `be ${what}`, shown(value));
  if (value > most) throw wrong(name, `be at most 2**${Math.log2(most)}`, shown(value));
  return value;
}

export function featureCount(name, value, options = {}) {
  return positiveInteger(name, value, { ...options, most: 2 ** 20 });
}

export function positionCount(name, value) {
  return positiveInteger(name, value, { most: 2 ** 63 });
}

export function integer(name, value, what = "an integer") {
  if (!Number.isInteger(value)) throw wrongKind(name, value, what);
  return value;
}

export function nonNegativeInteger(name, value) {
  integer(name, value, "a non-negative integer");
  if (value < 0) throw wrong(name, "be a non-negative integer", shown(value));
  return value;
}

export function positiveNumber(name, value, what = "a positive finite number") {
  if (typeof value !== "number") throw wrongKind(name, value, what);
  if (!(value > 0 && value < Infinity)) throw wrong(name, `be ${what}`, shown(value));
  return value;
}

/** Check a positive number, or 0, which counts as not given. */
export function zeroOrPositive(name, value) {
  if (typeof value !== "number") throw wrongKind(name, value, "a finite number");
  return value === 0 ? value : positiveNumber(name, value);
}

export function positiveNumbers(name, values) {
  if (!Array.isArray(values)) throw wrong(name, "be a list or tuple of numbers", shown(values));
  return values.map((value) => positiveNumber(name, value));
}

export function boolean(name, value) {
  if (typeof value !== "boolean") throw wrong(name, "be True or False", shown(value));
  return value;
}

export function share(name, value) {
  if (positiveNumber(name, value) > 1) throw wrong(name, "be at most 1", repr(value));
  return value;
}

/** Return the name that the end of an address asks for, or the first one if there is no such name. */
export function askedName(hash, names) {
  try {
    const asked = decodeURIComponent(hash.slice(1));
    return names.includes(asked) ? asked : names[0];
  } catch (error) {
    if (!(error instanceof URIError)) throw error; // such as of "#%", which stands for no text
    return names[0];
  }
}
