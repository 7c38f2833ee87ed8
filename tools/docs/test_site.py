"""The site: what its pages say is what the policy does, it builds without a warning, and it works in a browser."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from importlib.util import find_spec
from io import StringIO
from itertools import pairwise, product
from pathlib import Path
from shutil import which
from typing import Any

import polycast
import pytest
import torch
import yaml
from polycast._grammar.categories import UNLISTED
from polycast.backends import device_type_of
from polycast.debug.verification import samples
from polycast.debug.verification.outcomes import SETS_DTYPE, expected, flatten
from polycast.policy.releases import releases
from polycast.policy.rules import BUILT_IN
from polycast.policy.sides import diff
from torch.utils._pytree import tree_map_only

from tests.support import probe
from tests.support.cases import DEVICES, RELEASE
from tests.support.snippets import ROOT, page
from tools.docs import facts, links, pages
from tools.docs.facts import POLICY, REGION

OPS = {op.name: op for op in POLICY.ops}
HERE = (RELEASE[0], RELEASE[1])
MISSING = [name for name in ("sphinx", "furo", "myst_parser") if find_spec(name) is None]
DRIVER = which("chromedriver") if which("chromium") and find_spec("selenium") else None
ENTER = "\ue007"  # selenium's, which is optional
FLAGS = (
    "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking disable-component-update "
    "disable-sync"
)


def block(text: str, language: str) -> str:
    """Return the first block of a page in a language."""
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("device", DEVICES)
def test_a_page_has_the_categories_of_the_policy(device: str) -> None:
    """In the torch that runs; what policy.yaml says of others is the same rules, narrowed to another release."""
    told = {
        (op.name, overload.name): row.category
        for op in POLICY.ops
        for section in facts.sections(op)
        for overload in section.overloads
        for row in section.lines
        if device in row.devices and HERE in row.torch
    }
    held = {(rule.op, rule.overload): rule.category for rule in BUILT_IN if rule.device == device}
    assert {key: category for key, category in told.items() if category != UNLISTED} == held


@pytest.mark.parametrize("op", OPS)
def test_every_device_and_release_has_a_row(op: str) -> None:
    for section in facts.sections(OPS[op]):
        for release in (release.number for release in releases().values()):
            if release in section.overloads[0].torch:
                told = [device for row in section.lines if release in row.torch for device in row.devices]
                assert sorted(told) == sorted(DEVICES)


def returned(name: str, device: str, dtype: str) -> set[str] | None:
    """Return the dtypes of the results in a bfloat16 region, without a kernel's workspace; None if the call raises."""
    try:
        sample = samples.arguments(name, samples.Make(device_type_of(device), getattr(torch, dtype)))
        with probe.region(device, torch.bfloat16):
            results = flatten((samples.find(name) or pytest.fail(name))(*sample.args, **sample.kwargs))
    except (RuntimeError, AssertionError):  # the latter where the kernel of a fake tensor asks for its device
        return None
    return {str(tensor.dtype).removeprefix("torch.") for tensor in results if tensor.dtype != torch.uint8}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_page_has_the_dtypes_that_a_region_returns(device: str) -> None:
    """On the CPU for real, on cuda with fake tensors. Where torch has no kernel for a dtype, a call raises."""
    tried = 0
    facts.calls()  # which runs on the CPU, without kernels
    with probe.kernels_of(device), probe.tensors_of(device):
        for line, name in product_of(device):
            for dtype, cell in zip(facts.INPUTS, line.cells, strict=True):
                given = returned(name, device, dtype)
                if given is not None:
                    told = cell.returns.replace(REGION, "bfloat16") or cell.computes.removeprefix("stays ")
                    assert given == set(told.split(", ")), (name, dtype)
                    tried += 1
    assert tried > {"cpu": 400, "cuda": 250}[device]


def product_of(device: str) -> Iterator[tuple[facts.Line, str]]:
    """Yield the overloads that have a sample, each with its line on a device; of a fake device those that it lists."""
    for op in POLICY.ops:
        for section in facts.sections(op):
            for line, name in product(section.lines, section.names):
                holds = device in line.devices and HERE in line.torch and (line.category != UNLISTED or device == "cpu")
                follows = line.cells[0].computes.startswith(("follows", "left", "raises"))
                if holds and not follows and name in facts.calls()[0]:
                    yield line, name


