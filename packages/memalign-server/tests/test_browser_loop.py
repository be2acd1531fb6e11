"""A new expert's whole way in a real Chromium, and what goes wrong on it: a model that is down, two tabs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memalign import Registry
from server_support import world
from test_browser import answered, chromium, enter, erase, no_script_fails, opened, served, until, url
from test_review import failing

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["chromium", "no_script_fails", "url"]  # fixtures

pytestmark = pytest.mark.slow


def test_an_invited_experts_first_day(chromium: Browser, url: str, tmp_path: Path) -> None:
    world.link(url, "olga")
    with served(url) as address:
        owner, expert = (opened(chromium, address) for _ in range(2))
        enter(owner, url, "olga")
        owner.goto("/judges/tone/setup?open=experts")
        owner.fill("input[name=name]", "ana")
        owner.click("button:has-text('Copy invitation')")
        link = owner.inner_text("[role=status] code")
        expert.goto(link)
        expert.click("button:has-text('Go on as ana')")
        expert.wait_for_selector("h1:has-text('Judges')")
        assert owner.goto(link).status == 404  # type: ignore[union-attr]  # a page is there
        expert.goto("/judges/tone/review?case=late")
        expert.fill("textarea[name=rationale]", "Show sympathy first.")
        expert.locator("main").focus()
        answered(expert, "n")
        for _ in range(4):
            expert.goto("/judges/tone/review")
            if "thanks" in expert.inner_text("#case-name"):
                expert.keyboard.press("u")  # cannot tell
                until(expert, "!(document.querySelector('#case-name')?.innerText ?? '').includes('thanks')")
            else:
                answered(expert, "n")
        expert.goto("/judges/tone/review")
        assert "4 answered" in expert.inner_text("#status")
        assert "every case" in expert.inner_text("main")
        expert.keyboard.press("t")
        expert.wait_for_selector("text=/You taught it th/")
        assert "A reply must show sympathy before facts" in expert.inner_text("main")
        assert expert.locator(".turn-row .tag.fixed").count() == 4
        erase(owner, "three weeks late")
        with owner.expect_download() as download:
            owner.click("text=Download signed file")
        receipt = tmp_path / "receipt.json"
        download.value.save_as(receipt)
        words = receipt.read_text("utf-8")
        assert json.loads(words)["complete"]
        assert not any(name in words for name in ("late@", '"late"', "three weeks"))
        registry = Registry(url)
        versions = [registry.load("tone", info.number) for info in registry.history("tone")]
        assert len(versions) > 2
        assert all(judge.memory.case("late") is None for judge in versions)
        assert registry.matching("tone", "three weeks late") == {}
        expert.goto("/judges/tone/memory")
        assert expert.locator("td:first-child a").all_inner_texts() == ["lamp", "shop", "twice"], "their own feedback"
        assert "late" not in expert.inner_text("main")


def test_a_model_that_is_down_keeps_answers(chromium: Browser, url: str) -> None:
    with served(url, script=failing) as address:
        page = opened(chromium, address)
        page.goto("/judges/tone/review?case=late")
        page.fill("textarea[name=rationale]", "Show sympathy first.")
        page.locator("main").focus()
        answered(page, "n")
        page.keyboard.press("t")
        page.wait_for_selector("h1:has-text('What changed')")
        page.wait_for_selector("text=the model is down")
        assert "You taught it this" not in page.inner_text("main")
    with served(url) as address:
        page = opened(chromium, address)
        page.goto("/judges/tone/review")
        assert "1 answered" in page.inner_text("#status")
        page.keyboard.press("t")
        page.wait_for_selector("text=/You taught it th/")


def test_two_tabs_of_one_browser(chromium: Browser, url: str) -> None:
    with served(url) as address:
        first = opened(chromium, address)
        second = first.context.new_page()
        for page in (first, second):
            page.goto("/judges/tone/review?case=late")
        answered(first, "n")
        second.keyboard.press("y")
        second.wait_for_selector("text=You have answered this case in another window: No.")
        assert "It answers the question." not in second.inner_text("main")
        answered(second, "y")
        first.reload()
        until(first, "document.querySelector('#card.done .mine').innerText.includes('Yes')")
        assert "1 answered" in first.inner_text("#status")
