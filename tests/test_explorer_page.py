"""The page of the explorer in docs/explorer/, in a headless Chromium, against the library."""

import functools
import http.server
import json
import math
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import positional_embeddings as pe
from oracles import float32_angle_errors
from positional_embeddings.models.configuration import read_config
from positional_embeddings.models.hf_config import RotaryConfig

pytestmark = pytest.mark.library("playwright", "chromium")

EXPLORER = Path(__file__).parents[1] / "docs" / "explorer"
MODEL_TYPES = Path(pe.__file__).parent / "models" / "model_types.json"
EXAMPLES = json.loads((EXPLORER / "examples.json").read_text(encoding="utf-8"))
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
WIDE, NARROW = 1280, 390
PICTURES = """() => [...document.querySelectorAll("#results canvas")].map(x => x.toDataURL())
    .concat([...document.querySelectorAll("#results svg, #layers .strip")].map(x => x.outerHTML))"""
PASTED = {
    "model_type": "qwen2",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_hidden_layers": 4,
    "rope_theta": 10_000.0,
    "max_position_embeddings": 32_768,
    "sliding_window": 512,
    "use_sliding_window": True,
    "max_window_layers": 2,
    "rope_scaling": {"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096},
}


class Handler(http.server.SimpleHTTPRequestHandler):
    def translate_path(self, path):
        """Serve the model types of the library beside the page, as the site does."""
        return str(MODEL_TYPES) if path == f"/{MODEL_TYPES.name}" else super().translate_path(path)

    def log_message(self, *_):
        """Write nothing."""


@pytest.fixture(scope="module")
def address():
    handler = functools.partial(Handler, directory=EXPLORER)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        program = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, address):
    """Open the page for a model; what goes wrong in it fails the test."""
    problems, contexts = [], []

    def opened(model="", width=WIDE, scheme="light"):
        view = {"width": width, "height": 900}
        context = browser.new_context(viewport=view, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("requestfailed", lambda request: problems.append(request.url))
        page.goto(f"{address}#{model}")
        page.wait_for_selector("#facts dd")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


def wait_for_updates(page):
    page.wait_for_function("() => document.body.getAttribute('aria-busy') !== 'true'")


def pictures(page):
    wait_for_updates(page)
    return page.evaluate(PICTURES)


def number(x):
    """Return a number as the page writes it, to six digits, if it is from 1e-4 to 1e15."""
    if x == math.inf:
        return "∞"
    digits = max(0, 5 - math.floor(math.log10(x)))
    text = f"{float(f'{x:.5e}'):,.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


def tile_values(page):
    tiles = page.query_selector_all("#facts dd")
    return {tile.get_attribute("data-fact"): tile.get_attribute("data-value") for tile in tiles}


def rows(page):
    return page.evaluate(
        "() => [...document.querySelectorAll('#table tbody tr')]"
        ".map(row => [...row.cells].map(cell => cell.textContent))"
    )


def assert_shows(page, rope):
    """Check the numbers of the page."""
    unscaled = replace(rope, scaling=None)
    values = tile_values(page)
    slow = int(np.sum(rope.inv_freq * rope.seq_len < 2 * np.pi))
    first = float32_angle_errors(rope.inv_freq, rope.seq_len)[1]
    assert float(values["attention_factor"]) == rope.attention_factor
    assert float(values["base"]) == rope.base
    assert values["layout"] == rope.layout
    assert int(values["head_size"]) == rope.head_size
    assert int(values["seq_len"]) == rope.seq_len
    assert int(values["slow"]) == slow
    assert values["float32_fails"] == ("null" if first is None else str(first))
    n = rope.inv_freq.size
    for i, row in enumerate(rows(page)):
        a, b = (i, i + n) if rope.layout == "half" else (2 * i, 2 * i + 1)
        assert row[:2] == [str(i), f"{a} and {b}"]
        assert float(row[2]) == rope.inv_freq[i]
        lengths = (2 * math.pi / x.inv_freq[i] for x in (unscaled, rope))
        assert row[3:5] == [number(length) for length in lengths]
    assert len(rows(page)) == n


def shown_rope(config, layer=0):
    text = read_config(config)
    model = RotaryConfig(config)
    layers = [x for x in model.layers(text["num_hidden_layers"]) if x.rotates]
    return pe.RoPE(**model.arguments(layers[layer], text.get("max_position_embeddings"), None))


def test_an_address_that_ends_in_no_text_shows_the_first_model(opened):
    """The page throws no error, which the fixture looks at."""
    model = next(iter(EXAMPLES))
    assert tile_values(opened("%")) == tile_values(opened(model))


@pytest.mark.parametrize("name", EXAMPLES)
def test_numbers_and_code_of_the_examples(opened, name):
    page = opened(name)
    assert page.input_value("#model") == name
    rope = shown_rope(EXAMPLES[name])
    assert_shows(page, rope)
    found = {}
    exec(page.inner_text("#python code"), found)  # noqa: S102 - of this page
    assert np.array_equal(found["rope"].inv_freq, rope.inv_freq)
    assert found["rope"].attention_factor == rope.attention_factor
    assert isinstance(found["mask"], pe.Mask)


def test_kinds_of_layers(opened):
    page = opened("Gemma 3 4B")
    before = pictures(page)
    page.check("#kinds input[value='1']")
    assert pictures(page) != before
    assert_shows(page, shown_rope(EXAMPLES["Gemma 3 4B"], layer=5))


def test_a_pasted_configuration_changes_the_pictures(opened):
    page = opened()
    before = pictures(page)
    page.fill("#config", json.dumps(PASTED))
    after = pictures(page)
    assert len(after) == len(before) + 1  # a further mask
    assert not set(before) & set(after)
    assert page.input_value("#model") == "pasted"
    assert_shows(page, shown_rope(PASTED))
    assert page.inner_text("#layers .note").count("sliding window of 512") == 1
    assert page.get_by_title("sliding window of 512").count() == 2  # of four layers


@pytest.mark.parametrize(
    ("slider", "place", "changed"),
    [
        ("dim", 64, {"head_size": 128, "rotary_dim": 64}),
        ("base", 4, {"base": 10_000}),
        ("base", 5.5, {"base": 316_000}),
        ("context", 15, {"seq_len": 32_768}),
        ("factor", 2, {"scaling": pe.Llama3Scaling(4.0, 1.0, 4.0, 8192)}),
    ],
)
def test_a_slider_changes_the_pictures(opened, slider, place, changed):
    page = opened("Llama 3.1 8B")
    before = pictures(page)
    page.fill(f"#{slider}-slider", str(round(place, 2)))
    after = pictures(page)
    # The pictures of masks are only changed by what they depend on.
    assert len(after) == len(before)
    assert len(set(before) - set(after)) >= 3
    rope = replace(shown_rope(EXAMPLES["Llama 3.1 8B"]), **changed)
    assert_shows(page, rope)
    page.click("button[type=reset]")
    assert pictures(page) == before


def test_a_window_can_be_changed(opened):
    page = opened("Mistral 7B v0.1")
    before = pictures(page)
    page.fill("#window-number", "1024")
    after = pictures(page)
    assert len(set(before) - set(after)) >= 1
    assert "sliding window of 1,024" in page.inner_text("#layers .masks")
    assert page.is_enabled("#window-slider")
    page.select_option("#model", "Llama 3.1 8B")
    assert page.is_disabled("#window-slider")
    assert page.get_attribute("#window-slider", "title") == "no layer has a window"


def test_scalings_can_be_tried(opened):
    page = opened("Qwen3 8B")
    rope = shown_rope(EXAMPLES["Qwen3 8B"])
    original = rope.seq_len
    longer = {"seq_len": 4 * original}
    scalings = {
        "linear": pe.LinearScaling(4.0),
        "ntk": pe.NTKScaling(4.0),
        "dynamic": pe.DynamicNTKScaling(4.0, original),
        "yarn": pe.YaRNScaling(4.0, original),
        "llama3": pe.Llama3Scaling(4.0, 1.0, 4.0, original),
    }
    for name, scaling in scalings.items():
        page.select_option("#scaling", name)
        wait_for_updates(page)
        assert tile_values(page)["rope_type"] == name
        assert_shows(page, replace(rope, scaling=scaling, **longer))
    page.select_option("#scaling", "none")
    wait_for_updates(page)
    assert_shows(page, rope)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "`config` must be a JSON object, got text which is no JSON: "),
        ("[1]", "`config` must be a JSON object, got [1]."),
        ('{"model_type": "bert"}', "no `RoPE` rotates as the model type 'bert' does: it has no"),
        ('{"model_type": "llama", "rope_theta": 0}', "`rope_theta` must be a positive finite"),
        ('{"model_type": "new", "head_dim": 64}', "the layout of the model type 'new' is not"),
        ('{"model_type": "t5gemma2_text"}', "the configuration must have 'sliding_window'"),
    ],
)
def test_an_error_takes_the_place_of_the_pictures(opened, text, message):
    page = opened()
    page.fill("#config", text)
    page.wait_for_selector("#error:visible")
    assert page.inner_text("#error").startswith(message)
    assert page.is_hidden("#pictures")
    page.fill("#base-slider", "5")  # the model before is not shown again
    wait_for_updates(page)
    assert page.is_hidden("#pictures")
    page.select_option("#model", "GPT-NeoX 20B")
    assert page.is_hidden("#error")
    assert_shows(page, shown_rope(EXAMPLES["GPT-NeoX 20B"]))


