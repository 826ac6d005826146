"""Measure the audit at default settings on many kinds of data, beside cleanlab's best.

    python benchmarks/verdicts.py --seeds 1 2 3 --cifar10 FOLDER --news FOLDER --out DIR
    python benchmarks/verdicts.py --seeds 1 --only iris wine --out DIR
        some rows; --list names them all, the long ones last
    python benchmarks/verdicts.py --seeds 1 --only iris --method elr --set train.epochs=50 --out DIR
        other settings than the defaults; kept apart from the results of the defaults
    python benchmarks/verdicts.py --seeds 1 --noise real --texts FOLDER --looks 200 --out DIR
        labels by rules and word lists, and what random looks at them settle
    python benchmarks/verdicts.py --seeds 1 --second-opinion-only --out DIR
        without training: judge by the second opinion alone
    python benchmarks/verdicts.py --seeds 1 --rejudge --out DIR
        without training: judge the finished runs in DIR again, with today's code
    python benchmarks/verdicts.py --runs runs/leaderboard/*
        finished runs whose clean labels are known, by method
    python benchmarks/verdicts.py --seeds 1 2 3 --check-data
        what logistic regression reaches on the Gaussian sets, beside what it should

CIFAR-10 is the folder with train.parquet from the Hugging Face hub (columns img, label and
human_label), news the one with train.csv of NoisyAG-News (text, label, clean_label), texts one with
files of the same columns, such as youtube.csv, whose labels come from rules. DIR/data has
the data as a user would have them, DIR/runs the runs, DIR/verdicts.jsonl a line for every result:
stop and start at will. Clean labels are for measuring only.

cleanlab is shown in its best light: of 5-fold logistic regression with C in .01, .1, 1 and 10, an
RBF-SVM and 10 nearest neighbours, and of its three scores, the best, chosen with the clean labels;
on photos with the better of HOG and random-patch features. A * marks rows without the SVM, which
would take too long. The audit claims to know the rate of wrong labels if its interval is narrower
than 20 points; up to 40 it says "roughly", above that that it cannot tell.
"""

import argparse
import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import verdict_looks
import verdict_targets
from cleanlab_best import cleanlab_best, predict_by_folds
from verdict_data import CLASS, DATA_SETS, GAUSSIANS, INPUTS, REAL, DataSet, make_rng, read_truth

Row = dict[str, Any]


def main() -> None:
    """Measure what is missing and print the tables."""
    options = parse()
    if options.list:
        print("\n".join(f"{one.name:14}{one.title}" for one in DATA_SETS))
    elif options.check_data:
        print("\n".join(check_data(options.seeds)))
    elif options.runs:
        print("\n".join(verdict_targets.by_method([measure_finished(folder) for folder in options.runs])))
    else:
        print(verdict_targets.header(list(verdict_targets.COLUMNS)))
        rows = list(measured(options))
        print("", *verdict_targets.mean_table(rows), "", *verdict_targets.wanted(rows), sep="\n")
        print("", *verdict_targets.level_table(rows), sep="\n")
        looked = [{"data": row["data"], "seed": row["seed"], **one} for row in rows for one in row.get("by_looks", ())]
        if looked:
            print("", *verdict_looks.table(looked), sep="\n")


def parse() -> argparse.Namespace:
    """Read the command line."""
    names = [one.name for one in DATA_SETS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, default=names)
    parser.add_argument("--list", action="store_true", help="list the rows")
    parser.add_argument("--cifar10", type=Path, metavar="FOLDER", help="without it there are no photos")
    parser.add_argument("--news", type=Path, metavar="FOLDER", help="without it there are no news")
    parser.add_argument("--texts", type=Path, metavar="FOLDER", help="without it there are no texts labelled by rules")
    parser.add_argument("--noise", choices=(CLASS, INPUTS, REAL), help="only rows with this kind of noise")
    parser.add_argument("--looks", type=int, default=0, metavar="N", help="also draw N random samples of each size")
    parser.add_argument("--out", type=Path, default=Path("runs/verdicts"), metavar="DIR")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where the data are kept; default OUT/data")
    parser.add_argument("--method", help="another method than the default")
    parser.add_argument("--epochs", type=int, help="epochs of all rows")
    parser.add_argument("--set", nargs="+", metavar="NAME=VALUE", default=[], help="any settings")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--second-opinion-only", action="store_true", help="judge without training")
    how.add_argument("--rejudge", action="store_true", help="judge the finished runs in OUT again")
    how.add_argument("--runs", nargs="+", metavar="RUN", help="audit these finished runs instead")
    how.add_argument("--check-data", action="store_true", help="check the Gaussian data")
    return parser.parse_args()


