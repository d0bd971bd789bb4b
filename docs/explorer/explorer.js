// The page: a configuration and a few controls in, pictures and numbers out.

import { askedName, repr, WrongInput } from "./checks.js";
import { Model, parse } from "./config.js";
import { keysSeen, masksOf } from "./masks.js";
import * as plots from "./plots.js";
import { element, format } from "./plots.js";
import * as ropes from "./rope.js";
import { Rope, SCALINGS, scalingOf } from "./rope.js";

const COLUMNS = 300;
const IN_COLUMN = 64;
const PASTED = "pasted";
const OWN = "as configured";
const CHOICES = ["none", "linear", "ntk", "dynamic", "yarn", "llama3"];

const find = (selector) => document.querySelector(selector);

// Sliders: label, unit, least and largest value, and the base of their logarithmic scale, if any.
const SLIDERS = {
  dim: { label: "dimension", unit: "features", range: [2, 256], step: 2 },
  base: { label: "base", unit: "", range: [100, 1e8], scale: 10, step: 0.01 },
  factor: { label: "factor", unit: "of the scaling", range: [1, 128], scale: 2, step: 0.125 },
  window: { label: "window", unit: "keys", range: [2, 2 ** 20], scale: 2, step: 0.25, whole: true },
  context: {
    label: "context",
    unit: "positions",
    range: [64, 2 ** 24],
    scale: 2,
    step: 0.25,
    whole: true,
  },
};

// Pictures of positions in a line, which places in images have not.
const OF_LINES = ["layers", "wavelengths", "decay", "errors"];

// What to do in the page about an error, by what its message has in it.
const REMEDIES = {
  "`seq_len` must be given": "Choose a context in this page.",
  "pass layout=": "Choose a layout in this page.",
  "config | {'model_type': ...}": "Add `model_type` to the text in this page.",
};

const state = { modelTypes: {}, examples: {}, model: null, layers: [], kind: 0, changes: {} };

// What is computed.

/** Return the kinds of layers that rotate alike: one of them, and the numbers of all. */
function kindsOf(layers) {
  const numbers = [...layers.keys()].filter((i) => layers[i].rotates);
  const alike = Map.groupBy(numbers, (i) => JSON.stringify(argumentsOf(layers[i])));
  return [...alike.values()].map((all) => ({ layer: layers[all[0]], numbers: all }));
}

function argumentsOf(layer) {
  // A context that the configuration has is taken, also for LongRoPE.
  const length = state.changes.context ?? state.model.config.max_position_embeddings ?? null;
  return state.model.arguments(layer, length, state.changes.layout || null);
}

const isAxial = () => "axial" in state.model.modelType;

/** Return all layers; of a configuration without their number, or their types, one of each kind. */
function layersOf(model) {
  const count = model.config.num_hidden_layers ?? null;
  try {
    return model.layers(count);
  } catch (error) {
    const isMissing = error.message.includes("must have 'layer_types'");
    if (!(error instanceof WrongInput) || !isMissing) throw error;
    const alike = Map.groupBy(model.layers(), (layer) => JSON.stringify(layer));
    return [...alike.values()].map(([layer]) => layer);
  }
}

/** Return the arguments of the embedding that is shown, with the changes that the controls make. */
function changedArguments(kind) {
  const { dim, base, factor, context, scaling = OWN } = state.changes;
  const given = argumentsOf(kind.layer);
  const changed = { ...given, base: base ?? given.base };
  if (dim !== undefined) {
    changed.head_size = Math.max(given.head_size, dim);
    changed.rotary_dim = dim === changed.head_size ? null : dim;
  }
  if (scaling === "none") changed.scaling = null;
  else if (scaling !== OWN) {
    const times = factor ?? given.scaling?.factor ?? 4;
    const original = given.scaling?.original_max_position ?? given.seq_len;
    changed.scaling = chosenScaling(scaling, times, original);
    changed.seq_len = context ?? Math.round(original * times);
  } else if (factor !== undefined && given.scaling) {
    const { type, ...options } = given.scaling;
    changed.scaling = scalingOf(type, { ...options, factor });
  }
  return changed;
}

function chosenScaling(type, factor, original) {
  const all = { factor, original_max_position: original, low_freq_factor: 1, high_freq_factor: 4 };
  const names = SCALINGS[type].needed;
  return scalingOf(type, Object.fromEntries(names.map((name) => [name, all[name]])));
}

