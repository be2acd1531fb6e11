"""Images, audio, video and files: refused wherever a case comes in, by name and place, and never sent as text."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from memalign import Example, Judge
from memalign.content import media_in
from memalign.errors import InputError, InvalidRows
from memalign.testing import ScriptedChatModel
from tests.support.spans import Step, mlflow

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8).decode()
URL = f"data:image/png;base64,{PNG}"


IMAGES = {
    "image_url": [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://shop.example/a.png"}}]}
    ],
    "input_image": [{"role": "user", "content": [{"type": "input_image", "image_url": URL}]}],
    "anthropic": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}],
    "placeholder": {"content": [{"type": "image"}]},
    "gemini": {"inline_data": {"mime_type": "image/jpeg", "data": "aGk="}},
    "data url": URL,
    "in markdown": f"Look: ![cat]({URL}) nice?",
    "bytes": b"\x89PNG",
}

OTHERS: dict[str, tuple[str, Any]] = {
    "input_audio": ("audio", [{"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}]),
    "audio_url": ("audio", [{"type": "audio_url", "audio_url": {"url": "https://shop.example/a.wav"}}]),
    "spoken answer": (
        "audio",
        {
            "role": "assistant",
            "content": None,
            "audio": {"id": "a", "data": "aGk=", "transcript": "Hi.", "expires_at": 1},
        },
    ),
    "audio of MCP": ("audio", {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}),
    "audio by its name": ("audio", {"type": "audio", "audio": "https://shop.example/a.wav"}),
    "audio data url": ("audio", "data:audio/mpeg;base64,SUQzBAAA"),
    "video_url": (
        "videos",
        [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": "https://x.example"}}]}],
    ),
    "video of Gemini": ("videos", {"file_data": {"mime_type": "video/mp4", "file_uri": "https://x.example/v"}}),
    "video data url": ("videos", "data:video/mp4;base64,AAAA"),
    "file": (
        "files",
        [{"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}}],
    ),
    "file by id": ("files", {"type": "file", "file": {"file_id": "file-1"}}),
    "input_file": ("files", {"type": "input_file", "file_id": "file-1"}),
    "document of Anthropic": (
        "files",
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}},
    ),
    "document by url": ("files", {"type": "document", "source": {"type": "url", "url": "https://x.example/a.pdf"}}),
    "blob of MCP": ("files", {"type": "resource", "resource": {"blob": "aGk=", "mimeType": "application/pdf"}}),
    "pdf in a text": ("files", f"See data:application/pdf;base64,{'JVBERi0x' * 200}"),
}

TEXTS = {
    "a folder": [{"type": "file", "name": "a.py", "path": "src/a.py", "size": 12}, {"type": "dir", "path": "src"}],
    "a file's own text": {"type": "file", "path": "a.md", "content": "# Title", "encoding": "utf-8"},
    "a document of text": {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "Hello."},
    },
    "a search result": {
        "type": "document",
        "title": "Kettles",
        "url": "https://shop.example/k",
        "text": "Boils water.",
    },
    "a video's entry": {"type": "video", "title": "How to", "url": "https://shop.example/v", "mime_type": "video/mp4"},
    "an event stream": 'data: {"choices": []}\n\ndata: [DONE]',
    "speech as text": {"role": "assistant", "content": "Hi.", "audio": {"id": "audio-1"}},
    "about data URLs": "data:audio/ is how the address of a sound begins",
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
def test_an_image_is_refused_with_item_and_field(name: str, field: str) -> None:
    one, model = judge()
    fields: dict[str, Any] = {"id": "t-1", "outputs": "text", field: IMAGES[name]}
    with pytest.raises(InputError) as refused:
        one(Example(**fields))
    said = str(refused.value)
    assert said.startswith(f"t-1: {field}")
    assert "images cannot be judged; say in words what it shows, or leave it out" in said
    assert len(said) < 300, "the image itself is not repeated"
    assert model.requests == []


@pytest.mark.parametrize("name", OTHERS)
def test_audio_video_and_files_are_refused_by_kind(name: str) -> None:
    kind, value = OTHERS[name]
    one, model = judge()
    with pytest.raises(InputError, match=rf"^t-1: outputs.*: {kind} cannot be judged; .*, or leave it out of outputs$"):
        one(Example(id="t-1", outputs=value))
    turn = {"role": "user", "content": value}
    with pytest.raises(InputError, match=rf"^t-1: conversation\[0\].content.*: {kind} cannot be judged"):
        one.replace(instructions="Good? {{ conversation }}")(Example(id="t-1", conversation=[turn]))
    assert model.requests == []


@pytest.mark.parametrize("name", TEXTS)
def test_text_about_images_is_text(name: str) -> None:
    one, _ = judge()
    assert one(outputs=TEXTS[name]).value is True


@pytest.mark.parametrize("name", [name for name in IMAGES if name != "bytes"])
def test_a_row_with_an_image_is_named(name: str, tmp_path: Path) -> None:
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
    assert str(media_in(IMAGES["image_url"])) == "[0].content[0] is an image (image_url)"
    assert str(media_in({"a": [{"b": URL}]})) == ".a[0].b is an image (a data: URL)"


def test_an_image_in_a_json_text_is_found() -> None:
    one, _ = judge()
    one = one.replace(instructions="Good? {{ trace }}")
    step = Step(parent=None, name="describe", inputs={"messages": IMAGES["image_url"]})
    with pytest.raises(
        InputError, match=r"item: trace, span 'describe', inputs.messages\[0\].content\[0\] is an image"
    ):
        one(trace=mlflow([step]))
