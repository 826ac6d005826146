"""Photos on cards."""

import numpy as np
from PIL import Image

from surelabel.plotting.photo_grid import COLUMNS, cut_square, photo_grid


def test_rows_of_cards_with_their_texts():
    photo = Image.new("RGB", (120, 100), "red")
    figure = photo_grid([(photo, "cat", f"class {number}", 0.9876) for number in range(7)], "Title", "Text")
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts[:2] == ["Title", "Text"]
    assert texts[2:8] == ["folder", "cat", "suggested", "class 0", "P(wrong)", "0.988"]
    corners = np.array([image.get_extent() for image in figure.axes[0].images])
    assert len(np.unique(corners[:, 0].round(3))) == COLUMNS
    assert len(np.unique(corners[:, 2].round(3))) == 2


def test_photos_are_cut_to_squares():
    assert cut_square(Image.new("RGB", (120, 100))).size == (100, 100)
    assert cut_square(Image.new("RGB", (96, 160))).size == (96, 96)
