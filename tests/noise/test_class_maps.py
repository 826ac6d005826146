"""Class maps: the built-in ones are found by class names, in any order."""

import numpy as np
import pytest

from surelabel.config import NoiseConfig
from surelabel.errors import ConfigError
from surelabel.noise import inject
from surelabel.noise.class_maps import BUILT_IN_GROUPS, BUILT_IN_MAPS

CIFAR10 = BUILT_IN_MAPS["cifar10"].classes
CIFAR100 = BUILT_IN_GROUPS["cifar100"].classes
# Superclass of each class number, from the files of CIFAR-100.
COARSE = np.fromstring(
    "4 1 14 8 0 6 7 7 18 3 3 14 9 18 7 11 3 9 7 11 6 11 5 10 7 6 13 15 3 15 0 11 1 10 12 14 16 9 11 5 5 19 8 8 15 "
    "13 14 17 18 10 16 4 17 4 2 0 17 4 18 17 10 3 2 12 12 16 12 1 9 19 2 10 0 1 16 12 9 13 15 13 16 19 2 4 6 19 5 "
    "5 8 19 18 1 2 15 6 0 17 8 14 13",
    dtype=int,
    sep=" ",
)
# The next class of the same superclass, derived from COARSE independently of the library.
SUCCESSOR = np.fromstring(
    "51 32 11 42 30 20 7 14 13 10 16 35 17 48 18 19 28 37 24 21 25 31 39 33 6 84 45 29 61 44 55 38 67 49 63 46 50 "
    "68 15 40 86 69 43 88 78 77 98 52 58 60 65 53 56 57 62 72 59 83 90 96 71 9 70 64 66 74 75 73 76 81 82 23 95 91 "
    "80 34 12 79 93 99 36 85 92 0 94 89 87 22 97 41 8 1 54 27 5 4 47 3 2 26",
    dtype=int,
    sep=" ",
)


def mapped(class_names, kind, per_class=10, **options):
    """Return the class that each class is mapped to, by noise of rate 0.4.

    A class that is mapped to another has exactly 0.4 of its labels there.
    """
    clean = np.repeat(np.arange(len(class_names)), per_class)
    noisy, _ = inject(clean, class_names, NoiseConfig(kind=kind, rate=0.4, **options), 0)
    found = np.arange(len(class_names))
    for old in found.copy():
        members = noisy[clean == old]
        changed = members[members != old]
        assert len(changed) in (0, round(0.4 * per_class))
        assert len(set(changed)) <= 1
        if len(changed):
            found[old] = changed[0]
    return found


