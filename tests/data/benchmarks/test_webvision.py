import shutil

import numpy as np
import pytest

from surelabel.config import DataConfig
from surelabel.data import read_inputs
from surelabel.errors import ConfigError, DataError

SMALL = {"image_size": 8}
THREE = {"num_classes": 3}
WNIDS = ["n02000002", "n01440764", "n03000003", "n04000004"]
"""Not sorted, so that a mapping by sorted folders would fail."""
GOOGLE = {
    "google/q0001/a.jpg": 0,
    "google/q0002/b,b.jpg": 1,
    "google/q0003/c.jpg": 1,
    "google/q0004/d.jpg": 2,
    "google/q0005/e.jpg": 3,
}
FLICKR = {"flickr/q0001/f.jpg": 0, "flickr/q0004/g.jpg": 2}
VALIDATION = {"val000003.jpg": 2, "val000001.jpg": 0, "val000002.jpg": 1, "val000004.jpg": 3}
IMAGENET = {1: "n03000003", 2: "n01440764", 3: "n02000002", 4: "n04000004", 5: "n01440764", 6: "n09999999"}
"""The class of ILSVRC2012_val_0000000N."""
DEVKIT_ORDER = ["n09999999", "n04000004", "n03000003", "n01440764", "n02000002"]


def lines(labels):
    return "".join(f"{path} {label}\n" for path, label in labels.items()) + "\n"


@pytest.fixture
def root(tmp_path, paint):
    root = tmp_path / "webvision"
    (root / "info").mkdir(parents=True)
    (root / "info/train_filelist_google.txt").write_text(lines(GOOGLE))
    (root / "info/train_filelist_flickr.txt").write_text(lines(FLICKR))
    (root / "info/train_filelist_all.txt").write_text(lines({**GOOGLE, **FLICKR}))
    (root / "info/val_filelist.txt").write_text(lines(VALIDATION))
    (root / "info/synsets.txt").write_text("".join(f"{wnid} thing{n}, other name\n" for n, wnid in enumerate(WNIDS)))
    for path in (*GOOGLE, *FLICKR, *(f"val_images_256/{name}" for name in VALIDATION)):
        paint(root / path, size=(11, 8))
    return root


def flat(number):
    return f"ILSVRC2012_val_{number:08d}.JPEG"


def by_index(folder, paint):
    for number, wnid in IMAGENET.items():
        if wnid in WNIDS:
            paint(folder / "val" / str(WNIDS.index(wnid)) / flat(number), number, format="JPEG")


def by_list(folder, paint):
    known = {number: WNIDS.index(wnid) for number, wnid in IMAGENET.items() if wnid in WNIDS}
    folder.mkdir()
    (folder / "imagenet_val.txt").write_text(lines({flat(number): label for number, label in known.items()}))
    for number in known:
        paint(folder / "val" / flat(number), number, format="JPEG")


def by_wnid(folder, paint):
    for number, wnid in IMAGENET.items():
        paint(folder / "val" / wnid / flat(number), number, format="JPEG")


def by_wnid_at_once(folder, paint):
    by_wnid(folder.parent / "other", paint)
    (folder.parent / "other/val").rename(folder)


def by_devkit(folder, paint):
    from scipy.io import savemat

    for number in IMAGENET:
        paint(folder / "val" / flat(number), number, format="JPEG")
    devkit = folder / "ILSVRC2012_devkit_t12/data"
    devkit.mkdir(parents=True)
    fields = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("num_children", "O")]
    synsets = np.array([(n, wnid, "words", 0) for n, wnid in enumerate(DEVKIT_ORDER, 1)], dtype=fields)
    savemat(devkit / "meta.mat", {"synsets": synsets.reshape(-1, 1)})
    truth = [DEVKIT_ORDER.index(IMAGENET[number]) + 1 for number in sorted(IMAGENET)]
    (devkit / "ILSVRC2012_validation_ground_truth.txt").write_text("".join(f"{number}\n" for number in truth))


LAYOUTS = [by_index, by_list, by_wnid, by_wnid_at_once, by_devkit]


def test_labels_come_from_the_lists_and_not_from_the_folders(root, load):
    corpus = load("webvision", root, THREE, **SMALL)
    assert corpus.train.ids.tolist() == list(GOOGLE)[:4]
    assert corpus.train.label.tolist() == [0, 1, 1, 2]
    assert corpus.train.clean is None
    assert corpus.class_names == ("n02000002 thing0", "n01440764 thing1", "n03000003 thing2")
    assert list(corpus.tests) == ["test"]
    assert corpus.tests["test"].ids.tolist() == ["val/val000003.jpg", "val/val000001.jpg", "val/val000002.jpg"]
    assert corpus.tests["test"].label.tolist() == [2, 0, 1]


def test_sizes_and_constants_are_those_of_the_paper(root, load):
    corpus = load("webvision", root, THREE)
    assert corpus.train.x.shape[1:] == (3, 256, 256)
    assert corpus.train.input_shape == (3, 227, 227)
    assert corpus.image_defaults.mean == pytest.approx((123.675, 116.28, 103.53))


