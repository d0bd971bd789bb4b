// The modules of the explorer against the library and the test vectors, in Node.
//
// tests/test_explorer.py writes what the library computes into the file EXPLORER_CASES, and names the
// folder of the test vectors in EXPLORER_VECTORS. Alone, `node --test` runs the rest.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { askedName, repr, WrongInput } from "../checks.js";
import { Model, parse } from "../config.js";
import { geometric, log, power } from "../exact.js";
import * as masks from "../masks.js";
import * as ropes from "../rope.js";

const load = (path) => JSON.parse(readFileSync(path, "utf8"));
const given = process.env.EXPLORER_CASES;
const cases = given ? load(given) : null;
const vectors = process.env.EXPLORER_VECTORS;
const plain = (rope) => ({
  frequencies: [...rope.frequencies],
  unscaled: [...rope.unscaled().frequencies],
  attention_factor: rope.attentionFactor,
  head_size: rope.headSize,
  rotated: rope.rotaryDim,
  layout: rope.layout,
});

/** Return the embedding of each layer of a case, or the message of its error. */
function outcome({ config, count, seq_len: seqLen }) {
  try {
    const model = new Model(config, cases.model_types);
    const layers = model.layers(count);
    return layers.map((x) => (x.rotates ? plain(model.rope(x, seqLen)) : null));
  } catch (error) {
    if (!(error instanceof WrongInput)) throw error;
    return error.message;
  }
}

test("logarithms and powers are correctly rounded", () => {
  assert.equal(log(1), 0);
  assert.equal(log(2), Math.LN2);
  assert.equal(log(10), Math.LN10);
  assert.equal(log(0.5), -Math.LN2);
  assert.equal(power(2, 10), 1024);
  assert.equal(power(2, -1074), 5e-324);
  assert.equal(power(10, 308), 1e308);
  assert.equal(power(10, 309), Infinity);
  assert.equal(power(9, 0.5), 3);
  assert.equal(power(7, 0), 1);
  assert.equal(power(5e-324, 1), 5e-324);
  // 10 ** 0.1 to 17 digits.
  assert.equal(power(10, 0.1), 1.2589254117941673);
});

test("the end of an address asks for a name", () => {
  const names = ["Llama 3.1 8B", "100 %"];
  assert.equal(askedName("#100%20%25", names), "100 %");
  for (const hash of ["", "#", "#%", "#%E0%A4%A", "#100%", "#toString", "#llama"])
    assert.equal(askedName(hash, names), "Llama 3.1 8B", hash);
});

test("frequencies are a geometric progression", () => {
  assert.deepEqual([...geometric(8, 10_000)], [1, 0.1, 0.01, 0.001]);
  assert.deepEqual([...geometric(4, 4)], [1, 0.5]);
  assert.deepEqual([...geometric(4, 1)], [1, 1]);
  assert.deepEqual([...geometric(4, 0.25)], [1, 2]);
  assert.deepEqual([...geometric(2, 1e300, 2)], [2]);
});

test("values are printed as Python prints them", () => {
  const values = ["a", "it's", true, null, [1, 0.5], { a: [] }];
  const texts = ["'a'", '"it\'s"', "True", "None", "[1, 0.5]", "{'a': []}"];
  assert.deepEqual(values.map(repr), texts);
});

test("a text may hold Infinity, as texts that Python writes", () => {
  const text = String.raw`{"a": [Infinity, -Infinity], "b": "\"Infinity"}`;
  assert.deepEqual(parse(text), { a: [Infinity, -Infinity], b: '"Infinity' });
  assert.throws(() => parse('{"a": Infinite}'), WrongInput);
});

test("layers rotate as in the library, and errors are worded alike", { skip: !cases }, () => {
  assert.ok(cases.models.length > 500);
  for (const item of cases.models) {
    assert.deepEqual(outcome(item), item.expected, JSON.stringify(item.config));
  }
});

const plainMask = ({ kind, size, isCausal }) => (kind === "none" ? null : { kind, size, isCausal });

test("factors on scores, and masks, are those of the library", { skip: !cases }, () => {
  let known = 0;
  for (const { config, expected, masks: maskList } of cases.scores) {
    const said = JSON.stringify(config);
    let scores;
    try {
      const model = new Model(config, cases.model_types);
      const layers = model.layers(expected?.length ?? model.config.num_hidden_layers);
      scores = layers.map((layer) => (layer.rotates ? model.scores(layer) : null));
      if (expected) assert.deepEqual(masks.masksOf(model, layers).map(plainMask), maskList, said);
    } catch (error) {
      assert.ok(error instanceof WrongInput, said);
      assert.ok(!expected?.some(Boolean), said);
      continue;
    }
    for (const [i, found] of scores.entries()) {
      const { factor, ...others } = expected?.[i] ?? {};
      if (factor === undefined) assert.equal(found, null, said);
      else {
        assert.ok(Math.abs(found.factor / factor - 1) < 1e-15, said);
        assert.deepEqual({ ...others, factor: found.factor }, found, said);
        known += 1;
      }
    }
  }
  assert.ok(known > 5000, known);
});

