"""Networks that see a window of larger images, as in data sets with a default crop."""

import numpy as np
from PIL import Image

import surelabel
from surelabel.training.predictor import predictions


def test_new_images_are_looked_at_as_test_images_are(tmp_path):
    rng = np.random.default_rng(0)
    for part, count in (("train", 6), ("test", 3)):
        for name, value in (("dark", 40), ("light", 200)):
            folder = tmp_path / "images" / part / name
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = rng.integers(value - 30, value + 30, (30, 40, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")
    settings = {
        "data.image_size": 24,
        "data.crop": 20,
        "model": {"name": "cnn", "options": {"width": 4}},
        "train.epochs": 2,
        "train.batch_size": 4,
        "train.threads": 1,
    }
    run = surelabel.fit(tmp_path / "images", tmp_path / "run", settings=settings)
    assert (run.data()["input_shape"], run.data()["stored_shape"]) == ([3, 20, 20], [3, 24, 24])
    # As if the sizes were the data set's defaults: the configuration does not set them.
    config = run.config()
    silent = config.model_copy(update={"data": config.data.model_copy(update={"image_size": None, "crop": None})})
    run.write_json("config.json", silent.model_dump(mode="json"))
    model = surelabel.load(run)
    columns = predictions(model, str(tmp_path / "images" / "test"))
    corpus = surelabel.api.build.corpus(config.data, None, 0)[0].tests["test"]
    expected = model.predict_proba(corpus.x[:, :, 2:22, 2:22])
    np.testing.assert_allclose(np.stack([columns["dark"], columns["light"]], 1), expected, atol=1e-6)
