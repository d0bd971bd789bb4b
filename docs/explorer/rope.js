// Frequencies of rotary embeddings and what follows from them, in float64.
//
// Names of arguments are those of `RoPE` of the Python library, and the same arguments give the same
// frequencies, bit for bit.

import * as checks from "./checks.js";
import { repr, wrong } from "./checks.js";
import { geometric, log, power } from "./exact.js";

const GOLDEN_RATIO = (1 + Math.sqrt(5)) / 2;

// The scalings by their names in configurations: the check of each option, in the order of the
// library, which of them must be given, and what makes the frequencies from those without scaling.

const optional = (check) => (name, value) => (value === null ? null : check(name, value));

export const SCALINGS = {
  linear: {
    className: "LinearScaling",
    options: { factor: checks.positiveNumber },
    needed: ["factor"],
    apply: ({ factor }, kept) => [kept.map((f) => f / factor), 1],
  },
  ntk: {
    className: "NTKScaling",
    options: { factor: checks.positiveNumber },
    needed: ["factor"],
    apply: ({ factor }, kept, dim, base) => [withEnlargedBase(factor, dim, base), 1],
  },
  dynamic: {
    className: "DynamicNTKScaling",
    options: { factor: checks.positiveNumber, original_max_position: checks.positionCount },
    needed: ["factor", "original_max_position"],
    apply: ({ factor, original_max_position: original }, kept, dim, base, seqLen) => {
      const ratio = Math.max(seqLen, original) / original;
      return [withEnlargedBase(1 + factor * (ratio - 1), dim, base), 1];
    },
  },
  yarn: {
    className: "YaRNScaling",
    options: {
      factor: checks.positiveNumber,
      original_max_position: checks.positionCount,
      beta_fast: checks.positiveNumber,
      beta_slow: checks.positiveNumber,
      attention_factor: optional(checks.positiveNumber),
      mscale: optional(checks.zeroOrPositive),
      mscale_all_dim: optional(checks.zeroOrPositive),
      truncate: checks.boolean,
    },
    needed: ["factor", "original_max_position"],
    apply: yarn,
  },
  llama3: {
    className: "Llama3Scaling",
    options: {
      factor: checks.positiveNumber,
      low_freq_factor: checks.positiveNumber,
      high_freq_factor: checks.positiveNumber,
      original_max_position: checks.positionCount,
    },
    needed: ["factor", "low_freq_factor", "high_freq_factor", "original_max_position"],
    check: ({ low_freq_factor: low, high_freq_factor: high }) => {
      if (high < low)
        throw wrong("high_freq_factor", `be \`low_freq_factor\` = ${low} or more`, high);
    },
    apply: llama3,
  },
  longrope: {
    className: "LongRoPEScaling",
    options: {
      short_factor: checks.positiveNumbers,
      long_factor: checks.positiveNumbers,
      original_max_position: checks.positionCount,
      factor: optional(checks.positiveNumber),
      attention_factor: optional(checks.positiveNumber),
    },
    needed: ["short_factor", "long_factor", "original_max_position"],
    apply: longrope,
  },
  proportional: {
    className: "ProportionalScaling",
    options: { partial_rotary_factor: checks.share, factor: checks.positiveNumber },
    needed: ["partial_rotary_factor"],
    apply: ({ partial_rotary_factor: share, factor = 1 }, kept, dim) => {
      const count = Math.floor((share * dim) / 2);
      return [kept.map((f, i) => (i < count ? f / factor : 0)), 1];
    },
  },
};

/** Return a scaling, {type, ...options}, after checking its options. */
export function scalingOf(type, options) {
  const { options: known, check } = SCALINGS[type];
  for (const [name, value] of Object.entries(options)) known[name](name, value);
  check?.(options);
  return { type, ...options };
}

function withEnlargedBase(factor, dim, base) {
  if (dim <= 2) throw wrong("dim", "be above 2 for NTK scaling", dim);
  const enlarged = base * power(factor, dim / (dim - 2));
  if (!(enlarged > 0 && enlarged < Infinity)) {
    throw wrong("factor", `keep \`base\` = ${base} a finite number above 0`, factor);
  }
  return geometric(dim, enlarged);
}

function clip(x) {
  return Math.min(Math.max(x, 0), 1);
}

function yarn(options, kept, dim, base) {
  const { factor, original_max_position: original, truncate = true } = options;
  if (!(base > 1)) throw wrong("base", "be above 1 for YaRN", base);
  const index = (cycles) => (dim * (log(original / (2 * Math.PI)) - log(cycles))) / (2 * log(base));
  let [low, high] = [index(options.beta_fast ?? 32), index(options.beta_slow ?? 1)];
  if (truncate) [low, high] = [Math.floor(low), Math.ceil(high)];
  [low, high] = [Math.max(low, 0), Math.min(high, dim - 1)];
  if (low === high) high += 0.001;
  const frequencies = kept.map((f, i) => {
    const divided = clip((i - low) / (high - low));
    return (f / factor) * divided + f * (1 - divided);
  });
  return [frequencies, yarnFactor(options)];
}

