"""Batches: every row once, on one rank, in an order that depends on the seed and the place."""

import math
import tracemalloc
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from surelabel.core import View
from surelabel.data import loader as loaders
from surelabel.data.augment import Augment
from surelabel.data.corpus import Corpus, Examples
from surelabel.data.inputs import MappedInputs
from surelabel.data.loader import Loader, batch_bounds, draw_epoch, own_part
from surelabel.training import build


def examples(num_rows: int) -> Examples:
    x = torch.arange(num_rows, dtype=torch.float32)[:, None].repeat(1, 2)
    return Examples(x, torch.arange(num_rows) % 3, np.arange(num_rows).astype(str))


def walk(loader: Loader, views: dict[str, View] | None = None, place: str = "train/1/0", start: int = 0):
    return list(loader.passes(views or {"batch": View()}, place, start))


def indices(steps, name: str = "batch") -> list[list[int]]:
    return [step[name].index.tolist() for step in steps]


def flat(lists: list[list[int]]) -> list[int]:
    return [i for part in lists for i in part]


class TestBounds:
    @pytest.mark.parametrize(
        ("num_rows", "batch_size", "expected"),
        [
            (6, 2, [(0, 2), (2, 4), (4, 6)]),
            (6, 4, [(0, 3), (3, 6)]),
            (7, 3, [(0, 2), (2, 4), (4, 7)]),
            (5, 2, [(0, 2), (2, 5)]),
            (3, 2, [(0, 3)]),
            (3, 64, [(0, 3)]),
            (2, 2, [(0, 2)]),
            (1, 2, [(0, 1)]),
        ],
    )
    def test_by_hand(self, num_rows, batch_size, expected):
        assert batch_bounds(num_rows, batch_size) == expected

    @given(num_rows=st.integers(2, 300), batch_size=st.integers(2, 100))
    def test_cover_all_rows_in_batches_whose_sizes_differ_by_at_most_one(self, num_rows, batch_size):
        bounds = batch_bounds(num_rows, batch_size)
        assert flat([list(range(*b)) for b in bounds]) == list(range(num_rows))
        sizes = [end - begin for begin, end in bounds]
        assert min(sizes) >= 2
        assert max(sizes) - min(sizes) <= 1
        if batch_size > 2:
            assert len(sizes) == math.ceil(num_rows / batch_size)
            assert max(sizes) <= batch_size


