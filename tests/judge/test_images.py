"""Images: refused wherever a case comes in, by name and place, and never sent as text."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from memalign import Example, Judge
from memalign.content import image_in
from memalign.errors import InputError, InvalidRows
from memalign.testing import ScriptedChatModel
from tests.support.spans import Step, mlflow

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8).decode()
URL = f"data:image/png;base64,{PNG}"


class Image:
    """Stands where Pillow's does."""


Image.__module__ = "PIL.Image"

IMAGES = {
    "image_url": [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://shop.example/a.png"}}]}
    ],
    "input_image": [{"role": "user", "content": [{"type": "input_image", "image_url": URL}]}],
    "anthropic": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}],
    "placeholder": {"content": [{"type": "image"}]},
    "gemini": {"inline_data": {"mime_type": "image/jpeg", "data": "aGk="}},
    "bedrock": {"image": {"format": "png", "source": {"bytes": "aGk="}}},
    "data url": URL,
    "in markdown": f"Look: ![cat]({URL}) nice?",
    "base64": PNG,
    "bytes": b"\x89PNG",
    "pillow": {"shot": Image()},
}

TEXTS = {
    "about images": 'Write \'data:image/png;base64,…\' or {"type": "image_url"} to attach one.',
    "icon in a page": f'<img src="data:image/gif;base64,{"R0lGODlhAQABAAAAACw" * 3}">',
    "a block of a page": {"type": "image", "alt": "a cat", "caption": "Our cat"},
    "a field of that name": {"image_url": "https://shop.example/a.png"},
    "words": ["iVBOR", {"type": "text", "text": "hello"}],
}


def judge() -> tuple[Judge, ScriptedChatModel]:
    model = ScriptedChatModel(lambda _: {"rationale": "r", "value": True})
    return Judge(name="j", instructions="Good? {{ outputs }}", feedback_value_type=bool, model=model), model


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("field", ["inputs", "outputs"])
def test_an_image_is_refused_with_the_item_the_field_and_what_to_do(name: str, field: str) -> None:
    one, model = judge()
    fields: dict[str, Any] = {"id": "t-1", "outputs": "text", field: IMAGES[name]}
    with pytest.raises(InputError) as refused:
        one(Example(**fields))
    said = str(refused.value)
    assert said.startswith(f"t-1: {field}")
    assert "images cannot be judged; say in words what it shows, or leave it out" in said
    assert len(said) < 300, "the image itself is not repeated"
    assert model.requests == []


@pytest.mark.parametrize("name", TEXTS)
def test_text_about_images_is_text(name: str) -> None:
    one, _ = judge()
    assert one(outputs=TEXTS[name]).value is True


@pytest.mark.parametrize("name", [name for name in IMAGES if name not in ("bytes", "pillow")])
def test_a_row_with_an_image_is_named_in_files_of_items_and_of_feedback(name: str, tmp_path: Path) -> None:
    one, model = judge()
    path = tmp_path / "rows.jsonl"
    rows = [{"id": "t-1", "outputs": "fine", "value": True}, {"id": "t-2", "outputs": IMAGES[name], "value": True}]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    with pytest.raises(InvalidRows) as refused:
        one.align(path)
    assert "line 2 (t-2): outputs" in str(refused.value)
    with pytest.raises(InvalidRows) as refused:
        one.judge_many(path)
    assert "line 2 (t-2): outputs" in str(refused.value)
    assert model.requests == []


def test_the_place_of_the_image_is_said() -> None:
    assert image_in(IMAGES["image_url"]) == "[0].content[0] is an image (image_url)"
    assert image_in({"a": [{"b": URL}]}) == ".a[0].b is an image (a data: URL)"


def test_an_image_that_a_span_was_given_is_found_though_it_is_json_in_a_text() -> None:
    one, _ = judge()
    one = one.replace(instructions="Good? {{ trace }}")
    step = Step(parent=None, name="describe", inputs={"messages": IMAGES["image_url"]})
    with pytest.raises(
        InputError, match=r"item: trace, span 'describe', inputs.messages\[0\].content\[0\] is an image"
    ):
        one(trace=mlflow([step]))