// What is shown.

/** Show the configuration of the text field from scratch. */
function read() {
  Object.assign(state, { model: null, kind: 0, changes: {} });
  show();
}

/** Draw; an error takes the place of the pictures. */
function show() {
  let failed = null;
  try {
    render();
  } catch (problem) {
    failed = problem;
  }
  const isOurs = failed && !(failed instanceof WrongInput);
  const message = isOurs ? `This page has an error: ${failed.message}` : (failed?.message ?? "");
  const remedy = Object.keys(REMEDIES).find((words) => message.includes(words));
  find("#error").textContent = remedy ? `${message} ${REMEDIES[remedy]}` : message;
  find("#error").hidden = failed === null;
  find("#pictures").hidden = failed !== null;
  find("#config").setAttribute("aria-invalid", String(failed !== null));
  if (isOurs) throw failed;
  if (failed === null) plots.resize();
}

function render() {
  if (!state.model) {
    const model = new Model(parse(find("#config").value), state.modelTypes);
    state.layers = layersOf(model);
    state.model = model;
  }
  const kinds = kindsOf(state.layers);
  const kind = kinds[state.kind];
  showKinds(kinds);
  if (!kind) throw new WrongInput("the configuration rotates no pair of features.");
  const rope = new Rope(changedArguments(kind));
  const masks = isAxial() ? [] : masksOf(state.model, state.layers, state.changes.window ?? null);
  find("#pictures").hidden = false; // charts need a width
  find("#error").hidden = true;
  showControls(rope, masks);
  showFacts(rope, kind.layer);
  showPairs(rope);
  for (const name of OF_LINES) find(`#${name}`).hidden = isAxial();
  if (!isAxial()) {
    showLayers(masks, rope.seqLen);
    showWavelengths(rope);
    showDecay(rope);
    showErrors(rope);
  }
  showPython(rope, masks[kind.numbers[0]]);
  showTable(rope);
}

function note(section, text) {
  find(`#${section} .note`).textContent = text;
  return `${find(`#${section} h2`).textContent}: ${text}`;
}

function showKinds(kinds) {
  const field = find("#kinds");
  field.hidden = kinds.length < 2;
  const buttons = kinds.map(({ numbers }, i) => {
    const input = element("input", { type: "radio", name: "kind", value: String(i) });
    input.checked = i === state.kind;
    const types = [...new Set(numbers.map((number) => state.layers[number].type ?? "all"))];
    const name = `${types.join(", ").replaceAll("_attention", "")} (${numbers.length})`;
    return element("label", {}, [input, ` ${name}`]);
  });
  field.replaceChildren(field.querySelector("legend"), ...buttons);
}

const count = (n, word) => `${format(n)} ${word}${n === 1 ? "" : "s"}`;

function showFacts(rope, layer) {
  const before = rope.unscaled();
  const pairs = rope.frequencies.length;
  const slow = pairs - ropes.fullCycles(rope.frequencies, rope.seqLen);
  const slowBefore = pairs - ropes.fullCycles(before.frequencies, before.seqLen);
  const first = ropes.firstFloat32Failure(rope.frequencies);
  const original = before.seqLen === rope.seqLen ? "" : `, from ${format(before.seqLen)}`;
  const of = rope.rotaryDim === rope.headSize ? "all" : `first ${rope.rotaryDim}`;
  const ofLines = [
    [
      "slow",
      "pairs that turn less than once",
      slow,
      `${slow} of ${pairs}${rope.scaling ? ` (before: ${slowBefore})` : ""}`,
    ],
    [
      "float32_fails",
      "float32 angles err by 0.001",
      first,
      first === null ? "not below 1,048,576" : `from position ${format(first, 7)}`,
    ],
  ];
  const coordinates = rope.sections?.length;
  const ofImages = [["coordinates", "positions", coordinates, `${coordinates} coordinates`]];
  const facts = [
    ["layout", "layout", rope.layout, rope.layout],
    ["head_size", "features of a head", rope.headSize, `${rope.headSize}, ${of} rotated`],
    ["base", "base", rope.base, format(rope.base, 12)],
    ["seq_len", "context", rope.seqLen, `${format(rope.seqLen, 12)}${original}`],
    ["rope_type", "scaling", rope.scaling?.type ?? "default", scalingText(rope)],
    [
      "attention_factor",
      "factor on cosine and sine",
      rope.attentionFactor,
      format(rope.attentionFactor),
    ],
    scoreFact(layer),
    ...(isAxial() ? ofImages : ofLines),
  ];
  find("#facts").replaceChildren(
    ...facts.map(([name, label, value, text]) =>
      element("div", {}, [
        element("dt", {}, label),
        element("dd", { "data-fact": name, "data-value": String(value) }, text),
      ]),
    ),
  );
}