class TestPasses:
    @pytest.mark.parametrize(("num_rows", "batch_size"), [(10, 3), (10, 64), (10, 2), (9, 4), (3, 2)])
    def test_every_row_exactly_once(self, num_rows, batch_size):
        steps = indices(walk(Loader(examples(num_rows), batch_size)))
        assert sorted(flat(steps)) == list(range(num_rows))
        assert max(map(len, steps)) - min(map(len, steps)) <= 1

    def test_rows_come_with_their_input_label_and_weight(self):
        for step in walk(Loader(examples(10), 4)):
            batch = step["batch"]
            assert batch.x[:, 0].tolist() == batch.index.tolist()
            assert batch.label.tolist() == (batch.index % 3).tolist()
            assert batch.weight.tolist() == [1] * len(batch.index)

    def test_a_view_of_some_rows(self):
        view = View(torch.tensor([7, 1, 4, 5]))
        assert sorted(flat(indices(walk(Loader(examples(10), 2), {"batch": view})))) == [1, 4, 5, 7]

    def test_a_view_has_its_own_batch_size(self):
        steps = indices(walk(Loader(examples(10), 2), {"batch": View(batch_size=5)}))
        assert [len(step) for step in steps] == [5, 5]

    def test_order_depends_on_seed_and_place_alone(self):
        def order(seed=0, place="train/1/0", batch_size=4):
            return flat(indices(walk(Loader(examples(20), batch_size, seed), place=place)))

        torch.manual_seed(1)
        first = order()
        torch.manual_seed(2)
        assert order() == first
        assert order(batch_size=7) == first
        assert order(seed=1) != first
        assert order(place="train/2/0") != first
        assert order(place="train/1/1") != first
        assert first != list(range(20))

    def test_the_first_view_decides_the_length_and_the_others_cycle(self):
        views = {"labelled": View(torch.arange(20)), "unlabelled": View(torch.arange(20, 26))}
        steps = walk(Loader(examples(26), 2), views)
        assert len(steps) == 10
        labelled, unlabelled = flat(indices(steps, "labelled")), flat(indices(steps, "unlabelled"))
        assert sorted(labelled) == list(range(20))
        rounds = [unlabelled[n : n + 6] for n in (0, 6, 12)]
        assert all(sorted(each) == list(range(20, 26)) for each in rounds)
        assert rounds[0] != rounds[1]
        assert rounds[1] != rounds[2]

    def test_a_longer_second_view_is_cut(self):
        views = {"first": View(torch.arange(4)), "second": View(torch.arange(4, 20))}
        steps = walk(Loader(examples(20), 2), views)
        assert len(steps) == 2
        assert len(set(flat(indices(steps, "second")))) == 4

    @pytest.mark.parametrize("start", range(11))
    def test_starting_later_continues_a_full_pass(self, start):
        x = torch.randint(0, 256, (26, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        rows = Examples(x, torch.zeros(26, dtype=torch.long), np.arange(26).astype(str))
        loader = Loader(rows, 2, seed=3, augment=Augment(2, True, 3))
        views = {"labelled": View(torch.arange(20), copies=2), "unlabelled": View(torch.arange(20, 26))}
        full, part = walk(loader, views), walk(loader, views, start=start)
        assert len(part) == 10 - start
        for expected, step in zip(full[start:], part, strict=True):
            for name in views:
                assert torch.equal(step[name].index, expected[name].index)
                assert all(map(torch.equal, step[name].copies, expected[name].copies))

    def test_batches_are_made_on_demand(self):
        assert len(list(islice(Loader(examples(100), 2).passes({"batch": View()}, "p"), 3))) == 3


class TestAugmentation:
    X = torch.randint(0, 256, (6, 1, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))

    @pytest.fixture
    def loader(self):
        rows = Examples(self.X, torch.zeros(6, dtype=torch.long), np.arange(6).astype(str))
        return Loader(rows, 6, augment=Augment(4, True, 0))

    def test_copies_differ(self, loader):
        ((step,), (plain,)) = walk(loader, {"batch": View(copies=2)}), walk(loader, {"batch": View(augment=False)})
        first, second = step["batch"].copies
        assert not torch.equal(first, second)
        assert not torch.equal(first, plain["batch"].x)

    def test_epochs_differ_and_a_restart_does_not(self, loader):
        def seen(place):
            (step,) = walk(loader, place=place)
            return step["batch"].x[step["batch"].index.argsort()]

        assert torch.equal(seen("train/1/0"), seen("train/1/0"))
        assert not torch.equal(seen("train/1/0"), seen("train/2/0"))

    def test_a_view_may_be_without_augmentation(self, loader):
        (step,) = walk(loader, {"batch": View(augment=False)})
        assert torch.equal(step["batch"].x, self.X[step["batch"].index])

    def test_strong_views_differ_from_the_usual_ones(self, loader):
        (usual,), (strong,) = walk(loader), walk(loader, {"batch": View(augment="strong")})
        assert strong["batch"].x.shape == usual["batch"].x.shape
        assert (strong["batch"].x != usual["batch"].x).flatten(1).any(1).all()

    def test_strong_copies_are_all_but_the_first(self, loader):
        views = [View(augment=how, copies=3) for how in (True, "strong", "strong_copies")]
        usual, strong, mixed = (walk(loader, {"batch": view})[0]["batch"].copies for view in views)
        for copy, expected in zip(mixed, (usual[0], *strong[1:]), strict=True):
            assert torch.equal(copy, expected)

    def test_without_augmentation_they_are_the_images_themselves(self):
        rows = Examples(self.X, torch.zeros(6, dtype=torch.long), np.arange(6).astype(str))
        (step,) = walk(Loader(rows, 6), {"batch": View(augment="strong")})
        assert torch.equal(step["batch"].x, self.X[step["batch"].index])


class TestCrop:
    X = torch.arange(6 * 6).reshape(1, 1, 6, 6).to(torch.uint8).expand(20, -1, -1, -1)

    def loader(self, augment=None):
        rows = Examples(self.X, torch.zeros(20, dtype=torch.long), np.arange(20).astype(str), crop=4)
        return Loader(rows, 20, augment=augment)

    def test_windows_are_random_if_a_view_is_augmented(self):
        (step,) = walk(self.loader(Augment(0, False, 0, crop=4)), {"batch": View(copies=2)})
        for x in step["batch"].copies:
            assert x.shape == (20, 1, 4, 4)
            assert set(x[:, 0, 0, 0].tolist()) <= {0, 1, 2, 6, 7, 8, 12, 13, 14}
            assert len(set(x[:, 0, 0, 0].tolist())) > 4

    @pytest.mark.parametrize("augment", [None, Augment(0, False, 0, crop=4)])
    def test_windows_are_central_otherwise(self, augment):
        collected = self.loader(augment).collect(lambda batch: batch.x, View(augment=False))
        assert torch.equal(collected, self.X[:, :, 1:5, 1:5])


class TestMapped:
    """An array of 64 MB in a file."""

    ROWS, WIDTH = 4096, 4096

    @pytest.fixture
    def mapped(self, tmp_path):
        array = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (self.ROWS, self.WIDTH))
        array[:, 0] = np.arange(self.ROWS)
        array.flush()
        return MappedInputs(tmp_path / "x.npy", np.load(tmp_path / "x.npy", mmap_mode="r"))

    def test_rows_come_from_the_file_a_batch_at_a_time(self, mapped):
        rows = Examples(mapped, torch.arange(self.ROWS) % 3, np.arange(self.ROWS).astype(str))
        rows = rows.subset(np.arange(0, self.ROWS, 2))
        tracemalloc.start()
        for step in Loader(rows, 64).passes({"batch": View()}, "p"):
            assert torch.equal(step["batch"].x[:, 0], 2.0 * step["batch"].index)
        collected = Loader(rows, 64).collect(lambda batch: batch.x[:, 0].clone(), View())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert collected.tolist() == list(range(0, self.ROWS, 2))
        # NumPy's copies are traced: two batches of 512 rows at most, of 64 MB.
        assert peak < 20 * 2**20

    def test_statistics_are_measured_on_some_rows(self, mapped, monkeypatch):
        monkeypatch.setattr(build, "MEASURED_BYTES", 100 * self.WIDTH * 4)
        asked = []
        monkeypatch.setattr(
            MappedInputs, "__getitem__", lambda _, index: asked.append(index) or torch.randn(len(index), 3)
        )
        build.normalisation(Corpus(Examples(mapped, torch.arange(self.ROWS), np.arange(self.ROWS).astype(str)), ("a",)))
        assert [len(index) for index in asked] == [100]


def test_large_inputs_are_collected_in_smaller_batches():
    sizes = []
    for side in (8, 256):
        x = torch.zeros(1, 3, side, side, dtype=torch.uint8).expand(600, -1, -1, -1)
        rows = Examples(x, torch.zeros(600, dtype=torch.long), np.arange(600).astype(str))
        Loader(rows, 4).collect(lambda batch: sizes.append(batch.num_rows) or batch.label, View())
    assert sizes[:2] == [300, 300]  # at most 512
    assert max(sizes[2:]) <= 16 * 2**20 // (3 * 256 * 256)
    assert len(sizes[2:]) == 8


class TestCollect:
    @pytest.mark.parametrize("num_rows", [3, 512, 513, 1100])
    def test_in_order(self, num_rows):
        collected = Loader(examples(num_rows), 4).collect(lambda batch: batch.x[:, 0], View())
        assert collected.tolist() == list(range(num_rows))

    def test_of_a_view_in_the_views_order(self):
        view = View(torch.tensor([7, 1, 4]))
        collected = Loader(examples(10), 2).collect(lambda batch: torch.stack([batch.index, batch.label], 1), view)
        assert collected.tolist() == [[7, 1], [1, 1], [4, 1]]

    def test_of_nothing(self):
        assert (
            len(Loader(examples(10), 2).collect(lambda batch: batch.x, View(torch.tensor([], dtype=torch.long)))) == 0
        )


@pytest.fixture
def ranks(monkeypatch):
    """Call `function()` as each of `world` processes would."""

    def each(world, function):
        monkeypatch.setattr(loaders, "world_size", lambda: world)
        results = []
        for number in range(world):
            monkeypatch.setattr(loaders, "rank", lambda number=number: number)
            results.append(function())
        return results

    return each


class TestRanks:
    @pytest.mark.parametrize("world", [2, 3])
    @pytest.mark.parametrize("num_rows", range(1, 14))
    def test_every_row_is_on_one_rank_and_sizes_differ_by_at_most_one(self, ranks, world, num_rows):
        parts = ranks(world, lambda: own_part(torch.arange(num_rows)).tolist())
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        # In rank order; padding, for ranks without a row, is last, where `collect` cuts it off.
        assert flat(parts)[:num_rows] == list(range(num_rows))
        assert flat(parts)[num_rows:] == [-1] * max(0, world - num_rows)

    def test_a_single_process_has_all_rows(self):
        assert own_part(torch.arange(5)).tolist() == [0, 1, 2, 3, 4]
        assert own_part(torch.arange(1)).tolist() == [0]

    @pytest.mark.parametrize("world", [2, 3])
    def test_ranks_share_the_global_batches_of_one_process(self, ranks, world):
        loader = Loader(examples(23), 5)
        alone = indices(walk(loader))
        together = ranks(world, lambda: walk(loader))
        for number, expected in enumerate(alone):
            batches = [steps[number]["batch"] for steps in together]
            assert flat([b.index[b.weight > 0].tolist() for b in batches]) == expected
            for b in batches:
                assert torch.equal(b.weight, (b.index >= 0).float())
                assert len(b.x) == len(b.label) == b.num_rows

    def test_padding_shows_some_real_row(self, ranks):
        *_, padding = ranks(3, lambda: Loader(examples(3), 3).batch(own_part(torch.arange(1, 3)), View()))
        assert padding.index.tolist() == [-1]
        assert padding.weight.tolist() == [0]
        assert padding.x.tolist() == [[0, 0]]
        assert padding.label == 0


class TestEpochs:
    """Epochs that draw some of the rows."""

    GIVEN = torch.tensor([0] * 10 + [1] * 6 + [2] * 2)
    ALL = torch.arange(18)

    def test_rows_are_distinct_and_sorted(self):
        rows = draw_epoch(self.ALL, self.GIVEN, 7, False, seed=3)
        assert len(rows) == 7
        assert rows.tolist() == sorted(set(rows.tolist()))

    def test_labels_have_equally_many_rows_and_a_rare_one_all_it_has(self):
        rows = draw_epoch(self.ALL, self.GIVEN, 12, True, seed=3)
        assert self.GIVEN[rows].bincount().tolist() == [4, 4, 2]

    def test_a_count_that_does_not_divide_is_rounded_up_and_the_total_kept(self):
        rows = draw_epoch(self.ALL, self.GIVEN, 4, True, seed=0)
        assert len(rows) == 4
        assert self.GIVEN[rows].bincount(minlength=3).max() <= 2

    def test_only_rows_of_the_view(self):
        planned = torch.tensor([1, 4, 11, 12, 13])
        rows = draw_epoch(planned, self.GIVEN, 4, True, seed=5)
        assert set(rows.tolist()) <= set(planned.tolist())
        assert self.GIVEN[rows].bincount().tolist() == [2, 2]

    def test_the_seed_decides(self):
        draws = [draw_epoch(self.ALL, self.GIVEN, 6, True, seed).tolist() for seed in range(60)]
        assert draw_epoch(self.ALL, self.GIVEN, 6, True, 0).tolist() == draws[0]
        assert len(set(map(tuple, draws))) > 10
        assert {row for rows in draws for row in rows} == set(range(18))

    def test_more_rows_than_there_are_is_all(self):
        assert draw_epoch(self.ALL, self.GIVEN, 100, False, 0).tolist() == self.ALL.tolist()
