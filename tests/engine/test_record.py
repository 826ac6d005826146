"""The history of each sample, by hand."""

import math

import pytest
import torch

from surelabel.engine import record as records
from surelabel.engine.record import SampleRecord
from surelabel.engine.verdict import margin_of_mean

GIVEN = torch.tensor([0, 1, 2, 0])


def say(record: SampleRecord, said: dict[int, list[float]], epoch: int) -> None:
    """An epoch in which the rows at `index` had these logits."""
    index = torch.tensor(list(said))
    record.see(index, torch.tensor(list(said.values())), GIVEN[index])
    record.close_epoch(epoch)


def logits(label: int, strength: float = math.log(2)) -> list[float]:
    """p is 1/2 at `label` and 1/4 elsewhere."""
    return [strength if j == label else 0.0 for j in range(3)]


@pytest.fixture
def record() -> SampleRecord:
    return SampleRecord(GIVEN, 3)


def test_before_the_first_visit_a_label_is_as_good_as_any(record):
    assert record.visits.tolist() == [0] * 4
    assert record.prediction.tolist() == [-1] * 4
    assert record.mean_given_probability.tolist() == pytest.approx([1 / 3] * 4)
    assert not record.has_news


def test_three_epochs_by_hand(record):
    say(record, {0: logits(0), 1: logits(0), 2: logits(1)}, 1)
    say(record, {2: logits(2), 1: logits(1), 0: logits(1)}, 2)
    say(record, {0: logits(0), 1: logits(1), 2: logits(0)}, 3)
    assert record.visits.tolist() == [3, 3, 3, 0]
    assert record.prediction.tolist() == [0, 1, 0, -1]
    assert record.first_learned.tolist() == [1, 2, 2, 0]
    assert record.forgotten.tolist() == [1, 0, 1, 0]
    expected = [(1 / 2 + 1 / 4 + 1 / 2) / 3, (1 / 4 + 1 / 2 + 1 / 2) / 3, (1 / 4 + 1 / 2 + 1 / 4) / 3, 1 / 3]
    assert record.mean_given_probability.tolist() == pytest.approx(expected)
    margin = math.log(2)
    expected = [(1 - 1 + 1) * margin / 3, (-1 + 1 + 1) * margin / 3, (-1 + 1 - 1) * margin / 3, 0]
    assert record.mean_margin.tolist() == pytest.approx(expected, abs=1e-6)


def test_every_visit_of_an_epoch_counts_in_the_means(record):
    record.see(torch.tensor([0, 1]), torch.tensor([logits(0), logits(1)]), GIVEN[:2])
    record.see(torch.tensor([0, -1]), torch.tensor([logits(1), logits(1)]), GIVEN[:2])
    record.close_epoch(1)
    assert record.visits.tolist() == [2, 1, 0, 0]
    assert record.mean_given_probability.tolist() == pytest.approx([3 / 8, 1 / 2, 1 / 3, 1 / 3])
    assert record.mean_margin.tolist() == pytest.approx([0, math.log(2), 0, 0], abs=1e-6)
    assert record.prediction.tolist() == [1, 1, -1, -1], "of the last visit"
    assert record.first_learned.tolist() == [0, 1, 0, 0]


def test_rows_that_an_epoch_does_not_see_keep_their_history(record):
    say(record, {0: logits(0)}, 1)
    before = {name: value.clone() for name, value in record.named_buffers() if not name.startswith("latest")}
    say(record, {1: logits(0)}, 2)
    for name, value in record.named_buffers():
        if not name.startswith("latest"):
            assert torch.equal(value[0], before[name][0]), name
    say(record, {0: logits(1)}, 3)
    assert record.forgotten.tolist() == [1, 0, 0, 0]
    assert record.visits.tolist() == [2, 1, 0, 0]


def test_forgetting_twice(record):
    for epoch, label in enumerate([0, 1, 0, 0, 2, 2], start=1):
        say(record, {0: logits(label)}, epoch)
    assert record.forgotten[0] == 2
    assert record.first_learned[0] == 1


def test_learned_late(record):
    for epoch, label in enumerate([1, 2, 1, 0], start=1):
        say(record, {0: logits(label)}, epoch)
    assert record.first_learned[0] == 4
    assert record.forgotten[0] == 0


def test_padding_is_not_seen(record):
    record.see(torch.tensor([-1, -1]), torch.tensor([logits(0), logits(1)]), torch.tensor([0, 0]))
    assert not record.has_news
    record.close_epoch(1)
    assert record.visits.tolist() == [0] * 4


