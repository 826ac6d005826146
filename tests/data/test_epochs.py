import torch

from surelabel.data.epochs import drawn

GIVEN = torch.tensor([0] * 10 + [1] * 6 + [2] * 2)
ALL = torch.arange(18)


def test_so_many_rows_each_once_in_rising_order():
    rows = drawn(ALL, GIVEN, 7, False, seed=3)
    assert len(rows) == 7
    assert rows.tolist() == sorted(set(rows.tolist()))


def test_every_label_gives_an_equal_share_and_a_rare_one_all_it_has():
    rows = drawn(ALL, GIVEN, 12, True, seed=3)
    assert GIVEN[rows].bincount().tolist() == [4, 4, 2]


def test_a_share_that_does_not_divide_is_rounded_up_and_the_total_kept():
    rows = drawn(ALL, GIVEN, 4, True, seed=0)
    assert len(rows) == 4
    assert GIVEN[rows].bincount(minlength=3).max() <= 2


def test_only_rows_that_were_planned():
    planned = torch.tensor([1, 4, 11, 12, 13])
    rows = drawn(planned, GIVEN, 4, True, seed=5)
    assert set(rows.tolist()) <= set(planned.tolist())
    assert GIVEN[rows].bincount().tolist() == [2, 2]


def test_the_seed_decides():
    draws = [drawn(ALL, GIVEN, 6, True, seed).tolist() for seed in range(60)]
    assert drawn(ALL, GIVEN, 6, True, 0).tolist() == draws[0]
    assert len(set(map(tuple, draws))) > 10
    assert {row for rows in draws for row in rows} == set(range(18))


def test_more_than_there_are_is_all():
    assert drawn(ALL, GIVEN, 100, False, 0).tolist() == ALL.tolist()
