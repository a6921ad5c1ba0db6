"""Relative links lead somewhere, as plain Markdown too, and every page is in the site's menu."""

import pathlib
import re
import tomllib
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = ["README.md", *(path.name for path in sorted((ROOT / "docs").glob("*.md")))]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("name", PAGES)
def test_relative_links(pages, name):
    page = pages[name]
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.text):
        file, _, anchor = target.partition("#")
        path = page.path.parent / file if file else page.path
        assert path.exists(), target
        assert not anchor or anchor in anchors(path.read_text("utf-8")), target


@pytest.mark.parametrize("name", PAGES)
def test_files_that_pages_name_exist(pages, name):
    for path in re.findall(r"\b(?:tests|benchmarks|t2t_lite)/[\w/]+\.py", pages[name].text):
        assert (ROOT / path).exists(), path


def test_the_table_of_folders_has_every_folder(pages):
    rooms = {f"{path.parent.name}/" for path in ROOT.glob("t2t_lite/*/__init__.py")}
    table = pages["architecture.md"].text.partition("\n## Rooms\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([\w/]+)` \|", table, re.M)) == rooms


def test_what_the_map_names_exists(pages):
    text = pages["architecture.md"].text
    for path in re.findall(r"`((?!tests|benchmarks)[\w/]+(?:/|\.py))`", text):
        places = [ROOT / "t2t_lite" / path, *(ROOT / "t2t_lite").glob(f"*/{path}")]
        assert any(place.exists() for place in places), path


def menu(entries: list) -> Iterator[str]:
    for entry in entries:
        for value in entry.values():
            yield from [value] if isinstance(value, str) else menu(value)


def test_every_page_is_in_the_menu_once():
    site = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    assert sorted(menu(site["nav"])) == sorted(set(PAGES) - {"README.md"})
