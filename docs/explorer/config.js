// Rotary embeddings of a model from its Hugging Face config.json, as the Python library reads it.
//
// What the code of each model does is in hf_models.json, a copy of the library's file; its keys are
// described in src/positional_embeddings/models/facts.py. Names of keys and arguments are those
// of the library, and so are the messages of errors.

import * as checks from "./checks.js";
import { isObject, isTrue, repr, shown, WrongInput, wrong } from "./checks.js";
import { Rope, SCALINGS, scalingOf, yarnMagnitude } from "./rope.js";

const WITHOUT_SCALING = ["default", "mrope"];
const OTHER_NAMES = { su: "longrope" };

// Of several names, the first one counts.
const BASES = ["rotary_emb_base", "rope_theta", "rope_embedding_base"];
const SHARES = ["rotary_pct", "partial_rotary_factor", "rope_pct"];
const PARAMETERS = ["rope_scaling", "rope_parameters"];
const LAYERS = "num_hidden_layers";
const LENGTH = "max_position_embeddings";
const ORIGINAL = "original_max_position_embeddings";
const TOP_KEYS = [
  ...BASES,
  ...SHARES,
  ...PARAMETERS,
  "rope_interleave",
  "rope_interleaved",
  "rotary",
  "rotary_dim",
];
// Keys that count where the code of a model reads them, and for a model that is not known.
const OWN_KEYS = [
  "qk_rope_head_dim",
  "head_dim",
  "kv_channels",
  "layer_rope_theta",
  "no_rope_layers",
  "no_rope_layer_interval",
];

// The switch of rotation, and its usual value; dicts that are read elsewhere or not at all.
const SWITCH = ["use_rotary_pos_emb", true];
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
// What a key is called that could mean positions or attention.
const MEANS_ATTENTION = new RegExp(
  "^(?!.*(moe|router|mamba|linear_.*head)).*(rotary|rope|alibi|position|relative_|rel_pos|window" +
    "|sink|scale|scalar|soft_?cap|logits?_cap|interleave|ntk|logn|causal|bidirectional|is_decoder" +
    "|prefix_lm|k_eq_v|kv_(n_)?heads|key_value_heads|query_groups|head_kv|multi_query|head_dim" +
    "|kv_channels|attention_head_size|temperature_tuning|use_nope|index_topk|compress_ratio" +
    "|sparse_(att|config)|local_att|chunked_att|attn_layer_|attn_every|full_attn_(idx|layers)" +
    "|att(ention|n)_(chunk|interval|temp|types?)|(att(ention|n)|key|qk|query)_multiplier" +
    "|(att(ention|n)|key|layer|log|qk|query|softmax)_scaling" +
    "|^(attention_heads|head_size|n_heads?|n_layers?|num_heads)$)",
);
// What a key is called that has the number of heads of keys: if it is that of queries, no code has
// to read it.
const KV_HEADS = /kv_(n_)?heads|key_value_heads|query_groups|head_kv|multi_query_group/;
// Values in old configurations of all types that change nothing where no code reads them.
const HARMLESS = { is_decoder: false, scale_attn_weights: true, sliding_window: null };
// Keys that say nothing of attention: how long a text is that a runtime serves, and one of BLOOM's.
const OF_OTHERS = ["context_window_size", "offset_alibi"];

const STRING_OR_INFINITY = /"(\\.|[^"\\])*"|Infinity/g;

const ATTENTION_LAYERS = ["chunked_attention", "full_attention", "sliding_attention"];
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

/** Return the keys that the facts of an attention name, with other words of their rules. */
function keysOf(attention) {
  const { refused, defaults, settled, advice, unread, ...rules } = attention;
  const words = JSON.stringify(Object.values(rules)).matchAll(/"([^"]*)"/g);
  return [...words].map(([, word]) => word);
}

