// Masks of layers: which keys each query sees, as a range of positions.

import * as checks from "./checks.js";
import { isTrue } from "./checks.js";

/** Return the first key that a query sees; the last one is the query itself. */
export function firstKey({ kind, size }, query) {
  if (kind === "sliding") return Math.max(0, query - size + 1);
  return kind === "chunked" ? query - (query % size) : 0;
}

/** Return rows of 1 and 0, for each query from position `offset` on whether it sees each key. */
export function dense(mask, queries, keys = queries, offset = 0) {
  return Array.from({ length: queries }, (_, row) => {
    const query = row + offset;
    const sees = (key) => Number(key >= firstKey(mask, query) && key <= query);
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
      const first = firstKey(mask, query);
      for (let cell = 0; cell < cells; cell += 1) {
        const from = Math.max(first, edges[cell]);
        const to = Math.min(query + 1, edges[cell + 1]);
        counts[cell] += Math.max(0, to - from);
      }
    }
    return counts.map((n, cell) => n / (queries * (edges[cell + 1] - edges[cell])));
  });
}

/** Return the mean number of keys that the queries of a context see. */
export function keysSeen({ kind, size }, length) {
  const triangle = (n) => (n * (n + 1)) / 2;
  if (kind === "full" || size >= length) return triangle(length) / length;
  if (kind === "sliding") return (triangle(size) + (length - size) * size) / length;
  const whole = Math.floor(length / size);
  return (whole * triangle(size) + triangle(length % size)) / length;
}

/** Return the mask of each layer; `window` takes the place of the configuration's, unless null. */
export function masksOf(model, layers, window = null) {
  const { config, type = "" } = model;
  const key = "sliding_window";
  const [windowed, from] = windowedLayers(config, type);
  return layers.map(({ type: name }, i) => {
    if (name === "chunked_attention")
      return sized("chunked", "attention_chunk_size", model, window);
    if (name === "sliding_attention") return sized("sliding", key, model, window);
    if (name !== null && name !== "full_attention") return { kind: "none", layerType: name };
    if (name === null && windowed && i >= from) return sized("sliding", key, model, window);
    return { kind: "full", size: null };
  });
}

/** Tell whether layers without types have a window, and the first one that has it. */
function windowedLayers(config, type) {
  if (!isTrue(config.sliding_window)) return [false, 0];
  // Models of Qwen have a window only where this key says so, and in their last layers only.
  const isOptional = String(type).startsWith("qwen");
  if (!(config.use_sliding_window ?? !isOptional)) return [false, 0];
  return [true, isOptional ? (config.max_window_layers ?? 0) : 0];
}

function sized(kind, key, model, window) {
  return { kind, size: window ?? checks.positiveInteger(key, model.needed(key)) };
}
