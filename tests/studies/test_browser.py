"""The report in a real browser, without a network: nothing is asked for, nothing runs over the edge.

Needs Chromium (``tools/packages.sh``) and playwright.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from whorl.studies.registry import NAMES

from .conftest import Study

CHROMIUM = shutil.which("chromium")
SIZES = {"laptop": (1280, 800), "phone": (390, 844), "small phone": (360, 740)}

if not os.environ.get("CI"):
    pytest.importorskip("playwright", reason="playwright is not installed")


COMMITTED = sorted((Path(__file__).parents[2] / "docs" / "results").glob("studies-*/**/*.html"))


@pytest.mark.verify
@pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"), reason="there is no Chromium; tools/packages.sh installs it"
)
def test_reports_ask_nothing_of_the_network_and_fit_every_screen(whorl_study: Study, tmp_path: Path) -> None:
    """One that was just made, and all those that are kept as results."""
    from playwright.sync_api import sync_playwright

    code, _, err = whorl_study("windows", "--study-dir", "here")
    assert code == 0, err
    assert len(COMMITTED) > len(NAMES)
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        for name, (width, height) in SIZES.items():
            context = browser.new_context(viewport={"width": width, "height": height}, offline=True)
            for file in [tmp_path / "here" / "report.html", *COMMITTED]:
                page = context.new_page()
                check_page(page, file, name, is_wide=width > 600)
                page.close()
            context.close()
        browser.close()


def check_page(page: Any, file: Path, screen: str, *, is_wide: bool) -> None:
    """It opens by itself, nothing runs over the edge, and its pictures are there, in the form for this screen."""
    asked: list[str] = []
    trouble: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfailed", lambda request: trouble.append(request.url))
    page.on("console", lambda message: trouble.append(message.text))
    page.goto(file.absolute().as_uri())
    where = f"{file.parent.name}/{file.name} on a {screen}"
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == [], where
    assert trouble == [], where
    overflow = "document.documentElement.scrollWidth - window.innerWidth"
    assert page.evaluate(overflow) <= 0, where
    images = page.evaluate("[...document.images].map(image => image.complete && image.naturalWidth > 300)")
    assert bool(images) == (file.name == "report.html"), where
    assert all(images), where
    sized = "[...document.images].map(image => image.currentSrc == image.src)"
    assert all(form == is_wide for form in page.evaluate(sized)), f"{where}: phones get the form for them"
    loose = "[...document.querySelectorAll('table')].every(table => table.closest('.wide'))"
    assert page.evaluate(loose), f"{where}: a wide table scrolls by itself"
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.evaluate(overflow) <= 0, f"{where}: opened commands run over the edge"