/** Return the factor on the scores of a layer, and what else is done with them, as a fact. */
function scoreFact(layer) {
  const scores = state.model.scores(layer);
  if (scores === null) return ["score_factor", "factor on scores", null, "not known here"];
  const { factor, size, bound, hasSinks } = scores;
  const times = factor * Math.sqrt(size);
  const isUsual = Math.abs(times - 1) < 1e-9;
  const usual = `1/√${size}`;
  const parts = [isUsual ? usual : `${format(times, 4)} times ${usual}`];
  if (bound !== null) parts.push(`scores within ±${format(bound)}`);
  if (hasSinks) parts.push("with sinks");
  return ["score_factor", "factor on scores", factor, `${format(factor, 4)}: ${parts.join(", ")}`];
}

function scalingText({ scaling }) {
  if (!scaling) return "none";
  return scaling.factor ? `${scaling.type}, factor ${format(scaling.factor)}` : scaling.type;
}

const KINDS = {
  full: "full attention",
  sliding: "sliding window",
  chunked: "chunks",
  none: "no attention",
};

function maskName(mask) {
  if (mask.kind === "none") return String(mask.layerType);
  if (!mask.isCausal) return mask.size ? `${format(mask.size, 9)} keys on each side` : "all keys";
  return mask.size ? `${KINDS[mask.kind]} of ${format(mask.size, 9)}` : KINDS[mask.kind];
}

function showLayers(masks, context) {
  const layers = state.layers.map(({ rotates }, i) => {
    const text = `layer ${i}: ${maskName(masks[i])}${rotates ? "" : ", not rotated"}`;
    return { mask: masks[i], rotates, text };
  });
  const groups = Map.groupBy(layers, ({ mask }) => JSON.stringify(mask));
  const isOne = groups.size === 1;
  const texts = [...groups.values()].map(
    (all) => `${isOne ? "" : `${all.length} × `}${maskName(all[0].mask)}`,
  );
  const still = layers.filter(({ rotates }) => !rotates).length;
  if (still) texts.push(`${count(still, "layer")} without rotation`);
  const isPart = layers.length < state.model.config.num_hidden_layers;
  const shown = `${count(layers.length, "layer")}${isPart ? ", one of each kind" : ""}`;
  const summary = note("layers", `${shown}: ${texts.join(", ")}.`);
  plots.drawLayers(find("#layers .strip"), layers, summary);
  const legend = [...new Set(masks.map(({ kind }) => kind))].map((kind) =>
    element("span", {}, [element("i", { class: `swatch layer ${kind}` }), KINDS[kind]]),
  );
  if (still)
    legend.push(
      element("span", {}, [element("i", { class: "swatch layer full still" }), "without rotation"]),
    );
  find("#layers .legend").replaceChildren(...legend);
  showMasks(
    [...groups.values()].map((all) => all[0].mask).filter(({ kind }) => kind !== "none"),
    context,
  );
}

function showMasks(masks, context) {
  // All pictures show the same positions: a few windows, or the whole context.
  const sizes = masks.map(({ size }) => size).filter((size) => size && size < context);
  const length = sizes.length ? Math.min(context, 3 * Math.max(...sizes)) : Math.min(context, 96);
  find("#layers .masks").replaceChildren(
    ...masks.map((mask) => {
      const mean = format(Math.round(keysSeen(mask, context)), 9);
      const text = `${maskName(mask)}: the first ${format(length, 9)} positions. In a context of ${format(context, 9)} a query sees ${mean} keys on average.`;
      return plots.maskPicture(mask, length, text);
    }),
  );
}

