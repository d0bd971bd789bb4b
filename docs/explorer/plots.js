// Pictures of a rotary embedding and of masks: charts by uPlot, drawings as SVG, masks on a canvas.

import { shares } from "./masks.js";
import { wavelengths } from "./rope.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 270;
const CELLS = 96;
const STOPS = 6; // of the scale of colours in the style sheet

/** Return a number as text, with separators of thousands. */
export function format(x, digits = 6) {
  if (x === Infinity) return "∞";
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) return x.toExponential(2).replace("e+", "e");
  return x.toLocaleString("en-US", { maximumSignificantDigits: digits });
}

/** Return a number of positions as a short text for an axis. */
function short(x) {
  for (const [size, unit] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (x >= size && x < 1e12) return `${format(x / size, 4)}${unit}`;
  }
  return x >= 1e12 || (x > 0 && x < 0.01) ? `1e${Math.round(Math.log10(x))}` : format(x, 3);
}

/** Return a custom property of the style sheet as a colour that a canvas takes. */
function colour(name) {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = `var(--${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function faint(name) {
  return colour(name).replace("rgb(", "rgba(").replace(")", ", 0.18)");
}

export function element(name, attributes = {}, children = []) {
  return filled(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, children = []) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...[children].flat());
  return node;
}

// Charts.

const charts = new Map(); // of each element: its chart, and what draws it anew

function axis(label, values, logarithmic) {
  const tens = (_, splits) => splits.map((x) => (isPowerOfTen(x) ? x : null));
  const filter = logarithmic ? { filter: tens } : {};
  return {
    label,
    size: 34,
    labelSize: 20,
    labelGap: 0,
    labelFont: "13px system-ui, sans-serif",
    font: "12px system-ui, sans-serif",
    stroke: colour("muted"),
    grid: { stroke: colour("grid"), width: 1, ...filter },
    ticks: { stroke: colour("grid"), width: 1, size: 5, ...filter },
    values: (_, splits) => splits.map((x) => (x === null ? "" : values(x))),
    ...filter,
  };
}

function isPowerOfTen(x) {
  const exponent = Math.log10(x);
  return Math.abs(exponent - Math.round(exponent)) < 1e-9;
}

function line(name, { dash, points = false, width = 2 } = {}) {
  const stroke = colour(name);
  const spots = points ? { show: true, size: 5, fill: stroke, stroke } : { show: false };
  return { stroke, width, dash, points: spots };
}

/** Draw horizontal lines, {y, text, right, below}, and vertical ones, {x, text}, with their texts. */
function rules(lines) {
  return (chart) => {
    const { ctx, bbox } = chart;
    const ratio = devicePixelRatio;
    const [right, bottom] = [bbox.left + bbox.width, bbox.top + bbox.height];
    const gap = 5 * ratio;
    ctx.save();
    ctx.font = `${12 * ratio}px system-ui, sans-serif`;
    ctx.lineJoin = "round";
    for (const { x, y, text, right: isRight, below } of lines) {
      const place = Math.round(chart.valToPos(x ?? y, x === undefined ? "y" : "x", true));
      const [from, to] =
        x === undefined
          ? [
              [bbox.left, place],
              [right, place],
            ]
          : [
              [place, bbox.top],
              [place, bottom],
            ];
      ctx.strokeStyle = colour("muted");
      ctx.lineWidth = ratio;
      ctx.setLineDash([6 * ratio, 4 * ratio]);
      ctx.beginPath();
      ctx.moveTo(...from);
      ctx.lineTo(...to);
      ctx.stroke();
      const atEnd = x === undefined ? isRight : place > (bbox.left + right) / 2;
      const edge = x === undefined ? (isRight ? right : bbox.left) : place;
      ctx.textAlign = atEnd ? "right" : "left";
      ctx.textBaseline = x !== undefined || below ? "top" : "bottom";
      const level = x === undefined ? place + (below ? gap : -gap) : bbox.top + gap;
      outlined(ctx, text, edge + (atEnd ? -gap : gap), level);
    }
    ctx.restore();
  };
}

/** Write a text that can be read across curves. */
function outlined(ctx, text, x, y) {
  ctx.setLineDash([]);
  ctx.strokeStyle = colour("card");
  ctx.lineWidth = 4 * devicePixelRatio;
  ctx.strokeText(text, x, y);
  ctx.fillStyle = colour("ink");
  ctx.fillText(text, x, y);
}

/** Put a chart into an element; `readout` makes a text of the index under the cursor. */
function draw(target, summary, make) {
  const holder = target.querySelector(".plot");
  const output = target.querySelector("output");
  charts.get(target)?.chart.destroy();
  const { options, data, readout, legend } = make();
  const chart = new globalThis.uPlot(
    {
      width: holder.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      cursor: {
        y: false,
        drag: { x: false, y: false },
        points: { size: (plot, i) => (plot.series[i].width ? 7 : 0) },
      },
      padding: [8, 14, 0, 0],
      ...options,
      hooks: {
        ...options.hooks,
        setCursor: [
          ({ cursor: { idx } }) => {
            output.textContent = idx === null || idx === undefined ? "" : readout(idx);
          },
        ],
      },
    },
    data,
    holder,
  );
  holder.setAttribute("role", "img");
  holder.setAttribute("aria-label", summary);
  target
    .querySelector(".legend")
    .replaceChildren(
      ...legend.map(([name, kind, text]) =>
        element("span", {}, [
          element("i", { class: `swatch ${kind}`, style: `--of: var(--${name})` }),
          text,
        ]),
      ),
    );
  charts.set(target, { chart, again: () => draw(target, summary, make) });
}

/** Draw all charts anew, such as in other colours. */
export function redraw() {
  for (const { again } of charts.values()) again();
}

/** Give the charts the width of their places. */
export function resize() {
  for (const [target, { chart }] of charts) {
    const width = target.querySelector(".plot").clientWidth;
    if (width !== chart.width) chart.setSize({ width, height: HEIGHT });
  }
}

const LOGARITHMIC = { distr: 3, log: 10 };

function finite(values) {
  return Array.from(values, (x) => (Number.isFinite(x) ? x : null));
}

/** Draw wavelengths of pairs before and after scaling, with the contexts as lines. */
export function drawWavelengths(target, rope, summary) {
  draw(target, summary, () => {
    const before = rope.unscaled();
    const isScaled = before !== rope;
    const [old, now] = [before, rope].map((x) => finite(wavelengths(x.frequencies)));
    const pairs = now.map((_, i) => i);
    const ends = [...old, ...now].filter((x) => x !== null);
    const [least, most] = [Math.min(...ends), Math.max(...ends, rope.seqLen)];
    const contexts = [{ y: rope.seqLen, text: `context: ${format(rope.seqLen, 9)}` }];
    if (isScaled && before.seqLen !== rope.seqLen) {
      const text = `before: ${format(before.seqLen, 9)}`;
      contexts.push({ y: before.seqLen, text });
    }
    const still = pairs.filter((i) => now[i] === null);
    const name = isScaled ? "after" : "wavelength";
    return {
      data: [pairs, ...(isScaled ? [old] : []), now],
      options: {
        scales: {
          x: { time: false, range: [-0.5, pairs.length - 0.5] },
          y: { ...LOGARITHMIC, range: [least / 2, most * 3] },
        },
        axes: [axis("pair of features", String), axis("wavelength (positions)", short, true)].map(
          (a, i) => (i ? { ...a, size: 62 } : a),
        ),
        series: [
          {},
          ...(isScaled ? [line("before", { dash: [5, 4] })] : []),
          line("after", { points: pairs.length <= 128 }),
        ],
        hooks: { drawAxes: [shadeAbove(rope.seqLen)], draw: [triangles(still), rules(contexts)] },
      },
      readout: (i) =>
        `pair ${i}: ${format(now[i] ?? Infinity)} positions` +
        (isScaled ? `, ${format(old[i] ?? Infinity)} before` : ""),
      legend: [
        ...(isScaled ? [["before", "dashed", "before scaling"]] : []),
        ["after", "solid", name === "after" ? "after scaling" : "wavelength"],
        ["shade", "area", "turns less than once"],
        ...(still.length ? [["after", "triangle", `${still.length} not rotated`]] : []),
      ],
    };
  });
}

function shadeAbove(value) {
  return ({ ctx, bbox, valToPos }) => {
    const bottom = valToPos(value, "y", true);
    ctx.save();
    ctx.fillStyle = colour("shade");
    ctx.fillRect(bbox.left, bbox.top, bbox.width, Math.max(0, bottom - bbox.top));
    ctx.restore();
  };
}

function triangles(pairs) {
  return ({ ctx, bbox, valToPos }) => {
    const size = 4 * devicePixelRatio;
    ctx.save();
    ctx.strokeStyle = colour("after");
    ctx.lineWidth = devicePixelRatio;
    for (const pair of pairs) {
      const x = valToPos(pair, "x", true);
      const y = bbox.top + 2 * size;
      ctx.beginPath();
      ctx.moveTo(x - size, y + size);
      ctx.lineTo(x + size, y + size);
      ctx.lineTo(x, y - size);
      ctx.closePath();
      ctx.stroke();
    }
    ctx.restore();
  };
}

/** Draw the mean score over blocks of distances in a band from the smallest to the largest. */
export function drawDecay(target, columns, before, context, summary) {
  draw(target, summary, () => {
    const curves = before
      ? [
          [before, "before"],
          [columns, "after"],
        ]
      : [[columns, "after"]];
    const series = curves.flatMap(([, name]) => [
      line(name, { dash: name === "before" ? [5, 4] : undefined }),
      { ...line(name), width: 0 },
      { ...line(name), width: 0 },
    ]);
    return {
      data: [columns.at, ...curves.flatMap(([x]) => [x.mean, x.least, x.largest])],
      options: {
        scales: { x: { ...LOGARITHMIC, time: false, range: [1, context] } },
        axes: [
          axis("distance (positions)", short, true),
          { ...axis("score", (x) => format(x, 2)), size: 50 },
        ],
        series: [{}, ...series],
        bands: curves.map(([, name], i) => ({ series: [3 * i + 3, 3 * i + 2], fill: faint(name) })),
      },
      readout: (i) =>
        `distance ${format(Math.round(columns.at[i]))}: ` +
        curves.map(([x, name]) => `${format(x.mean[i], 3)}${before ? ` ${name}` : ""}`).join(", "),
      legend: [
        ...(before ? [["before", "dashed", "before scaling"]] : []),
        ["after", "solid", before ? "after scaling" : "mean score"],
        ["after", "band", "smallest to largest"],
      ],
    };
  });
}

/** Draw the largest error of float32 angles against the position. */
export function drawErrors(target, columns, context, first, halfUnit, summary) {
  draw(target, summary, () => {
    const largest = columns.largest.map((x) => (x > 0 && x < Infinity ? x : null));
    const seen = largest.filter((x) => x !== null);
    const lines = [{ y: halfUnit, text: "tables of this library", right: true, below: true }];
    if (first !== null && first < context) {
      lines.push({ x: first, text: `0.001 at ${format(first)}` });
    }
    return {
      data: [columns.at, largest],
      options: {
        scales: {
          x: { ...LOGARITHMIC, time: false, range: [1, context] },
          y: { ...LOGARITHMIC, range: [1e-9, Math.max(1e-2, ...seen) * 3] },
        },
        axes: [
          axis("position", short, true),
          { ...axis("error (radians)", short, true), size: 62 },
        ],
        series: [{}, line("error")],
        hooks: { draw: [rules(lines)] },
      },
      readout: (i) =>
        `position ${format(Math.round(columns.at[i]))}: up to ${format(columns.largest[i], 3)} radians`,
      legend: [["error", "solid", "largest error of an angle in float32"]],
    };
  });
}

// Drawings.

function onScale(share) {
  const place = share * (STOPS - 1);
  const i = Math.min(Math.floor(place), STOPS - 2);
  return `color-mix(in srgb, var(--scale-${i + 1}) ${Math.round(100 * (place - i))}%, var(--scale-${i}))`;
}

/** Draw the features of a head, with an arc for each pair; dashed for pairs that are slow. */
export function drawPairs(target, rope, summary) {
  const [n, width, top] = [rope.headSize, 1000, 34];
  const cell = width / n;
  const pairs = rope.frequencies.length;
  const isSlow = wavelengths(rope.frequencies).map((x) => Number(x > rope.seqLen));
  const middle = (i) => (i + 0.5) * cell;
  const depth = rope.layout === "half" ? 150 : 36;
  const cells = Array.from({ length: n }, (_, i) =>
    svg("rect", {
      x: i * cell,
      y: 0,
      width: Math.max(cell - (n > 150 ? 0.4 : 1), 1),
      height: top - 6,
      rx: 1.5,
      class: "unrotated",
    }),
  );
  const arcs = [];
  for (let i = 0; i < pairs; i += 1) {
    const [a, b] = rope.featuresOfPair(i);
    const fill = onScale(pairs > 1 ? i / (pairs - 1) : 0);
    const text = `pair ${i}: features ${a} and ${b}, wavelength ${format(wavelengths(rope.frequencies)[i])}`;
    for (const feature of [a, b]) {
      cells[feature].setAttribute("class", "rotated");
      cells[feature].setAttribute("style", `fill: ${fill}`);
      cells[feature].append(svg("title", {}, text));
    }
    // Its lowest point is at three quarters of the depth of its control points.
    const low = top + depth * 1.28;
    const path = `M ${middle(a)} ${top} C ${middle(a)} ${low} ${middle(b)} ${low} ${middle(b)} ${top}`;
    arcs.push(
      svg(
        "path",
        { d: path, class: isSlow[i] ? "arc slow" : "arc", style: `stroke: ${fill}` },
        svg("title", {}, text),
      ),
    );
  }
  const height = top + depth;
  const attributes = {
    viewBox: `0 0 ${width} ${height}`,
    preserveAspectRatio: "none",
    role: "img",
  };
  const style = `height: ${0.82 * height}px`;
  const picture = svg("svg", { ...attributes, style, "aria-label": summary }, [...arcs, ...cells]);
  const ends = element(
    "p",
    { class: "ends" },
    [0, n - 1].map((i) => element("span", {}, `feature ${i}`)),
  );
  target.replaceChildren(ends, picture);
}

/** Draw a row with a cell for each layer. */
export function drawLayers(target, layers, summary) {
  const cells = layers.map(({ mask, text, rotates }) =>
    element("i", { class: `layer ${mask.kind}${rotates ? "" : " still"}`, title: text }),
  );
  target.replaceChildren(...cells);
  target.setAttribute("role", "img");
  target.setAttribute("aria-label", summary);
}

/** Return a picture of a mask: the share of pairs that is seen in each cell. */
export function maskPicture(mask, length, caption) {
  const cells = Math.min(length, CELLS);
  const canvas = element("canvas", {
    width: cells,
    height: cells,
    role: "img",
    "aria-label": caption,
    class: "mask",
  });
  paintMask(canvas, shares(mask, length, cells), mask.kind);
  const ticks = (name) =>
    element("span", { class: name }, [
      element("b", {}, "0"),
      element("b", {}, name === "keys" ? "key" : "query"),
      element("b", {}, format(length - 1)),
    ]);
  return element("figure", { class: "mask-figure" }, [
    ticks("queries"),
    canvas,
    ticks("keys"),
    element("figcaption", {}, caption),
  ]);
}

function paintMask(canvas, rows, kind) {
  const context = canvas.getContext("2d");
  const [ink] = [colour(kind)];
  rows.forEach((row, y) =>
    row.forEach((share, x) => {
      context.globalAlpha = share;
      context.fillStyle = ink;
      context.fillRect(x, y, 1, 1);
    }),
  );
}
