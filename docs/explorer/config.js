// Rotary embeddings of a model from its Hugging Face config.json, as the Python library reads it.
//
// model_types.json is the library's file; src/positional_embeddings/models/model_types.py describes its
// fields. Keys, arguments and error messages have the names and the words of the library.

import * as checks from "./checks.js";
import { isObject, isTrue, repr, shown, WrongInput, wrong } from "./checks.js";
import { Rope, SCALINGS, scalingOf, yarnMagnitude } from "./rope.js";

const WITHOUT_SCALING = ["default", "mrope"];
const OTHER_NAMES = { su: "longrope", deepseek_yarn: "yarn" };

// Of several names, the first one counts.
const BASES = ["rotary_emb_base", "rope_theta", "rope_embedding_base"];
const SHARES = ["rotary_pct", "partial_rotary_factor", "rope_pct"];
const PARAMETERS = ["rope_scaling", "rope_parameters"];
const LAYERS = "num_hidden_layers";
const LENGTH = "max_position_embeddings";
const ORIGINAL = "original_max_position_embeddings";
// The keys of rotation that are read of every type.
const ROTARY_KEYS = ["rope_theta", "partial_rotary_factor", ...PARAMETERS];
// Keys that count where the code of a model reads them, and for a model that is not known.
const OWN_KEYS = [
  "qk_rope_head_dim",
  "head_dim",
  "kv_channels",
  "layer_rope_theta",
  "no_rope_layers",
  "no_rope_layer_interval",
  "rotary_emb_base",
  "rope_embedding_base",
  "rotary_pct",
  "rope_pct",
  "rotary_dim",
  "alibi",
  "num_attention_heads_per_layer",
];
// What other formats of configurations call sizes.
const OTHER_SIZES = {
  [LAYERS]: ["num_layers", "n_layers", "n_layer", "depth"],
  hidden_size: ["hidden_dim", "d_model", "n_embd", "n_embed", "embed_dim", "dim"],
  num_attention_heads: ["num_heads", "n_heads", "n_head", "attention_heads"],
};

// What is read of an unknown type, and what its switches are called.
const UNKNOWN = {
  layer_bases: true,
  reads: OWN_KEYS,
  layer_sizes: {
    full_attention: { head_dim: "global_head_dim" },
    sliding_attention: { head_dim: "swa_head_dim" },
  },
  rotary_switch: ["use_rotary_pos_emb", true],
};
const SWITCHES = /^(use_|apply_|with_|has_)?(rope|rotary)(_pos)?(_emb[a-z]*)?$/;
// Dicts that are read elsewhere or not at all.
const DICTS = [
  ...PARAMETERS,
  "per_layer_config",
  "quantization_config",
  "vision_config",
  "audio_config",
  "protein_encoder_config",
];

// Keys of the rotary parameters of all types; the others are options of the scaling.
const COMMON = [
  "rope_type",
  "type",
  "rope_theta",
  "partial_rotary_factor",
  "mrope_section",
  "mrope_interleaved",
  ORIGINAL,
  LENGTH,
];
const PART_OF_TYPE = /[_-](text|vision|audio|vision_encoder|encoder|decoder)(_model)?$/;
const STRING_OR_INFINITY = /"(\\.|[^"\\])*"|Infinity/g;

const ATTENTION_LAYERS = ["chunked_attention", "full_attention", "sliding_attention"];
const SIZES = ["num_attention_heads", "head_dim", "num_key_value_heads", "v_head_dim"];
const WITHOUT_QUERIES = ["conv", "linear_attention", "moe"];
const PATCHES = 1024;

const hasOwn = Object.hasOwn;

/** Return the value of the first key that is there, or the default. */
function first(values, keys, otherwise) {
  const key = keys.find((name) => hasOwn(values, name));
  return key === undefined ? otherwise : values[key];
}

function withoutNull(values) {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null));
}

/** Return the keys of dicts that hold further keys of the same model, as `dict.key`. */
function nested(config) {
  const parts = Object.entries(config).filter(
    ([name, part]) => isObject(part) && !DICTS.includes(name) && !isTrue(part.model_type ?? null),
  );
  const named = ([name, part]) => Object.entries(part).map(([key, x]) => [`${name}.${key}`, x]);
  return Object.fromEntries(parts.flatMap(named));
}