def test_positions_in_images(opened):
    page = opened()
    config = {"model_type": "dinov3_vit", "hidden_size": 1024, "num_attention_heads": 16}
    page.fill("#config", json.dumps(config))
    page.wait_for_selector("[data-fact=coordinates]")
    assert "places of patches in an image" in page.inner_text("#pairs .note")
    for name in ("layers", "wavelengths", "decay", "errors"):
        assert page.is_hidden(f"#{name}")
    assert page.is_disabled("#scaling")
    found = {}
    exec(page.inner_text("#python code"), found)  # noqa: S102 - of this page
    assert found["rope"] == pe.RoPE.from_hf_config(config)
    assert "mask" not in found
    page.select_option("#model", "GPT-NeoX 20B")
    assert page.is_visible("#layers")
    assert_shows(page, shown_rope(EXAMPLES["GPT-NeoX 20B"]))


def test_a_part_without_a_type_is_not_taken_for_text(opened):
    page = opened()
    page.fill("#config", json.dumps({"patch_size": 14, "head_dim": 64}))
    page.wait_for_selector("#error:visible")
    assert page.inner_text("#error").endswith(
        "of its model. Add `model_type` to the text in this page."
    )


def test_lists_of_layers_without_types_show_one_of_each_kind(opened):
    page = opened()
    page.fill("#config", json.dumps({"model_type": "lfm2_moe", "num_hidden_layers": 8}))
    wait_for_updates(page)
    assert page.inner_text("#layers .note") == "1 layer, one of each kind: full attention."