function showPairs(rope) {
  const [a, b] = rope.layout === "half" ? ["i", `i + ${rope.rotaryDim / 2}`] : ["2i", "2i + 1"];
  const rest = rope.headSize - rope.rotaryDim;
  const more = [];
  if (rest)
    more.push(
      `the last ${count(rest, "feature")} of the head ${rest === 1 ? "is" : "are"} left as they are`,
    );
  if (rope.sections)
    more.push(
      `a position has ${rope.sections.length} coordinates, which rotate ${rope.sections.join(", ")} pairs`,
    );
  const where = isAxial()
    ? " Positions are places of patches in an image: pictures of positions in a line are left out."
    : "";
  const text = `${[`Features ${a} and ${b} form pair i`, ...more].join("; ")}.${where}`;
  plots.drawPairs(find("#pairs .drawing"), rope, note("pairs", text));
  const isSlow = ropes.fullCycles(rope.frequencies, rope.seqLen) < rope.frequencies.length;
  const legend = [
    ["scale", isAxial() ? "pair 0 to the last one" : "pair 0, the fastest, to the last one"],
    ...(isSlow ? [["arc-dashed", "turns less than once"]] : []),
    ...(rest ? [["still", "not rotated"]] : []),
  ];
  find("#pairs .legend").replaceChildren(
    ...legend.map(([name, words]) =>
      element("span", {}, [element("i", { class: `swatch ${name}` }), words]),
    ),
  );
}

function showWavelengths(rope) {
  const pairs = rope.frequencies.length;
  const slow = pairs - ropes.fullCycles(rope.frequencies, rope.seqLen);
  const changed = rope
    .unscaled()
    .frequencies.filter((f, i) => Math.abs(f - rope.frequencies[i]) > 1e-9 * f);
  const scaled = rope.scaling ? ` The scaling changes ${count(changed.length, "pair")}.` : "";
  const text = `${slow} of ${pairs} pairs turn less than once within ${format(rope.seqLen, 9)} positions.${scaled}`;
  plots.drawWavelengths(find("#wavelengths"), rope, note("wavelengths", text));
}

function overContext(context, value) {
  return ropes.overBlocks(ropes.logarithmicBlocks(context, COLUMNS), IN_COLUMN, value);
}

function showDecay(rope) {
  const before = rope.unscaled();
  const [now, old] = [rope, before].map((x) => overContext(rope.seqLen, (d) => ropes.score(x, d)));
  const text = `Score of a query and a key that are the same unit vector: ${format(ropes.score(rope, 0), 4)} at distance 0.`;
  plots.drawDecay(
    find("#decay"),
    now,
    before === rope ? null : old,
    rope.seqLen,
    note("decay", text),
  );
}

function showErrors(rope) {
  const columns = overContext(rope.seqLen, (p) => ropes.float32Error(rope.frequencies, p));
  const first = ropes.firstFloat32Failure(rope.frequencies);
  const atEnd = ropes.float32ErrorAtEnd(rope.frequencies, rope.seqLen);
  // Half the distance of float32 numbers just below the largest cosine.
  const halfUnit = 2 ** (Math.ceil(Math.log2(rope.attentionFactor)) - 25);
  const text = `Products of a position and a frequency in float32 err by up to ${format(atEnd, 2)} radians at the end of the context; tables of this library by ${format(halfUnit, 2)}, half a unit in the last place.`;
  plots.drawErrors(find("#errors"), columns, rope.seqLen, first, halfUnit, note("errors", text));
}

// Python code.

/** Return a call with an argument a line; deeper calls are indented. */
function pythonOf(name, values, indent = "") {
  const given = Object.entries(values).filter(([, value]) => (value ?? null) !== null);
  const lines = given.map(([key, value]) => `${indent}    ${key}=${value},\n`);
  return `${name}(\n${lines.join("")}${indent})`;
}

const MASKS = {
  full: () => "pe.CausalMask()",
  sliding: (size) => `pe.CausalMask() | pe.SlidingWindowMask(${size - 1}, None)`,
  chunked: (size) => `pe.CausalMask() | pe.ChunkedMask(${size})`,
};

function maskCode({ kind, size, isCausal }) {
  if (isCausal) return MASKS[kind](size);
  return kind === "sliding" ? `pe.SlidingWindowMask(${size}, ${size})` : null; // or none at all
}