/** Return the factor on queries and keys of a context that is longer by a factor. */
export function yarnMagnitude(factor, mscale) {
  return factor > 1 ? 0.1 * mscale * log(factor) + 1 : 1;
}

function yarnFactor({ factor, attention_factor: given, mscale, mscale_all_dim: every }) {
  const magnitude = (scale) => yarnMagnitude(factor, scale);
  if (given !== undefined && given !== null) return given;
  return mscale && every ? magnitude(mscale) / magnitude(every) : magnitude(1);
}

function llama3(options, kept) {
  const { factor, low_freq_factor: low, high_freq_factor: high } = options;
  const frequencies = kept.map((f) => {
    const cycles = (options.original_max_position * f) / (2 * Math.PI);
    const share = cycles < low ? 0 : cycles >= high ? 1 : (1 / (high - low)) * (cycles - low);
    return f * share + (f / factor) * (1 - share);
  });
  return [frequencies, 1];
}

function longrope(options, kept, dim, base, seqLen) {
  const original = options.original_max_position;
  const name = seqLen > original ? "long_factor" : "short_factor";
  const divisors = options[name];
  if (divisors.length !== dim / 2) {
    throw wrong(name, `have ${dim / 2} numbers, half of \`dim\``, divisors.length);
  }
  return [kept.map((f, i) => f / divisors[i]), longropeFactor(options, seqLen)];
}

function longropeFactor(
  { original_max_position: original, factor, attention_factor: given },
  seqLen,
) {
  if (given !== undefined && given !== null) return given;
  const ratio = factor ?? seqLen / original;
  if (ratio <= 1) return 1;
  if (original === 1) {
    const what = "be 2 or more, or `attention_factor` given: its logarithm divides";
    throw wrong("original_max_position", what, original);
  }
  return Math.sqrt(1 + log(ratio) / log(original));
}

/** Return the coordinate that rotates each pair. */
export function coordinatesOfPairs(sections, order) {
  const total = sections.reduce((sum, n) => sum + n, 0);
  const count = sections.length;
  if (order === "contiguous") return sections.flatMap((n, c) => Array(n).fill(c));
  if (order === "first_last") {
    const pairs = total - sections[0];
    const owners = Array.from({ length: pairs }, (_, i) => 1 + (i % (count - 1)));
    return [...owners, ...Array(sections[0]).fill(0)];
  }
  const last = Math.max(0, ...sections.map((n, c) => (c ? c + (n - 1) * count : 0)));
  if (last >= total) {
    const what = "have no coordinate with more pairs than the first in strided order";
    throw wrong("sections", what, `(${sections.join(", ")})`);
  }
  return Array.from({ length: total }, (_, i) =>
    Math.floor(i / count) < sections[i % count] ? i % count : 0,
  );
}

function checkedSections(sections, dim) {
  for (const n of sections) checks.positiveInteger("sections", n);
  if (sections.reduce((sum, n) => sum + n, 0) !== dim / 2) {
    const what = `add up to ${dim / 2}, half of the rotated features`;
    throw wrong("sections", what, `(${sections.join(", ")})`);
  }
}

/** The rotary embedding that the same arguments give in the Python library. */
export class Rope {
  constructor(given) {
    this.given = given;
    this.headSize = given.head_size;
    this.seqLen = checks.positionCount("seq_len", given.seq_len);
    this.base = checks.positiveNumber("base", given.base ?? 10_000);
    this.scale = given.scale ?? 1;
    this.layout = given.layout ?? "half";
    this.rotaryDim = given.rotary_dim ?? given.head_size;
    this.scaling = given.scaling ?? null;
    this.sections = given.sections ?? null;
    checks.featureCount("head_size", this.headSize, { even: this.rotaryDim === this.headSize });
    checks.positiveInteger("rotary_dim", this.rotaryDim, { even: true });
    if (this.rotaryDim > this.headSize) {
      const what = `be at most \`head_size\` = ${this.headSize}`;
      throw wrong("rotary_dim", what, this.rotaryDim);
    }
    if (this.sections) checkedSections(this.sections, this.rotaryDim);
    [this.frequencies, this.attentionFactor] = this.#frequencies();
    if (!this.frequencies.every(Number.isFinite)) {
      throw wrong("base", "give finite frequencies", repr(this.base));
    }
  }

