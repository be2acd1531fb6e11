"""What a page or a part of one is made of, as a browser reads it."""

from __future__ import annotations

from html.parser import HTMLParser


class Tags(HTMLParser):
    """Every tag of a page, its attributes, and those that could do something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes = set[str]()
        self.active: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag; an address of another site could do something, and so could a script."""
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.add(name)
            goes = name in ("href", "src", "action", "formaction")
            away = goes and not str(value).startswith(("/", "#"))
            if name.startswith("on") or name == "style" or away:
                self.active.append(f"{tag} {name}={value}")
