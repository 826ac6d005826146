"""Bad data, configurations and options, made from a seed: `generate(seed, count)` yields them.

`judge_inputs` runs commands on them and tells right from wrong.
"""

import contextlib
import functools
import hashlib
import io
import os
import random
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

QUICK = ("--model", "mlp", "--set", "model.widths=[4]", "--set", "train.second_opinion=false")
COMMANDS = {
    "plan": ("plan", "--epochs", "1", "--threads", "1", *QUICK),
    "fit": ("fit", "--epochs", "1", "--threads", "1", "--out", "run", *QUICK),
    "noise": ("noise", "--noise", "symmetric:0.4", "--out", "noisy.csv"),
}


@dataclass(frozen=True)
class Pipe:
    """A named pipe, which nothing is written to."""


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True)
class BadInput:
    """Files to write into an empty folder, and the arguments of a command that runs there."""

    name: str
    files: dict[str, "bytes | Link | Pipe"] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()

    def digest(self) -> bytes:
        """Return a hash of files and arguments; inputs with another one are distinct."""
        return hashlib.sha256(repr((self.files, self.arguments)).encode(errors="backslashreplace")).digest()

    def write(self, folder: Path) -> None:
        """Write the files."""
        for name, content in self.files.items():
            path = folder / os.fsdecode(os.fsencode(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Link):
                path.symlink_to(content.target)
            elif isinstance(content, bytes):
                path.write_bytes(content)
            else:
                os.mkfifo(path)


# ---------------------------------------------------------------- files


def npz(**arrays: np.ndarray) -> bytes:
    """Return an archive of a small data set with these arrays in place of its own."""
    x = np.random.default_rng(0).normal(size=(24, 4)).astype(np.float32)
    content = {"x": x, "y": np.arange(24) % 2, **arrays}
    file = io.BytesIO()
    np.savez(file, **{name: array for name, array in content.items() if array is not None}, allow_pickle=True)
    return file.getvalue()


def npy(array: np.ndarray) -> bytes:
    """Return an array as a file."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


@functools.cache
def png(side: int = 8, mode: str = "RGB", kind: str = "PNG") -> bytes:
    """Return an image."""
    file = io.BytesIO()
    Image.new(mode, (side, side)).save(file, kind)
    return file.getvalue()


def table(rows: int = 24, separator: str = ",") -> str:
    """Return a good table of two features."""
    lines = [f"{n},{n / 7:.3f},{-n / 3:.3f},{'ab'[n % 2]}" for n in range(rows)]
    return "\n".join(["id,f,g,label", *lines, ""]).replace(",", separator)


@functools.cache
def zip_of(name: str, content: bytes) -> bytes:
    """Return an archive with one member."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)  # without the time of day
    return file.getvalue()


# ---------------------------------------------------------------- families

BOMB = bytes(50_000_000)
"""Fifty megabytes that an archive compresses to fifty kilobytes."""
CELLS = (
    "nan",
    "inf",
    "-inf",
    "1e999",
    "",
    " ",
    "x",
    "1,5",
    '"',
    '"a',
    "\0",
    "é",
    "\u202e",
    "=1+1",
    "\ud800",
    "9" * 400,
)
"""Cells to put in place of a good one."""


def bad_csv(rng: random.Random) -> BadInput:
    """Damage a table."""
    text, how = table(), rng.randrange(14)
    lines = text.splitlines()
    row, column, cell = rng.randrange(1, len(lines)), rng.randrange(4), rng.choice(CELLS)
    if how <= 4:
        cells = lines[row].split(",")
        cells[column] = cell
        lines[row] = ",".join(cells)
        name, text = f"cell {column} is {cell[:9]!a}", "\n".join(lines)
    elif how == 5:
        name, text = (
            f"column {column} is missing",
            "\n".join(",".join(c for n, c in enumerate(line.split(",")) if n != column) for line in lines),
        )
    elif how == 6:
        name, text = f"column {column} twice", "\n".join(line + "," + line.split(",")[column] for line in lines)
    elif how == 7:
        name, text = f"{row} lines", "\n".join(lines[:row])
    elif how == 8:
        one = rng.choice(("a", "", "0", "-1", "=1"))
        name, text = f"a single class {one!r}", "\n".join([lines[0], *(line[:-1] + one for line in lines[1:])])
    elif how == 9:
        name, text = f"row {row} is long", text.replace(lines[row], lines[row] + ",9" * rng.randrange(1, 9))
    elif how == 10:
        name, text = f"row {row} twice", text + lines[row]
    elif how == 11:
        header = rng.choice(
            ("", "label", "a,b,c,d", ",,,", "id,label,f,f", "LABEL,Label,label,x", "x" * 9999, "\0,b,c,d")
        )
        name, text = f"header {header[:20]!a}", "\n".join([header, *lines[1:]])
    elif how == 12:
        codec = rng.choice(("utf-16", "utf-32", "utf-7", "latin-1", "cp037", "utf-16-le"))
        return _data(rng, f"{codec} {row}", "d.csv", (text + f"é{row},1,2,a\n").encode(codec))
    else:
        cut = rng.randrange(len(text))
        name, text = f"cut at {cut}", text[:cut] + rng.choice(("", "\0", '"', "\xff"))
    encoded = text.encode("utf-8", "surrogatepass")
    return _data(rng, f"csv {name}", rng.choice(("d.csv", "d.csv", "d.tsv")), encoded)


def _shapes(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.choice((0, 1, 2, 3, 24)) for _ in range(rng.randrange(0, 6)))


def _array(rng: random.Random) -> np.ndarray:
    """Return an array of any type and shape, often of 24 rows."""
    kind = rng.choice(
        [
            "float64",
            "float16",
            "int8",
            "uint8",
            "int64",
            "uint64",
            "bool",
            "complex64",
            "U3",
            "S3",
            "object",
            "datetime64[s]",
            "timedelta64[s]",
            "V4",
        ]
    )
    shape = rng.choice(((24,), (24, 1), (24, 4), (24, 8, 8), (24, 3, 8, 8), _shapes(rng), _shapes(rng)))
    array = np.zeros(shape, dtype=kind) if kind != "object" else np.full(shape, None, dtype=object)
    fill = rng.choice(("zeros", "ramp", "nan", "inf", "huge", "negative"))
    with contextlib.suppress(ValueError, TypeError, OverflowError), np.errstate(all="ignore"):
        if fill == "ramp":
            array = (np.arange(array.size) % 3).reshape(shape).astype(kind)
        elif array.size and fill != "zeros":
            array.flat[rng.randrange(array.size)] = {"nan": np.nan, "inf": np.inf, "huge": 1e300, "negative": -1}[fill]
    return array


def bad_npz(rng: random.Random) -> BadInput:
    """Put arrays of any type and shape in place of good ones, or damage the archive."""
    how = rng.randrange(10)
    if how <= 5:
        names = rng.sample(("x", "y", "ids", "clean", "x_test", "y_test", "class_names"), rng.randrange(1, 3))
        arrays = {name: _array(rng) for name in names}
        told = ", ".join(f"{name} {array.dtype}{array.shape}" for name, array in arrays.items())
        return _data(rng, f"npz {told}", "d.npz", npz(**arrays))
    if how == 6:
        texts = ("a", "", " ", "\ud800", "=1", "a\nb", "é", "a" * 5000, "\t", "'")
        chosen = np.array([rng.choice(texts) for _ in range(24)])
        name = rng.choice(("y", "ids", "clean"))
        return _data(rng, f"npz odd text in {name}", "d.npz", npz(**{name: chosen}))
    whole = bytearray(npz())
    if how == 7:
        cut = rng.randrange(len(whole))
        return _data(rng, f"npz cut at {cut}", "d.npz", bytes(whole[:cut]))
    if how == 8:
        for _ in range(rng.randrange(1, 9)):
            whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        return _data(rng, "npz with flipped bits", "d.npz", bytes(whole))
    inner = rng.choice((npz(), b"", BOMB, b"\x93NUMPY", npy(np.zeros(3)), b"x" * rng.randrange(99)))
    member = rng.choice(("x.npy", "d.npz", "../x.npy", "/x.npy", "é", "x.npy/"))
    return _data(rng, f"npz with {len(inner)} bytes as {member}", "d.npz", zip_of(member, inner))


def bad_npy(rng: random.Random) -> BadInput:
    """Write an array and its labels, one of them bad."""
    x = _array(rng) if rng.random() < 0.6 else np.ones((24, 4))
    y = _array(rng) if rng.random() < 0.6 else np.arange(24) % 2
    header = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (%s, 4), }"
    whole = npy(x) if rng.random() < 0.8 else header % str(rng.choice((-1, 10**6, 10**18, 10**30))).encode() + b" " * 60
    made = _data(rng, f"npy {x.dtype}{x.shape}, {y.dtype}{y.shape}, {len(whole)}", "x.npy", whole)
    made.files["y.npy"] = npy(y)
    return made


