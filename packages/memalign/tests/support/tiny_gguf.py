"""A real GGUF file of a real architecture, small enough to write in a test: two layers, random weights, 260 tokens."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
WIDTH, HEADS, KV_HEADS, INNER, LAYERS = 128, 2, 1, 256, 2
HEAD = WIDTH // HEADS


def _byte_tokens() -> list[str]:
    """GPT-2's printable stand-ins for the 256 bytes."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    stand_in = {byte: chr(byte) for byte in plain} | {byte: chr(256 + n) for n, byte in enumerate(others)}
    return [stand_in[byte] for byte in range(256)]


TOKENS = [*_byte_tokens(), "th", "<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def _text(words: str) -> bytes:
    raw = words.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: Any) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case str():
            return struct.pack("<I", 8) + _text(value)
        case [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
        case _:
            return struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)


def write_tiny_gguf(path: Path, *, seed: int = 0) -> Path:
    """Write the file; the same bytes for the same seed."""
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> Any:
        return rng.normal(0, 1.5 / columns**0.5, (rows, columns)).astype(np.float16)

    tensors: dict[str, Any] = {
        "token_embd.weight": rng.normal(0, 1, (len(TOKENS), WIDTH)).astype(np.float16),
        "output_norm.weight": np.ones(WIDTH, dtype=np.float32),
        "output.weight": matrix(len(TOKENS), WIDTH),
    }
    for n in range(LAYERS):
        kv = KV_HEADS * HEAD
        tensors |= {
            f"blk.{n}.attn_norm.weight": np.ones(WIDTH, dtype=np.float32),
            f"blk.{n}.attn_q.weight": matrix(WIDTH, WIDTH),
            f"blk.{n}.attn_q.bias": np.zeros(WIDTH, dtype=np.float32),
            f"blk.{n}.attn_k.weight": matrix(kv, WIDTH),
            f"blk.{n}.attn_k.bias": np.zeros(kv, dtype=np.float32),
            f"blk.{n}.attn_v.weight": matrix(kv, WIDTH),
            f"blk.{n}.attn_v.bias": np.zeros(kv, dtype=np.float32),
            f"blk.{n}.attn_output.weight": matrix(WIDTH, WIDTH),
            f"blk.{n}.ffn_norm.weight": np.ones(WIDTH, dtype=np.float32),
            f"blk.{n}.ffn_gate.weight": matrix(INNER, WIDTH),
            f"blk.{n}.ffn_up.weight": matrix(INNER, WIDTH),
            f"blk.{n}.ffn_down.weight": matrix(WIDTH, INNER),
        }
    # One number of the hidden state is the same everywhere, and speaks against all but printable ASCII: bytes drawn at
    # random are rarely UTF-8, and what engines make of the others is not what is tested here.
    tensors["token_embd.weight"][:, 0] = 5
    odd = [n for n in range(256) if not 0x20 <= n < 0x7F]
    tensors["output.weight"][:, 0] = 0
    tensors["output.weight"][odd, 0] = -3
    for n in range(LAYERS):
        tensors[f"blk.{n}.attn_output.weight"][0] = tensors[f"blk.{n}.ffn_down.weight"][0] = 0
    keys: dict[str, Any] = {
        "general.architecture": "qwen2",
        "general.name": "tiny",
        "general.file_type": 1,
        "qwen2.context_length": 4096,
        "qwen2.embedding_length": WIDTH,
        "qwen2.block_count": LAYERS,
        "qwen2.feed_forward_length": INNER,
        "qwen2.attention.head_count": HEADS,
        "qwen2.attention.head_count_kv": KV_HEADS,
        "qwen2.rope.freq_base": 1_000_000.0,
        "qwen2.attention.layer_norm_rms_epsilon": 1e-6,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": [1] * (len(TOKENS) - 3) + [3] * 3,
        "tokenizer.ggml.merges": ["t h"],
        "tokenizer.ggml.eos_token_id": TOKENS.index("<|im_end|>"),
        "tokenizer.ggml.padding_token_id": TOKENS.index("<|endoftext|>"),
        "tokenizer.ggml.bos_token_id": TOKENS.index("<|endoftext|>"),
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))
    head += b"".join(_text(key) + _value(value) for key, value in keys.items())
    body = b""
    for name, tensor in tensors.items():
        shape = tensor.shape[::-1]
        kind = 1 if tensor.dtype == np.float16 else 0
        head += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(body))
        body += tensor.tobytes() + bytes(-tensor.nbytes % 32)
    path.write_bytes(head + bytes(-len(head) % 32) + body)
    return path
