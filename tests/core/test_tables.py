"""Tables of all rows and classes in their three forms."""

import pytest
import torch

from surelabel.core.mapped_store import MappedStore
from surelabel.core.tables import TableForm
from surelabel.core.topk_store import TopKStore
from surelabel.errors import RunError

GIVEN = torch.tensor([0, 2, 3])
NUM_CLASSES = 6


def rows(seed: int = 0, count: int = 3) -> torch.Tensor:
    return torch.rand(count, NUM_CLASSES, generator=torch.Generator().manual_seed(seed)).softmax(1)


@pytest.mark.parametrize("form", ["topk", "memmap"])
def test_all_forms_hold_the_same_if_nothing_is_left_out(form, tmp_path):
    dense, other = (
        TableForm(name, NUM_CLASSES, tmp_path).make(GIVEN, NUM_CLASSES, fill=0.01, one_hot=True)
        for name in ("dense", form)
    )
    index, where = torch.tensor([2, -1, 0]), torch.tensor([True, True, False])
    for table in (dense, other):
        table.blend(torch.arange(3), rows(1), 0.9)
        table.blend(index, rows(2), torch.tensor([0.3, 0.4, 0.5]))
        table.write(index, rows(3), where=where)
        table.fix(torch.tensor([True, False, False]))
        table.blend(torch.arange(3), rows(4), 0.7)
    assert torch.equal(dense.whole(), other.whole())
    assert torch.equal(dense.read(torch.tensor([1, 0])), other.read(torch.tensor([1, 0])))


class TestTopKStore:
    def test_keeps_the_given_class_and_the_largest_and_shares_the_rest(self):
        table = TopKStore(GIVEN[:1], NUM_CLASSES, 3)
        table.write(torch.tensor([0]), torch.tensor([[0.05, 0.1, 0.4, 0.02, 0.03, 0.4]]))
        assert table.whole()[0].tolist() == pytest.approx([0.05, 0.05, 0.4, 0.05, 0.05, 0.4])

    def test_a_blend_merges_and_keeps_k(self):
        table = TopKStore.one_hot(GIVEN[:1], NUM_CLASSES, 2)
        table.blend(torch.tensor([0]), torch.tensor([[0.0, 0.1, 0.5, 0.1, 0.1, 0.2]]), 0.5)
        # 0.5 of the label, 0.25 of class 2, and 0.25 for the four others together.
        assert table.whole()[0].tolist() == pytest.approx([0.5, 0.0625, 0.25, 0.0625, 0.0625, 0.0625])

    def test_mass_is_kept_also_where_rows_do_not_sum_to_one(self):
        table = TopKStore(GIVEN, NUM_CLASSES, 3)
        for step in range(4):
            table.blend(torch.arange(3), rows(step), 0.7)
        assert table.whole().sum(1).tolist() == pytest.approx([1 - 0.7**4] * 3)

    def test_a_saved_table_loads(self):
        before, after = TopKStore(GIVEN, NUM_CLASSES, 3), TopKStore(GIVEN, NUM_CLASSES, 3)
        before.write(torch.arange(3), rows())
        after.load_state_dict(before.state_dict())
        assert torch.equal(after.whole(), before.whole())

    def test_needs_less_than_a_gigabyte_for_webvision(self):
        small = TopKStore(torch.zeros(1000, dtype=torch.long), 1000, 16)
        assert small.num_bytes * 2400 < 2**30 / 3  # adaptive_car has three tables

    def test_many_classes_have_wider_numbers(self):
        table = TopKStore(torch.tensor([39_999]), 40_000, 2)
        value = torch.zeros(1, 40_000)
        value[0, 35_000] = 1
        table.write(torch.tensor([0]), value)
        assert table.whole().argmax(1).item() == 35_000


class TestMappedStore:
    def test_leaves_no_file(self, tmp_path):
        table = MappedStore(3, 2, folder=tmp_path, fill=0.5)
        table.write(torch.tensor([1]), torch.ones(1, 2))
        assert list(tmp_path.iterdir()) == []
        assert table.whole().tolist() == [[0.5, 0.5], [1, 1], [0.5, 0.5]]

    def test_a_disk_without_room_is_an_error_of_one_line(self, tmp_path, monkeypatch):
        def refuse(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.posix_fallocate", refuse)
        with pytest.raises(RunError, match=r"train\.store: memmap needs 0\.0 GiB in .*: No space left"):
            MappedStore(3, 2, folder=tmp_path)