def test_what_a_page_says_that_an_op_computes_in_is_what_its_category_does() -> None:
    lines = {line for op in POLICY.ops for section in facts.sections(op) for line in section.lines}
    for line in lines:
        for dtype, cell in zip(facts.INPUTS, line.cells, strict=True):
            told = cell.computes.removeprefix("stays ").replace(REGION, "float64")
            if line.category in SETS_DTYPE:
                assert told == "float32"
            elif line.category not in (UNLISTED, "banned", "stock"):
                assert [getattr(torch, told)] == expected(line.category, [getattr(torch, dtype)], torch.float64)


@pytest.mark.parametrize("op", OPS)
def test_the_text_of_a_page_has_each_line_and_no_blank_cell(op: str) -> None:
    """Of the first overloads; of the others it has what differs."""
    text = pages.op_page(OPS[op])
    told = re.findall(r"(?m)^\| `(\w+)`(?:, torch [^:|]*)?: ([^|]+) \|", text)
    first, *others = facts.sections(OPS[op])
    assert told == [(line.category, ", ".join(line.devices)) for line in first.lines]
    assert not re.search(r"\|\s*\|", text.replace("|\n|", "\n"))
    assert all(re.search(rf"(?m)^- `{name}[(`].*: the same", text) for section in others for name in section.names)


@pytest.mark.parametrize("op", OPS)
def test_the_rule_of_a_page_runs(op: str) -> None:
    if not any(HERE in rule.overload.torch for rule in OPS[op].rules):
        pytest.skip(f"torch {torch.__version__} has no such op")
    text = pages.op_page(OPS[op])
    with redirect_stdout(StringIO()) as printed:
        exec(compile(block(text, "python"), op, "exec"), {})
    assert printed.getvalue() == block(text, "text")
    (rule,) = re.findall(r"(?:Policy\(|policy=)(\{.*\})\)", block(text, "python"))
    assert polycast.Policy(yaml.safe_load(block(text, "yaml"))) == polycast.Policy(eval(rule))


def test_a_page_has_the_lines_of_policy_yaml() -> None:
    told = [yaml.safe_load(pages.source(op)) for op in OPS]
    held = tree_map_only(str, POLICY.cited, yaml.safe_load(page("policy.yaml"))["ops"])
    assert {op: said for one in told for op, said in one.items()} == held
    assert all(pages.source(op) in pages.op_page(OPS[op]) for op in OPS)


def test_the_history_has_the_ops_that_diff_prints() -> None:
    for one, other in pairwise(releases()):
        told = {change.name for change in pages.released() if f"torch-{change.number}" == other}
        table = diff(one, other).partition("\n\n")[0].splitlines()
        printed = {line.split()[0] for line in table[1:] if line[:1].strip() and table[0].startswith("op ")}
        assert {name.partition(".")[0] for name in told} == {name.partition(".")[0] for name in printed}


def test_no_page_names_the_file_of_a_document() -> None:
    text = "\n".join(pages.op_page(op) for op in POLICY.ops)
    assert not [document.document.name for document in POLICY.documents if document.document.name in text]


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h1 id="top">A</h1>\n<a href="b.html">, <a href="a.html#c">, <a href="#top">')
    found = ["a.html:2: there is no b.html", "a.html:2: there is no place 'c' in a.html"]
    assert links.check(tmp_path) == (3, found)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, which is built without a warning or a broken link."""
    if MISSING:
        pytest.skip(f"{', '.join(MISSING)} is not installed; requirements/docs.txt has it")
    folder = tmp_path_factory.mktemp("site")
    command, quiet = [sys.executable, "-m", "tools.docs", str(folder)], {**os.environ, "TORCH_CPP_LOG_LEVEL": "ERROR"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=quiet)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


def release_of(site: Path) -> Path:
    return site / polycast.__version__.partition("+")[0]


def test_the_site_has_a_page_for_every_op(site: Path) -> None:
    """`latest` leads to each page of the release."""
    for op in OPS:
        text = (release_of(site) / "ops" / f"{op}.html").read_text(encoding="utf-8")
        assert f"<title>{op} - polycast" in text
        assert f"../../{release_of(site).name}/ops/{op}.html" in (site / "latest" / "ops" / f"{op}.html").read_text()


def test_the_api_has_every_public_name(site: Path) -> None:
    text = (release_of(site) / "api.html").read_text(encoding="utf-8")
    modules = (polycast, polycast.policy, polycast.debug, polycast.syncfree, polycast.cast_cache)
    wanted = {f"{module.__name__}.{name}" for module in modules for name in module.__all__}
    wanted -= {module.__name__ for module in modules}
    assert not {name for name in wanted if f'id="{name}"' not in text}


@pytest.fixture
def browser(site: Path, tmp_path: Path) -> Iterator[Any]:
    """Debian's chromium, on the page of all ops."""
    if DRIVER is None:
        pytest.skip("chromium, chromedriver or selenium is not installed")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for flag in [*FLAGS.split(), f"user-data-dir={tmp_path}"]:
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    driver.implicitly_wait(5)
    driver.get((release_of(site) / "ops" / "index.html").as_uri())
    yield driver
    errors = [line for line in driver.get_log("browser") if line["level"] == "SEVERE"]
    driver.quit()
    assert not errors, errors


