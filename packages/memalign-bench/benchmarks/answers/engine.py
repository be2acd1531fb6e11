"""A model of memalign's catalogue in torch, for answers by the ten thousand on a processor.

Needs torch, transformers and gguf, which are no dependencies of this project: make an environment of its own with
`pip install torch transformers gguf`, memalign and memalign-bench, and `memalign models pull` for the model's file. Why not llama.cpp,
as memalign itself: here an item is read once and all questions about it are packed into one pass, each seeing the item
and itself alone, and processors with AMX or AVX-512 bf16 compute that at several times the speed.
The weights are those of the catalogue's file, four bits each, in bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from memalign.models.catalogue import locate

END = "<|im_end|>\n<|im_start|>assistant\n"
LOW = torch.finfo(torch.bfloat16).min

Writer = Callable[[torch.Tensor], "int | None"]
"""From the next token's logits to the token that is written, None at the end."""


class Engine:
    """The model called `name`; its prompts are those of Qwen's chat format."""

    def __init__(self, name: str, *, pack: int = 700) -> None:
        _, path = locate(name)
        self.pack = pack
        self.tokens = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.bfloat16)
        self.model = model.eval()
        self.head = model.lm_head.weight
        self.eos = self.tokens.convert_tokens_to_ids("<|im_end|>")
        self.yes = sorted({self.ids(word)[0] for word in ("yes", "Yes", "YES", " yes", " Yes")})
        self.no = sorted({self.ids(word)[0] for word in ("no", "No", "NO", " no", " No")})

    def ids(self, text: str) -> list[int]:
        """The text's tokens."""
        found: list[int] = self.tokens(text, add_special_tokens=False)["input_ids"]
        return found

    @torch.inference_mode()  # type: ignore[untyped-decorator]  # torch is not in the project
    def margins(self, system: str, item: str, questions: Sequence[str]) -> list[float]:
        """Log p(yes)/p(no) of each question, asked after the item, which is read once."""
        prefix = self.ids(f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{item}")
        cache, n, found = DynamicCache(config=self.model.config), len(prefix), []
        self.model.model(torch.tensor([prefix]), past_key_values=cache, use_cache=True)
        left = [self.ids(question + END) for question in questions]
        while left:
            taken = [left.pop(0)]
            while left and sum(map(len, taken)) + len(left[0]) <= self.pack:
                taken.append(left.pop(0))
            size = sum(map(len, taken))
            mask = torch.full((size, n + size), LOW, dtype=torch.bfloat16)
            mask[:, :n] = 0
            at, last = 0, []
            for each in taken:  # a question sees the item and itself, not the questions beside it
                width = len(each)
                own = torch.triu(torch.full((width, width), LOW, dtype=torch.bfloat16), 1)
                mask[at : at + width, n + at : n + at + width] = own
                at += width
                last.append(at - 1)
            hidden = self.model.model(
                torch.tensor([[token for each in taken for token in each]]),
                past_key_values=cache,
                use_cache=True,
                attention_mask=mask[None, None],
                position_ids=torch.tensor([[n + place for each in taken for place in range(len(each))]]),
                cache_position=torch.arange(n, n + size),
            ).last_hidden_state[0, last]
            cache.crop(-size)
            yes, no = ((hidden @ self.head[some].T).float().logsumexp(1) for some in (self.yes, self.no))
            found += (yes - no).tolist()
        return found

    @torch.inference_mode()  # type: ignore[untyped-decorator]  # torch is not in the project
    def write(self, system: str, users: Sequence[str], writers: Sequence[Writer], *, batch: int = 16) -> None:
        """Let each writer choose its prompt's tokens until it ends; the system prompt is read once."""
        prefix = self.ids(f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n")
        base, n = DynamicCache(config=self.model.config), len(prefix)
        self.model.model(torch.tensor([prefix]), past_key_values=base, use_cache=True)
        prompts = [self.ids(user) for user in users]
        order = sorted(range(len(prompts)), key=lambda place: len(prompts[place]))
        for start in range(0, len(order), batch):
            places = order[start : start + batch]
            width = max(len(prompts[place]) for place in places)
            tokens = torch.full((len(places), width), self.eos)
            mask = torch.zeros((len(places), n + width), dtype=torch.long)
            mask[:, :n] = 1
            for row, place in enumerate(places):
                tokens[row, width - len(prompts[place]) :] = torch.tensor(prompts[place])
                mask[row, n + width - len(prompts[place]) :] = 1
            cache = DynamicCache(config=self.model.config)
            for number, layer in enumerate(base.layers):
                keys, values = (
                    each.expand(len(places), -1, -1, -1).contiguous() for each in (layer.keys, layer.values)
                )
                cache.update(keys, values, number)
            position = (mask.cumsum(1) - 1).clamp(min=0)[:, n:]
            going = dict(enumerate(writers[place] for place in places))
            while going:
                hidden = self.model.model(
                    tokens, past_key_values=cache, attention_mask=mask, position_ids=position, use_cache=True
                ).last_hidden_state[:, -1]
                logits = (hidden @ self.head.T).float()
                tokens = torch.full((len(places), 1), self.eos)
                for row, writer in list(going.items()):
                    token = writer(logits[row])
                    if token is None:
                        del going[row]
                    else:
                        tokens[row, 0] = token
                mask = torch.cat([mask, torch.ones((len(places), 1), dtype=torch.long)], 1)
                position = position[:, -1:] + 1