/** Return what keys of published configurations call rotation in a layout. */
function layoutNames(layout) {
  return ["rope", "rotary", ...(layout === "interleaved" ? ["rope_gptj", "gptj"] : [])];
}

/** Refuse keys that are not known here: ignored, they could change the result. */
function checkKnown(what, keys, known) {
  for (const key of keys) {
    if (!known.includes(key)) {
      const listed = repr([...new Set(known)].sort());
      throw new WrongInput(`${what} must be of ${listed}, got ${repr(key)}.`);
    }
  }
}

/** Return the object that a text holds. */
export function parse(text) {
  let value;
  try {
    // Published configurations have Infinity, which Python writes and reads.
    value = JSON.parse(text.replace(STRING_OR_INFINITY, (x) => (x === "Infinity" ? "1e999" : x)));
  } catch (error) {
    throw wrong("config", "be a JSON object", `text which is no JSON: ${error.message}`);
  }
  if (!isObject(value)) throw wrong("config", "be a JSON object", shown(value));
  return value;
}

function isRotary(key) {
  return ["rope", "rotary", "ntk"].some((part) => key.includes(part));
}

/** Return a configuration, or its text model's; `models` is what is known of each type. */
function textConfig(config, models) {
  if (isObject(config.thinker_config)) config = config.thinker_config; // of a model that speaks
  const text = config.text_config ?? null;
  if (text !== null && !isObject(text)) throw wrong("text_config", "be a dict", shown(text));
  const { model_type: type = null, ...found } = {
    model_type: config.model_type ?? null,
    ...(isTrue(text) ? text : config),
  };
  if (isTrue(text)) checkClasses(config, config.model_type ?? null, models);
  checkClasses(found, type, models);
  if (type === null) return found;
  const modelType = getModelType(type, models);
  if (isTrue(modelType)) delete found.architectures;
  // Published parts of a model that are for images have the type of the whole model.
  const part = "patch_size" in found ? "vision" : "text";
  return { ...found, model_type: modelType[part] ?? type };
}

/** Refuse a configuration whose classes are of another type, and have other code. */
function checkClasses({ architectures: classes = null }, type, models) {
  if (type !== null && typeof type !== "string") throw wrong("model_type", "be a string", shown(type));
  const modelType = getModelType(String(type), models);
  if (classes === null || !isTrue(modelType)) return;
  if (!Array.isArray(classes)) {
    throw wrong("architectures", "be a list of names of classes", shown(classes));
  }
  const types = [type, modelType.text, modelType.vision].filter(Boolean);
  const plain = (name) =>
    String(name).replace(PART_OF_TYPE, "").toLowerCase().replace(/[^a-z0-9]/g, "");
  const names = types.flatMap((name) => [name, ...(getModelType(name, models).classes ?? [])]);
  for (const name of classes) {
    if (names.some((begin) => plain(name).startsWith(plain(begin)))) continue;
    const what = `be classes of the model type ${repr(type)}, whose names begin with it`;
    const hint = " Pass the configuration without `architectures` to read it as that type's.";
    throw wrong("architectures", what, shown(classes), hint);
  }
}

function getModelType(type, models) {
  return hasOwn(models, type) ? models[type] : {};
}

/** A configuration with the defaults of its model, and what is known of the model. */
export class Model {
  #knownTypes;

  /** Read a configuration; `modelTypes` is the object of model_types.json. */
  constructor(config, { models, layer_types: knownTypes }) {
    this.#knownTypes = knownTypes;
    const given = textConfig(config, models);
    this.type = given.model_type ?? null;
    this.name =
      this.type === null
        ? "a configuration without `model_type`"
        : `the model type ${repr(this.type)}`;
    this.modelType = getModelType(String(this.type), models);
    this.isKnown = isTrue(this.modelType);
    if (!this.isKnown) this.modelType = UNKNOWN;
    this.defaults = this.modelType.defaults ?? {};
    this.#checkSizes(given);
    for (const [name, key] of Object.entries(this.modelType.names ?? {})) {
      if (hasOwn(given, key)) given[name] = given[key];
    }
    this.published = { ...given, ...nested(given) };
    const { reads = ["head_dim"] } = this.modelType;
    const isRead = ([key]) => !OWN_KEYS.includes(key) || reads.includes(key);
    const read = Object.fromEntries(Object.entries(this.published).filter(isRead));
    // null takes the place of a default, but is no base and no share.
    const rotary = [...BASES, ...SHARES, ...PARAMETERS];
    const defaults = { ...this.modelType.attention?.defaults, ...this.defaults };
    const plain = Object.entries(defaults).filter(([key]) => !rotary.includes(key));
    this.config = withoutNull({ ...Object.fromEntries(plain), ...read });
    this.#check();
    this.given = this.#givenParameters();
    this.labels = Object.keys(this.given).filter((name) => isObject(this.given[name]));
  }