def bad_folder(rng: random.Random) -> BadInput:
    """Put odd entries among images."""
    files: dict[str, bytes | Link | Pipe] = {f"d/{c}/{n}.png": png() for c in "ab" for n in range(4)}
    place = rng.choice(
        ("d/a/9.png", "d/9.png", "d/a/b/c/9.png", "d/train/9.png", "d/c/9.jpg", "d/a/9.gif", "d/ /9.png")
    )
    odd = rng.choice(
        (b"", b"no image", png()[: rng.randrange(1, 60)], png(1), png(3000), png(9, "F", "TIFF"), png(9, "I;16"),
         png(9, "P"), png(9, "1"), png(5, "RGB", "JPEG")[: rng.randrange(100, 600)], Pipe(), Link("9.png"),
         Link("/etc/passwd"), Link("missing.png"), Link(".."), png(7, "RGBA", "WEBP"))
    )  # fmt: skip
    files[place] = odd
    extra = rng.choice((None, "d/\udcff.png", "d/e\u0301/1.png", "d/=c/1.png", "d/" + "n" * 200 + "/1.png", "d/a/.png"))
    if extra is not None:
        files[extra] = png()
    if rng.random() < 0.1:
        files = {name: content for name, content in files.items() if not name.startswith("d/b")}
    settings = rng.choice(((), ("--unreadable", "skip"), ("--cache", "off"), ("--set", "data.decode=stream"),
                           ("--set", "data.image_size=4"), ("--set", "data.crop=9")))  # fmt: skip
    told = odd if not isinstance(odd, bytes) else f"{len(odd)} bytes"
    return BadInput(f"folder {place} {told} {extra!a:.30} {settings}", files, (*_command(rng), "d", *settings))


