"""`surelabel demo photos`: find photos in wrong folders; `demo.py` has its options."""

import io
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from surelabel import console
from surelabel.cli import demo_pictures
from surelabel.cli.demo_pictures import Photos
from surelabel.files import replace_bytes
from surelabel.plotting.photo_grid import cut_square

if TYPE_CHECKING:
    from surelabel.engine.loop import Progress
    from surelabel.verdicts import Audit

RUN = "run"
"""Its name in the folder of the demo, beside the photos."""
RESULT_NAMES = {
    "photos": "photos",
    "wrong": "in a wrong folder",
    "flagged": "labels that look wrong",
    "precision": "of these, wrong: precision",
    "recall": "of the wrong ones, found: recall",
    "auroc": "wrong labels found: AUROC of P(wrong)",
    "right_before": "labels right before export",
    "right_after": "labels right after export",
    "seconds": "seconds",
}
COARSE = (24, 24)
"""Size at which it is measured how much a photo shows, so that noise does not count."""
DPI, MOST_COLOURS = 150, 256
"""Of the figure; a PNG with all colours would be twice as large."""


def run(folder: Path, figure: Path, seed: int, epochs: int, count: int, progress: "Progress") -> dict[str, Any]:
    """Write photos, train on them, judge, export and draw; return what was measured."""
    from surelabel import api
    from surelabel.exporting import export

    began = time.perf_counter()
    photos = demo_pictures.write_photos(folder / "photos", seed, count)
    trained = api.fit(photos.folder, folder / RUN, seed=seed, epochs=epochs, progress=progress)
    audit = api.audit(trained)
    cleaned = export(trained, audit, {}, trained.path / "export").cleaned
    found = measure(photos, audit, dict(zip(cleaned.columns["id"], cleaned.columns["label"], strict=True)))
    draw(photos, audit, found, figure)
    features = trained.config().model.features
    seconds = time.perf_counter() - began
    return {**found, "seed": seed, "epochs": epochs, "features": features, "seconds": seconds, "figure": figure}


def measure(photos: Photos, audit: "Audit", cleaned: Mapping[str, str]) -> dict[str, Any]:
    """Return how many wrong labels were found, and how many labels are right after export."""
    from surelabel.verdicts.measures import auroc

    is_wrong, is_flagged = wrong_rows(photos, audit), audit.ranked(audit.is_suspicious)
    found = int((is_wrong & is_flagged).sum())
    rank = np.unique(-audit.columns["p_wrong"], return_inverse=True)[1]
    return {
        "photos": len(audit),
        "wrong": int(is_wrong.sum()),
        "flagged": int(is_flagged.sum()),
        "found": found,
        "precision": found / max(1, int(is_flagged.sum())),
        "recall": found / int(is_wrong.sum()),
        "auroc": auroc(rank, is_wrong),
        "noise_rate": audit.noise_rate.rate,
        "noise_interval": audit.noise_rate.interval,
        "right_before": float((~is_wrong).mean()),
        "right_after": float(np.mean([cleaned[id] == name for id, name in photos.truth.items()])),
    }


def wrong_rows(photos: Photos, audit: "Audit") -> np.ndarray:
    """Return (N,) whether the label of each row of the audit is wrong."""
    is_wrong: np.ndarray = np.array([photos.truth[str(id)] for id in audit.columns["id"]]) != audit.columns["given"]
    return is_wrong


def draw(photos: Photos, audit: "Audit", found: Mapping[str, Any], path: Path) -> None:
    """Draw one photo of each class that was found in a wrong folder to an image file."""
    from surelabel.plotting.photo_grid import photo_grid

    cards = []
    for row in choose_rows(photos, audit):
        given, suggested = (str(audit.columns[name][row]) for name in ("given", "suggested"))
        with Image.open(photos.folder / str(audit.columns["id"][row])) as photo:
            cards.append((photo.convert("RGB"), given, suggested, float(audit.columns["p_wrong"][row])))
    title = f"{found['found']} of {found['wrong']} photos in a wrong folder were found"
    others = found["flagged"] - found["found"]
    text = (
        f"Among {found['photos']:,} photos in {len(demo_pictures.PICTURES)} folders; {others} in the right folder "
        f"{'was' if others == 1 else 'were'} flagged too. No label was checked by hand."
    )
    figure, kind = photo_grid(cards, title, text), path.suffix[1:].lower()
    drawn = io.BytesIO()
    figure.savefig(drawn, format=kind, dpi=DPI, facecolor=figure.get_facecolor())
    if kind == "png":
        coloured = Image.open(drawn).convert("RGB")
        palette = coloured.quantize(MOST_COLOURS, Image.Quantize.MEDIANCUT, kmeans=1)
        drawn = io.BytesIO()
        coloured.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG).save(drawn, "PNG", optimize=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_bytes(path, drawn.getvalue())


def choose_rows(photos: Photos, audit: "Audit") -> list[int]:
    """Return the row of each class that was found in a wrong folder and has the most to see."""
    best: dict[str, tuple[float, int]] = {}
    for row in np.flatnonzero(wrong_rows(photos, audit) & audit.ranked(audit.is_suspicious)).tolist():
        id = str(audit.columns["id"][row])
        with Image.open(photos.folder / id) as photo:
            detail = float(np.abs(np.gradient(np.asarray(cut_square(photo).resize(COARSE).convert("L"), float))).mean())
        name = photos.truth[id]
        best[name] = max(best.get(name, (0.0, row)), (detail, row))
    return [row for _, (_, row) in sorted(best.items())]


def show(result: Mapping[str, Any], out: Path | None) -> None:
    """Print what was measured, and how to go on."""
    console.say()
    seen = "pixels" if result["features"] == "none" else result["features"]
    console.say_table(("", seen), [(text, result[key]) for key, text in RESULT_NAMES.items()])
    console.say(f"\nFigure: {result['figure']}")
    if out is None:
        console.say("Keep the photos and the run: surelabel demo photos --out DIR")
        return
    path = shlex.quote(str(out / RUN))
    console.say(f"Photos: {out / 'photos'}   Run: {out / RUN}")
    console.say(f"\nNext:\n  surelabel report {path}     a page to look at")
    console.say(f"  surelabel review {path}     go through the suspects")
    console.say(f"  surelabel export {path} --images copy     the photos, each in the folder where it belongs")