@pytest.mark.parametrize("subset", ["flickr", "all"])
def test_other_subsets_can_be_selected(root, load, subset):
    corpus = load("webvision", root, {**THREE, "subset": subset}, **SMALL)
    assert corpus.train.ids.tolist() == ([] if subset == "flickr" else list(GOOGLE)[:4]) + list(FLICKR)
    (root / "info/train_filelist_all.txt").unlink()
    assert load("webvision", root, {**THREE, "subset": subset}, **SMALL).train.ids.tolist() == corpus.train.ids.tolist()


def test_full_size_validation_pictures_are_read(root, load):
    (root / "val_images_256").rename(root / "val_images")
    assert len(load("webvision", root, THREE, **SMALL).tests["test"]) == 3
    shutil.rmtree(root / "val_images")
    with pytest.raises(DataError, match="lacks val_images_256 or val_images; expected"):
        load("webvision", root, THREE, **SMALL)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_of_imagenet_yields_the_same_labels(root, tmp_path, paint, load, layout):
    layout(tmp_path / "imagenet", paint)
    options = {**THREE, "ilsvrc12": str(tmp_path / "imagenet")}
    tests = load("webvision", root, options, **SMALL).tests
    assert list(tests) == ["test", "ilsvrc12"]
    found = dict(zip(tests["ilsvrc12"].ids.tolist(), tests["ilsvrc12"].label.tolist(), strict=True))
    assert found == {f"ilsvrc12/{flat(number)}": WNIDS.index(IMAGENET[number]) for number in (1, 2, 3, 5)}
    pixels = {
        row_id: int(x[0, 0, 0]) for row_id, x in zip(tests["ilsvrc12"].ids.tolist(), tests["ilsvrc12"].x, strict=True)
    }
    assert pixels == {f"ilsvrc12/{flat(number)}": pytest.approx(number, abs=2) for number in (1, 2, 3, 5)}


def test_invalid_options_are_named(root, load):
    with pytest.raises(ConfigError, match=r"data\.options\.num_classes: got 50, but .*synsets\.txt lists only 4"):
        load("webvision", root, **SMALL)
    with pytest.raises(ConfigError, match=r"data\.options\.subset: .*google.*got 'bing'"):
        load("webvision", root, {"subset": "bing"})


def test_missing_pictures_and_lists_are_named(root, load):
    (root / "google/q0003/c.jpg").unlink()
    with pytest.raises(DataError, match=r"lacks 1 of 4 listed images \(such as google/q0003/c\.jpg\)"):
        load("webvision", root, THREE, **SMALL)
    (root / "info/train_filelist_google.txt").unlink()
    with pytest.raises(DataError, match=r"lacks info/train_filelist_google\.txt; expected ROOT/"):
        load("webvision", root, THREE, **SMALL)


def test_a_folder_link_out_of_the_root_is_refused(root, tmp_path, load):
    (root / "google").rename(tmp_path / "google")
    (root / "google").symlink_to(tmp_path / "google")
    with pytest.raises(DataError, match="leads out of"):
        load("webvision", root, THREE, **SMALL)


def test_missing_files_of_imagenet_are_named(root, tmp_path, paint, load):
    options = {**THREE, "ilsvrc12": str(tmp_path / "imagenet")}
    with pytest.raises(
        DataError, match=r"data\.options\.ilsvrc12: .*no such folder; expected FOLDER/val/WNID.*image-net\.org"
    ):
        load("webvision", root, options, **SMALL)
    (tmp_path / "imagenet").mkdir()
    with pytest.raises(DataError, match="lacks pictures of the 3 classes, the first of which is n02000002"):
        load("webvision", root, options, **SMALL)
    paint(tmp_path / "imagenet/val" / flat(1), format="JPEG")
    with pytest.raises(DataError, match=r"lacks meta\.mat and ILSVRC2012_validation_ground_truth\.txt"):
        load("webvision", root, options, **SMALL)


def test_a_damaged_devkit_is_named(root, tmp_path, paint, load):
    by_devkit(tmp_path / "imagenet", paint)
    options = {**THREE, "ilsvrc12": str(tmp_path / "imagenet")}
    devkit = tmp_path / "imagenet/ILSVRC2012_devkit_t12/data"
    (devkit / "ILSVRC2012_validation_ground_truth.txt").write_text("1\n2\n")
    with pytest.raises(
        DataError, match=r"ground_truth\.txt, line 3, for ILSVRC2012_val_00000003\.JPEG: expected a class number"
    ):
        load("webvision", root, options, **SMALL)
    (devkit / "meta.mat").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"meta\.mat: not readable as the devkit's table"):
        load("webvision", root, options, **SMALL)


def test_inputs_are_the_test_images(root):
    x, ids = read_inputs(DataConfig(source="webvision", root=str(root), options=THREE), (3, 8, 8))
    assert x.shape == (3, 3, 8, 8)
    assert ids[0] == "val/val000003.jpg"