VALUES = ("-1", "0", "1", "1e400", ".nan", ".inf", "-.inf", "null", "[]", "{}", "[1, [2]]", "true", "text", "1e30",
          "10000000000000000000000", "''", '"\\0"', "{a: 1}", "[1, 2, 3]", "../..", "é", "*a", "&a [*a]", "0.5", "-0.0",
          "!!python/name:os.system", "{", "- -", "2020-01-01", "nan", '"\\ud800"', "a" * 5000, "[[0.5, 0.5], [1, 0]]",
          "9" * 5000, "{null: 1}", "{1: 2}", "/dev/null", "digits", "timm:nothing", "os.system", "''''")  # fmt: skip
DANGEROUS = {"train.devices": ("-1", "0", "text", "99999"), "train.threads": ("-1", "0", "text", "99999"),
             "data.workers": ("-1", "text", "99999")}  # fmt: skip
"""Values of settings that would start many processes or threads."""


def _settings() -> list[str]:
    from surelabel.config import RunConfig

    parts = {name: one.annotation for name, one in RunConfig.model_fields.items() if name != "noise"}
    known = [f"{part}.{name}" for part, model in parts.items() for name in model.model_fields]
    odd = ["", ".", "data", "noise", "train.", "train.nothing", "no.such.thing", "a..b", "model.widths", "model.norm",
           "method.nothing", "noise.rate", "noise.kind", "noise.matrix", "noise.class_map", "data.options.x",
           "optimiser.schedule.kind", "optimiser.schedule.period", "data.epoch.batches",
           "method.options.penalty_weight",
           "train.epochs.deep", "é.ü"]  # fmt: skip
    return [*known, *odd]


def bad_option(rng: random.Random) -> BadInput:
    """Set any setting to a value that it may not have."""
    setting = rng.choice(_settings())
    value = rng.choice(DANGEROUS.get(setting, VALUES))
    command = "noise" if setting in ("train.epochs", "data.epoch") else rng.choice(("plan", "noise", "plan"))
    arguments = (*COMMANDS[command], "d.npz", "--set", f"{setting}={value}")
    return BadInput(f"{command} --set {setting}={value[:30]!a}", {"d.npz": npz()}, arguments)


def bad_yaml(rng: random.Random) -> BadInput:
    """Write a configuration that is malformed or says something odd."""
    good = "data: {source: d.npz}\ntrain: {epochs: 1, threads: 1}\nmodel: {name: mlp}\n"
    how = rng.randrange(6)
    if how == 0:
        setting = rng.choice([one for one in _settings() if one.count(".") == 1 and one not in DANGEROUS])
        part, name = setting.split(".")
        text = good + f"{part}: {{{name or 'x'}: {rng.choice(VALUES)}}}\n"
    elif how == 1:
        cut = rng.randrange(len(good))
        text = (
            good[:cut] + rng.choice(("", "\t", "\0", "{", "]", "&", "*a", "!!", "%", "\n---\na: 1", ": :")) + good[cut:]
        )
    elif how == 2:
        depth = rng.choice((30, 60, 400, 2000, 20_000))
        opening, closing = rng.choice((("[", "]"), ("{a: ", "}"), ("- ", "")))
        text = good + f"method: {{options: {opening * depth}{closing * depth}}}"
    elif how == 3:
        levels, width = rng.randrange(2, 12), rng.randrange(2, 12)
        anchors = [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * width)}]" for n in range(levels)]
        text = good + "method:\n name: car\n options:\n" + "\n".join(anchors)
    elif how == 4:
        text = (
            rng.choice(("", "null", "[]", "- a", "1", "a", "data:", "data: d.npz", "{}", "data: []", "data: {}")) + "\n"
        )
        text += f"# {rng.randrange(99)}"
    else:
        text = f"{good}x{rng.randrange(99)}: {rng.choice(VALUES)}\n"
    codec = rng.choice(("utf-8", "utf-8", "utf-8", "utf-16", "latin-1"))
    content, name = text.encode(codec, "replace"), rng.choice(("c.yaml", "c.yaml", "c.json"))
    command = rng.choice((("plan",), ("noise", "--noise", "pair:0.5", "--out", "noisy.npy")))
    shown = f"{name} {codec} {text[-40:]!a}"
    return BadInput(f"yaml {shown}", {"d.npz": npz(), name: content}, (*command, "--config", name, "--epochs", "1"))


