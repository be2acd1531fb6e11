"""Erasing as a person does it in a browser: find everywhere, erase, read the receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memalign_server.store import Store
from test_browser import chromium, no_script_fails, opened, served, url

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["chromium", "no_script_fails", "url"]


def test_a_customer_is_found_everywhere_and_erased(chromium: Browser, url: str) -> None:
    """The queue's case was never taught, and a table of somebody else's makes the next receipt say no."""
    with served(url) as address:
        page = opened(chromium, address)
        page.goto("/judges/tone/erase")
        page.fill("input[name=matching]", "THREE WEEKS LATE")
        page.click("button:has-text('Find everywhere')")
        page.wait_for_selector("text=1 case")
        assert "My order is three weeks late." in page.inner_text("main")
        assert "three" not in page.url.lower()
        page.click("text=Erase it for good")
        page.wait_for_selector("text=It is gone, from every version and every table.")
        assert "three weeks late" not in page.inner_text("main").lower()
        with Store(url).write() as connection:
            connection.exec_driver_sql("CREATE TABLE crm_notes (about VARCHAR(200))")
            connection.exec_driver_sql("INSERT INTO crm_notes VALUES ('The lamp arrived broken, she says')")
        page.goto("/judges/tone/erase")
        page.fill("input[name=matching]", "lamp arrived")
        page.click("button:has-text('Find everywhere')")
        page.click("text=Erase it for good")
        page.wait_for_selector("[role=alert]:has-text('NO')")
        assert "crm_notes.about (1 row)" in page.inner_text("main")
