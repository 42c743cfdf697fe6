"""Pictures for a page: nothing in them acts on the page or on each other."""

import xml.etree.ElementTree as ElementTree
from typing import Any

from simile_plugin.significance.charts import INK, Chart


def draw(figure: Any) -> None:
    panel = figure.subplots()
    panel.plot([0, 1], [0, 1], marker="o")
    panel.set_title("dollars $1 & <more>")


def test_an_inline_picture_is_one_element_without_page_wide_rules() -> None:
    svg = Chart('cost of "A" & B', (3, 2), draw).inline()
    root = ElementTree.fromstring(svg)
    assert root.tag.endswith("svg") and "viewBox" in root.attrib
    assert root.attrib["aria-label"] == 'cost of "A" & B' and root.attrib["role"] == "img"
    assert "width" not in root.attrib and "<style" not in svg and "<metadata" not in svg
    assert "<?xml" not in svg and "http://purl.org" not in svg


def test_text_stays_text_and_ink_is_the_pages() -> None:
    svg = Chart("x", (3, 2), draw).inline()
    texts = [e.text for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("text")]
    assert "dollars $1 & <more>" in texts
    assert "currentColor" in svg and INK not in svg
    assert "fill: #ffffff" not in svg  # transparent


def test_ids_of_two_pictures_differ_and_a_picture_repeats_itself() -> None:
    pictures = [Chart(label, (3, 2), draw).inline() for label in ("one", "two", "one")]
    ids = [
        {e.attrib["id"] for e in ElementTree.fromstring(svg).iter() if "id" in e.attrib}
        for svg in pictures
    ]
    assert ids[0] and not ids[0] & ids[1]
    assert pictures[0] == pictures[2]
