"""Per-sample tables and averaged weights."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from surelabel import EMA, SampleStore


def filled(*values: float, **options) -> SampleStore:
    """A table of single numbers."""
    store = SampleStore(len(values), **options)
    store.replace(torch.tensor(values))
    return store


class TestSampleStore:
    def test_is_filled_and_read(self):
        store = SampleStore(3, 2, fill=0.5)
        assert store.read(torch.tensor([2, 0])).tolist() == [[0.5, 0.5], [0.5, 0.5]]

    def test_reads_in_the_order_of_the_index(self):
        assert filled(1, 2, 3).read(torch.tensor([2, 0])).tolist() == [3, 1]

    def test_what_is_read_is_a_copy(self):
        store = filled(1, 2)
        store.read(torch.tensor([0, 1])).zero_()
        assert store.whole().tolist() == [1, 2]

    def test_write_sets_rows(self):
        store = filled(1, 2, 3)
        store.write(torch.tensor([2, 0]), torch.tensor([30.0, 10.0]))
        assert store.whole().tolist() == [10, 2, 30]

    def test_write_where(self):
        store = filled(1, 2, 3)
        store.write(torch.tensor([2, 0]), torch.tensor([30.0, 10.0]), where=torch.tensor([False, True]))
        assert store.whole().tolist() == [10, 2, 3]

    def test_momentum_multiplies_the_old_value(self):
        store = filled(1, 2)
        store.blend(torch.tensor([0]), torch.tensor([5.0]), momentum=0.75)
        assert store.whole().tolist() == [0.75 * 1 + 0.25 * 5, 2]

    def test_blend_where(self):
        store = SampleStore.one_hot(torch.tensor([0, 1, 1]), 2)
        p = torch.tensor([[0.5, 0.5], [0.5, 0.5]])
        store.blend(torch.tensor([1, 0]), p, 0.5, where=torch.tensor([True, False]))
        assert store.whole().tolist() == [[1, 0], [0.25, 0.75], [0, 1]]

    @pytest.mark.parametrize("momentum", [0.0, torch.tensor(0.0)])
    def test_momentum_zero_replaces_and_one_keeps(self, momentum):
        store = filled(1, 2)
        store.blend(torch.tensor([0, 1]), torch.tensor([5.0, 6.0]), momentum)
        store.blend(torch.tensor([1]), torch.tensor([7.0]), 1 - momentum)
        assert store.whole().tolist() == [5, 6]

    def test_momentum_per_row(self):
        store = SampleStore(2, 2, fill=1)
        store.blend(torch.tensor([1, 0]), torch.full((2, 2), 3.0), torch.tensor([0.5, 0.0]))
        assert store.whole().tolist() == [[3, 3], [2, 2]]

    def test_padding_is_never_written_and_may_be_read(self):
        store = filled(1, 2, 3)
        index = torch.tensor([-1, 0, -1])
        store.write(index, torch.tensor([70.0, 10.0, 80.0]))
        store.blend(index, torch.tensor([70.0, 20.0, 80.0]), 0.5)
        assert store.whole().tolist() == [15, 2, 3]
        assert store.read(index).shape == (3,)
        assert store.read(index)[1] == 15

    def test_no_gradient_is_kept(self):
        store = SampleStore(2)
        value = torch.ones(2, requires_grad=True)
        store.write(torch.arange(2), 2 * value)
        store.blend(torch.arange(2), 2 * value, 0.5)
        store.blend(torch.arange(2), 2 * value, momentum=0.5 * value)
        store.blend(torch.arange(2), 2 * value, momentum=0.5 * value.sum())
        assert not store.rows.requires_grad
        assert not store.read(torch.arange(2)).requires_grad

    def test_one_hot(self):
        store = SampleStore.one_hot(torch.tensor([1, 0, 2]), 3)
        assert store.whole().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
        assert store.rows.dtype == torch.float32

    def test_one_hot_takes_an_array(self):
        assert SampleStore.one_hot(np.array([1, 0]), 2).whole().tolist() == [[0, 1], [1, 0]]

    @pytest.mark.parametrize(("labels", "shown"), [([0, 3], "0..3"), ([-1, 2], "-1..2")])
    def test_one_hot_names_labels_that_do_not_fit(self, labels, shown):
        with pytest.raises(ValueError, match=r"must lie in 0\.\.2, got " + shown.replace(".", r"\.")):
            SampleStore.one_hot(torch.tensor(labels), 3)

    def test_replace_counts_rows(self):
        store = filled(1, 2, 3)
        store.replace(torch.tensor([4.0, 5.0, 6.0]))
        assert store.whole().tolist() == [4, 5, 6]
        with pytest.raises(ValueError, match="expected 3 rows, got 2"):
            store.replace(torch.zeros(2))

    def test_apply_rows_sees_every_sample_and_no_padding(self):
        store = SampleStore.one_hot(torch.tensor([1, 0, 2]), 3)
        assert store.apply_rows(lambda rows: rows.argmax(1)).tolist() == [1, 0, 2]

    def test_whole_is_a_copy(self):
        store = filled(1, 2)
        store.whole().zero_()
        assert store.whole().tolist() == [1, 2]

    def test_num_bytes_is_of_the_samples(self):
        assert SampleStore(10, 3).num_bytes == 10 * 3 * 4
        assert SampleStore(10, dtype=torch.float16).num_bytes == 20

    @pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int32])
    def test_keeps_its_dtype(self, dtype):
        store = SampleStore(2, dtype=dtype)
        index = torch.arange(2)
        store.write(index, torch.tensor([2.0, 4.0]))
        store.blend(index, torch.tensor([4.0, 8.0], dtype=torch.float64), 0.5)
        store.blend(index, torch.tensor([5.0, 8.0]), torch.tensor([0.5, 0.5]))
        assert store.rows.dtype == dtype
        assert store.whole().tolist() == [4, 7]

    def test_state_dict_holds_the_samples_alone(self):
        state = filled(1, 2).state_dict()
        assert {name: value.tolist() for name, value in state.items()} == {"rows": [1, 2]}

    def test_state_dict_is_not_changed_by_later_writes(self):
        store = filled(1, 2)
        state = store.state_dict()
        store.write(torch.tensor([0]), torch.tensor([9.0]))
        assert state["rows"].tolist() == [1, 2]

    def test_state_dict_round_trip_inside_a_module(self):
        before, after = nn.ModuleDict({"t": SampleStore(2, 2)}), nn.ModuleDict({"t": SampleStore(2, 2)})
        before["t"].write(torch.tensor([1]), torch.tensor([[3.0, 4.0]]))
        after.load_state_dict(before.state_dict())
        assert after["t"].whole().tolist() == [[0, 0], [3, 4]]

    def test_state_of_another_size_is_refused(self):
        with pytest.raises(RuntimeError, match=r"rows: \(3,\) does not fit a table of 2 rows"):
            SampleStore(2).load_state_dict(SampleStore(3).state_dict())
        with pytest.raises(RuntimeError, match=r"\(2, 5\) does not fit"):
            SampleStore(2, 4).load_state_dict(SampleStore(2, 5).state_dict())

    def test_missing_state_is_named(self):
        with pytest.raises(RuntimeError, match="rows"):
            SampleStore(2).load_state_dict({})

    @pytest.mark.parametrize("shard", [True, False])
    def test_one_process_owns_the_whole_table(self, shard):
        store = filled(1, 2, 3)
        store.distribute(shard=shard)
        assert not store.is_sharded
        assert store.whole().tolist() == [1, 2, 3]
        store.write(torch.tensor([2, -1]), torch.tensor([9.0, 8.0]))
        assert store.whole().tolist() == [1, 2, 9]

    def test_a_deep_copy_is_another_table(self):
        store = filled(1, 2)
        copied = copy.deepcopy(store)
        store.write(torch.tensor([0]), torch.tensor([9.0]))
        assert copied.whole().tolist() == [1, 2]


def line(weight: float) -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, weight)
    return layer


class TestEMA:
    def test_starts_as_a_separate_copy(self):
        source = line(1.0)
        average = EMA(source, 0.9)
        nn.init.constant_(source.weight, 5.0)
        assert average(torch.ones(1, 1)).item() == 1

    def test_decay_zero_copies(self):
        source = nn.Linear(3, 2)
        average = EMA(source, 0.0)
        nn.init.normal_(source.weight)
        average.advance()
        assert torch.equal(average.network.weight, source.weight)

    def test_two_steps_by_hand(self):
        source = line(1.0)
        average = EMA(source, 0.75)
        nn.init.constant_(source.weight, 5.0)
        average.advance()
        assert average.network.weight.item() == 0.75 * 1 + 0.25 * 5
        average.advance()
        assert average.network.weight.item() == 0.75 * 2 + 0.25 * 5
        assert source.weight.item() == 5

    def test_a_decay_that_changes_is_asked_with_the_number_of_the_update_from_one(self):
        asked = []
        average = EMA(line(1.0), lambda n: asked.append(n) or 0.5)
        average.advance()
        average.advance()
        assert asked == [1, 2]

    def test_the_number_of_updates_survives_a_restart(self):
        before, asked = EMA(line(1.0), 0.5), []
        before.advance()
        after = EMA(line(1.0), lambda n: asked.append(n) or 0.5)
        after.load_state_dict(before.state_dict())
        after.advance()
        assert asked == [2]

    def test_buffers_are_copied_and_not_averaged(self):
        source = nn.BatchNorm1d(1)
        average = EMA(source, 0.99)
        source(torch.tensor([[1.0], [3.0]]))
        average.advance()
        assert average.network.running_mean.item() == source.running_mean.item() != 0
        assert average.network.num_batches_tracked.item() == 1

    def test_the_source_is_not_registered_a_second_time(self):
        owner = nn.Module()
        owner.network = line(1.0)
        owner.average = EMA(owner.network, 0.9)
        assert sorted(owner.state_dict()) == ["average.network.weight", "average.updates", "network.weight"]
        assert len(list(owner.average.parameters())) == 1
        assert owner.average.source is owner.network

    def test_never_requires_a_gradient(self):
        source = line(1.0)
        average = EMA(source, 0.9)
        average.advance()
        assert not any(p.requires_grad for p in average.parameters())
        assert not average(torch.ones(1, 1, requires_grad=True)).requires_grad
        assert source.weight.requires_grad

    def test_a_deep_copy_of_the_owner_follows_the_copied_network(self):
        owner = nn.Module()
        owner.network = line(1.0)
        owner.average = EMA(owner.network, 0.5)
        copied = copy.deepcopy(owner)
        assert copied.average.source is copied.network
        nn.init.constant_(copied.network.weight, 3.0)
        copied.average.advance()
        assert copied.average.network.weight.item() == 2
        assert owner.average.network.weight.item() == 1
        assert int(owner.average.updates) == 0


class TestFrozenRows:
    FIXED = torch.tensor([True, False, True])
    ROWS = torch.tensor([[1.0, 0.0], [9.0, 9.0], [0.0, 1.0]])

    def store(self):
        store = SampleStore(3, 2)
        store.freeze(self.FIXED, self.ROWS)
        return store

    def test_they_are_set_and_the_others_are_not(self):
        assert self.store().whole().tolist() == [[1, 0], [0, 0], [0, 1]]

    def test_no_write_changes_them(self):
        store = self.store()
        index = torch.tensor([0, 1, 2, -1])
        store.blend(index, torch.full((4, 2), 0.5), momentum=0.0)
        store.write(index, torch.full((4, 2), 0.5), where=torch.tensor([True, True, True, True]))
        store.replace(torch.full((3, 2), 0.5))
        assert store.whole().tolist() == [[1, 0], [0.5, 0.5], [0, 1]]
        assert store.read(torch.tensor([2])).tolist() == [[0, 1]]

    def test_a_saved_table_loads_into_one_that_has_them(self):
        store = self.store()
        store.load_state_dict({"rows": torch.full((3, 2), 0.25)})
        assert store.whole().tolist() == [[1, 0], [0.25, 0.25], [0, 1]]
        assert list(store.state_dict()) == ["rows"]