/** Return a configuration, or its text model's; `models` is what is known of each type. */
function textConfig(config, models) {
  const text = config.text_config ?? null;
  if (text !== null && !isObject(text)) throw wrong("text_config", "be a dict", shown(text));
  const { model_type: type = null, ...found } = {
    model_type: config.model_type ?? null,
    ...(isTrue(text) ? text : config),
  };
  if (type === null) return found;
  if (typeof type !== "string") throw wrong("model_type", "be a string", shown(type));
  // Published parts of a model that are for images have the type of the whole model.
  const part = "patch_size" in found ? "vision" : "text";
  return { ...found, model_type: factsOf(type, models)[part] ?? type };
}

function factsOf(type, models) {
  return hasOwn(models, type) ? models[type] : {};
}

/** A configuration with the defaults of its model, and what is known of the model. */
export class Model {
  #knownTypes;

  /** Read a configuration; `facts` is the object of hf_models.json. */
  constructor(config, { models, layer_types: knownTypes }) {
    this.#knownTypes = knownTypes;
    const given = textConfig(config, models);
    this.type = given.model_type ?? null;
    this.name =
      this.type === null
        ? "a configuration without `model_type`"
        : `the model type ${repr(this.type)}`;
    this.facts = factsOf(String(this.type), models);
    this.isKnown = isTrue(this.facts);
    this.defaults = this.facts.defaults ?? {};
    for (const [name, key] of Object.entries(this.facts.names ?? {})) {
      if (hasOwn(given, key)) given[name] = given[key];
    }
    this.published = given;
    // null takes the place of a default, but is no base and no share.
    const rotary = [...BASES, ...SHARES, ...PARAMETERS];
    const plain = Object.entries(this.defaults).filter(([key]) => !rotary.includes(key));
    this.config = withoutNull({ ...Object.fromEntries(plain), ...given });
    // What attention reads.
    this.values = { ...this.facts.attention?.defaults, ...given, ...nested(given) };
    this.#check();
    this.given = this.#givenParameters();
    this.labels = Object.keys(this.given).filter((name) => isObject(this.given[name]));
  }

  #check() {
    const { config, facts } = this;
    // The code of most models that are known does not read it, whatever it says.
    const isRead = !this.isKnown || "optional" in facts;
    let kind = isRead ? (config.position_embedding_type ?? "rope") : "rope";
    if (checks.boolean("alibi", config.alibi ?? false)) kind = "alibi";
    if ("unrotated" in facts) kind = "no rotary";
    const isRotary = (key) => ["rope", "rotary", "ntk"].some((part) => key.includes(part));
    const isAsked = (key) => isRotary(key) || OWN_KEYS.includes(key);
    const rotary = Object.keys(this.published).filter(isRotary);
    let { refused } = facts;
    if (kind !== "rope" && kind !== "rotary") {
      refused = `it has ${kind} positions, so leave its queries and keys as they are`;
      if ("unrotated" in facts && rotary.length) {
        refused = `transformers does not rotate, but code that reads ${repr(rotary)} may`;
      }
    }
    this.isRotary = this.#isOn();
    if (refused) throw new WrongInput(`no \`RoPE\` rotates as ${this.name} does: ${refused}.`);
    const { unread = [], settled = {} } = facts.attention ?? {};
    const alike = Object.keys(settled).filter((key) => (this.published[key] ?? null) === settled[key]);
    const known = ["rope_interleave", ...this.#knownKeys(), ...unread, ...alike];
    for (const [key, value] of Object.entries({ ...this.published, ...nested(this.published) })) {
      if (!isAsked(key) || known.includes(key)) continue;
      throw new WrongInput(
        `\`${key}\` is not known of ${this.name}, got ${shown(value)}: its rotation may differ. ` +
          "Leave the key out if the code of the model does not read it.",
      );
    }
    for (const key of [...BASES, ...this.#keysOfBases()]) {
      if (hasOwn(config, key)) checks.positiveNumber(key, config[key]);
    }
    for (const key of SHARES) if (hasOwn(config, key)) checks.share(key, config[key]);
    const shares = facts.share_keys ?? ["partial_rotary_factor"];
    const usual = this.defaults.partial_rotary_factor ?? 1;
    for (const key of SHARES) {
      if (!this.isKnown || shares.includes(key) || (config[key] ?? usual) === usual) continue;
      const what = `be left out for ${repr(this.type)}, whose share is in ${repr(shares)}`;
      throw wrong(key, what, shown(config[key]));
    }
  }

  /** Tell whether the configuration does not switch rotation off. */
  #isOn() {
    const [key, usual] = this.facts.rotary_switch ?? SWITCH;
    if (this.type === "nomic_bert" && this.config.rotary_emb_fraction === 0) return false;
    return checks.boolean(key, this.config[key] ?? usual);
  }

