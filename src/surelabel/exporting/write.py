"""Write an export to a temporary folder and rename it once it is complete."""

import os
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import surelabel
from surelabel import console
from surelabel.data.protected_files import list_files_of_run, list_named_paths
from surelabel.errors import ConfigError, RunError
from surelabel.exporting import manifest, place
from surelabel.exporting.formats import check_formats, write_formats
from surelabel.exporting.image_folder import check_images, write_images
from surelabel.exporting.material import Material
from surelabel.exporting.selection import Cleaned, audit_positions, choose
from surelabel.exporting.tables import write_tables
from surelabel.files import new_folder, refuse_link
from surelabel.runs.decisions import FILE_NAME, REMOVE, UNSURE, Decision, Journal
from surelabel.runs.locate import config_from_here
from surelabel.runs.run_dir import RunDir
from surelabel.runs.samples import TopK
from surelabel.verdicts import Audit
from surelabel.verdicts.corrections import Rules, losing_counts


@dataclass(frozen=True)
class Exported:
    """A finished export: its folder and its rows."""

    folder: Path
    cleaned: Cleaned

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows by who decided on them."""
        return self.cleaned.counts()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know about the cleaned labels."""
        return self.cleaned.warnings


def export(
    run: RunDir,
    audit: Audit,
    decisions: Mapping[str, Decision],
    out: str | Path,
    *,
    rules: Rules | None = None,
    rewrite: Collection[str] = (),
    images: str | None = None,
    paths: Mapping[str, Path] | None = None,
    force: bool = False,
    formats: Collection[str] = (),
    texts: Mapping[str, str] | None = None,
) -> Exported:
    """Write the cleaned labels of a finished run to `out`, a new folder or an unchanged export.

    `decisions` are those of the review's journal, by id. `rules` say which suggestions of the model
    are accepted, and `rewrite` names held-out splits whose labels it may change too. `images` is
    link or copy; `paths` then holds the file of each id. `formats` names the formats of other tools
    to add, which use `paths` and `texts` by id. The source data are only read. A run whose journal
    is damaged is refused without `force`, because decisions may be lost.
    """
    check_formats(formats)
    journal = Journal(run.path / FILE_NAME)
    if not force:
        journal.refuse_damage("export without these decisions with --force (in Python: force=True)")
    folder, rules = _resolve_link(Path(out), run), rules or Rules()
    _keep_out_of_data(folder, run)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    cleaned = choose(run, audit, decisions, rules, now, rewrite)
    originals = None if images is None else check_images(cleaned, images, paths)
    with place.claimed(folder):
        _refuse_other_files(folder)
        _refuse_inputs(folder, run)
        with new_folder(folder) as fresh:
            write_tables(fresh, cleaned, _probability(run), journal.opinions(journal.disputed()))
            if images is not None and originals is not None:
                write_images(fresh, cleaned, images, originals)
            facts = _facts(run, cleaned, rules, rewrite, images, now)
            order = audit_positions(run, audit)[cleaned.position]
            write_formats(fresh, formats, Material(cleaned, audit, order, paths, texts, facts, images == "copy"))
            manifest.write_manifest(fresh, {**facts, "formats": list(formats)})
            place.put_in_place(fresh, folder)
    return Exported(folder, cleaned)


def _resolve_link(out: Path, run: RunDir) -> Path:
    """Return the target of a link; refuse a link inside the run, which may come from elsewhere."""
    if out.parent.resolve() == run.path.resolve():
        refuse_link(out)
    return out.resolve() if out.is_symlink() or out.name in ("", "..") else out


def _keep_out_of_data(folder: Path, run: RunDir) -> None:
    for source in list_named_paths(config_from_here(run).data):
        if source.is_dir() and folder.resolve().is_relative_to(source.resolve()):
            raise ConfigError(
                f"{folder}: lies in the data {source}, which an export never changes; choose another folder"
            )


def _refuse_inputs(folder: Path, run: RunDir) -> None:
    """Raise if the run was trained on a file of this folder, such as the labels of an export."""
    for path in list_files_of_run(run) if folder.exists() else ():
        if path.exists() and path.resolve().is_relative_to(folder.resolve()):
            raise ConfigError(f"{folder}: holds the input {path} of the run; choose another folder")


def _refuse_other_files(folder: Path) -> None:
    if not os.path.lexists(folder):
        return
    if not folder.is_dir() or (any(folder.iterdir()) and not manifest.is_export(folder)):
        raise RunError(f"{folder}: is not an empty folder and not an export; choose another folder")
    if manifest.is_export(folder):
        known = manifest.read_manifest(folder)
        edited = [*manifest.changed_files(folder, known), *manifest.foreign_files(folder, known)]
        if edited:
            some = ", ".join(edited[:5]) + (", ..." if len(edited) > 5 else "")
            raise RunError(
                f"{folder}: holds {len(edited)} file(s) that the export did not write so: {some}; move them away"
            )


def _probability(run: RunDir) -> TopK:
    """Return the stored probabilities, in the order of the run's rows."""
    return TopK.from_table(run.samples(), "probability", len(run.data()["class_names"]))


def _facts(
    run: RunDir, cleaned: Cleaned, rules: Rules, rewrite: Collection[str], images: str | None, now: str
) -> dict[str, object]:
    return {
        "surelabel": surelabel.__version__,
        "time": now,
        "run": console.printable(str(run.path.resolve())),
        "fingerprint": run.data()["fingerprint"],
        "method": run.config().method.name,
        "rules": {**asdict(rules), "class_cap": rules.cap},
        "images": images,
        "rewrite": list(rewrite),
        "counts": cleaned.counts(),
        "removed": len(cleaned.list_decisions(REMOVE)),
        "unsure": len(cleaned.list_decisions(UNSURE)),
        "expected_right": cleaned.expected_right
        and dict(zip(("before", "after"), cleaned.expected_right, strict=True)),
        "doubt": cleaned.doubt,
        "warnings": list(cleaned.warnings),
        "losing_classes": losing_counts(cleaned.losing),
    }
