"""The tokenizer of a model's folder, for gates that count or know tokens without a server."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from quality_lib.errors import BadInput
from quality_lib.serving.server_tokenizer import ServerTokenizer, server_tokenizer


def folder_tokenizer(folder: Path) -> ServerTokenizer:
    """Load a tokenizer; nothing is downloaded and no code of the folder is run.

    Raises:
        BadInput: when the folder holds no tokenizer that can be read.
    """
    if not (folder / "tokenizer_config.json").is_file():
        raise BadInput(
            "holds no tokenizer (no tokenizer_config.json)",
            file=folder,
            fix="name the folder of the served model",
        )
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError) as error:
        raise BadInput(f"its tokenizer cannot be read: {error}", file=folder) from error
    # The same reading as inside the server, where the engine's client holds the tokenizer.
    return server_tokenizer(SimpleNamespace(engine_client=SimpleNamespace(tokenizer=tokenizer)))
