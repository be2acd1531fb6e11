"""Set up and erasing as a person does them in a browser: a file, a trial, an invitation, a customer and the receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memalign_server.store import Store
from server_support import world
from test_browser import chromium, no_script_fails, opened, served, url

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

__all__ = ["chromium", "no_script_fails", "url"]


def test_a_customer_is_found_everywhere_and_erased(chromium: Browser, url: str) -> None:
    """The queue's case was never taught, and a table of somebody else's makes the next receipt say no."""
    with served(url) as address:
        page = opened(chromium, address)
        page.goto("/judges/tone/setup?open=erase")
        page.fill("input[name=matching]", "THREE WEEKS LATE")
        page.click("button:has-text('Find everywhere')")
        page.wait_for_selector("text=Found: 1 case")
        assert "My order is three weeks late." in page.inner_text("main")
        assert "three" not in page.url.lower()
        page.uncheck("input[name=tick]")
        page.wait_for_selector("#ticks button:disabled")
        page.check("input[name=tick]")
        page.click("text=Erase 1 case for good")
        page.wait_for_selector("text=We searched again afterwards: 0 left.")
        assert "three weeks late" not in page.content().lower().replace('value="three weeks late"', "")
        assert "/receipts/" in page.url
        page.fill("#reference", "DSR 118")
        with page.expect_response(lambda answer: answer.request.method == "POST"):
            page.press("#reference", "Tab")
        page.reload()
        assert page.input_value("#reference") == "DSR 118"
        page.emulate_media(media="print")
        assert not page.is_visible("nav")
        assert not page.is_visible("text=Save as PDF")
        page.emulate_media(media="screen")
        with Store(url).write() as connection:
            connection.exec_driver_sql("CREATE TABLE crm_notes (about VARCHAR(200))")
            connection.exec_driver_sql("INSERT INTO crm_notes VALUES ('The lamp arrived broken, she says')")
        page.goto("/judges/tone/setup?open=erase")
        page.fill("input[name=matching]", "lamp arrived")
        page.click("button:has-text('Find everywhere')")
        page.click("text=Erase 1 case for good")
        page.wait_for_selector("h1:has-text('Not everything is gone')")
        assert "crm_notes.about (1 row)" in page.inner_text("main")


def test_a_file_is_shown_and_added(chromium: Browser, url: str, tmp_path: Path) -> None:
    file = tmp_path / "june.csv"
    file.write_text("who;what;answer\nAna;Where is it?;On its way.\nBen;Why so late?;We are sorry.\n")
    with served(url) as address:
        page = opened(chromium, address)
        page.goto("/judges/tone/setup?open=cases")
        page.set_input_files("input[type=file]", file)
        page.wait_for_selector("text=Add 2 cases")
        page.select_option("select >> nth=1", "answer")
        page.wait_for_selector("td:has-text('On its way.')")
        page.select_option("select >> nth=0", "what")
        page.wait_for_selector("td:has-text('Where is it?')")
        page.click("text=Add 2 cases")
        page.wait_for_selector("text=2 new")
        page.goto("/judges/tone/setup?open=cases")
        page.set_input_files("input[type=file]", file)
        page.select_option("select >> nth=1", "answer")
        page.wait_for_selector("td:has-text('On its way.')")
        page.select_option("select >> nth=0", "what")
        page.wait_for_selector("text=Nothing new: all 2 were there already.")
        file.write_text("")
        page.goto("/judges/tone/setup?open=cases")
        page.set_input_files("input[type=file]", file)
        page.wait_for_selector("[role=alert]:has-text('june.csv has no rows')")


def test_an_invitation_is_copied(chromium: Browser, url: str) -> None:
    with served(url) as address:
        page = opened(chromium, address, permissions=["clipboard-read", "clipboard-write"])
        page.goto(world.link(url, "olga"))
        page.click("main form button")
        page.goto("/judges/tone/setup?open=experts")
        page.fill("input[name=name]", "Carla")
        page.click("text=Make a link")
        link = page.inner_text("[role=status] code")
        page.click("[data-copy]")
        page.wait_for_selector("[data-copy]:has-text('Copied')")
        assert page.evaluate("navigator.clipboard.readText()") == link
