"""Tables whose rows name pictures elsewhere: absolute, by .., by links, and in other spellings."""

import csv
import os
import shutil
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from tally import Options, Tally

from surelabel.config import DataConfig
from surelabel.data import load_corpus
from surelabel.data.sources.image_files import original_files
from surelabel.errors import SurelabelError


def make_scene(folder: Path) -> None:
    """Write pictures inside and outside of the folder `in`, and links of both kinds."""
    for number, name in enumerate(("in/a.png", "in/deep/b.png", "in/deep/er/c.png", "out/d.png", "inside/e.png")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(folder / name)
    links = {
        "out.png": "../out/d.png",
        "up": "..",
        "down": "deep",
        "twice": "up",
        "in.png": "deep/b.png",
        "far": "../out",
    }
    for name, target in links.items():
        (folder / "in" / name).symlink_to(target)
    (folder / "in/absolute.png").symlink_to(folder / "out/d.png")


def draw_path(folder: Path, random: Random) -> str:
    """Return a spelling of a picture, by folders, links and .. drawn at random."""
    steps = [
        "deep",
        "deep/er",
        "..",
        ".",
        "up",
        "down",
        "twice",
        "far",
        "../in",
        "../inside",
        "../out",
        "deep/..",
        "up/in",
    ]
    names = ["a.png", "b.png", "c.png", "d.png", "e.png", "out.png", "in.png", "absolute.png", "in/a.png", "out/d.png"]
    for _ in range(1000):
        walk = "/".join([*random.choices(steps, k=random.randrange(4)), random.choice(names)])
        if (folder / "in" / walk).is_file():
            break
    whole = folder / "in" / walk
    spelled = [
        walk,
        walk,
        f"./{walk}",
        walk.replace("/", "//"),
        str(whole),
        f"/{whole}",
        str(whole.resolve()),
        f" {walk} ",
    ]
    return random.choice(spelled)


def judge(folder: Path, path: str, root: Path | None, kind: str) -> str | None:
    """Return what is wrong if a table names a picture; the real path tells what is right."""
    base = folder / "in" if root is None else root
    real = Path(os.path.realpath(base / path.strip()))
    is_inside = os.path.commonpath([real, os.path.realpath(base)]) == os.path.realpath(base)
    inside = str(folder / "in/a.png") if root is not None else "a.png"
    rows = [("0", inside, "x"), ("1", path, "y")]
    source = folder / "in" / f"t.{kind}"
    if kind == "csv":
        with source.open("w", newline="") as file:
            csv.writer(file).writerows([("id", "path", "label"), *rows])
    else:
        pq.write_table(
            pa.table(dict(zip(("id", "path", "label"), map(list, zip(*rows, strict=True)), strict=True))), source
        )
    config = DataConfig(source=str(source), cache=False, image_root=None if root is None else str(root))
    for read in (load_corpus, lambda settings: original_files(settings, ["0", "1"])):
        try:
            read(config)
        except SurelabelError as error:
            if is_inside and real.is_file():
                return f"refused: {error}"
            if "\n" in str(error):
                return f"several lines: {error}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        else:
            if not is_inside:
                return f"read {real}, which is outside of {base}"
    return None


def run_paths(options: Options) -> Tally:
    """Draw a path, the kind of table and perhaps another root."""
    tally = Tally("paths", planned=options.count or 500)
    scene = options.folder / "scene"
    scene.mkdir()
    make_scene(scene)
    for number in range(tally.planned):
        random = options.random("paths", number)
        path = draw_path(scene, random)
        root = random.choice([None, None, scene, scene / "in"])
        kind = random.choice(["csv", "parquet"])
        fault = judge(scene, path, root, kind)
        tally.judge(f"{path!r} in {kind} with root {root} ({number} of seed {options.seed})", fault)
    shutil.rmtree(scene)
    return tally
