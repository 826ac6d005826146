import numpy as np
import torch

from surelabel.config import DataConfig
from surelabel.data import load_corpus


def test_digits_are_clean_images_with_a_fifth_as_the_test_part():
    corpus = load_corpus(DataConfig(source="digits"))
    test = corpus.tests["test"]
    assert (len(corpus.train), len(test)) == (1438, 359)
    assert corpus.class_names == tuple("0123456789")
    assert corpus.train.x.shape[1:] == (1, 8, 8)
    assert corpus.train.x.dtype == torch.uint8
    assert corpus.train.x.max() == 255
    assert torch.equal(corpus.train.clean, corpus.train.label)
    fractions = np.bincount(test.label) / np.bincount(torch.cat([test.label, corpus.train.label]))
    assert np.allclose(fractions, 0.2, atol=0.01)


def test_ids_are_rows_of_scikit_learns_digits():
    from sklearn.datasets import load_digits

    corpus = load_corpus(DataConfig(source="digits"))
    row = int(corpus.train.ids[17].removeprefix("digits/"))
    assert corpus.train.ids[17] == f"digits/{row:04d}"
    assert corpus.train.label[17] == load_digits().target[row]


def test_split_seed_and_test_fraction_choose_the_test_part():
    ids = [set(load_corpus(DataConfig(source="digits", split_seed=seed)).tests["test"].ids) for seed in (0, 0, 1)]
    assert ids[0] == ids[1] != ids[2]
    assert len(load_corpus(DataConfig(source="digits", test_fraction=0.5)).tests["test"]) in (898, 899)


def test_digits_can_be_enlarged():
    assert load_corpus(DataConfig(source="digits", image_size=12)).train.x.shape[1:] == (1, 12, 12)