def shown(browser: Any) -> list[str]:
    """Return the ops that the list shows."""
    rows = browser.find_elements("css selector", "#ops tbody tr:not([hidden]) a")
    return [row.text for row in rows]


def private_last(ops: Iterable[str]) -> list[str]:
    return sorted(ops, key=lambda op: op.startswith("_"))


def test_a_reader_finds_an_op_and_follows_why_it_changed(browser: Any) -> None:
    assert shown(browser) == private_last(OPS)
    search = browser.find_element("id", "ops-search")
    search.send_keys("nn.LSTM")
    assert {"linear", "_cudnn_rnn", "lstm_cell"} <= {*shown(browser)} and len(shown(browser)) < 10
    assert {row.text for row in browser.find_elements("css selector", "tr:not([hidden]) .ops-runs:not([hidden])")} == {
        "nn.LSTM runs it"
    }
    search.clear()
    search.send_keys("rmsnorm", ENTER)
    assert browser.find_element("tag name", "h1").text.startswith("rms_norm")
    browser.find_element("link text", "torch 2.12").send_keys(ENTER)
    assert browser.current_url.endswith("releases.html#torch-2-12")
    browser.find_element("link text", "rms_norm").send_keys(ENTER)
    assert browser.current_url.endswith("ops/rms_norm.html")


def test_the_address_holds_the_filters(browser: Any) -> None:
    for name, value in (("device", "xpu"), ("category", "promote")):
        browser.find_element(
            "css selector", f"select[name={name}] option[value='{value}'], select[name={name}]"
        ).send_keys(value)
    listed = private_last(polycast.policy.ops("xpu", "promote"))
    assert shown(browser) == listed
    browser.find_element("name", "differs").click()
    differing = shown(browser)
    assert differing == [op for op in listed if op in polycast.policy.notes("xpu")]
    assert browser.current_url.endswith("?device=xpu&category=promote&differs=1")
    browser.refresh()
    assert shown(browser) == differing
    browser.find_element("css selector", "button[type=reset]").click()
    assert shown(browser) == private_last(OPS) and "?" not in browser.current_url


def test_the_list_is_used_by_keys(browser: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.find_element("tag name", "body").send_keys("/")
    browser.switch_to.active_element.send_keys("softmax")
    browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert browser.switch_to.active_element.text == shown(browser)[1]
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert browser.switch_to.active_element.get_attribute("id") == "ops-search" and shown(browser) == private_last(OPS)


def test_a_narrow_page_does_not_scroll_sideways(browser: Any) -> None:
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    for name in ("index", "softmax", "linalg_matrix_norm"):
        browser.get(f"{browser.current_url.rpartition('/')[0]}/{name}.html")
        assert browser.execute_script("return document.documentElement.scrollWidth") == 390
        if name == "index":
            assert browser.execute_script(PLACEHOLDER_FITS)
            assert {*browser.execute_script(BROKEN_NAMES)} == set()


PLACEHOLDER_FITS = """
const field = document.getElementById("ops-search"), style = getComputedStyle(field);
const pen = document.createElement("canvas").getContext("2d");
pen.font = style.font;
const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
return pen.measureText(field.placeholder).width < room;
"""
# The categories of which a part between underscores goes over a line's end.
BROKEN_NAMES = """
const broken = [];
for (const code of document.querySelectorAll("#ops .ops-rule:not([hidden]) code"))
  for (const part of [...code.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE)) {
    const range = document.createRange();
    range.selectNodeContents(part);
    if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1) broken.push(code.textContent);
  }
return broken;
"""
