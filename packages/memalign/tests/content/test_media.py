"""Images, audio, video and files: refused wherever a case comes in, by name and place,
and never sent as text."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from memalign import Example, Judge
from memalign.errors import InputError, InvalidRows
from memalign.testing import ScriptedChatModel
from tests.support.lists import values
from tests.support.scripted import scripted

URL = f"data:image/png;base64,{base64.b64encode(bytes(range(256)) * 8).decode()}"
WEB = "https://shop.example/a"
IMAGE = [
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": WEB}}]}
]
PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}

MEDIA: dict[str, tuple[str, Any]] = {
    "image_url": ("images", IMAGE),
    "input_image": ("images", [{"type": "input_image", "image_url": URL}]),
    "image of Anthropic": (
        "images",
        [{"type": "image", "source": {"type": "base64", "data": "aGk="}}],
    ),
    "image of Gemini": (
        "images",
        {"inline_data": {"mime_type": "image/jpeg", "data": "aGk="}},
    ),
    "data url": ("images", URL),
    "bare base64": (
        "images",
        base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(600)).decode(),
    ),
    "in markdown": ("images", f"Look: ![cat]({URL}) nice?"),
    "bytes": ("images", b"\x89PNG"),
    "bytes of a sound": ("files", b"RIFF\x00\x00\x00\x00WAVEfmt "),
    "a sound in base64": (
        "files",
        base64.b64encode(b"RIFF\x00\x00\x00\x00WAVE" + bytes(600)).decode(),
    ),
    "file part of Vercel": (
        "files",
        {"type": "message", "data": "aGk=", "mediaType": "application/pdf"},
    ),
    "input_audio": (
        "audio",
        [{"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}],
    ),
    "audio of MCP": (
        "audio",
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
    ),
    "video_url": (
        "videos",
        [
            {
                "role": "user",
                "content": [{"type": "video_url", "video_url": {"url": WEB}}],
            }
        ],
    ),
    "video of Gemini": (
        "videos",
        {"file_data": {"mime_type": "video/mp4", "file_uri": WEB}},
    ),
    "file": (
        "files",
        [
            {
                "type": "file",
                "file": {
                    "filename": "a.pdf",
                    "file_data": "data:application/pdf;base64,J",
                },
            }
        ],
    ),
    "input_file": ("files", {"type": "input_file", "file_id": "file-1"}),
    "document of Anthropic": ("files", {"type": "document", "source": PDF}),
    "blob of MCP": (
        "files",
        {
            "type": "resource",
            "resource": {"blob": "aGk=", "mimeType": "application/pdf"},
        },
    ),
    "pdf in a text": ("files", f"See data:application/pdf;base64,{'JVBERi0x' * 200}"),
}

TEXTS = {
    "a folder": [
        {"type": "file", "name": "a.py", "path": "src/a.py", "size": 12},
        {"type": "dir", "path": "src"},
    ],
    "a file's own text": {
        "type": "file",
        "path": "a.md",
        "content": "# Title",
        "encoding": "utf-8",
    },
    "a search result": {
        "type": "document",
        "title": "Kettles",
        "url": WEB,
        "text": "Boils water.",
    },
    "a video's entry": {
        "type": "video",
        "title": "How to",
        "url": WEB,
        "mime_type": "video/mp4",
    },
    "an event stream": 'data: {"choices": []}\n\ndata: [DONE]',
    "speech as text": {
        "role": "assistant",
        "content": "Hi.",
        "audio": {"id": "audio-1"},
    },
    "about images": 'Write \'data:image/png;base64,…\' or {"type": "image_url"} to attach one.',
    "icon in a page": f'<img src="data:image/gif;base64,{"R0lGODlhAQABAAAAACw" * 3}">',
    "a block of a page": {"type": "image", "alt": "a cat", "caption": "Our cat"},
    "a field of that name": {"image_url": WEB},
    "a form of a part": {"type": "image_url"},
    "bytes of a text": "Grüße".encode(),
    "a part with nothing": [{"type": "input_image", "image_url": ""}],
    "words": ["iVBOR", {"type": "text", "text": "hello"}],
}


@pytest.fixture
def model() -> ScriptedChatModel:
    return scripted()[1]


@pytest.fixture
def judge(model: ScriptedChatModel) -> Judge:
    return scripted(model=model, instructions="Good? {{ inputs }} {{ outputs }}")[0]


@pytest.mark.parametrize("name", MEDIA)
def test_media_are_refused_by_kind_item_and_field(judge, model, name):
    kind, value = MEDIA[name]
    usual = {"id": "t-1", "inputs": "text", "outputs": "text"}
    for field in ("inputs", "outputs"):
        remedy = rf"cannot be judged; .*, or leave it out of {field}$"
        with pytest.raises(
            InputError, match=rf"^t-1: {field}.*: {kind} {remedy}"
        ) as refused:
            judge(Example(**usual | {field: value}))
        assert len(str(refused.value)) < 300, "the image itself is not repeated"
    example = Example(id="t-1", conversation=[{"role": "user", "content": value}])
    message = rf"^t-1: conversation\[0\].content.*: {kind} cannot be judged"
    with pytest.raises(InputError, match=message):
        judge.replace(instructions="Good? {{ conversation }}")(example)
    assert model.requests == []


@pytest.mark.parametrize("name", TEXTS)
def test_text_about_media_is_text(judge, name):
    assert judge(inputs="text", outputs=TEXTS[name]).value is True


def test_the_row_and_the_place_of_an_image_are_named(judge, model, tmp_path):
    path = tmp_path / "rows.jsonl"
    row = {"id": "t-1", "inputs": "text", "outputs": "fine", "value": True}
    rows = [row, row | {"id": "t-2", "outputs": IMAGE}]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    place = r"outputs\[0\].content\[0\] is an image \(image_url\)"
    for read in (judge.align, judge.judge_many):
        with pytest.raises(InvalidRows, match=rf"line 2 \(t-2\): {place}"):
            read(path)
    message = r"outputs.a\[0\].b is an image \(a data: URL\)"
    with pytest.raises(InputError, match=message):
        judge(inputs="text", outputs={"a": [{"b": URL}]})
    assert model.requests == []


@pytest.mark.parametrize("name", MEDIA)
def test_media_that_no_judge_reads_stop_nothing(model, name):
    _, value = MEDIA[name]
    judge, _ = scripted(model=model, instructions="Good? {{ outputs.text }}")
    for fields in ({"inputs": value}, {"trace": [value]}, {"conversation": value}):
        case = {"id": "t-1", "outputs": {"text": "fine", "picture": value}, **fields}
        assert judge(Example(**case)).value is True
        many = judge.judge_many([case, case | {"id": "t-2"}])
        assert values(many) == [True, True]
        aligned = judge.align([case | {"value": False, "source": "ana"}]).judge
        assert aligned.judge_many([case])[0].decided_by == "expert"
