"""Original pictures: served from the data set only, shown, zoomed into, and in the report."""

import base64
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from playwright.sync_api import expect

from surelabel.config import DataConfig
from surelabel.data import load_corpus
from surelabel.data.images import decode
from surelabel.data.originals import find_originals
from surelabel.reporting.gallery import Painter
from surelabel.reporting.reported_run import ReportedRun
from surelabel.verdicts import audit


def open_image(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content))


def jpeg(size, value) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, (value,) * 3).save(file, "JPEG")
    return file.getvalue()


class TestServed:
    def test_at_their_own_resolution_or_scaled_down(self, client):
        page = client("photos")
        row = page.rows()[0]
        address = f"/original/{row['split']}/{row['position']}"
        answer = page.http.get(address)
        assert answer.headers["content-type"] == "image/jpeg"
        assert answer.headers["x-content-type-options"] == "nosniff"
        shown = np.asarray(open_image(answer.content)).astype(int)
        file = np.asarray(Image.open(page.review.originals.place[row["id"]][0].root / row["id"])).astype(int)
        assert shown.shape == (300, 400, 3)
        assert abs(shown - file).mean() < 12
        assert open_image(page.http.get(f"{address}?side=100").content).size == (100, 75)
        assert open_image(page.http.get(address.replace("original", "image")).content).size == (16, 16)
        assert page.http.get("/api/run").json()["has_originals"]

    @pytest.mark.parametrize("end", ["train/99", "train/-1", "test/0", "train/../0", "train/0?side=100000", "..%2f/0"])
    def test_nothing_but_rows_of_the_run(self, client, end):
        assert client("photos").http.get(f"/original/{end}").status_code in (400, 404, 422)

    def test_a_link_that_leads_out_is_not_followed(self, client, tmp_path, monkeypatch):
        page = client("photos")
        secret = tmp_path / "secret.jpg"
        secret.write_bytes(jpeg((50, 50), 200))
        row = page.rows()[0]
        encoded, position = page.review.originals.place[row["id"]]
        link = encoded.paths[position].with_name("linked.jpg")
        link.symlink_to(secret)
        monkeypatch.setattr(encoded, "paths", [link] * len(encoded))
        try:
            answer = page.http.get(f"/original/{row['split']}/{row['position']}")
        finally:
            link.unlink()
        assert answer.status_code == 400
        assert "leads out of" in answer.json()["error"]

    def test_a_picture_that_would_take_too_much_memory_is_refused(self, client, monkeypatch):
        page = client("photos")
        row = page.rows()[0]
        monkeypatch.setattr(decode, "MAX_SHOWN_PIXELS", 400 * 300 - 1)
        assert page.http.get(f"/original/{row['split']}/{row['position']}").status_code == 400
        assert page.http.get(f"/original/{row['split']}/{row['position']}?side=100").status_code == 200

    def test_arrays_have_none(self, client):
        page = client()
        assert not page.http.get("/api/run").json()["has_originals"]
        assert page.http.get("/original/train/0").status_code == 400


@pytest.mark.parametrize("where", ["table.parquet", "train-00000-of-00001.parquet"])
def test_bytes_in_parquet_files(tmp_path, where):
    images = [{"bytes": jpeg((90, 60), 10 * number), "path": None} for number in range(6)]
    table = pa.table({"image": images, "label": list("ababab"), "id": list("uvwxyz")})
    pq.write_table(table, tmp_path / where)
    source = tmp_path / where if where.startswith("table") else tmp_path
    config = DataConfig(source=str(source), image_size=8, cache=False)
    originals = find_originals(config, load_corpus(config))
    assert originals.read("w", 1000).size == (90, 60)
    assert np.asarray(originals.read("w", 1000)).mean() == pytest.approx(20, abs=2)


def test_the_report_s_gallery_has_thumbnails_of_originals(trained, corpus_of):
    run = trained["photos"]
    reported = ReportedRun(run, corpus_of(run), audit(run), 1, "photos")
    thumbnail = Painter(reported, [0]).sample(0).thumbnail
    assert open_image(base64.b64decode(thumbnail.uri.partition(",")[2])).size == (120, 90)
    assert not thumbnail.is_small


@pytest.mark.training
class TestPage:
    def test_the_original_is_shown_and_what_the_network_saw_on_demand(self, server, opened):
        page = opened(server("photos").address)
        picture = page.locator("#picture img")
        expect(picture).to_have_js_property("naturalWidth", 400)
        assert picture.evaluate("(one) => getComputedStyle(one).imageRendering") == "auto"
        page.keyboard.press("p")
        expect(picture).to_have_js_property("naturalWidth", 16)
        assert picture.evaluate("(one) => getComputedStyle(one).imageRendering") == "pixelated"
        expect(page.locator("#as-seen")).to_have_attribute("aria-pressed", "true")
        page.click("#as-seen")
        expect(picture).to_have_js_property("naturalWidth", 400)
        page.keyboard.press("g")
        expect(page.locator("#cards img").first).to_have_js_property("naturalWidth", 320)

    def test_zoom_and_pan_by_wheel_mouse_and_keys(self, server, opened):
        service = server("photos")
        page = opened(service.address)
        picture, level = page.locator("#picture img"), page.locator("#zoom-level")
        expect(picture).to_have_js_property("naturalWidth", 400)
        expect(level).to_have_text("Fit")
        box = page.locator("#picture").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.wheel(0, -100)
        expect(level).to_have_text("125 %")
        page.keyboard.press("+")
        expect(level).to_have_text("156 %")
        before = picture.bounding_box()
        page.keyboard.press("Shift+ArrowRight")
        assert picture.bounding_box()["x"] < before["x"]
        moved = picture.bounding_box()
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2 + 30, box["y"] + box["height"] / 2)
        page.mouse.up()
        assert picture.bounding_box()["x"] > moved["x"]
        page.keyboard.press("-")
        page.click("#zoom-out")
        expect(level).to_have_text("Fit")
        page.click("#zoom-in")
        page.keyboard.press("z")
        expect(level).to_have_text("Fit")
        page.keyboard.press("+")
        page.keyboard.press("ArrowRight")  # the next row begins whole
        expect(level).to_have_text("Fit")
        assert service.lines() == []
