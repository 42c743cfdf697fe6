"""docs/gallery: which sections of a report page are open in its picture."""

import pytest

from docs.gallery.picture import with_open

PAGE = (
    '<details class="section" id="results" open>1</details>'
    '<details class="section" id="gaming">2</details>'
    "<details>3</details>"
)


def test_the_sections_asked_for_are_open() -> None:
    page = with_open(PAGE, ["gaming"])
    assert 'id="results">1' in page and 'id="gaming" open>2' in page and "<details>3" in page
    with pytest.raises(SystemExit, match="no section curves; has .'results', 'gaming'."):
        with_open(PAGE, ["curves"])
