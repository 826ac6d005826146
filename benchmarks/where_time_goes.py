"""Show where the time of a training step and of a whole small run goes.

    python benchmarks/where_time_goes.py [--data digits] [--epochs 60] [--method car] [--threads 1]
    python benchmarks/where_time_goes.py --step [--model fast_cnn] [--side 32] [--compile]

The run is timed by parts: imports, reading the data, the second opinion, steps, evaluation, the
verdict, and writing files; "other" is what is left. With --step, torch's profiler lists the
operations of training steps by their own CPU time, and the step is timed in the contiguous and in
the channels-last memory format and, with --compile, after torch.compile.
"""

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

NUM_SHOWN, NUM_STEPS = 12, 20


class Clock:
    """Adds up the time inside functions, without the time inside other timed functions."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.inside: list[float] = []

    def time(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, timed as `part`."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            self.inside.append(0.0)
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                passed = time.perf_counter() - began
                self.seconds[part] += passed - self.inside.pop()
                if self.inside:
                    self.inside[-1] += passed

        return timed

    def watch(self, part: str, owner: Any, name: str) -> None:
        """Time a function of a module or class from now on."""
        setattr(owner, name, self.time(part, getattr(owner, name)))


def profile_run(words: argparse.Namespace) -> None:
    """Print the parts of a run."""
    clock, began = Clock(), time.perf_counter()

    def load() -> Any:
        import surelabel
        from surelabel import api

        api.fit  # noqa: B018  # loads PyTorch and the rest
        return surelabel

    surelabel = clock.time("imports", load)()
    from surelabel.engine.loop import Engine
    from surelabel.engine.metrics import Metrics
    from surelabel.runs.run_dir import RunDir
    from surelabel.training import build, second_opinion, session

    clock.watch("reading the data", build, "corpus")
    clock.watch("steps", Engine, "_run_epoch")
    clock.watch("evaluation", Metrics, "evaluate")
    clock.watch("other work at the end of epochs", Engine, "_close_epoch")
    clock.watch("verdict: predictions", session, "collect_columns")
    clock.watch("verdict: second opinion", second_opinion, "judge_run")
    for name in ("write_json", "write_table", "write_tensors", "write_samples", "rewrite_metrics", "append_metrics"):
        clock.watch("writing files", RunDir, name)
    settings = {"train.threads": words.threads, "model.features": "none"}
    with tempfile.TemporaryDirectory() as folder:
        surelabel.fit(words.data, f"{folder}/run", method=words.method, epochs=words.epochs, settings=settings)
        clock.time("audit", surelabel.audit)(f"{folder}/run")
    total = time.perf_counter() - began
    clock.seconds["other"] = total - sum(clock.seconds.values())
    print(f"{words.data}, {words.method}, {words.epochs} epochs, {words.threads} threads: {total:.1f} s\n")
    print("| part | seconds | share |\n|---|---|---|")
    for part, seconds in sorted(clock.seconds.items(), key=lambda item: -item[1]):
        print(f"| {part} | {seconds:.2f} | {100 * seconds / total:.0f} % |")


def profile_step(words: argparse.Namespace) -> None:
    """Print the operations of a step, and its time in other forms."""
    import torch
    import torch.nn.functional as F
    from torch.profiler import ProfilerActivity, profile

    from surelabel.models import Network, make_backbone

    torch.set_num_threads(words.threads)
    shape = (3, words.side, words.side)
    x, y = torch.randint(0, 256, (words.batch, *shape), dtype=torch.uint8), torch.arange(words.batch) % 10

    def make(change: Callable[[Any], Any] = lambda network: network) -> Callable[[], None]:
        network = change(Network(make_backbone(words.model, shape), 10, mean=(127.5,), std=(64.0,)).train())
        optimiser = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9, weight_decay=5e-4)

        def step() -> None:
            loss = F.cross_entropy(network(x).logits, y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

        return step

    forms = {
        "as built": make(),
        "contiguous": make(lambda network: network.to(memory_format=torch.contiguous_format)),
        "channels last": make(lambda network: network.to(memory_format=torch.channels_last)),
    }
    if words.compile:
        forms["compiled"] = make(torch.compile)
    for step in forms.values():
        step()
        step()
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(NUM_STEPS):
            forms["as built"]()
    rows = sorted(found.key_averages(), key=lambda row: -row.self_cpu_time_total)
    total = sum(row.self_cpu_time_total for row in rows)
    print(f"{words.model}, {words.side} pixels, batch {words.batch}, {words.threads} threads\n")
    print("| operation | share of own CPU time | calls a step |\n|---|---|---|")
    for row in rows[:NUM_SHOWN]:
        print(f"| {row.key} | {100 * row.self_cpu_time_total / total:.1f} % | {row.count / NUM_STEPS:g} |")
    times: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(NUM_STEPS):
        for name, step in forms.items():
            began = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - began)
    print("\n| form | ms a step | of the first |\n|---|---|---|")
    for name, seconds in times.items():
        ratio = statistics.median(a / b for a, b in zip(seconds, times["as built"], strict=True))
        print(f"| {name} | {1000 * statistics.median(seconds):.1f} | {ratio:.2f} |")


def main() -> None:
    """Profile a run, or a step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--method", default="car")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--step", action="store_true", help="profile a step instead of a run")
    parser.add_argument("--model", default="fast_cnn")
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--compile", action="store_true", help="also time torch.compile, which needs a C++ compiler")
    words = parser.parse_args()
    (profile_step if words.step else profile_run)(words)


if __name__ == "__main__":
    main()