test("masks are those of the library", { skip: !cases }, () => {
  for (const { mask, length, sees, cells, shares } of cases.masks) {
    assert.deepEqual(masks.dense(mask, length), sees);
    assert.deepEqual(
      masks.shares(mask, length, cells).map((row) => [...row]),
      shares,
    );
    const seen = sees.flat().reduce((sum, x) => sum + x, 0);
    assert.equal(masks.keysSeen(mask, length), seen / length);
  }
});

test("each layer of the examples has its mask", { skip: !cases }, () => {
  for (const { config, expected } of cases.layer_masks) {
    const model = new Model(config, cases.model_types);
    const layers = model.layers(model.config.num_hidden_layers);
    const found = masks.masksOf(model, layers).map(({ kind, size }) => [kind, size]);
    assert.deepEqual(found, expected);
  }
});

test("a window that is missing is named", { skip: !cases }, () => {
  const config = { model_type: "t5gemma2_text", num_hidden_layers: 6 };
  const model = new Model(config, cases.model_types);
  assert.throws(() => masks.masksOf(model, model.layers(6)), /must have 'sliding_window'/);
  assert.equal(masks.masksOf(model, model.layers(6), 8)[0].size, 8);
});

test("scores, and errors of float32 angles", { skip: !cases }, () => {
  for (const { arguments: options, scores, largest, first } of cases.curves) {
    const rope = new ropes.Rope(options);
    for (const [distance, expected] of scores) {
      assert.ok(Math.abs(ropes.score(rope, distance) - expected) < 1e-12);
    }
    assert.equal(ropes.float32ErrorAtEnd(rope.frequencies, rope.seqLen), largest);
    assert.equal(ropes.firstFloat32Failure(rope.frequencies), first);
  }
});

test("blocks of positions cover a context once", () => {
  for (const most of [1, 2, 10, 1000, 131_072]) {
    const blocks = ropes.logarithmicBlocks(most, 50);
    assert.equal(blocks[0][0], 1);
    assert.equal(blocks.at(-1)[1], most);
    blocks.slice(1).forEach(([first], i) => assert.equal(first, blocks[i][1] + 1));
  }
  const columns = ropes.overBlocks([[3, 5]], 8, (x) => x * x);
  assert.deepEqual(columns.mean, [50 / 3]);
  assert.deepEqual([columns.least, columns.largest], [[9], [25]]);
  const few = ropes.sample([10, 1000], 5);
  assert.equal(new Set(few).size, 5);
  assert.ok(few.every((x) => x >= 10 && x <= 1000));
});

// The test vectors, within units in the last place: vectors/README.md says what that means.

function agree(name, came, { data, scale, ulps }) {
  assert.equal(came.length, data.length, name);
  data.forEach((expected, i) => {
    const size = Math.max(Math.abs(expected), scale, 2 ** -1022);
    const allowed = ulps.float64 * 2 ** (Math.floor(Math.log2(size)) - 52);
    assert.ok(Math.abs(came[i] - expected) <= allowed, `${name}: ${came[i]} for ${expected}`);
  });
}

const FUNCTIONS = {
  frequencies: ({ dim, base }, expected, name) =>
    agree(name, [...geometric(dim, base)], expected.frequencies),
  scaled_frequencies: ({ method, dim, base, seq_len, options }, expected, name) => {
    const type = method === "dynamic_ntk" ? "dynamic" : method;
    const scaling = ropes.scalingOf(type, options);
    const rope = new ropes.Rope({ head_size: dim, seq_len, base, scaling });
    agree(name, [...rope.frequencies], expected.frequencies);
    agree(name, [rope.attentionFactor], expected.attention_factor);
  },
  mask: ({ query_count: queries, key_count: keys, offset, rules }, expected, name) => {
    const mask = maskOf(rules);
    if (!mask) return false;
    const found = masks.dense(mask, queries, keys, offset);
    assert.deepEqual(found.flat(), expected.attends.data, name);
    return true;
  },
};

/** Return the mask of a list of rules, null if it is none that layers have. */
function maskOf([causal, rule, ...others]) {
  if (causal?.rule !== "causal" || causal.diagonal || others.length) return null;
  const isCausal = true;
  if (!rule) return { kind: "full", size: null, isCausal };
  if (rule.rule === "chunked") return { kind: "chunked", size: rule.size, isCausal };
  const isWindow = rule.rule === "window" && rule.left !== null;
  return isWindow ? { kind: "sliding", size: rule.left + 1, isCausal } : null;
}

test("the test vectors", { skip: !vectors }, () => {
  const counts = Object.fromEntries(Object.keys(FUNCTIONS).map((name) => [name, 0]));
  for (const group of ["angles", "scaling", "masks"]) {
    for (const { function: name, parameters, expected, id } of load(`${vectors}/${group}.json`)
      .tests) {
      const isKnown = Object.hasOwn(FUNCTIONS, name);
      if (isKnown && FUNCTIONS[name](parameters, expected, id) !== false) counts[name] += 1;
    }
  }
  for (const [name, count] of Object.entries(counts)) assert.ok(count >= 5, `${count} of ${name}`);
});
