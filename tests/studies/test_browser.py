"""The report in a real browser, without a network: nothing is asked for, nothing runs over the edge.

Needs Chromium (``tools/packages.sh``) and playwright.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from .conftest import Study

CHROMIUM = shutil.which("chromium")
SIZES = {"laptop": (1280, 800), "phone": (390, 844), "small phone": (360, 740)}

if not os.environ.get("CI"):
    pytest.importorskip("playwright", reason="playwright is not installed")


@pytest.mark.verify
@pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"), reason="there is no Chromium; tools/packages.sh installs it"
)
def test_a_report_asks_nothing_of_the_network_and_fits_every_screen(whorl_study: Study, tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    code, _, err = whorl_study("windows", "--study-dir", "here")
    assert code == 0, err
    page_file = (tmp_path / "here" / "report.html").absolute().as_uri()
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        for name, (width, height) in SIZES.items():
            context = browser.new_context(viewport={"width": width, "height": height}, offline=True)
            page = context.new_page()
            asked, failed, said = [], [], []
            page.on("request", lambda request: asked.append(request.url))  # noqa: B023
            page.on("requestfailed", lambda request: failed.append(request.url))  # noqa: B023
            page.on("console", lambda message: said.append(message.text))  # noqa: B023
            page.goto(page_file)
            assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
            assert failed == []
            assert said == []
            overflow = "document.documentElement.scrollWidth - window.innerWidth"
            assert page.evaluate(overflow) <= 0, f"runs over the edge of a {name}"
            images = page.evaluate("[...document.images].map(image => image.complete && image.naturalWidth > 300)")
            assert images
            assert all(images)
            sized = "[...document.images].map(image => image.currentSrc == image.src)"
            assert all(is_wide == (width > 600) for is_wide in page.evaluate(sized)), "phones get the form for them"
            loose = "[...document.querySelectorAll('table')].every(table => table.closest('.wide'))"
            assert page.evaluate(loose), "a wide table scrolls by itself"
            page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            assert page.evaluate(overflow) <= 0, f"opened commands run over the edge of a {name}"
            page.screenshot(path=str(tmp_path / f"{name}.png"), full_page=True)
            context.close()
        browser.close()
