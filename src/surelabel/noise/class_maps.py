"""Where the labels of a class go: arrows between classes, given by the user, ready for known data sets, or by number.

Ready arrows are found by class NAMES, so that the order of the classes does not matter. Names are compared without case and without what is
neither letter nor digit; airplane is also plane or aeroplane, automobile also car, CIFAR-100's keyboard also computer_keyboard, 7 also seven.
Classes that are called 0, 1, 2, ... say nothing of what they are: they fit a ready map only if the user names it, and then are the data
set's own class numbers.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surelabel.errors import ConfigError

Arrows = dict[int, int]
"""Class number to class number."""


@dataclass(frozen=True)
class Ready:
    """Arrows of a data set that is known by its class names."""

    title: str
    classes: tuple[str, ...]
    """In the order of the data set's own class numbers."""
    arrows: Mapping[str, str]


def circular(groups: Sequence[Sequence[str]]) -> dict[str, str]:
    """Each name to the next of its group, the last to the first."""
    return {old: new for group in groups for old, new in zip(group, (*group[1:], group[0]), strict=True)}


_SUPERCLASSES = {
    "aquatic mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food containers": "bottle bowl can cup plate",
    "fruit and vegetables": "apple mushroom orange pear sweet_pepper",
    "household electrical devices": "clock keyboard lamp telephone television",
    "household furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large carnivores": "bear leopard lion tiger wolf",
    "large man-made outdoor things": "bridge castle house road skyscraper",
    "large natural outdoor scenes": "cloud forest mountain plain sea",
    "large omnivores and herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium-sized mammals": "fox porcupine possum raccoon skunk",
    "non-insect invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles 1": "bicycle bus motorcycle pickup_truck train",
    "vehicles 2": "lawn_mower rocket streetcar tank tractor",
}
"""CIFAR-100's classes by superclass; within one in the order of the class numbers, which is the alphabet's."""
_GROUPS = [members.split() for members in _SUPERCLASSES.values()]

READY_MAPS = {
    "cifar10": Ready(
        "CIFAR-10",
        ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        {"truck": "automobile", "bird": "airplane", "deer": "horse", "cat": "dog", "dog": "cat"},
    ),
    "digits": Ready("digits", tuple("0123456789"), {"7": "1", "2": "7", "3": "8", "5": "6", "6": "5"}),
}
READY_GROUPS = {
    "cifar100": Ready("CIFAR-100", tuple(sorted(name for group in _GROUPS for name in group)), circular(_GROUPS))
}

_DIGIT_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SPELLINGS = {
    "plane": "airplane",
    "aeroplane": "airplane",
    "car": "automobile",
    "computer_keyboard": "keyboard",
    **{word: str(digit) for digit, word in enumerate(_DIGIT_WORDS)},
    **{f"{digit}_{word}": str(digit) for digit, word in enumerate(_DIGIT_WORDS)},
}
"""Other names of the same classes."""


def known_as(name: str) -> str:
    """The name under which ready maps know a class."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.casefold()).strip("_")
    return _SPELLINGS.get(plain, plain)


def by_map(class_map: Mapping[str, str] | str | None, class_names: Sequence[str]) -> tuple[Arrows, str]:
    """Arrows of asymmetric noise, and in words whose they are."""
    if isinstance(class_map, Mapping) and class_map:
        return _numbered(class_map, class_names, "class_map"), "class map"
    need = "asymmetric noise needs one, for example {cat: dog, dog: cat}"
    ready = _ready(READY_MAPS, class_map or None, class_names, "class_map", need)
    return _placed(ready, class_names, "class_map"), f"class map of {ready.title}"


def by_groups(groups: Sequence[Sequence[str]] | str | None, class_names: Sequence[str]) -> tuple[Arrows, str]:
    """Arrows of superclass noise, and in words whose groups they follow."""
    if groups and not isinstance(groups, str):
        _check_groups(groups)
        return _numbered(circular(groups), class_names, "groups"), "the given groups"
    need = "superclass noise needs them, for example [[cat, dog], [car, bus, train]]"
    ready = _ready(READY_GROUPS, groups or None, class_names, "groups", need)
    return _placed(ready, class_names, "groups"), f"the superclasses of {ready.title}"


def by_block(num_classes: int, size: int) -> Arrows:
    """Each class number to the next of its block, the last to the first."""
    if num_classes % size:
        raise ConfigError(
            f"noise.block_size: {num_classes} classes cannot be divided into blocks of {size}; "
            "expected a size that divides them"
        )
    return {old: old - old % size + (old + 1) % size for old in range(num_classes)}


def by_pair(num_classes: int) -> Arrows:
    """Each class number to the next, the last to the first."""
    return by_block(num_classes, num_classes)


def _ready(ready: Mapping[str, Ready], name: object, class_names: Sequence[str], option: str, need: str) -> Ready:
    """The one that is named, or else the one whose class names these are."""
    if name is not None:
        if name not in ready:
            raise ConfigError(f"noise.{option}: there is no {name!r}; ready are {', '.join(ready)}")
        return ready[str(name)]
    known = sorted(map(known_as, class_names))
    fitting = [one for one in ready.values() if known == sorted(one.classes)]
    if fitting and not all(one.isdecimal() for one in class_names):
        return fitting[0]
    raise ConfigError(
        f"noise.{option}: {need}, or the name of a ready one ({', '.join(ready)}), which the class names "
        f"{listed(class_names)} do not tell"
    )


def _placed(ready: Ready, class_names: Sequence[str], option: str) -> Arrows:
    """The ready arrows between the numbers that its classes have here."""
    numbers: dict[str, list[int]] = {}
    for number, name in enumerate(class_names):
        numbers.setdefault(known_as(name), []).append(number)
    if sorted(class_names) == sorted(map(str, range(len(ready.classes)))):
        numbers = {name: [list(class_names).index(str(number))] for number, name in enumerate(ready.classes)}
    for name in (*ready.arrows.keys(), *ready.arrows.values()):
        if len(numbers.get(name, ())) != 1:
            fault = "several classes may be" if name in numbers else "there is no class"
            raise ConfigError(
                f"noise.{option}: {fault} {name!r} of {ready.title}; the classes are {listed(class_names)}"
            )
    return {numbers[old][0]: numbers[new][0] for old, new in ready.arrows.items()}


def _numbered(arrows: Mapping[str, str], class_names: Sequence[str], option: str) -> Arrows:
    number = {name: position for position, name in enumerate(class_names)}
    for name in (*arrows.keys(), *arrows.values()):
        if name not in number:
            raise ConfigError(f"noise.{option}: there is no class {name!r}; there are {listed(class_names)}")
    return {number[old]: number[new] for old, new in arrows.items()}


def _check_groups(groups: Sequence[Sequence[str]]) -> None:
    names = [name for group in groups for name in group]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(
            f"noise.groups: the class {twice[0]!r} stands in them twice; expected each class at most once"
        )
    for group in groups:
        if len(group) < 2:
            raise ConfigError(
                f"noise.groups: the group [{', '.join(group)}] has nowhere to go; expected at least 2 classes"
            )


def listed(names: Sequence[str], most: int = 12) -> str:
    """The names for a message, cut after so many."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
