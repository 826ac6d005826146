"""Clothing1M (Xiao et al., 2015): a million pictures of clothes, labelled by nearby words.

Training uses the noisy list only; the option `use_clean_train` adds the 47,570 pictures of the
clean training list. A few pictures are in both lists. Their true labels are not used even for
metrics, because clean labels are known either for all rows or for none. The lists and the
pictures may lie in any of the usual places. Class names are the lines of category_names_eng.txt
if it exists; otherwise those below, on which three public copies of the code agree (we have not
seen the file itself).
"""

from pathlib import Path

from surelabel.config import Part
from surelabel.data.benchmarks.benchmark import Benchmark, Request, crop_defaults, to_pixel_range
from surelabel.data.benchmarks.dataset_directory import DatasetDirectory, check_inside
from surelabel.data.benchmarks.image_list import ImageList, read_labelled_lines, read_lines, read_listed_images
from surelabel.data.sources.interface import Parts, Rows
from surelabel.errors import DataError

_CLASSES = "T-Shirt Shirt Knitwear Chiffon Sweater Hoodie Windbreaker Jacket Downcoat Suit Shawl Dress Vest Underwear"
CLASSES = tuple(_CLASSES.split())

_DIRECTORY = DatasetDirectory(
    "clothing1m",
    "ROOT/{noisy_train_key_list.txt, noisy_label_kv.txt, clean_{train,val,test}_key_list.txt, clean_label_kv.txt} "
    "(or in ROOT/annotations or ROOT/images) and ROOT/images/0..9 (or ROOT/0..9)",
    "the authors on request: https://github.com/Cysu/noisy_label",
)
_REQUIRED = (
    "noisy_train_key_list.txt",
    "noisy_label_kv.txt",
    "clean_val_key_list.txt",
    "clean_test_key_list.txt",
    "clean_label_kv.txt",
)
_NAMES_FILE = "category_names_eng.txt"
_TESTS = {"test": "clean_test_key_list.txt", "clean_validation": "clean_val_key_list.txt"}
_PREFIX = "images/"
_MEAN, _STD = to_pixel_range(0.6959, 0.6537, 0.6371), to_pixel_range(0.3113, 0.3192, 0.3214)


class Options(Part):
    """Options of clothing1m."""

    use_clean_train: bool = False
    """Whether to also train on the 47,570 clean pictures; their ids start with clean/."""


def _read_parts(request: Request[Options]) -> Parts:
    """Read the noisy list for training, and the clean test and validation lists as tests."""
    root = request.root
    lists = _find_lists(request)
    classes = _read_class_names(lists, root)
    clean = _read_labels(lists / "clean_label_kv.txt", classes)
    noisy = _read_labels(lists / "noisy_label_kv.txt", classes)
    train = _list_images(lists / "noisy_train_key_list.txt", noisy, root)
    if request.options.use_clean_train:
        train.extend(_list_images(lists / "clean_train_key_list.txt", clean, root, "clean/"))
    tests = {name: _list_images(lists / file, clean, root) for name, file in _TESTS.items()}
    return Parts(
        read_listed_images(train, request),
        {name: read_listed_images(test, request, is_clean=True) for name, test in tests.items()},
        classes,
        crop_defaults(request.config, _MEAN, _STD),
    )


def _read_test(request: Request[Options]) -> Rows:
    lists = _find_lists(request)
    clean = _read_labels(lists / "clean_label_kv.txt", _read_class_names(lists, request.root))
    return read_listed_images(_list_images(lists / _TESTS["test"], clean, request.root), request)


def _find_lists(request: Request[Options]) -> Path:
    """Return the folder of the lists, all of which must be there."""
    root = request.root
    folders = [folder for folder in (root, root / "annotations", root / "images") if (folder / _REQUIRED[0]).is_file()]
    folder = folders[0] if folders else root
    also = ("clean_train_key_list.txt",) if request.options.use_clean_train else ()
    _DIRECTORY.require(root, folder, (*_REQUIRED, *also))
    if not any((root / _picture_folder(root) / str(digit)).is_dir() for digit in range(10)):
        raise _DIRECTORY.missing(root, "the pictures, images/0..9")
    return folder


def _picture_folder(root: Path) -> str:
    """Return the folder of pictures: `images/` in the root, or the root itself."""
    return _PREFIX if (root / _PREFIX).is_dir() else ""


def _read_class_names(lists: Path, root: Path) -> tuple[str, ...]:
    if not (lists / _NAMES_FILE).is_file():
        return CLASSES
    names = tuple(line for _, line in read_lines(check_inside(lists / _NAMES_FILE, root)))
    if len(set(names)) != len(CLASSES):
        raise DataError(
            f"{lists / _NAMES_FILE}: {len(set(names))} different class names; expected {len(CLASSES)} lines"
        )
    return names


def _read_labels(path: Path, classes: tuple[str, ...]) -> dict[str, str]:
    """Read the class name of each key."""
    return {key: classes[label] for key, label in read_labelled_lines(path, len(classes))}


def _list_images(path: Path, labels: dict[str, str], root: Path, id_prefix: str = "") -> ImageList:
    """List the pictures of a key list; ids are keys, wherever the pictures lie."""
    images, folder, unlabelled = ImageList(), _picture_folder(root), []
    for number, key in read_lines(path):
        if key in labels:
            images.add(folder + key.removeprefix(_PREFIX), labels[key], id_prefix + key)
        else:
            unlabelled.append((number, key))
    if unlabelled:
        number, key = unlabelled[0]
        more = f" (and {len(unlabelled) - 1} more)" if len(unlabelled) > 1 else ""
        raise DataError(f"{path}, line {number}: no label for {key}{more} in the kv file beside it")
    return images


CLOTHING1M = Benchmark(_DIRECTORY, Options, _read_parts, _read_test, side=256, crop=224)