def measured(options: argparse.Namespace) -> Iterator[Row]:
    """Yield the figures of every data set and seed, and print each as a line of the table."""
    folders = {"cifar10": options.cifar10, "news": options.news, "texts": options.texts}
    is_kept = not (options.second_opinion_only or options.rejudge)
    before = read_results(options.out / "verdicts.jsonl") if is_kept else {}
    chosen = (one for one in DATA_SETS if one.name in options.only and options.noise in (None, one.noise))
    for data_set in chosen:
        if data_set.needs and folders[data_set.needs] is None:
            print(f"(no {data_set.name}: it needs --{data_set.needs} FOLDER)", flush=True)
            continue
        for seed in options.seeds:
            settings = settings_of(data_set, seed, options)
            variant = name_of(settings, data_set, seed)
            row = before.get((data_set.name, seed, variant))
            if row is None:
                source = data_set.write(options.data or options.out / "data", seed, folders)
                row = {"data": data_set.name, "noise": data_set.noise, "seed": seed, "variant": variant}
                place = options.out / "runs" / (variant or "default") / str(seed)
                found = measure(source, settings, place, options, with_rival=data_set.noise != INPUTS)
                if found is None:
                    print(f"(no {data_set.name} {seed}: no finished run to judge again)", flush=True)
                    continue
                row |= found
                if is_kept:
                    with (options.out / "verdicts.jsonl").open("a") as lines:
                        lines.write(json.dumps(row) + "\n")
            print(verdict_targets.detail_line(row), flush=True)
            yield row


def read_results(file: Path) -> dict[tuple[str, int, str], Row]:
    """Return earlier results by data set, seed and variant."""
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    return {(row["data"], row["seed"], row["variant"]): row for row in rows}