  #frequencies() {
    const dim = this.rotaryDim;
    const { section_frequencies: kind = "shared", section_order: order = "contiguous" } =
      this.given;
    const coordinates = this.sections && coordinatesOfPairs(this.sections, order);
    if (coordinates && kind === "restart") {
      const parts = this.sections.map((n) => [...geometric(2 * n, this.base, this.scale)]);
      return [Float64Array.from(coordinates, (c) => parts[c].shift()), 1];
    }
    if (this.scaling === null) return [geometric(dim, this.base, this.scale), 1];
    if (this.scaling.type === "alternating") {
      const all = geometric(dim, this.base);
      const every = (start) => all.filter((_, i) => i % 2 === start);
      return [Float64Array.from([...every(0), ...every(1)]), 1];
    }
    const { apply } = SCALINGS[this.scaling.type];
    return apply(this.scaling, geometric(dim, this.base), dim, this.base, this.seqLen);
  }

  /** Number of positions in training, as far as a scaling knows it. */
  get originalLength() {
    return this.scaling?.original_max_position ?? null;
  }

  /** The same embedding without scaling, over the context before it. */
  unscaled() {
    const changes = { scaling: null, seq_len: this.originalLength ?? this.seqLen };
    return this.scaling ? new Rope({ ...this.given, ...changes }) : this;
  }

  /** The first features of each pair, and the second ones. */
  featuresOfPair(i) {
    return this.layout === "half" ? [i, i + this.rotaryDim / 2] : [2 * i, 2 * i + 1];
  }
}

/** Number of positions after which each pair has made a full cycle, infinite if it never does. */
export function wavelengths(frequencies) {
  return frequencies.map((f) => (2 * Math.PI) / Math.abs(f));
}

/** Number of pairs that turn at least once within a context. */
export function fullCycles(frequencies, context) {
  return wavelengths(frequencies).filter((length) => length <= context).length;
}

/** Score at a distance of a query and a key that are the same vector of length 1, all features equal. */
export function score(rope, distance) {
  let sum = 0;
  for (const f of rope.frequencies) sum += Math.cos(distance * f);
  return (rope.attentionFactor ** 2 * sum) / rope.frequencies.length;
}

/** Largest error at a position of angles that are products of two float32 numbers, in radians. */
export function float32Error(frequencies, position) {
  const single = Math.fround(position);
  let largest = 0;
  for (const f of frequencies) {
    const error = Math.abs(Math.fround(single * Math.fround(f)) - position * f);
    largest = Number.isNaN(error) ? Infinity : Math.max(largest, error);
  }
  return largest;
}

/** Largest error of the last 8,192 positions of a context. */
export function float32ErrorAtEnd(frequencies, context) {
  let largest = 0;
  for (let position = Math.max(0, context - 8192); position < context; position += 1) {
    largest = Math.max(largest, float32Error(frequencies, position));
  }
  return largest;
}

/** First of 2 ** 20 positions whose angles err above a tolerance in float32, null if there is none. */
export function firstFloat32Failure(frequencies, tolerance = 1e-3) {
  // Two roundings change an angle by less than 1.2e-7 of it: most pairs and positions are exact enough.
  const highest = frequencies.reduce((most, f) => Math.max(most, Math.abs(f)), 0);
  const fast = frequencies.filter((f) => Math.abs(f) * 2 ** 20 * 1.2e-7 > tolerance);
  const start = highest ? Math.floor(tolerance / (1.2e-7 * highest)) : 2 ** 20;
  for (let position = start; position < 2 ** 20; position += 1) {
    if (float32Error(fast, position) > tolerance) return position;
  }
  return null;
}

/** Blocks [first, last] of the integers from 1 to `most`, of equal width on a logarithmic axis. */
export function logarithmicBlocks(most, count) {
  const blocks = [];
  for (let i = 1, first = 1; i <= count; i += 1) {
    const last = i === count ? most : Math.floor(most ** (i / count));
    if (last >= first) blocks.push([first, last]);
    first = Math.max(first, last + 1);
  }
  return blocks;
}

/** At most `most` integers of a block, unevenly spaced: even steps may hold whole cycles. */
export function sample([first, last], most) {
  const size = last - first + 1;
  return Array.from({ length: Math.min(size, most) }, (_, i) =>
    size <= most ? first + i : first + Math.floor(((i * GOLDEN_RATIO) % 1) * size),
  );
}

/** Summarise a function over blocks of positions: where they are, mean, smallest and largest value. */
export function overBlocks(blocks, most, value) {
  const columns = { at: [], mean: [], least: [], largest: [] };
  for (const block of blocks) {
    const values = sample(block, most).map(value);
    columns.at.push(block[0] === block[1] ? block[0] : Math.sqrt(block[0] * block[1]));
    columns.mean.push(values.reduce((sum, x) => sum + x, 0) / values.length);
    columns.least.push(Math.min(...values));
    columns.largest.push(Math.max(...values));
  }
  return columns;
}
