"""Class maps: which class the wrong labels of a class get.

A map comes from the user, from a table for a known data set, or from the class numbers.

The built-in maps are matched by class NAMES, so the order of the classes does not matter. Names are
compared without case and punctuation, and with a few synonyms: airplane is also plane or aeroplane,
automobile also car, CIFAR-100's keyboard also computer_keyboard, and 7 also seven. Classes that are
called 0, 1, 2, ... reveal nothing: they match a built-in map only if the user names it, and are
then taken as the data set's original class numbers.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surelabel.errors import ConfigError

ClassMap = dict[int, int]
"""Clean class number to the class number of its wrong labels."""


@dataclass(frozen=True)
class BuiltIn:
    """The class map of a data set, which is recognised by its class names."""

    title: str
    classes: tuple[str, ...]
    """In the order of the data set's original class numbers."""
    class_map: Mapping[str, str]


def rotate(groups: Sequence[Sequence[str]]) -> dict[str, str]:
    """Map each name to the next one in its group, and the last to the first."""
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
"""CIFAR-100's classes by superclass, in the order of the class numbers, which is alphabetical."""
_GROUPS = [members.split() for members in _SUPERCLASSES.values()]

BUILT_IN_MAPS = {
    "cifar10": BuiltIn(
        "CIFAR-10",
        ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        {"truck": "automobile", "bird": "airplane", "deer": "horse", "cat": "dog", "dog": "cat"},
    ),
    "digits": BuiltIn("digits", tuple("0123456789"), {"7": "1", "2": "7", "3": "8", "5": "6", "6": "5"}),
}
BUILT_IN_GROUPS = {
    "cifar100": BuiltIn("CIFAR-100", tuple(sorted(name for group in _GROUPS for name in group)), rotate(_GROUPS))
}

_DIGIT_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SYNONYMS = {
    "plane": "airplane",
    "aeroplane": "airplane",
    "car": "automobile",
    "computer_keyboard": "keyboard",
    **{word: str(digit) for digit, word in enumerate(_DIGIT_WORDS)},
    **{f"{digit}_{word}": str(digit) for digit, word in enumerate(_DIGIT_WORDS)},
}
"""Other names of a class, to the name that the built-in maps use."""


def canonical_name(name: str) -> str:
    """Return the name that the built-in maps use for a class."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.casefold()).strip("_")
    return _SYNONYMS.get(plain, plain)


def map_by_names(class_map: Mapping[str, str] | str | None, class_names: Sequence[str]) -> tuple[ClassMap, str]:
    """Return the class map of asymmetric noise, and a description of where it comes from."""
    if isinstance(class_map, Mapping) and class_map:
        return _to_numbers(class_map, class_names, "class_map"), "class map"
    need = "asymmetric noise needs one, for example {cat: dog, dog: cat}"
    found = _find_built_in(BUILT_IN_MAPS, class_map or None, class_names, "class_map", need)
    return _built_in_to_numbers(found, class_names, "class_map"), f"class map of {found.title}"


def map_by_groups(groups: Sequence[Sequence[str]] | str | None, class_names: Sequence[str]) -> tuple[ClassMap, str]:
    """Return the class map of superclass noise, and a description of where the groups come from."""
    if groups and not isinstance(groups, str):
        _check_groups(groups)
        return _to_numbers(rotate(groups), class_names, "groups"), "the given groups"
    need = "superclass noise needs them, for example [[cat, dog], [car, bus, train]]"
    found = _find_built_in(BUILT_IN_GROUPS, groups or None, class_names, "groups", need)
    return _built_in_to_numbers(found, class_names, "groups"), f"the superclasses of {found.title}"


def map_by_blocks(num_classes: int, size: int) -> ClassMap:
    """Map each class number to the next one in its block of `size`, and the last to the first."""
    if num_classes % size:
        raise ConfigError(
            f"noise.block_size: {num_classes} classes cannot be divided into blocks of {size}; "
            "expected a size that divides them"
        )
    return {old: old - old % size + (old + 1) % size for old in range(num_classes)}


def map_to_next(num_classes: int) -> ClassMap:
    """Map each class number to the next, and the last to the first."""
    return map_by_blocks(num_classes, num_classes)


def _find_built_in(
    built_in: Mapping[str, BuiltIn], name: object, class_names: Sequence[str], option: str, need: str
) -> BuiltIn:
    """Return the map called `name`, or without a name the map of exactly these classes."""
    if name is not None:
        if name not in built_in:
            raise ConfigError(f"noise.{option}: there is no {name!r}; available: {', '.join(built_in)}")
        return built_in[str(name)]
    wanted = sorted(map(canonical_name, class_names))
    fitting = [one for one in built_in.values() if wanted == sorted(one.classes)]
    if fitting and not all(one.isdecimal() for one in class_names):
        return fitting[0]
    raise ConfigError(
        f"noise.{option}: {need}, or the name of a known one ({', '.join(built_in)}); none of these fits the class "
        f"names {join_names(class_names)}"
    )


def _built_in_to_numbers(found: BuiltIn, class_names: Sequence[str], option: str) -> ClassMap:
    """Return a built-in map in the class numbers of this data."""
    numbers: dict[str, list[int]] = {}
    for number, name in enumerate(class_names):
        numbers.setdefault(canonical_name(name), []).append(number)
    if sorted(class_names) == sorted(map(str, range(len(found.classes)))):
        numbers = {name: [list(class_names).index(str(number))] for number, name in enumerate(found.classes)}
    for name in (*found.class_map.keys(), *found.class_map.values()):
        if len(numbers.get(name, ())) != 1:
            fault = "several classes may be" if name in numbers else "there is no class"
            raise ConfigError(
                f"noise.{option}: {fault} {name!r} of {found.title}; the classes are {join_names(class_names)}"
            )
    return {numbers[old][0]: numbers[new][0] for old, new in found.class_map.items()}


def _to_numbers(class_map: Mapping[str, str], class_names: Sequence[str], option: str) -> ClassMap:
    number = {name: position for position, name in enumerate(class_names)}
    for name in (*class_map.keys(), *class_map.values()):
        if name not in number:
            raise ConfigError(f"noise.{option}: there is no class {name!r}; available: {join_names(class_names)}")
    return {number[old]: number[new] for old, new in class_map.items()}


def _check_groups(groups: Sequence[Sequence[str]]) -> None:
    names = [name for group in groups for name in group]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ConfigError(f"noise.groups: the class {twice[0]!r} appears twice; expected each class at most once")
    for group in groups:
        if len(group) < 2:
            raise ConfigError(f"noise.groups: the group [{', '.join(group)}] is too small; expected at least 2 classes")


def join_names(names: Sequence[str], most: int = 12) -> str:
    """Join names for a message, of which at most `most` are shown."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