  #keysOfBases() {
    return Object.values(this.facts.bases ?? {}).flatMap((label) => label.slice(1));
  }

  /** Return the keys that could mean positions, and are read here. */
  #knownKeys() {
    const { facts } = this;
    const { interleave = false, more_keys: more = [], rotary_switch: [flag] = SWITCH } = facts;
    const optional = "optional" in facts ? ["position_embedding_type"] : [];
    const renamed = Object.entries(facts.names ?? {}).flat();
    const own = facts.reads ?? (this.isKnown ? ["head_dim"] : OWN_KEYS);
    const lists = Object.keys({ ...this.#knownTypes.lists, ...this.#knownTypes.full_lists });
    const read = [...TOP_KEYS, LENGTH, ORIGINAL, ...this.#keysOfBases(), ...renamed, ...optional];
    return [...read, ...more, ...own, ...lists, flag].filter((key) => interleave || key !== "rope_interleave");
  }

  /** Return the rotary parameters as the configuration has them, or the default ones. */
  #givenParameters() {
    for (const key of PARAMETERS) {
      const given = this.config[key] ?? {};
      if (!isObject(given)) throw wrong(key, "be a dict", repr(given));
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
      const numbers = {
        num_attention_heads_per_layer: heads[i],
        head_dim: sizes[i]?.head_dim,
        num_key_value_heads: sizes[i]?.num_key_value_heads,
      };
      for (const [key, number] of Object.entries(numbers)) {
        if ((number ?? null) !== null) checks.featureCount(key, number);
      }
      return {
        type,
        rotates: isTrue(flags[i]) && this.isRotary && this.#rotates(type),
        base: "own_bases" in this.facts ? (bases[i] ?? null) : null,
        headSize: numbers.head_dim ?? null,
      };
    });
  }

  #count() {
    return checks.featureCount(LAYERS, this.needed(LAYERS));
  }

  #listed(key) {
    const [name, inner = null] = key.split(".");
    let value = this.config[name] ?? [];
    if (inner !== null) value = isObject(value) ? (value[inner] ?? []) : [];
    if (key === "hybrid_override_pattern" && typeof value === "string") value = [...value];
    if (!Array.isArray(value)) {
      throw wrong(key, "be a list with an entry for each layer", shown(value));
    }
    return value;
  }

  /** Return the types of layers that the configuration lists, by their newest names. */
  #layerTypes() {
    const { bases = {}, rotates = [] } = this.facts;
    const layers = this.#knownTypes;
    const known = [...layers.known, ...this.labels, ...Object.keys(bases), ...rotates];
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
    const { first: key, layers = {}, types } = this.facts.attention ?? {};
    if (key) {
      const given = checks.nonNegativeInteger(key, this.#valueOf(key));
      const from = this.#isWindowed() ? given : count;
      const typeOf = (_, i) => (i < from ? "full_attention" : "sliding_attention");
      return Array.from({ length: count }, typeOf);
    }
    if (types) return this.#typesBy(types, count);
    const names = Object.keys(layers);
    return names.length === 1 && names[0] ? Array(count).fill(names[0]) : [];
  }

  #defaultTypes(count, allOfThem) {
    const { types: rule, bases, rotates = [] } = this.facts;
    const types = rule ? this.#typesBy(rule, count) : [];
    if (types.length && (allOfThem || types.some((type) => this.#rotates(type)))) return types;
    let names = bases ? Object.keys(bases) : this.labels;
    if (!names.length) names = rotates;
    if (names.length && allOfThem) this.needed("layer_types");
    return names.length ? names : Array(count).fill(null);
  }

  /** Return the types of layers by a rule. */
  #typesBy(rule, count) {
    const { key = "key", at_key: atKey = "at_key" } = rule;
    const every = checks.positiveInteger(key, this.config[key] ?? rule.every);
    const at = checks.integer(atKey, this.config[atKey] ?? rule.at);
    let others = this.#listed(rule.flags ?? "");
    if (!others.length) others = Array.from({ length: count }, (_, i) => (i - at) % every !== 0);
    const types = others.map((isOther) => (isTrue(isOther) ? rule.others : rule.type));
    return [...types.slice(0, -1), rule.last ?? types.at(-1)];
  }

  #rotates(type) {
    const own = hasOwn(this.given, String(type)) ? this.given[String(type)] : this.given;
    if (own === null) return false;
    const { facts } = this;
    let types = facts.rotates ?? [null, ...ATTENTION_LAYERS, ...this.labels];
    if ("windowless" in facts && !hasOwn(this.config, "sliding_window")) types = facts.windowless;
    return types.includes(type);
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
    const { axial, ignored = [], more_parameters: ofTypes = {} } = this.facts;
    if (layoutNames(layout).includes(kind)) kind = "default";
    const scalings = "has_scaling" in this.facts ? [] : Object.keys(SCALINGS);
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
    const { attention } = this.facts;
    if (!attention || attention.refused || !this.#knowsAttention()) return null;
    const seen = this.seenBy(layer);
    if (!seen) return null;
    const { head, softcap } = attention;
    const unrotated = head ? checks.featureCount(head, this.#valueOf(head)) : 0;
    const size = this.#headSize(layer) + unrotated;
    const factor = this.#scale(layer, size);
    return { factor, size, bound: this.#number(softcap), hasSinks: seen.has_sinks ?? false };
  }

  /** Return the factor on the scores, with all that the code of the model multiplies. */
  #scale(layer, size) {
    let { scale = null, times, has_mscale: hasMscale } = this.facts.attention;
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
    const { layers = {} } = this.facts.attention ?? {};
    const kinds = [String(type), ""].filter((kind) => hasOwn(layers, kind));
    return layers[kinds.find((kind) => [null, "full_attention", kind].includes(type))];
  }

  /** Return the size of the window or chunk of a layer, by what is known of it; null without. */
  windowOf({ before, chunk, window: key = chunk }) {
    const number = this.#isWindowed() ? (this.values[key] ?? null) : null;
    if (number === null) return null;
    checks.positiveInteger(key, number);
    const own = this.values[before] ?? null;
    return own === null ? number : checks.nonNegativeInteger(before, own) + 1;
  }

  #isWindowed() {
    const { switch: key } = this.facts.attention;
    return key === undefined || checks.boolean(key, this.#valueOf(key));
  }

  /** Return a value that the attention reads, or throw. */
  #valueOf(key) {
    return this.values[key] ?? this.needed(key);
  }

  /** Return the value of a key of the attention that holds a number, null without. */
  #number(key) {
    const value = this.values[key] ?? null;
    return value === null ? null : checks.positiveNumber(key, value);
  }

  /** Tell whether all keys that could mean positions or attention are known of the model. */
  #knowsAttention() {
    const { facts } = this;
    const { attention } = facts;
    const { settled: own, unread = [] } = attention;
    const read = [...unread, ...this.#knownKeys(), ...keysOf(attention), ...OF_OTHERS];
    const settled = { ...HARMLESS, ...own };
    return Object.entries(this.values).every(([key, value]) => {
      const isSettled = hasOwn(settled, key);
      if (read.includes(key) || !(isSettled || MEANS_ATTENTION.test(key))) return true;
      const usual = "unrotated" in facts ? ["absolute"] : layoutNames(facts.layout);
      if (key === "position_embedding_type" && usual.includes(value)) return true;
      if (KV_HEADS.test(key) && value === this.config.num_attention_heads) return true;
      return isSettled && value === settled[key];
    });
  }

  #seqLen(given, kind) {
    const longest = this.config[LENGTH] ?? ("axial" in this.facts ? PATCHES : null);
    let reason = kind === "longrope" ? "LongRoPE has other frequencies for long sequences" : "";
    if (longest === null) reason = `the configuration has no ${repr(LENGTH)}`;
    else checks.positionCount(LENGTH, longest);
    if (given === null && reason) {
      throw new WrongInput(`\`seq_len\` must be given, as ${reason}.`);
    }
    return given ?? longest;
  }

  #rotaryDim(kind, headSize, share) {
    const { config, facts, defaults } = this;
    const readsShare = !this.isKnown || "share" in facts || "rotary_dim" in defaults;
    const isPartial = share !== 1 || hasOwn(config, "rotary_dim");
    if (isPartial && !readsShare && kind !== "proportional") {
      const key = share === 1 ? "rotary_dim" : "partial_rotary_factor";
      throw new WrongInput(
        `\`${key}\` must be left out for ${repr(this.type)}, which rotates all features.`,
      );
    }
    if (kind === "proportional" || "qk_rope_head_dim" in defaults) return headSize;
    if (hasOwn(config, "rotary_dim")) {
      return checks.positiveInteger("rotary_dim", config.rotary_dim, { even: true });
    }
    const what = "int(head_dim * partial_rotary_factor)";
    return checks.positiveInteger(what, Math.trunc(headSize * share), { even: true });
  }

  #sections(parameters) {
    const { mrope_interleaved: strided } = parameters;
    const sections = parameters.mrope_section ?? this.facts.mrope_section ?? null;
    if (sections === null) return {};
    let order = this.facts.sections ?? "contiguous";
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
    return { sections, section_order: order };
  }

  #layout() {
    const { config, facts } = this;
    const flag = config.rope_interleave ?? null;
    if (flag !== null && typeof flag !== "boolean") {
      throw wrong("rope_interleave", "be True, False or None", shown(flag));
    }
    if (flag !== null && "interleave" in facts) return flag ? "interleaved" : "half";
    const stated = config.rope_interleaved ?? null;
    if (stated !== null && typeof stated !== "boolean") {
      throw wrong("rope_interleaved", "be True, False or None", shown(stated));
    }
    if ("layout" in facts) {
      if (stated !== null && stated !== (facts.layout === "interleaved")) {
        const what = `agree with the layout of ${this.name}, ${repr(facts.layout)}`;
        throw wrong("rope_interleaved", what, repr(stated));
      }
      return facts.layout;
    }
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
    throw new WrongInput(`the layout of ${this.name} is not known: ${facts.ask ?? advice}.`);
  }

  /** Return the rotary parameters of a layer, with defaults, without null. */
  #parameters(layer) {
    const { config, facts, defaults, labels } = this;
    const bases = facts.bases ?? {};
    const names = isTrue(bases) ? Object.keys(bases) : labels;
    let otherwise = defaults.rope_theta ?? 10_000;
    let keys = facts.base_keys ?? BASES;
    let { given } = this;
    if (names.length) {
      if (!names.includes(layer.type)) {
        throw wrong("layer_type", `be one of ${repr([...names].sort())}`, repr(layer.type));
      }
      if (isTrue(bases)) [otherwise, ...keys] = bases[layer.type];
      if (labels.length) given = given[layer.type] ?? {};
      else if (!(facts.scaled ?? []).includes(layer.type)) given = {};
    } else if (hasOwn(config, ORIGINAL)) {
      // Of two values, the outer one counts.
      given = { ...given, [ORIGINAL]: config[ORIGINAL] };
    }
    const shares = this.type === "nomic_bert" ? ["rotary_emb_fraction"] : SHARES;
    const parameters = {
      rope_theta: first(config, keys, otherwise),
      partial_rotary_factor: first(config, shares, defaults.partial_rotary_factor ?? 1),
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
    const all = layer.type === "full_attention" ? ["global_head_dim"] : [];
    for (const key of [...all, "qk_rope_head_dim", "head_dim", "kv_channels"]) {
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
      if (["yarn", "longrope"].includes(kind) && !("factor" in given)) {
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