  /** Refuse sizes under the names of another format. */
  #checkSizes(published) {
    const { names = {} } = this.modelType;
    const ofType = Object.values(names);
    const others = [];
    const missing = [];
    for (const [name, ofOthers] of Object.entries(OTHER_SIZES)) {
      const own = hasOwn(names, name) ? [name, names[name]] : [name];
      const found = ofOthers.filter((key) => hasOwn(published, key) && !ofType.includes(key));
      if (!this.isKnown || !found.length || own.some((key) => hasOwn(published, key))) continue;
      others.push(found[0]);
      missing.push(own.map(repr).join(" or "));
    }
    if (!others.length) return;
    throw new WrongInput(
      `the configuration has ${repr(others)}, which are no keys of ${this.name}: it must have ` +
        `${missing.join(", ")}.`,
    );
  }

  #check() {
    const { config, modelType } = this;
    // The code of most models that are known does not read it, whatever it says.
    const isRead = !this.isKnown || "optional" in modelType;
    const usual = "optional" in modelType ? "no" : "rope";
    let kind = isRead ? (config.position_embedding_type ?? usual) : usual;
    if (checks.boolean("alibi", config.alibi ?? false)) kind = "alibi";
    if ("unrotated" in modelType) kind = "no rotary";
    const rotary = Object.keys(this.published).filter(isRotary);
    let { refused } = modelType;
    if (kind !== "rope" && kind !== "rotary") {
      refused = `it has ${kind} positions, so leave its queries and keys as they are`;
      if ("unrotated" in modelType && rotary.length) {
        refused = `transformers does not rotate, but code that reads ${repr(rotary)} may`;
      }
    }
    if (refused) throw new WrongInput(`no \`RoPE\` rotates as ${this.name} does: ${refused}.`);
    this.isRotary = this.#isOn();
    this.#checkKeys("rotation");
    for (const key of [...BASES, ...this.#keysOfBases()]) {
      if (hasOwn(config, key)) checks.positiveNumber(key, config[key]);
    }
    this.shareKeys = this.isKnown ? (modelType.share_keys ?? ["partial_rotary_factor"]) : SHARES;
    for (const key of this.shareKeys) if (hasOwn(config, key)) checks.share(key, config[key]);
  }

  /** Refuse keys that the code names, where they are not as they were compared. */
  #checkKeys(what) {
    const { attention = {}, named: ofType = {} } = this.modelType;
    const values = { ...attention.defaults, ...this.published };
    // Code that all types share reads the first one.
    const named = { ...((attention.is_causal ?? true) ? { is_causal: true } : {}), ...ofType };
    for (const [key, usual] of Object.entries(named)) {
      const isAsked = what === "attention" || isRotary(key);
      if (hasOwn(values, key) && isAsked) this.#checkKey(key, values[key], usual, what);
    }
    for (const [key, value] of Object.entries(this.isKnown ? {} : values)) {
      const isRead = [...ROTARY_KEYS, ...OWN_KEYS, UNKNOWN.rotary_switch[0]].includes(key);
      // False switches nothing on, null says nothing.
      const isOff = value === SWITCHES.test(key) || value === null;
      if (!isRotary(key) || isRead || isOff) continue;
      throw new WrongInput(
        `\`${key}\` is not known of ${this.name}, got ${shown(value)}: its ${what} may differ. ` +
          "Leave the key out if the model's code does not read it.",
      );
    }
  }

  /** Refuse a value of a key with which the type was not compared. */
  #checkKey(key, value, usual, what) {
    const compared = (Array.isArray(usual) ? usual : [usual]).map((x) =>
      typeof x === "string" ? (this.config[x] ?? x) : x,
    );
    const isOff = (x) => x === null || x === false;
    const isSame = (x) => repr(x) === repr(value) || (isOff(x) && isOff(value));
    if (compared.some(isSame)) return;
    const expected = compared.map(repr).join(" or ");
    const otherwise = `With another value its ${what} may differ: make layers by hand.`;
    const hint = ` ${this.modelType.attention?.advice?.[key] ?? otherwise}`;
    throw wrong(key, `be ${expected}, with which ${this.name} was compared`, shown(value), hint);
  }

  /** Tell whether the configuration does not switch rotation off. */
  #isOn() {
    const [key, usual] = this.modelType.rotary_switch ?? ["", true];
    const isOn = this.config[key] ?? usual;
    if (![0, 1, true, false].includes(isOn)) throw wrong(key, "be true or false", shown(isOn));
    return Boolean(isOn);
  }

  #keysOfBases() {
    return Object.values(this.modelType.bases ?? {}).flatMap((label) => label.slice(1));
  }

  /** Return the rotary parameters as the configuration has them, or the default ones. */
  #givenParameters() {
    for (const key of PARAMETERS) {
      const given = this.config[key] ?? {};
      if (!isObject(given)) throw wrong(key, "be a dict", repr(given));
      const { bases, scaled } = this.modelType;
      const isFlat = bases && !Object.keys(given).some((name) => hasOwn(bases, name));
      if (isTrue(given) && isFlat && !(key === "rope_scaling" && scaled)) {
        const names = repr(Object.keys(bases).sort());
        throw wrong(key, `hold a dict for each of ${names}, the layers of ${this.name}`, shown(given));
      }
      if (isTrue(given)) return given;
      const hasUsual = "rope_parameters" in this.defaults;
      if (key === "rope_parameters" && hasOwn(this.config, key) && hasUsual) {
        const what = `hold parameters, or be left out for the usual ones of ${repr(this.type)}`;
        throw wrong(key, what, "{}");
      }
    }
    return this.defaults.rope_parameters ?? {};
  }

  /** Return {type, rotates, base, headSize} of each layer; without their number, of all kinds. */
  layers(count = null) {
    const { config } = this;
    let types = this.#layerTypes();
    const bases = this.#listed("layer_rope_theta");
    let flags = this.#listed("no_rope_layers");
    if (!flags.length) flags = bases;
    const name = "no_rope_layer_interval";
    const interval = checks.nonNegativeInteger(name, config[name] ?? 0);
    const some =
      types.length ||
      flags.length ||
      checks.featureCount(LAYERS, config[LAYERS] ?? (interval || 1));
    if (!types.length && count !== null) types = this.#attentionTypes(count);
    if (!types.length) types = this.#defaultTypes(count ?? some, count !== null);
    if (!flags.length) flags = types.map((_, i) => !interval || (i + 1) % interval);
    const entries = Math.min(types.length, flags.length);
    const wanted = count ?? types.length;
    if (entries < wanted) {
      const what = `the lists of layers must have ${wanted} entries, one a layer`;
      throw new WrongInput(`${what}, got ${entries}.`);
    }
    const sizes = this.#sizes();
    const heads = this.#listed("num_attention_heads_per_layer");
    return types.slice(0, count ?? types.length).map((type, i) => {
      const own = { num_attention_heads: heads[i], ...sizes[i] };
      const found = SIZES.map((name) => {
        const key = this.#chosen(this.modelType.layer_sizes?.[type]?.[name] ?? null);
        const size = (hasOwn(own, name) ? own[name] : this.config[key]) ?? null;
        return size === null ? null : checks.featureCount(key ?? name, size);
      });
      return {
        type,
        rotates: isTrue(flags[i]) && this.isRotary && this.#rotates(type),
        base: "layer_bases" in this.modelType ? (bases[i] ?? null) : null,
        headSize: found[1],
      };
    });
  }

  #count() {
    return checks.featureCount(LAYERS, this.needed(LAYERS));
  }

  /** Return the key of the first pair whose switch is true, or the key that it is. */
  #chosen(key) {
    if (!Array.isArray(key)) return key;
    const pair = key.find(([name]) => checks.boolean(name, this.needed(name)));
    return pair ? pair[1] : null;
  }

  #listed(key) {
    let value = this.config[key] ?? [];
    if (key === "hybrid_override_pattern" && typeof value === "string") value = [...value];
    if (!Array.isArray(value)) {
      throw wrong(key, "be a list with an entry for each layer", shown(value));
    }
    return value;
  }

  /** Return the types of layers that the configuration lists, by their newest names. */
  #layerTypes() {
    const { bases = {}, rotates = [] } = this.modelType;
    const layers = this.#knownTypes;
    const known = [...layers.names, ...this.labels, ...Object.keys(bases), ...rotates];
    for (const [key, meanings] of Object.entries(layers.lists)) {
      const listed = this.#listed(key).map((name) => first(meanings, [name], name));
      const types = listed.map((name) => first(layers.new_names, [name], name));
      for (const name of types) {
        if (known.includes(name)) continue;
        const all = [...new Set([...known, ...Object.keys(meanings)])].sort();
        throw wrong(key, `hold types of layers that are known, ${repr(all)}`, shown(name));
      }
      if (types.length && key === "block_types") {
        // Again and again.
        return Array.from({ length: this.#count() }, (_, i) => types[i % types.length]);
      }
      if (types.length) return types;
    }
    for (const [key, [others, start]] of Object.entries(layers.full_lists)) {
      const full = this.#listed(key);
      if (!full.length) continue;
      const typeOf = (_, i) => (full.includes(start + i) ? "full_attention" : others);
      return Array.from({ length: this.#count() }, typeOf);
    }
    return [];
  }

  /** Return the sizes of heads of the layers that have their own. */
  #sizes() {
    const own = this.config.per_layer_config ?? {};
    const isRight =
      isObject(own) && Object.entries(own).every(([i, x]) => /^\d+$/.test(i) && isObject(x));
    if (isRight) return own;
    throw wrong("per_layer_config", "be a dict from numbers of layers to dicts", shown(own));
  }

  /** Return the types of layers by a rule of their attention, if the configuration lists none. */
  #attentionTypes(count) {
    const { first: key, layers = {}, types } = this.modelType.attention ?? {};
    if (key) {
      const given = checks.nonNegativeInteger(key, this.needed(key));
      const from = this.#isWindowed() ? given : count;
      const typeOf = (_, i) => (i < from ? "full_attention" : "sliding_attention");
      return Array.from({ length: count }, typeOf);
    }
    if (types) return this.#typesBy(types, count);
    const names = Object.keys(layers);
    return names.length === 1 && names[0] ? Array(count).fill(names[0]) : [];
  }

  #defaultTypes(count, allOfThem) {
    const { types: rule, bases, rotates = [] } = this.modelType;
    const types = rule ? this.#typesBy(rule, count) : [];
    if (types.length && (allOfThem || types.some((type) => this.#rotates(type)))) return types;
    let names = bases ? Object.keys(bases) : this.labels;
    if (!names.length) names = rotates;
    if (names.length && allOfThem) this.needed("layer_types");
    return names.length ? names : Array(count).fill(null);
  }

  /** Return the types of layers by a rule. */
  #typesBy(rule, count) {
    const { period_key: periodKey = "period_key", offset_key: offsetKey = "offset_key" } = rule;
    const period = checks.positiveInteger(periodKey, this.config[periodKey] ?? rule.period);
    const offset = checks.integer(offsetKey, this.config[offsetKey] ?? rule.offset);
    let flags = this.#listed(rule.flags_key ?? "");
    if (!flags.length) flags = Array.from({ length: count }, (_, i) => (i - offset) % period !== 0);
    const types = flags.map((flag) => (isTrue(flag) ? rule.other_type : rule.type));
    return [...types.slice(0, -1), rule.last_type ?? types.at(-1)];
  }

  #rotates(type) {
    const own = hasOwn(this.given, String(type)) ? this.given[String(type)] : this.given;
    if (own === null) return false;
    const { modelType } = this;
    let types = modelType.rotates ?? [null, ...ATTENTION_LAYERS, ...this.labels];
    if ("windowless" in modelType && !hasOwn(this.config, "sliding_window")) {
      types = modelType.windowless;
    }
    if (types.includes(type)) return true;
    if ([null, ...ATTENTION_LAYERS, ...WITHOUT_QUERIES].includes(type)) return false;
    const known = [...ATTENTION_LAYERS, ...WITHOUT_QUERIES, ...types].filter((x) => x !== null);
    const what = `hold types of layers of which it is known whether ${this.name} rotates them`;
    const hint = " Leave it out if all layers rotate alike, or make a `RoPE` for each by hand.";
    const listed = repr([...new Set(known)].sort());
    throw wrong("layer_types", `${what}, ${listed}`, repr(type), hint);
  }

  /** Return the rotary embedding of a layer; `seqLen` and `layout` are null for the model's own. */
  rope(layer, seqLen = null, layout = null) {
    return new Rope(this.arguments(layer, seqLen, layout));
  }

  /** Return the arguments of the rotary embedding of a layer. */
  arguments(layer, seqLen = null, layout = null) {
    layout ??= this.#layout();
    const parameters = this.#parameters(layer);
    let kind = parameters.rope_type || parameters.type || "default";
    kind = hasOwn(OTHER_NAMES, kind) ? OTHER_NAMES[kind] : kind;
    const name = "rope_type" in parameters ? "rope_type" : "type";
    const { axial, ignored = [], more_parameters: ofTypes = {} } = this.modelType;
    if (layoutNames(layout).includes(kind)) kind = "default";
    const scalings = "has_scaling" in this.modelType ? [] : Object.keys(SCALINGS);
    const types = axial ? ["axial", "default"] : [...WITHOUT_SCALING, ...scalings].sort();
    if (!types.includes(kind)) throw wrong(name, `be one of ${repr(types)}`, repr(kind));
    const options = hasOwn(SCALINGS, kind) ? SCALINGS[kind].options : null;
    const known = Object.keys(options ?? {}).filter((key) => key !== "original_max_position");
    const whose = name in parameters ? `of ${repr(kind)}` : "without a 'rope_type'";
    const all = [...known, ...COMMON, ...ignored, ...(ofTypes[kind] ?? [])];
    checkKnown(`the rotary parameters ${whose}`, Object.keys(parameters), all);
    const headSize = this.#headSize(layer);
    const length = this.#seqLen(seqLen, kind);
    let dim;
    let more;
    if (axial) {
      [dim, more] = axialArguments(headSize, axial);
    } else {
      dim = this.#rotaryDim(kind, headSize, parameters.partial_rotary_factor);
      more = this.#sections(parameters);
      const names = Object.keys(options ?? {});
      more.scaling = options ? this.#scaling(kind, names, parameters, length) : null;
    }
    return {
      head_size: headSize,
      seq_len: length,
      base: parameters.rope_theta,
      layout,
      rotary_dim: dim === headSize ? null : dim,
      ...more,
    };
  }

  /**
   * Return what a layer does with scores, as `attention_layers` reads it: their factor with all
   * that is multiplied, the features of a query, the bound, and whether there are sinks. It is null
   * where the attention of the model is not known, or a key could change it.
   */
  scores(layer) {
    const { attention } = this.modelType;
    if (!attention || attention.refused || !this.#knowsAttention()) return null;
    const seen = this.seenBy(layer);
    if (!seen) return null;
    const { head, softcap } = attention;
    const unrotated = head ? checks.featureCount(head, this.needed(head)) : 0;
    const size = this.#headSize(layer) + unrotated;
    const factor = this.#scale(layer, size);
    return { factor, size, bound: this.#number(softcap), hasSinks: seen.has_sinks ?? false };
  }

  /** Return the factor on the scores, with all that the code of the model multiplies. */
  #scale(layer, size) {
    let { scale = null, times, has_mscale: hasMscale } = this.modelType.attention;
    if (Array.isArray(scale)) {
      const [key, power] = scale;
      const given = this.#number(key);
      scale = given === null ? null : given ** power;
    }
    const factor = (scale ?? 1 / Math.sqrt(size)) * (this.#number(times) ?? 1);
    const { scaling } = hasMscale && layer.rotates ? this.arguments(layer, 1) : {};
    const mscale = scaling?.mscale_all_dim;
    return mscale ? factor * yarnMagnitude(scaling.factor, mscale) ** 2 : factor;
  }

  /** Return what is known of what a layer sees, null if it has no attention. */
  seenBy({ type }) {
    const { layers = {} } = this.modelType.attention ?? {};
    const kinds = [String(type), ""].filter((kind) => hasOwn(layers, kind));
    return layers[kinds.find((kind) => [null, "full_attention", kind].includes(type))];
  }

  /** Return the size of the window or chunk of a layer, by what is known of it; null without. */
  windowOf({ before, chunk, window: key = chunk }) {
    const number = this.#isWindowed() ? (this.config[key] ?? null) : null;
    if (number === null) return null;
    checks.positiveInteger(key, number);
    const own = this.config[before] ?? null;
    return own === null ? number : checks.nonNegativeInteger(before, own) + 1;
  }

  #isWindowed() {
    const { switch: key } = this.modelType.attention;
    return key === undefined || checks.boolean(key, this.needed(key));
  }

  /** Return the value of a key of the attention that holds a number, null without. */
  #number(key) {
    const value = this.config[key] ?? null;
    return value === null ? null : checks.positiveNumber(key, value);
  }

  /** Tell whether the keys that the code of the attention names are as they were compared. */
  #knowsAttention() {
    try {
      this.#checkKeys("attention");
    } catch (error) {
      if (!(error instanceof WrongInput)) throw error;
      return false;
    }
    return true;
  }

  #seqLen(given, kind) {
    const longest = this.config[LENGTH] ?? ("axial" in this.modelType ? PATCHES : null);
    let reason = kind === "longrope" ? "LongRoPE has other frequencies for long sequences" : "";
    if (longest === null) reason = `the configuration has no ${repr(LENGTH)}`;
    else checks.positionCount(LENGTH, longest);
    if (given === null && reason) {
      throw new WrongInput(`\`seq_len\` must be given, as ${reason}.`);
    }
    return given ?? longest;
  }

  #rotaryDim(kind, headSize, share) {
    const { config, modelType, defaults } = this;
    if (kind === "proportional") return headSize;
    const key = share === 1 ? "rotary_dim" : "partial_rotary_factor";
    const isPartial = share !== 1 || hasOwn(config, "rotary_dim");
    if (isPartial && this.isKnown && !("share" in modelType) && !("rotary_dim" in defaults)) {
      const what = `be left out for ${repr(this.type)}, which rotates all features`;
      throw wrong(key, what, shown(config[key] ?? share));
    }
    if (isPartial && !this.isKnown && hasOwn(config, "qk_rope_head_dim")) {
      const what = `be left out beside \`qk_rope_head_dim\` = ${headSize}, if all of these rotate`;
      const some = share === 1 ? config.rotary_dim : Math.trunc(headSize * share);
      const hint = ` If some do, leave it out and pass rotary_dim=${some}.`;
      throw wrong(key, what, shown(config[key] ?? share), hint);
    }
    if ("qk_rope_head_dim" in defaults) return headSize;
    if (hasOwn(config, "rotary_dim")) {
      return checks.positiveInteger("rotary_dim", config.rotary_dim, { even: true });
    }
    const what = "int(head_dim * partial_rotary_factor)";
    return checks.positiveInteger(what, Math.trunc(headSize * share), { even: true });
  }

  #sections(parameters) {
    const { mrope_interleaved: strided } = parameters;
    let sections = parameters.mrope_section ?? this.modelType.mrope_section ?? null;
    if (sections === null) return {};
    let order = this.modelType.sections ?? "contiguous";
    if (order === "unknown") {
      throw new WrongInput(
        `\`mrope_section\` of ${repr(this.type)} has an order that is not known here.`,
      );
    }
    if (!Array.isArray(sections))
      throw wrong("mrope_section", "be a list of integers", repr(sections));
    if (strided !== undefined) {
      order = checks.boolean("mrope_interleaved", strided) ? "strided" : "contiguous";
    }
    if (order === "first_last") sections = [...sections.slice(-1), ...sections.slice(0, -1)];
    return { sections, section_order: order };
  }

  #layout() {
    const { config, modelType } = this;
    const flag = config.rope_interleave ?? null;
    if (flag !== null && typeof flag !== "boolean") {
      throw wrong("rope_interleave", "be True, False or None", shown(flag));
    }
    if (flag !== null && "interleave" in modelType) return flag ? "interleaved" : "half";
    if ("layout" in modelType) return modelType.layout;
    let advice = "pass layout='half' or layout='interleaved', whichever its code has";
    if (this.type === null && "patch_size" in config) {
      advice = "pass `config | {'model_type': ...}` with the type of its model";
    }
    const parts = Object.keys(config).filter(
      (key) => isObject(config[key]) && "model_type" in config[key],
    );
    if (parts.length) advice += `, or one of its parts, of ${repr(parts)}`;
    if (!this.isKnown && isTrue(config.architectures)) {
      advice += `; its architectures are ${shown(config.architectures)}`;
    }
    throw new WrongInput(`the layout of ${this.name} is not known: ${modelType.ask ?? advice}.`);
  }

  /** Return the rotary parameters of a layer, with defaults, without null. */
  #parameters(layer) {
    const { config, modelType, defaults, labels } = this;
    const bases = modelType.bases ?? {};
    const names = isTrue(bases) ? Object.keys(bases) : labels;
    let otherwise = defaults.rope_theta ?? 10_000;
    let keys = modelType.base_keys ?? BASES;
    let { given } = this;
    if (names.length) {
      if (!names.includes(layer.type)) {
        throw wrong("layer_type", `be one of ${repr([...names].sort())}`, repr(layer.type));
      }
      if (isTrue(bases)) [otherwise, ...keys] = bases[layer.type];
      if (labels.length) given = given[layer.type] ?? {};
      else if (!(modelType.scaled ?? []).includes(layer.type)) given = {};
    } else if (hasOwn(config, ORIGINAL)) {
      // Of two values, the outer one counts.
      given = { ...given, [ORIGINAL]: config[ORIGINAL] };
    }
    const parameters = {
      rope_theta: first(config, keys, otherwise),
      partial_rotary_factor: first(config, this.shareKeys, defaults.partial_rotary_factor ?? 1),
      ...withoutNull(given),
    };
    if (given.truncate === null) parameters.truncate = false;
    if (layer.base !== null) parameters.rope_theta = layer.base;
    checks.positiveNumber("rope_theta", parameters.rope_theta);
    checks.share("partial_rotary_factor", parameters.partial_rotary_factor);
    return parameters;
  }

  #headSize(layer) {
    const { config } = this;
    if (layer.headSize !== null) return checks.featureCount("head_dim", layer.headSize);
    for (const key of ["qk_rope_head_dim", "head_dim", "kv_channels"]) {
      if (hasOwn(config, key)) return checks.featureCount(key, config[key]);
    }
    const [heads, hidden] = ["num_attention_heads", "hidden_size"];
    const count = checks.featureCount(heads, this.needed(heads));
    const size = checks.featureCount(hidden, this.needed(hidden));
    if (size % count) throw wrong(hidden, `be a multiple of \`${heads}\` = ${count}`, size);
    return size / count;
  }

  /** Return a value of the configuration, or throw. */
  needed(key) {
    if (hasOwn(this.config, key)) return this.config[key];
    const advice = `pass \`config | {${repr(key)}: ...}\``;
    throw new WrongInput(`the configuration must have ${repr(key)}: ${advice}.`);
  }

  #scaling(kind, names, parameters, seqLen) {
    if (kind === "dynamic" && "alpha" in parameters) {
      return scalingOf("ntk", { factor: checks.positiveNumber("alpha", parameters.alpha) });
    }
    const given = Object.fromEntries(
      names.filter((name) => name in parameters).map((name) => [name, parameters[name]]),
    );
    if (names.includes("original_max_position")) {
      // Dynamic scaling ignores the key.
      const original =
        ORIGINAL in parameters && kind !== "dynamic"
          ? checks.positionCount(ORIGINAL, parameters[ORIGINAL])
          : this.needed(LENGTH);
      given.original_max_position = original;
      if ("short_mscale" in parameters) {
        const name = seqLen > original ? "long_mscale" : "short_mscale";
        given.attention_factor = checks.positiveNumber(name, parameters[name]);
      }
      const isTold = kind === "longrope" || (kind === "yarn" && ORIGINAL in parameters);
      if (isTold && !("factor" in given)) {
        given.factor = this.needed(LENGTH) / original;
      }
    }
    for (const name of names) {
      if (name.startsWith("beta") && !isTrue(given[name]))
        delete given[name]; // 0 is not given
      else if (SCALINGS[kind].needed.includes(name) && !(name in given)) {
        const common = ["rope_theta", "partial_rotary_factor"];
        const came = Object.keys(parameters).filter((key) => !common.includes(key));
        throw new WrongInput(
          `the rotary parameters of ${repr(kind)} must have ${repr(name)}, got ${repr(came.sort())}.`,
        );
      }
    }
    return scalingOf(kind, given);
  }
}

/** Return how many features rotate by places in images, and the arguments for it. */
function axialArguments(headSize, { coordinates, frequencies = "restart", scale = 1 }) {
  const sections = Array(coordinates).fill(Math.floor(headSize / (2 * coordinates)));
  const dim = 2 * sections.reduce((sum, n) => sum + n, 0);
  if (frequencies === "alternating") return [dim, { sections, scaling: { type: "alternating" } }];
  return [dim, { sections, section_frequencies: frequencies, scale }];
}