function showPython(rope, mask) {
  const { scaling, sections, layout, ...rest } = rope.given;
  const isPublic = !scaling || scaling.type in SCALINGS;
  const { type, ...options } = scaling ?? {};
  const texts = (values) =>
    Object.fromEntries(
      Object.entries(values).map(([key, value]) => [key, value === null ? null : repr(value)]),
    );
  const values = {
    ...texts(rest),
    layout: repr(layout),
    sections: sections && repr(sections),
    scaling:
      scaling && isPublic
        ? pythonOf(`pe.${SCALINGS[type].className}`, texts(options), "    ")
        : null,
  };
  const call = isPublic ? pythonOf("pe.RoPE", values) : 'pe.RoPE.from_hf_config("config.json")';
  const code = mask && maskCode(mask);
  const lines = ["import positional_embeddings as pe", "", `rope = ${call}`];
  if (code) lines.push(`mask = ${code}`);
  find("#python code").textContent = lines.join("\n");
}

function showTable(rope) {
  const now = ropes.wavelengths(rope.frequencies);
  const old = ropes.wavelengths(rope.unscaled().frequencies);
  const rows = Array.from(rope.frequencies, (f, i) => {
    const texts = [
      rope.featuresOfPair(i).join(" and "),
      String(f),
      format(old[i]),
      format(now[i]),
      format(rope.seqLen / now[i], 4),
    ];
    return element("tr", {}, [
      element("th", { scope: "row" }, String(i)),
      ...texts.map((text) => element("td", {}, text)),
    ]);
  });
  find("#table tbody").replaceChildren(...rows);
}

// Controls.

function toSlider({ scale }, value) {
  return scale ? Math.log2(value) / Math.log2(scale) : value;
}

/** Return the value at a place of a slider, to three digits between powers of its scale. */
function fromSlider({ scale, whole, range }, place) {
  if (!scale) return place;
  const value = scale ** place;
  const round = Number.isInteger(place) ? value : Number(value.toPrecision(3));
  return Math.min(Math.max(whole ? Math.round(round) : round, range[0]), range[1]);
}

function makeControls() {
  for (const [name, slider] of Object.entries(SLIDERS)) {
    const [least, most] = slider.range.map((value) => toSlider(slider, value));
    const unit = slider.unit ? element("small", {}, ` ${slider.unit}`) : "";
    const row = element("p", { class: "slider" }, [
      element("label", { for: `${name}-slider` }, [slider.label, unit]),
      element("input", {
        type: "number",
        id: `${name}-number`,
        min: slider.whole || name === "dim" ? 1 : 0,
        step: "any",
        "aria-label": `${slider.label}, as a number`,
      }),
      element("input", {
        type: "range",
        id: `${name}-slider`,
        min: least,
        max: most,
        step: slider.step,
      }),
    ]);
    find("#sliders [type=reset]").before(row);
  }
  const names = [OWN, ...CHOICES];
  find("#scaling").append(...names.map((name) => element("option", {}, name)));
  find("#model").append(
    ...Object.keys(state.examples).map((name) => element("option", {}, name)),
    element("option", { value: PASTED }, "a pasted configuration"),
  );
}

/** Show the values that are drawn in the controls, and say which of them have no effect. */
function showControls(rope, masks) {
  const sized = masks.find(({ size }) => size);
  const hasFactor =
    rope.scaling && rope.scaling.type !== "longrope" && rope.scaling.type !== "alternating";
  const isFixed = rope.sections || rope.scaling?.type === "longrope";
  const values = {
    dim: [rope.rotaryDim, isFixed && "the configuration has numbers for each pair"],
    base: [rope.base, null],
    factor: [hasFactor ? (rope.scaling.factor ?? 1) : 1, !hasFactor && "choose a scaling first"],
    window: [sized?.size ?? rope.seqLen, !sized && "no layer has a window"],
    context: [rope.seqLen, null],
  };
  for (const [name, [value, reason]] of Object.entries(values)) {
    const [slider, number] = [find(`#${name}-slider`), find(`#${name}-number`)];
    for (const input of [slider, number]) {
      input.disabled = Boolean(reason);
      input.title = reason || "";
    }
    if (document.activeElement !== slider) slider.value = toSlider(SLIDERS[name], value);
    if (document.activeElement !== number)
      number.value = ["factor", "window"].includes(name) && reason ? "" : value;
    slider.setAttribute("aria-valuetext", `${SLIDERS[name].label} ${format(value, 9)}`);
  }
  find("#scaling").value = state.changes.scaling ?? OWN;
  find("#scaling").disabled = isAxial();
  find("#layout").value = state.changes.layout ?? "";
}