def bad_label_file(rng: random.Random) -> BadInput:
    """Give labels, confirmed rows or noise in a bad file."""
    rows = [f"{n},{n % 2}" for n in range(24)]
    rows[rng.randrange(24)] = rng.choice((",", "0,", ",1", "99,1", "0,9", "0,-1", "\0,\0", '"', "0;1", "=1,1", "'=1,1"))
    text = (
        rng.choice(("id,label", "id", "label,id", "ID,Label", "a,b", "")) + "\n" + "\n".join(rows[: rng.randrange(25)])
    )
    content = rng.choice((text.encode(), text.encode("utf-16"), b"", npy(_array(rng)), Pipe(), text.encode() + b"\xff"))
    name = rng.choice(("l.csv", "l.npy", "l.txt", "l.json"))
    noise = ("noise", "--noise", f"file:{name}", "--out", "noisy.npy")
    told = f"{len(content)} bytes" if isinstance(content, bytes) else "a pipe"
    option = rng.choice((("--labels", name), ("--trusted", name), ()))
    arguments = (*(_command(rng) if option else noise), "d.npz", *option)
    return BadInput(f"labels {name} {told} {option} {text[:20]!a}", {"d.npz": npz(), name: content}, arguments)


def bad_arguments(rng: random.Random) -> BadInput:
    """Call with odd data names, numbers and kinds of noise."""
    source = rng.choice(("d.npz", "", " ", "d", "d.xyz", "nope", "digitz", "/", ".", "d.npz/", "n" * 5000, "é",
                         "cifar10",
                         "d.npz\n", "<arrays>", "~", "-", "http://x/y.npz"))  # fmt: skip
    noise = rng.choice(("", ":", "symmetric", "symmetric:", "symmetric:2", "pair:-1", "pair:nan", "pair:inf", "x:0.5",
                        "symmetric:0.4:0.4", "file:", "file:/", "matrix:0.1", "block:0.3", "superclass:0.5",
                        "asymmetric:0.4:cifar10", "instance:0.3", "symmetric:1e-400", "pair:0.5:include"))  # fmt: skip
    option = rng.choice((("--epochs", "0"), ("--epochs", "x"), ("--batch-size", "1"), ("--rate", "nan"),
                         ("--seed", "-1"),
                         ("--seed", "99999999999999999999"), ("--folds", "1"), ("--device", "tpu"),
                         ("--cache", "maybe"),
                         ("--precision", "7"), ("--test", "nope"), ("--test", "d.npz"), ("--method", "os.path"),
                         ("--method", ""), ("--warm-start", "nope"), ("--nothing",), ("--json",), ("--rate", "1e308"),
                         ("--label-column", "x"), ("--root", "nope")))  # fmt: skip
    files = {"d.npz": npz(), "d.xyz": b"?"}
    return BadInput(
        f"arguments {source[:20]!a} {noise!r} {option}", files, ("plan", source, "--noise", noise, *QUICK, *option)
    )


FAMILIES: tuple[Callable[[random.Random], BadInput], ...] = (
    bad_csv, bad_npz, bad_npy, bad_folder, bad_option, bad_yaml, bad_label_file, bad_option, bad_npz, bad_arguments,
)  # fmt: skip


def _command(rng: random.Random) -> tuple[str, ...]:
    return COMMANDS[rng.choice(("noise", "noise", "plan", "fit"))]


def _data(rng: random.Random, name: str, file: str, content: bytes) -> BadInput:
    return BadInput(name, {file: content}, (*_command(rng), file))


def generate(seed: int, count: int) -> Iterator[BadInput]:
    """Yield `count` distinct inputs, of all families in turn."""
    rng, seen = random.Random(seed), set()
    while len(seen) < count:
        made = FAMILIES[len(seen) % len(FAMILIES)](rng)
        key = made.digest()
        if key not in seen:
            seen.add(key)
            yield made