class TestCifar10:
    BY_NUMBER = np.array([0, 1, 0, 5, 7, 3, 6, 7, 8, 1])

    def test_the_map_is_that_of_the_paper(self):
        assert np.array_equal(mapped(CIFAR10, "asymmetric"), self.BY_NUMBER)

    def test_cats_that_became_dogs_do_not_turn_back(self):
        """Exactly 0.4 of the cats are dogs; code that reads changed labels ends at 0.24."""
        clean = np.repeat(np.arange(10), 500)
        _, manifest = inject(clean, CIFAR10, NoiseConfig(kind="asymmetric", rate=0.4), 0)
        cat, dog = CIFAR10.index("cat"), CIFAR10.index("dog")
        assert manifest.realised_matrix[cat][dog] == 0.4
        assert manifest.realised_matrix[dog][cat] == 0.4
        assert manifest.realised_rate == 0.2
        assert manifest.expected_rate == pytest.approx(0.2)
        assert "40.0 % nominal, 20.0 % expected (by class map of CIFAR-10, " in manifest.describe()
        assert manifest.class_map == {
            "bird": "airplane", "cat": "dog", "deer": "horse", "dog": "cat", "truck": "automobile",
        }  # fmt: skip

    def test_neither_order_nor_spelling_matters(self):
        names = ("Truck", "plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship")
        found = mapped(names, "asymmetric")
        assert {names[old]: names[new] for old, new in enumerate(found) if old != new} == {
            "Truck": "car", "bird": "plane", "deer": "horse", "cat": "dog", "dog": "cat",
        }  # fmt: skip

    def test_a_part_of_the_classes_is_enough_if_the_map_is_named(self):
        names = tuple(name for name in CIFAR10 if name != "frog")
        assert mapped(names, "asymmetric", class_map="cifar10")[3] == names.index("dog")
        with pytest.raises(ConfigError, match=r"noise\.class_map: asymmetric noise needs one.*\(cifar10, digits\)"):
            mapped(names, "asymmetric")

    def test_numbers_are_its_class_numbers_if_the_map_is_named(self):
        numbers = tuple("0123456789")
        assert np.array_equal(mapped(numbers, "asymmetric", class_map="cifar10"), self.BY_NUMBER)
        assert np.array_equal(mapped(numbers, "asymmetric", class_map="digits"), [0, 1, 7, 8, 4, 6, 5, 1, 8, 9])

    def test_numbers_alone_reveal_nothing(self):
        """An archive with y in 0..9 may contain digits, photos or clothes."""
        with pytest.raises(ConfigError, match="none of these fits the class names 0, 1, 2, 3, 4, 5, 6, 7, 8, 9"):
            mapped(tuple("0123456789"), "asymmetric")

    def test_digits_in_words_are_digits(self):
        words = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
        names = [f"{digit} - {word}" for digit, word in enumerate(words)]
        assert np.array_equal(mapped(names, "asymmetric"), [0, 1, 7, 8, 4, 6, 5, 1, 8, 9])

    @pytest.mark.parametrize(
        ("names", "class_map", "message"),
        [
            (CIFAR10, "cifar", "there is no 'cifar'; available: cifar10, digits"),
            (CIFAR10, "digits", "there is no class '7' of digits; the classes are airplane, automobile"),
            ((*CIFAR10, "plane"), "cifar10", "several classes may be 'airplane' of CIFAR-10"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, names, class_map, message):
        with pytest.raises(ConfigError, match=r"noise\.class_map: " + message):
            mapped(names, "asymmetric", class_map=class_map)


class TestSuperclass:
    def test_the_table_is_that_of_the_files(self):
        assert len(set(CIFAR100)) == 100
        assert list(CIFAR100) == sorted(CIFAR100)
        assert np.array_equal(np.bincount(COARSE), [5] * 20)

    def test_all_labels_stay_inside_the_superclass_and_go_to_its_next_class(self):
        found = mapped(CIFAR100, "superclass")
        assert np.array_equal(found, SUCCESSOR)
        assert (COARSE[found] == COARSE).sum() == 100
        assert sorted(found) == list(range(100))

    def test_neither_order_nor_spelling_matters(self):
        shuffled = np.random.default_rng(0).permutation(100)
        names = [CIFAR100[number].replace("keyboard", "computer_keyboard").replace("_", " ") for number in shuffled]
        found = mapped(names, "superclass")
        assert np.array_equal(shuffled[found], SUCCESSOR[shuffled])

    def test_numbers_are_its_class_numbers_if_the_map_is_named(self):
        numbers = [str(number) for number in range(100)]
        assert np.array_equal(mapped(numbers, "superclass", groups="cifar100"), SUCCESSOR)
        with pytest.raises(ConfigError, match=r"noise\.groups: superclass noise needs them.*\(cifar100\)"):
            mapped(numbers, "superclass")

    def test_groups_given_by_the_user(self):
        names = ("ant", "bee", "cat", "dog", "eel", "fly")
        groups = [["fly", "ant", "bee"], ["dog", "cat"]]
        assert np.array_equal(mapped(names, "superclass", groups=groups), [1, 5, 3, 2, 4, 0])
        assert np.array_equal(mapped(names, "superclass", groups=groups[::-1]), [1, 5, 3, 2, 4, 0])

    @pytest.mark.parametrize(
        ("groups", "message"),
        [
            ([["ant", "bee"], ["bee", "cat"]], "the class 'bee' appears twice"),
            ([["ant", "bee"], ["cat"]], r"the group \[cat\] is too small; expected at least 2 classes"),
            ([["ant", "cow"]], "there is no class 'cow'; available: ant, bee, cat"),
            ("cifar10", "there is no 'cifar10'; available: cifar100"),
        ],
    )
    def test_groups_that_do_not_fit_are_refused(self, groups, message):
        with pytest.raises(ConfigError, match=r"noise\.groups: " + message):
            mapped(("ant", "bee", "cat"), "superclass", groups=groups)


class TestBlock:
    def test_published_blocks_are_class_numbers_and_mostly_leave_the_superclass(self):
        found = mapped(CIFAR100, "block")
        assert np.array_equal(found // 5, np.arange(100) // 5)
        assert sorted(found) == list(range(100))
        inside = np.flatnonzero(COARSE[found] == COARSE)
        assert [(int(old), int(found[old])) for old in inside] == [
            (6, 7),
            (19, 15),
            (42, 43),
            (63, 64),
            (86, 87),
            (89, 85),
        ]

    def test_any_size_that_divides_the_classes(self):
        assert np.array_equal(mapped(list("abcdef"), "block", block_size=3), [1, 2, 0, 4, 5, 3])
        with pytest.raises(ConfigError, match=r"noise\.block_size: 6 classes cannot be divided into blocks of 5"):
            mapped(list("abcdef"), "block")