// How many updates are still to come of what was typed or moved.
let waiting = 0;

function wait(number) {
  waiting += number;
  document.body.setAttribute("aria-busy", String(waiting > 0));
}

function finish(run) {
  wait(-1);
  run();
}

function after(milliseconds, run) {
  let timer;
  return () => {
    if (timer === undefined) wait(1);
    clearTimeout(timer);
    timer = setTimeout(() => {
      timer = undefined;
      finish(run);
    }, milliseconds);
  };
}

function oncePerFrame(run) {
  let isWaiting = false;
  return () => {
    if (isWaiting) return;
    isWaiting = true;
    wait(1);
    requestAnimationFrame(() => {
      isWaiting = false;
      finish(run);
    });
  };
}

function choose(name) {
  find("#model").value = name;
  find("#config").value = JSON.stringify(state.examples[name], null, 1).replace(
    /\[[^[\]{}]*\]/g,
    (list) => list.replace(/\s+/g, " "),
  );
  read();
}

function listen() {
  const typed = after(250, read);
  const moved = oncePerFrame(show);
  find("#model").addEventListener("change", ({ target }) => {
    if (target.value !== PASTED) {
      choose(target.value);
      history.replaceState(null, "", `#${encodeURIComponent(target.value)}`);
    } else {
      find("#config").focus();
      find("#config").select();
    }
  });
  find("#config").addEventListener("input", () => {
    find("#model").value = PASTED;
    typed();
  });
  find("#kinds").addEventListener("change", ({ target }) => {
    state.kind = Number(target.value);
    show();
  });
  find("#sliders").addEventListener("input", ({ target }) => {
    const [name, kind] = target.id.split("-");
    if (kind === "slider") state.changes[name] = fromSlider(SLIDERS[name], target.valueAsNumber);
    else if (kind !== "number") state.changes[name] = target.value;
    else if (target.value === "") delete state.changes[name];
    else state.changes[name] = target.valueAsNumber;
    moved();
  });
  find("#sheet").addEventListener("click", ({ target }) => {
    const isOpen = find("#sliders").classList.toggle("open");
    target.setAttribute("aria-expanded", String(isOpen));
    target.textContent = isOpen ? "Close" : "Try other values";
    if (isOpen) showSomeChart();
  });
  find("#controls").addEventListener("submit", (event) => event.preventDefault());
  find("#controls").addEventListener("reset", (event) => {
    event.preventDefault();
    state.changes = {};
    show();
  });
  find("#copy").addEventListener("click", async ({ target }) => {
    await navigator.clipboard.writeText(find("#python code").textContent);
    target.textContent = "Copied";
    setTimeout(() => (target.textContent = "Copy"), 1500);
  });
  addEventListener("resize", after(50, plots.resize));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show());
  new MutationObserver(() => show()).observe(document.documentElement, {
    attributeFilter: ["data-theme"],
  });
}

/** Scroll to a chart, unless one is in view above the sliders. */
function showSomeChart() {
  const end = find("#sliders").getBoundingClientRect().top;
  const charts = [...document.querySelectorAll("#pictures > section:not([hidden])")];
  const isInView = charts.some((chart) => {
    const { top, bottom } = chart.getBoundingClientRect();
    return Math.min(bottom, end) - Math.max(top, 0) > end / 2;
  });
  if (!isInView) (charts.find(({ id }) => id === "wavelengths") ?? charts[0]).scrollIntoView();
}

/** Take over the choice of light or dark of the site around this page, if a reader made one. */
function followSite() {
  const chosen = localStorage.getItem("mode");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}

async function start() {
  const load = async (name) => (await fetch(new URL(name, import.meta.url))).json();
  const files = ["model_types.json", "examples.json"];
  const [modelTypes, examples] = await Promise.all(files.map(load));
  Object.assign(state, { modelTypes, examples });
  followSite();
  makeControls();
  listen();
  find("#waiting").remove();
  find("main").hidden = false;
  choose(askedName(location.hash, Object.keys(examples)));
}

start();
