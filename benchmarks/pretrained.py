"""Measure the features of a pretrained network on CIFAR-10 with the labels that people gave.

    python benchmarks/pretrained.py sizes --cifar10 FOLDER [--rows 10000] [--sizes 96 128 224]
        seconds of our extraction and of a bare timm loop, which take turns, and how well the second
        opinion on these features alone ranks the wrong labels
    python benchmarks/pretrained.py training --cifar10 FOLDER [--rows 10000] [--seeds 0 1] --out DIR
        the default method on the features, and on the images with and without them in the second
        opinion: test accuracy, AUROC of P(wrong), labels that are right after export, minutes

CIFAR-10 is the folder with train.parquet and test.parquet from the Hugging Face hub (columns img,
label and human_label). The rows and the network's weights are drawn from the seed. Last epochs.
"""

import argparse
import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

CHUNK = 256
"""Images between turns of the two loops."""
BATCH = 64
TRAINING: dict[str, dict[str, Any]] = {
    "features": {"model.features": "efficientnet_lite0"},
    "images, features in the second opinion": {"model.features": "efficientnet_lite0", "model.train_on": "inputs"},
    "images": {"model.features": "none"},
}
TEST_ROWS = 2000


def main() -> None:
    """Run one of the two parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("sizes", "training"))
    parser.add_argument("--cifar10", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[96, 128, 224], metavar="PIXELS")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=40, help="of networks on images")
    parser.add_argument("--only", nargs="+", choices=TRAINING, default=list(TRAINING))
    parser.add_argument("--out", type=Path, default=Path("runs/pretrained"), metavar="DIR")
    options = parser.parse_args()
    for line in sizes(options) if options.part == "sizes" else training(options):
        print(line, flush=True)


def sizes(options: argparse.Namespace) -> Iterator[str]:
    """Yield a table line for each size."""
    from sklearn.metrics import roc_auc_score

    from surelabel.core.torchvision_import import import_torchvision
    from surelabel.encoding.pictures import PictureEncoder
    from surelabel.verdicts.judgement import judge
    from surelabel.verdicts.probe import second_opinion

    import_torchvision()  # with PyTorch for CPUs alone, timm cannot be imported without it
    import timm

    x, given, clean = read(options.cifar10 / "train.parquet", options.rows, seed=0)
    yield f"{len(x):,} images of 32 pixels, {torch.get_num_threads()} threads\n"
    yield "| pixels | seconds | bare timm loop | speed beside it | AUROC | estimated wrong | wrong |"
    yield "|---|---|---|---|---|---|---|"
    for size in options.sizes:
        encoder = PictureEncoder.make("efficientnet_lite0", size)
        bare = timm.create_model("tf_efficientnet_lite0", num_classes=0).eval().to(memory_format=torch.channels_last)
        found, ours, theirs = [], 0.0, 0.0
        for start in range(-CHUNK, len(x), CHUNK):  # the first one warms up
            some = x[max(0, start) : max(0, start) + CHUNK]
            begun = time.perf_counter()
            features = np.concatenate([encoder.look(part).numpy() for part in some.split(BATCH)])
            between = time.perf_counter()
            with torch.no_grad():
                for part in some.split(BATCH):
                    bare(prepared(part, size))
            if start >= 0:
                found.append(features)
                ours, theirs = ours + between - begun, theirs + time.perf_counter() - between
        opinion = second_opinion({"pretrained": np.concatenate(found)}, given, 10, 0)
        assert opinion is not None
        p_wrong, wrong = judge(opinion.logits, given).p_wrong, given != clean
        cells = f"{ours:.0f} | {theirs:.0f} | {theirs / ours:.2f} | {roc_auc_score(wrong, p_wrong):.3f}"
        yield f"| {size} | {cells} | {p_wrong.mean():.3f} | {wrong.mean():.3f} |"


def prepared(x: torch.Tensor, size: int) -> torch.Tensor:
    """Return a batch as a plain loop over timm would scale it."""
    scaled = torch.nn.functional.interpolate(x.float(), (size, size), mode="bicubic", antialias=True)
    return ((scaled / 255 - 0.5) / 0.5).contiguous(memory_format=torch.channels_last)


def training(options: argparse.Namespace) -> Iterator[str]:
    """Yield a table line for each way of training and seed; finished runs are not repeated."""
    import surelabel

    yield "| trained on | seed | test accuracy | AUROC | right before | right after export | minutes |"
    yield "|---|---|---|---|---|---|---|"
    for name in options.only:
        for seed in options.seeds:
            folder = options.out / f"{name.replace(', ', '-').replace(' ', '-')}-{options.rows}-{seed}"
            if not (folder / "minutes.json").is_file():
                data, begun = write(options, seed), time.perf_counter()
                # The features are computed anew, so that the minutes count them.
                epochs = {} if name == "features" else {"train.epochs": options.epochs}
                columns = {"data.label_column": "given", "data.clean_column": "clean"}
                surelabel.fit(str(data), folder, settings={**columns, **TRAINING[name], **epochs, "train.seed": seed})
                (folder / "minutes.json").write_text(json.dumps((time.perf_counter() - begun) / 60))
            yield line(name, seed, folder)


def line(name: str, seed: int, folder: Path) -> str:
    """Return the figures of a finished run as a line of the table."""
    import surelabel
    from surelabel.runs.run_dir import RunDir
    from surelabel.verdicts.corrections import Rules, accept

    audit, last = surelabel.audit(folder), RunDir.open(folder).metrics()[-1]
    given, clean, suggested = (audit.columns[column] for column in ("given", "clean", "suggested"))
    cleaned = np.where(accept(audit, Rules()).rows, suggested, given)
    figures = [last["tests"]["test"]["top1"], audit.measures()["quality_auroc"]]
    figures += [(given == clean).mean(), (cleaned == clean).mean()]
    cells = " | ".join(f"{figure:.3f}" for figure in figures)
    return f"| {name} | {seed} | {cells} | {json.loads((folder / 'minutes.json').read_text()):.1f} |"


def write(options: argparse.Namespace, seed: int) -> Path:
    """Write a folder with rows of the training set, drawn from a seed, and of the test set."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = options.out / "data" / f"{options.rows}-{seed}"
    place.mkdir(parents=True, exist_ok=True)
    table = pq.read_table(options.cifar10 / "train.parquet")
    rows = np.random.default_rng(seed).permutation(len(table))[: options.rows]
    columns = {"img": table["img"], "given": table["human_label"], "clean": table["label"]}
    pq.write_table(pa.table(columns).take(np.sort(rows)), place / "train-0.parquet")
    test = pq.read_table(options.cifar10 / "test.parquet")[:TEST_ROWS]
    columns = {"img": test["img"], "given": test["label"], "clean": test["label"]}
    pq.write_table(pa.table(columns), place / "test-0.parquet")
    return place


def read(file: Path, count: int, seed: int) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    """Return images (N, 3, 32, 32), the labels that people gave them, and the right ones."""
    import pyarrow.parquet as pq
    from PIL import Image

    table = pq.read_table(file)
    table = table.take(np.sort(np.random.default_rng(seed).permutation(len(table))[:count]))
    images = (Image.open(io.BytesIO(row["bytes"])).convert("RGB") for row in table["img"].to_pylist())
    x = torch.from_numpy(np.stack([np.asarray(image) for image in images])).permute(0, 3, 1, 2).contiguous()
    return x, table["human_label"].to_numpy(), table["label"].to_numpy()


if __name__ == "__main__":
    main()
