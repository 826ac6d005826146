"""The report is a single file: safe against hostile names, accessible, and small."""

import itertools
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from tests.reporting.conftest import Page, corpus_of

from surelabel.errors import RunError
from surelabel.reporting import write_report
from surelabel.reporting.gallery import make_gallery
from surelabel.reporting.reported_run import ReportedRun
from surelabel.verdicts import Audit, audit

ADDRESSES = ("src", "srcset", "href", "action", "poster", "data", "background", "formaction")


@pytest.fixture(scope="module")
def features(report):
    return report("features")


@pytest.fixture(scope="module")
def both(report, tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures") / "new"
    return report("images", "features", lost=("images",), figures=folder), folder


def test_it_loads_nothing_from_anywhere(images, features, both):
    for page in (images, features, both[0]):
        for tag, attributes in page.elements:
            for name in ADDRESSES:
                assert attributes.get(name, "#").startswith(("#", "data:image/")), (tag, name)
        assert not page.all("link")
        assert not page.all("iframe")
        assert not re.search(r"@import|url\(", page.source)


def test_a_policy_forbids_everything_else(images):
    policy = next(meta["content"] for meta in page_policies(images))
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    # The policy would block style attributes and event handlers.
    assert not [attributes for _, attributes in images.elements if "style" in attributes]
    assert not [name for _, attributes in images.elements for name in attributes if name.startswith("on")]


def page_policies(page):
    return [meta for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]


def test_names_and_ids_stay_text(images):
    assert len(images.all("script")) == 1
    assert not [image for image in images.all("img") if "onerror" in image]
    assert "<img src=http://evil.example/x onerror=alert(1)>" in images.text
    assert "</td><script>alert(" in images.text
    assert "\u202e" not in images.source
    assert "\x07" not in images.source


def test_every_figure_says_in_numbers_what_it_shows(images, features):
    for page in (images, features):
        drawings = [image for image in page.all("img") if image.get("class") == "drawing"]
        assert len(drawings) >= 5
        assert all(re.search(r"\d", image["alt"]) for image in drawings)
    assert all(image["alt"] for image in images.all("img"))
    bars = [svg for svg in features.all("svg") if svg.get("class") == "bars"]
    assert all(svg["role"] == "img" and "6 features" in svg["aria-label"] for svg in bars)


def test_headings_do_not_skip_a_level(both):
    levels = [int(tag[1]) for tag, _ in both[0].elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_links_inside_lead_somewhere(both):
    page = both[0]
    places = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    assert {link["href"] for link in page.all("a")} <= {f"#{place}" for place in places}


def test_known_truth_is_shown_and_a_missing_test_set_is_mentioned(images):
    assert "Suggested label against true label" in images.text
    assert "Memorisation" in images.text
    assert "There is no test set" in images.text


def test_without_truth_nothing_is_said_about_it(features):
    assert "true label" not in features.text.lower()
    assert "Memorisation" not in features.text
    assert "of the test set correctly after the last epoch (6)" in features.text


def test_a_method_without_tau_is_shown_by_quality(features):
    assert "Density of label quality" in features.text
    assert "tau" not in features.text.lower().replace("tau_", "")


def test_samples_are_pictures_of_their_own_size(images):
    shown = [image for image in images.all("img") if image.get("class") == "pixels"]
    assert shown
    assert all(image["src"].startswith("data:image/png") for image in shown)


def test_runs_are_compared_and_data_that_are_lost_are_named(both):
    page = both[0]
    assert "2 runs side by side" in page.text
    assert "The data of this run could not be read again" in page.text
    assert not [image for image in page.all("img") if image.get("class") == "pixels"]
    assert "</td><script>alert(" in page.text


def test_figures_are_files_too(both):
    names = {file.name for file in both[1].iterdir()}
    assert {"compared-accuracy.svg", "compared-accuracy.png", "run1-memorisation.png", "run2-density.svg"} <= names
    for file in both[1].glob("*.svg"):
        texts = [node.text for node in ET.parse(file).iter("{http://www.w3.org/2000/svg}text")]
        assert texts, file.name


def test_the_summary_says_what_the_audit_says(report, images):
    table = report.audited("images")
    page = images
    assert f"{table.num_suspicious} of {len(table)} labels look wrong" in page.text
    for text in (*table.sentences(), *table.warnings):
        assert text in page.text
    rate = table.class_rates[table.class_names[0]]
    assert f"{100 * rate.rate:.1f}\u00a0% ({100 * rate.interval[0]:.1f}" in page.source
    assert "Estimated labels of each true class" in page.text
    plan = table.budgets()[0]
    assert re.search(rf"What a review would find.*\b{plan.budget} {plan.num_wrong:.0f} ", page.text)


def test_each_kind_has_its_samples(trained, tmp_path):
    table = with_kinds(audit(trained["images"]))
    out = write_report([trained["images"]], [corpus_of(trained["images"])], [table], tmp_path / "report.html")
    page = Page(out)
    assert "Kinds of issues" in page.text
    for text in ("duplicate 2 an equal or nearly equal input", "outlier 8 far from its", "ambiguous 1 a second class"):
        assert text in page.text
    assert "8 rows, the first 6 are shown" in page.text
    assert page.text.index("isolation 59.0") < page.text.index("isolation 58.0")
    for row in range(2):
        partner = table.ranked_kinds.partner[row]
        assert f"copy of {table.columns['id'][partner]}, given " in page.text
    assert "second class at 90 % of the first" in page.text
    assert len(page.all("script")) == 1


def test_what_is_not_known_about_kinds_is_said(trained, tmp_path):
    plain = audit(trained["images"])
    table = with_kinds(plain, rival=np.full(len(plain), 0.9))
    out = write_report([trained["images"]], [None], [table], tmp_path / "report.html")
    assert "ambiguous not known: several classes look plausible for 100 % of the rows" in Page(out).text


def with_kinds(table, **columns):
    """Return an audit with two copies, eight outliers and an ambiguous row, or other columns."""
    number = np.arange(len(table))
    given = table.columns["given"].copy()
    given[:2] = table.class_names[:2]
    made = {"given": given, "duplicate_group": (number < 2).astype(int), "isolation": number.astype(float)}
    made |= {"is_outlier": number >= len(table) - 8, "rival": np.where(number == 5, 0.9, 0), **columns}
    return Audit({**table.columns, **made}, table.class_names, power=0.9)


def gallery_text(run, most):
    gallery = make_gallery(ReportedRun(run, None, audit(run), 1, "run"), most)
    return " ".join([*gallery.notes, *(shown.note for shown in gallery.classes)])


@pytest.mark.parametrize(
    ("most", "hidden"),
    [(3, None), (2, "1 class with fewer suspects is not shown."), (1, "2 classes with fewer suspects are not shown.")],
)
def test_what_does_not_fit_is_counted_in_words(trained, most, hidden):
    text = gallery_text(trained["images"], most)
    assert ("not shown" in text) == bool(hidden)
    assert (hidden or "") in text
    assert re.search(r"\d suspects, the first is shown", text)


def test_several_of_more_suspects_are_shown(trained):
    assert re.search(r"\d suspects, the first 2 are shown", gallery_text(trained["images"], 6))


def test_a_report_of_nothing_is_refused(tmp_path):
    with pytest.raises(RunError, match="at least one run"):
        write_report([], [], [], tmp_path / "report.html")


@pytest.mark.parametrize(("num_classes", "side"), [(10, 32), pytest.param(60, 224, marks=pytest.mark.training)])
def test_fifty_thousand_samples_fit_into_five_megabytes(large, num_classes, side):
    out, page = large(50_000, num_classes, side)
    assert out.stat().st_size < 5e6
    kind = "pixels" if side == 32 else "photo"
    assert 100 <= len([image for image in page.all("img") if image.get("class") == kind]) <= 240
    assert len(page.all("tr")) < 1000