def test_lists_of_layers_that_tell_their_types(opened):
    page = opened()
    config = {"model_type": "minimax", "num_hidden_layers": 8, "attn_type_list": [0, 0, 0, 1] * 2}
    page.fill("#config", json.dumps(config))
    wait_for_updates(page)
    kinds = page.inner_text("#layers .note").split(", ")
    assert [kind.split()[-1] for kind in kinds[:2]] == ["linear_attention", "attention"]
    assert kinds[0].startswith("8 layers: 6 ")
    assert kinds[1].startswith("2 ")
    config = {"model_type": "bamba", "num_hidden_layers": 8, "attn_layer_indices": [3, 7]}
    page.fill("#config", json.dumps(config))
    wait_for_updates(page)
    note = "8 layers: 6 x linear_attention, 2 x full attention, 6 layers without rotation."
    assert shown_layers(page) == note


def test_layers_whose_queries_see_later_keys(opened):
    page = opened()
    page.fill("#config", json.dumps({"model_type": "modernbert", "local_attention": 64}))
    wait_for_updates(page)
    assert shown_layers(page) == "22 layers: 8 x all keys, 14 x 32 keys on each side."
    assert "mask = " not in page.inner_text("#python code")
    page.get_by_label("sliding (14)").check()
    wait_for_updates(page)
    assert "mask = pe.SlidingWindowMask(32, 32)" in page.inner_text("#python code")


def shown_layers(page):
    return page.inner_text("#layers .note").replace("\N{MULTIPLICATION SIGN}", "x")


def test_layout_and_context_can_be_chosen(opened):
    page = opened()
    page.fill("#config", json.dumps({"model_type": "new", "head_dim": 64}))
    page.wait_for_selector("#error:visible")
    assert page.inner_text("#error").endswith("Choose a layout in this page.")
    page.select_option("#layout", "interleaved")
    wait_for_updates(page)
    assert page.inner_text("#error").endswith("Choose a context in this page.")
    page.fill("#context-number", "500")
    page.wait_for_selector("#pictures:visible")
    assert_shows(page, pe.RoPE(64, 500, layout="interleaved"))


