// Masks of layers: which keys each query sees, as a range of positions.
//
// A mask is {kind, size, isCausal}. The size of a window is the number of newest keys, the query's
// own among them; without causality, of the keys on each side of it.

import * as checks from "./checks.js";

/** Return the first key that a query sees. */
export function firstKey({ kind, size, isCausal }, query) {
  if (kind === "sliding") return Math.max(0, query - size + (isCausal ? 1 : 0));
  return kind === "chunked" ? query - (query % size) : 0;
}

/** Return the last key that a query sees, if there are so many. */
export function lastKey({ kind, size, isCausal }, query) {
  if (isCausal) return query;
  return kind === "sliding" ? query + size : Infinity;
}

/** Return rows of 1 and 0, for each query from position `offset` on whether it sees each key. */
export function dense(mask, queries, keys = queries, offset = 0) {
  return Array.from({ length: queries }, (_, row) => {
    const query = row + offset;
    const sees = (key) => Number(key >= firstKey(mask, query) && key <= lastKey(mask, query));
    return Array.from({ length: keys }, (_, key) => sees(key));
  });
}

/** Return the share of keys that is seen in each of cells * cells blocks, by at most `most` queries. */
export function shares(mask, length, cells, most = 64) {
  const edges = Array.from({ length: cells + 1 }, (_, i) => Math.floor((i * length) / cells));
  return edges.slice(1).map((end, row) => {
    const counts = new Float64Array(cells);
    const size = end - edges[row];
    const queries = Math.min(size, most);
    for (let i = 0; i < queries; i += 1) {
      const query = edges[row] + Math.floor(((i + 0.5) * size) / queries);
      const [first, last] = [firstKey(mask, query), lastKey(mask, query)];
      for (let cell = 0; cell < cells; cell += 1) {
        const from = Math.max(first, edges[cell]);
        const to = Math.min(last + 1, edges[cell + 1]);
        counts[cell] += Math.max(0, to - from);
      }
    }
    return counts.map((n, cell) => n / (queries * (edges[cell + 1] - edges[cell])));
  });
}

/** Return the mean number of keys that the queries of a context see. */
export function keysSeen({ kind, size, isCausal }, length) {
  if (!isCausal) return 2 * keysSeen({ kind, size: size + 1, isCausal: true }, length) - 1;
  const triangle = (n) => (n * (n + 1)) / 2;
  if (kind === "full" || size >= length) return triangle(length) / length;
  if (kind === "sliding") return (triangle(size) + (length - size) * size) / length;
  const whole = Math.floor(length / size);
  return (whole * triangle(size) + triangle(length % size)) / length;
}

// Where the attention of a model is not known, its layers go by their types.
const BY_TYPE = {
  chunked_attention: "attention_chunk_size",
  full_attention: null,
  sliding_attention: "sliding_window",
};

/** Return the mask of each layer; `window` takes the place of the configuration's, unless null. */
export function masksOf(model, layers, window = null) {
  return layers.map((layer) => {
    const seen = model.seenBy(layer);
    const mask = seen === undefined ? maskByType(model, layer, window) : maskBy(seen, model);
    if (mask === null) return { kind: "none", layerType: layer.type };
    return mask.kind === "full" ? mask : { ...mask, size: window ?? mask.size };
  });
}

/** Return the mask of a layer of which it is known what it sees, null if it has no attention. */
function maskBy(seen, model) {
  if (seen === null) return null;
  const { is_causal, bidirectional } = model.modelType.attention;
  const isCausal = is_causal && !model.config[bidirectional];
  let size = model.windowOf(seen);
  if (size === null) return { kind: "full", size, isCausal };
  if (!isCausal && !seen.is_of_each_side) size = Math.floor(size / 2);
  return { kind: seen.chunk ? "chunked" : "sliding", size, isCausal };
}

/** Return the mask of another layer; with a `window` the configuration needs none. */
function maskByType(model, { type }, window) {
  const { config } = model;
  const isWindowed = config.sliding_window && (config.use_sliding_window ?? true);
  const name = type ?? (isWindowed ? "sliding_attention" : "full_attention");
  if (!Object.hasOwn(BY_TYPE, name)) return null;
  const key = BY_TYPE[name];
  if (key === null) return { kind: "full", size: null, isCausal: true };
  const size = window ?? checks.positiveInteger(key, model.needed(key));
  return { kind: name.replace("_attention", ""), size, isCausal: true };
}
