"""Strategies for bad settings: options, YAML files and other arguments."""

from bad_input import COMMANDS, QUICK, BadInput, npz
from hypothesis import strategies as st

from surelabel.config import RunConfig

VALUES = ["-1", "0", "1", "1e400", ".nan", ".inf", "-.inf", "null", "[]", "{}", "[1, [2]]", "true", "text", "1e30",
          "10000000000000000000000", "''", '"\\0"', "{a: 1}", "[1, 2, 3]", "../..", "é", "*a", "&a [*a]", "0.5", "-0.0",
          "!!python/name:os.system", "{", "- -", "2020-01-01", "nan", '"\\ud800"', "a" * 5000, "[[0.5, 0.5], [1, 0]]",
          "9" * 5000, "{null: 1}", "{1: 2}", "/dev/null", "digits", "timm:nothing", "os.system", "''''"]  # fmt: skip
DANGEROUS = {"train.devices": ["-1", "0", "text", "99999"], "train.threads": ["-1", "0", "text", "99999"],
             "data.workers": ["-1", "text", "99999"]}  # fmt: skip
"""Values of settings that would start many processes or threads."""
KNOWN = [
    f"{part}.{name}"
    for part, one in RunConfig.model_fields.items()
    if part != "noise"
    for name in one.annotation.model_fields
]
ODD = ["", ".", "data", "noise", "train.", "train.nothing", "no.such.thing", "a..b", "model.widths", "model.norm",
       "method.nothing", "noise.rate", "noise.kind", "noise.matrix", "noise.class_map", "data.options.x",
       "optimiser.schedule.kind", "optimiser.schedule.period", "data.epoch.batches", "method.options.penalty_weight",
       "train.epochs.deep", "é.ü"]  # fmt: skip
values = (
    st.sampled_from(VALUES) | st.integers(-(10**9), 10**9).map(str) | st.text("{}[]:,&*!|>'\"\\#%@-0a \n", max_size=8)
)
GOOD = "data: {source: d.npz}\ntrain: {epochs: 1, threads: 1}\nmodel: {name: mlp}\n"


@st.composite
def bad_option(draw: st.DrawFn) -> BadInput:
    """Set any setting to a value that it may not have."""
    setting = draw(st.sampled_from([*KNOWN, *ODD]))
    value = draw(st.sampled_from(DANGEROUS[setting]) if setting in DANGEROUS else values)
    is_long = setting in ("train.epochs", "data.epoch")
    command = "noise" if is_long else draw(st.sampled_from(["plan", "plan", "noise"]))
    arguments = (*COMMANDS[command], "d.npz", "--set", f"{setting}={value}")
    return BadInput(f"{command} --set {setting}={value[:30]!a}", {"d.npz": npz()}, arguments)


@st.composite
def odd_setting(draw: st.DrawFn) -> str:
    """Add a setting with an odd value, or one that does not exist."""
    if draw(st.booleans()):
        return f"{GOOD}x{draw(st.integers(0, 99))}: {draw(values)}\n"
    known = [one for one in (*KNOWN, *ODD) if one.count(".") == 1 and one not in DANGEROUS]
    part, name = draw(st.sampled_from(known)).split(".")
    return f"{GOOD}{part}: {{{name or 'x'}: {draw(st.sampled_from(VALUES))}}}\n"


@st.composite
def odd_characters(draw: st.DrawFn) -> str:
    """Put odd characters somewhere into a good file."""
    cut = draw(st.integers(0, len(GOOD)))
    odd = st.sampled_from(["", "\t", "\0", "{", "]", "&", "*a", "!!", "%", "\n---\na: 1", ": :"])
    return GOOD[:cut] + draw(odd | st.text(max_size=4)) + GOOD[cut:]


@st.composite
def nested(draw: st.DrawFn) -> str:
    """Nest values deep, or repeat them by anchors that refer to anchors."""
    if draw(st.booleans()):
        depth = draw(st.sampled_from([30, 60, 400, 2000, 20_000]))
        opening, closing = draw(st.sampled_from([("[", "]"), ("{a: ", "}"), ("- ", "")]))
        return GOOD + f"method: {{options: {opening * depth}{closing * depth}}}"
    levels, width = draw(st.integers(2, 11)), draw(st.integers(2, 11))
    anchors = [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * width)}]" for n in range(levels)]
    return GOOD + "method:\n name: car\n options:\n" + "\n".join(anchors)


other_files = st.sampled_from(
    ["", "null", "[]", "- a", "1", "a", "data:", "data: d.npz", "{}", "data: []", "data: {}"]
) | st.text(max_size=12)


@st.composite
def bad_yaml(draw: st.DrawFn) -> BadInput:
    """Write a configuration that is malformed or says something odd."""
    text = draw(odd_setting() | odd_setting() | odd_characters() | nested() | other_files)
    codec = draw(st.sampled_from(["utf-8", "utf-8", "utf-8", "utf-16", "latin-1"]))
    content, name = text.encode(codec, "replace"), draw(st.sampled_from(["c.yaml", "c.yaml", "c.json"]))
    command = draw(st.sampled_from([("plan",), ("noise", "--noise", "pair:0.5", "--out", "noisy.npy")]))
    told = f"yaml {name} {codec} {text[-40:]!a}"
    return BadInput(told, {"d.npz": npz(), name: content}, (*command, "--config", name, "--set", "train.epochs=1"))


sources = st.sampled_from(
    ["d.npz", "", " ", "d", "d.xyz", "nope", "digitz", "/", ".", "d.npz/", "n" * 5000, "é", "cifar10", "d.npz\n",
     "<arrays>", "~", "-", "http://x/y.npz"]
)  # fmt: skip
noises = st.sampled_from(
    ["", ":", "symmetric", "symmetric:", "symmetric:2", "pair:-1", "pair:nan", "pair:inf", "x:0.5",
     "symmetric:0.4:0.4", "file:", "file:/", "matrix:0.1", "block:0.3", "superclass:0.5",
     "asymmetric:0.4:cifar10", "instance:0.3", "symmetric:1e-400", "pair:0.5:include"]
) | st.builds("symmetric:{}".format, st.floats())  # fmt: skip
options = st.sampled_from(
    [("--epochs", "0"), ("--epochs", "x"), ("--batch-size", "1"), ("--rate", "nan"), ("--seed", "-1"),
     ("--seed", "99999999999999999999"), ("--folds", "1"), ("--device", "tpu"), ("--cache", "maybe"),
     ("--precision", "7"), ("--test", "nope"), ("--test", "d.npz"), ("--method", "os.path"), ("--method", ""),
     ("--warm-start", "nope"), ("--nothing",), ("--json",), ("--rate", "1e308"), ("--label-column", "x"),
     ("--root", "nope")]
) | st.floats().map(lambda rate: ("--rate", str(rate)))  # fmt: skip


@st.composite
def bad_arguments(draw: st.DrawFn) -> BadInput:
    """Call with odd data names, numbers and kinds of noise."""
    source, noise, option = draw(sources), draw(noises), draw(options)
    arguments = ("plan", source, "--noise", noise, *QUICK, *option)
    return BadInput(f"arguments {source[:20]!a} {noise!r} {option}", {"d.npz": npz(), "d.xyz": b"?"}, arguments)