def settings_of(data_set: DataSet, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of a run that are not defaults."""
    from surelabel.overrides import parsed_assignment

    settings = {**data_set.settings, "train.seed": seed}
    if options.method:
        settings["method"] = options.method
    if options.epochs:
        settings["train.epochs"] = options.epochs
    return settings | dict(map(parsed_assignment, options.set))


def name_of(settings: dict[str, Any], data_set: DataSet, seed: int) -> str:
    """Return what differs from the row's defaults as a name for files; empty if nothing does."""
    own = {**data_set.settings, "train.seed": seed}
    return ",".join(f"{key}={value}" for key, value in settings.items() if own.get(key) != value).replace("/", "_")


def measure(
    source: Path, settings: dict[str, Any], place: Path, options: argparse.Namespace, with_rival: bool
) -> Row | None:
    """Judge one data set and measure the verdict; None if there is no run to judge again."""
    import surelabel
    from surelabel.api import make_config
    from surelabel.encoding.encode import encode_all
    from surelabel.runs.run_dir import RunDir
    from surelabel.training import build

    config, finished = make_config(source, settings), RunDir(place / source.parent.name)
    if options.rejudge and not finished.is_done:
        return None
    clean = read_truth(source)
    with contextlib.ExitStack() as stack:
        if options.second_opinion_only or options.rejudge:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            began = time.perf_counter()
            run = rejudge(finished, folder / "run") if options.rejudge else judge_untrained(config, folder / "run")
            times = {"seconds": None, "verdict_seconds": time.perf_counter() - began}
        else:
            run, times = train(config, finished)
        row = figures(surelabel.audit(run), clean)
        if options.looks:
            row["by_looks"] = list(verdict_looks.looks(run, clean, options.looks))
    corpus = encode_all(build.corpus(config.data, config.noise, config.train.seed)[0])
    given = np.array(corpus.class_names)[corpus.train.label.numpy()]
    wrong = given != np.array([clean[name] for name in corpus.train.ids])
    best = (cleanlab_best(source, corpus, wrong) if with_rival else None) or dict.fromkeys(
        ("auroc", "average_precision", "model", "left_out")
    )
    rival = {"cleanlab": best["auroc"], "cleanlab_average_precision": best["average_precision"]}
    return row | rival | {"cleanlab_model": best["model"], "cleanlab_left_out": best["left_out"]} | times


def train(config: Any, run: Any) -> tuple[Any, Row]:
    """Train, resume or leave a finished run alone; return it with its seconds, if it began here."""
    from surelabel import api
    from surelabel.console import Silent

    class Clock(Silent):
        """Remembers when the last epoch ended."""

        last = 0.0

        def epoch(self, row: dict[str, Any]) -> None:  # noqa: ARG002 - only its time counts
            self.last = time.perf_counter()

    clock, began, is_new = Clock(), time.perf_counter(), not run.has_begun
    run = api.fit(config, run.path, progress=clock) if is_new else api.resume(run, progress=clock)
    ended = time.perf_counter()
    seconds = (ended - began, ended - clock.last) if is_new else (None, None)
    return run, dict(zip(("seconds", "verdict_seconds"), seconds, strict=True))


def figures(audit: Any, clean_by_id: dict[str, str]) -> Row:
    """Return the figures of an audit, by the right label of every row."""
    from surelabel.verdicts.corrections import ALL, Rules, accept
    from surelabel.verdicts.measures import against_clean

    given, suggested = audit.columns["given"], audit.columns["suggested"]
    clean = np.array([clean_by_id[name] for name in audit.columns["id"]])
    wrong, flagged = given != clean, audit.ranked(audit.is_suspicious)
    low, high = audit.noise_rate.interval or (0.0, 1.0)
    changed, every = accept(audit, Rules()).rows, accept(audit, Rules(ALL)).rows
    found = against_clean({**audit.columns, "clean": clean})
    return {
        "rows": len(audit),
        "auroc": found.get("quality_auroc"),
        "average_precision": found.get("average_precision"),
        "true_rate": float(wrong.mean()),
        "rate": audit.noise_rate.rate,
        "low": low,
        "high": high,
        "by_level": verdict_targets.by_level(audit.columns["p_wrong"], wrong),
        "in_doubt": bool(audit.may_follow_inputs),
        "claim": "cannot tell" if not audit.can_tell else "roughly" if audit.is_rough else "known",
        "calibration_error": found["calibration_error"],
        "flagged": int(flagged.sum()),
        "precision": float(wrong[flagged].mean()) if flagged.any() else None,
        "recall": float(flagged[wrong].mean()) if wrong.any() else None,
        "changed": int(changed.sum()),
        "right_before": float((given == clean).mean()),
        "right_after": float((np.where(changed, suggested, given) == clean).mean()),
        "right_after_all": float((np.where(every, suggested, given) == clean).mean()),
    }


def measure_finished(folder: str) -> Row:
    """Return the figures of a finished run whose clean labels are known, named by its method."""
    import surelabel
    from surelabel.runs.run_dir import RunDir

    audit, config = surelabel.audit(folder), RunDir.open(folder).config()
    clean = dict(zip(audit.columns["id"], audit.columns["clean"], strict=True))
    noise = "none" if config.noise is None else f"{config.noise.kind} {config.noise.rate:g}"
    return {"data": f"{config.method.name}, {noise}", **figures(audit, clean)}


def judge_untrained(config: Any, folder: Path) -> Any:
    """Write a run that was judged without training: by the second opinion alone."""
    from surelabel.encoding.encode import encode_all
    from surelabel.runs.samples import TRUE_CLASS, TopK
    from surelabel.training import build, pretrained
    from surelabel.training.second_opinion import feature_sets, groups_of, look_around, sets_of_one_scale
    from surelabel.verdicts.judgement import judge
    from surelabel.verdicts.probe import second_opinion

    raw, _ = build.corpus(build.data_for(config), config.noise, config.train.seed)
    config, raw = pretrained.attach(config, raw, lambda _text: None)
    config, corpus = pretrained.settled(config), encode_all(raw)
    rows, given, seed = corpus.train, corpus.train.label.numpy(), config.train.seed
    features = feature_sets([rows], seed)
    group = look_around(features, groups_of([rows]), seed).group
    one_scale = sets_of_one_scale(corpus)
    opinion = second_opinion(features, given, corpus.num_classes, seed, group=group, one_scale=one_scale)
    assert opinion is not None, "these data are too large"
    judgement = judge(opinion.logits, given, seed=seed)
    uniform = TopK.from_dense(np.full(opinion.logits.shape, 1 / corpus.num_classes), given)
    nothing = np.full(len(given), 0.5, dtype=np.float32)
    columns = {
        "id": rows.ids.astype(str),
        "row": rows.original_positions,
        "split": np.full(len(given), "train"),
        "verdict": np.full(len(given), "training"),
        **dict.fromkeys(("given", "prediction", "suggested"), given),
        **dict.fromkeys(("quality", "suggested_probability", "given_probability", "mean_given_probability"), nothing),
        **dict.fromkeys(("tau", "mean_margin"), np.full(len(given), np.nan, dtype=np.float32)),
        **dict.fromkeys(("first_learned", "forgotten"), np.zeros(len(given), dtype=np.int64)),
        **dict.fromkeys(("target", "probability"), uniform),
        "p_wrong": judgement.p_wrong,
        "p_wrong_low": judgement.low,
        "p_wrong_high": judgement.high,
        TRUE_CLASS: judgement.true_class,
    }
    described = {"power": judgement.power, "may_follow_inputs": judgement.may_follow_inputs}
    return write_run(config, corpus, folder, columns, described)


def rejudge(finished: Any, folder: Path) -> Any:
    """Copy a finished run and judge the copy again, by the second opinion and its training."""
    from surelabel.encoding.encode import encode_all
    from surelabel.runs.run_dir import OPINION_FILE, RunDir
    from surelabel.runs.samples import SOFT_COLUMNS, TRUE_CLASS, TopK
    from surelabel.training import build, pretrained
    from surelabel.training.second_opinion import judge_run

    shutil.copytree(finished.path, folder)
    run = RunDir(folder)
    config, samples = run.config(), run.samples()
    raw, _ = build.corpus(build.data_for(config), config.noise, config.train.seed)
    config, raw = pretrained.attach(config, raw, lambda _text: None)
    corpus = encode_all(raw)
    lists = {f"{name}{end}" for name in (*SOFT_COLUMNS, TRUE_CLASS) for end in ("", "_classes")}
    columns = {name: samples[name].to_numpy() for name in samples.column_names if name not in lists}
    columns |= {name: TopK.from_table(samples, name, corpus.num_classes) for name in SOFT_COLUMNS}
    judged = judge_run(config, corpus, columns)
    if judged is not None:
        run.write_samples({**columns, **judged.columns})
        run.write_json(OPINION_FILE, judged.description)
    return run


def write_run(config: Any, corpus: Any, folder: Path, columns: Row, description: Row) -> Any:
    """Write the files of a finished run that an audit reads."""
    import torch

    from surelabel.runs.run_dir import OPINION_FILE, RunDir
    from surelabel.training.startup import check_or_write

    run = RunDir(folder)
    folder.mkdir(parents=True)
    check_or_write(run, config, corpus, None, torch.device("cpu"))
    run.write_json(OPINION_FILE, description)
    run.write_samples(columns)
    run.write_json("done", {})
    return run


def check_data(seeds: list[int]) -> Iterator[str]:
    """Yield the AUROC of 5-fold logistic regression with C = 1 on the Gaussian sets."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    yield verdict_targets.header(["data", "spread", *(f"seed {seed}" for seed in seeds), "mean", "wanted", "to .02"])
    for name, gaussian in GAUSSIANS.items():
        found = []
        for seed in seeds:
            x, given, clean = gaussian.draw(make_rng(seed, name))
            codes = np.unique(given, return_inverse=True)[1]
            probability = predict_by_folds(LogisticRegression(C=1, max_iter=300), x, codes)
            found.append(roc_auc_score(given != clean, -probability[np.arange(len(x)), codes]))
        is_close = verdict_targets.passed(abs(np.mean(found) - gaussian.auroc) <= 0.02)
        cells = [*(f"{value:.3f}" for value in (*found, np.mean(found), gaussian.auroc)), is_close]
        yield verdict_targets.as_line([name, f"{gaussian.spread:g}", *cells])


if __name__ == "__main__":
    main()
