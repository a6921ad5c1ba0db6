"""Templates: values are escaped, and a missing variable is an error."""

import importlib.resources

import jinja2
import pytest

from t2t_lite import pages


@pytest.fixture
def template(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.resources, "files", lambda package: tmp_path)
    return tmp_path / "page.html"


def test_values_are_escaped(template):
    template.write_text("<p>{{ text }}</p><script>{{ data | tojson }}</script>\n")
    page = pages.render("page.html", text="<b>&\"'", data=["</script>", 1.5])
    assert page == (
        '<p>&lt;b&gt;&amp;&#34;&#39;</p><script>["\\u003c/script\\u003e",1.5]</script>\n'
    )


def test_a_missing_value_is_an_error(template):
    template.write_text("{{ text }}")
    with pytest.raises(jinja2.UndefinedError, match="text"):
        pages.render("page.html")