@pytest.mark.parametrize("width", [320, NARROW, 800, WIDE])
def test_nothing_is_wider_than_the_page(opened, width):
    page = opened(width=width)
    for name in EXAMPLES:
        page.select_option("#model", name)
        page.click("#table summary")
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(overflow) == 0, name


def test_a_chart_stays_in_view_while_a_slider_moves_on_a_phone(opened):
    page = opened("Llama 3.1 8B", NARROW)
    assert not page.is_visible("#base-slider")
    page.click("#sheet")
    assert page.get_attribute("#sheet", "aria-expanded") == "true"
    before = page.eval_on_selector("#wavelengths canvas", "x => x.toDataURL()")
    page.eval_on_selector(
        "#base-slider",
        "x => { x.value = 5; x.dispatchEvent(new Event('input', { bubbles: true })); }",
    )
    wait_for_updates(page)
    assert page.eval_on_selector("#wavelengths canvas", "x => x.toDataURL()") != before
    slider = page.locator("#base-slider").bounding_box()
    chart = page.locator("#wavelengths .plot").bounding_box()
    sheet = page.locator("#sliders").bounding_box()
    assert chart["y"] >= 0
    assert chart["y"] + chart["height"] < sheet["y"] < slider["y"] < 900
    page.click("#sheet")
    assert not page.is_visible("#base-slider")


@pytest.mark.parametrize(
    ("model", "value", "text"),
    [
        ("Llama 3.1 8B", 128**-0.5, "0.08839: 1/√128"),
        ("DeepSeek-V3", 192**-0.5 * (0.1 * math.log(40) + 1) ** 2, "0.1352: 1.874 times 1/√192"),
        ("gpt-oss 20B", 64**-0.5, "0.125: 1/√64, with sinks"),
    ],
)
def test_the_factor_on_scores(opened, model, value, text):
    fact = opened(model).locator("[data-fact=score_factor]")
    assert float(fact.get_attribute("data-value")) == pytest.approx(value, rel=1e-15)
    assert fact.inner_text() == text


def test_a_factor_on_scores_that_is_not_known_says_so(opened):
    page = opened("Llama 3.1 8B")
    page.fill("#config", json.dumps({**PASTED, "is_causal": False}))
    wait_for_updates(page)
    assert page.inner_text("[data-fact=score_factor]") == "not known here"


def test_light_and_dark(opened):
    ink = "getComputedStyle(document.documentElement).backgroundColor"
    light, dark = opened(scheme="light"), opened(scheme="dark")
    assert light.evaluate(ink) == "rgb(255, 255, 255)"
    assert dark.evaluate(ink) == "rgb(20, 24, 30)"
    before = pictures(light)
    light.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert light.evaluate(ink) == "rgb(20, 24, 30)"
    assert not set(before) & set(pictures(light)[: len(before) - 2])
    # The choice that a reader made on the site is kept.
    light.evaluate("localStorage.setItem('mode', 'light')")
    light.emulate_media(color_scheme="dark")
    light.reload()
    light.wait_for_selector("#facts dd")
    assert light.evaluate(ink) == "rgb(255, 255, 255)"


def test_everything_has_a_name(opened):
    page = opened("gpt-oss 20B")
    named = page.eval_on_selector_all("[role=img]", "all => all.map(x => x.ariaLabel)")
    assert len(named) == 1 + 2 + 1 + 3  # layers, masks, pairs, charts
    assert all(len(name) > 20 for name in named)
    unnamed = page.eval_on_selector_all(
        "input, select, textarea", "all => all.filter(x => !x.labels.length && !x.ariaLabel).length"
    )
    assert unnamed == 0
    canvases = "all => all.filter(x => !x.closest('[role=img]')).length"
    assert page.eval_on_selector_all("canvas, svg", canvases) == 0


def test_values_under_the_cursor(opened):
    page = opened("GPT-NeoX 20B")
    page.hover("#wavelengths .u-over", position={"x": 2, "y": 50})
    wave = number(2 * math.pi)
    assert page.inner_text("#wavelengths output") == f"pair 0: {wave} positions"


def test_a_file_without_a_server_says_what_to_do(browser):
    context = browser.new_context()
    page = context.new_page()
    page.goto((EXPLORER / "index.html").as_uri())
    assert "python -m http.server" in page.text_content("#waiting")
    context.close()