def test_news_are_gone_when_the_epoch_is_closed(record):
    record.see(torch.tensor([2]), torch.tensor([logits(0)]), torch.tensor([2]))
    assert record.has_news
    record.close_epoch(1)
    assert not record.has_news


def test_values_by_hand():
    values = SampleRecord.values(torch.tensor([[math.log(2), 0.0, 0.0], [0.0, 5.0, 2.0]]), torch.tensor([1, 1]))
    assert values[0].tolist() == pytest.approx([0, 1 / 4, -math.log(2)])
    assert values[1, 0] == 1
    assert values[1, 2] == 3


def test_large_logits_stay_finite(record):
    say(record, {0: [-1000.0, 1000.0, 0.0]}, 1)
    assert record.mean_given_probability[0] == 0
    assert record.mean_margin[0] == -2000


def test_resumes_in_mid_epoch(record):
    say(record, {0: logits(0), 1: logits(1)}, 1)
    record.see(torch.tensor([0]), torch.tensor([logits(1)]), GIVEN[:1])
    resumed = SampleRecord(GIVEN, 3)
    resumed.load_state_dict(record.state_dict())
    assert resumed.times_seen.whole().tolist() == [2, 1, 0, 0]
    for each in (record, resumed):
        each.see(torch.tensor([1]), torch.tensor([logits(1)]), GIVEN[1:2])
        each.close_epoch(2)
    for (name, a), (_, b) in zip(record.named_buffers(), resumed.named_buffers(), strict=True):
        if not name.startswith("latest"):
            assert torch.equal(a, b), name
    assert resumed.forgotten.tolist() == [1, 0, 0, 0]


class TestMeanProbability:
    def test_two_visits_by_hand(self, record):
        assert record.mean_probability.whole()[0].tolist() == pytest.approx([1 / 3] * 3)
        say(record, {0: logits(0), 1: logits(2)}, 1)
        say(record, {0: logits(1)}, 2)
        expected = [[3 / 8, 3 / 8, 1 / 4], [1 / 4, 1 / 4, 1 / 2], [1 / 3] * 3, [1 / 3] * 3]
        torch.testing.assert_close(record.mean_probability.whole(), torch.tensor(expected))

    def test_every_visit_counts_also_in_one_epoch(self, record):
        index = torch.tensor([0, -1])
        for label in (0, 1):
            record.see(index, torch.tensor([logits(label), logits(2)]), GIVEN[[0, 0]])
        record.close_epoch(1)
        assert record.mean_probability.whole()[0].tolist() == pytest.approx([3 / 8, 3 / 8, 1 / 4])

    def test_a_pass_over_all_rows_is_a_visit_of_each(self, record):
        other = SampleRecord(GIVEN, 3)
        table = torch.tensor([logits(label) for label in (0, 1, 0, 2)])
        for epoch in (1, 2):
            record.see(torch.arange(4), table * epoch, GIVEN)
            other.see_all(table * epoch)
            for each in (record, other):
                each.close_epoch(epoch)
        torch.testing.assert_close(record.mean_probability.whole(), other.mean_probability.whole())
        assert other.mean_given_probability.tolist() == record.mean_given_probability.tolist()

    def test_a_large_table_is_not_kept(self, monkeypatch):
        monkeypatch.setattr(records, "MOST_BYTES", 4 * 3 * len(GIVEN) - 1)
        record = SampleRecord(GIVEN, 3)
        assert record.mean_probability is None
        say(record, {0: logits(0)}, 1)
        record.see_all(torch.zeros(4, 3))
        record.close_epoch(2)
        assert record.visits.tolist() == [2, 1, 1, 1]

    def test_a_state_without_it_is_resumed_without_it(self, record):
        say(record, {0: logits(0)}, 1)
        state = {name: value for name, value in record.state_dict().items() if "mean_prob" not in name}
        resumed = SampleRecord(GIVEN, 3)
        resumed.load_state_dict({name: value for name, value in state.items() if "times_seen" not in name})
        assert resumed.mean_probability is None
        assert resumed.visits.tolist() == [1, 0, 0, 0]

    def test_its_margin_is_that_of_the_label_and_the_best_other_class(self):
        mean = torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.0, 1.0, 0.0]])
        found = margin_of_mean(mean, torch.tensor([0, 2, 0])).tolist()
        assert found[:2] == pytest.approx([math.log(5 / 3), math.log(2 / 5)])
        assert -100 < found[2] < -80
