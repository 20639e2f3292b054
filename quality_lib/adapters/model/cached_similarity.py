"""Text similarity for many single questions against the same few texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quality_lib.adapters.model.embeddings import BUILTIN, SentenceSimilarity

MAX_CACHED = 4096
"""Vectors kept, 1.5 KiB each."""


class CachedSimilarity:
    """Cosine similarity of pairs; the model loads once, and each text is embedded once."""

    def __init__(self, model: str = BUILTIN) -> None:
        self._folder = SentenceSimilarity(model).folder
        self._model: Any = None
        self._vectors: dict[str, Any] = {}

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """Return one value in [-1, 1] per pair."""
        if len(self._vectors) > MAX_CACHED:
            self._vectors.clear()
        texts = {text for pair in pairs for text in pair} - self._vectors.keys()
        if texts:
            found = self._loaded().encode(
                list(texts), normalize_embeddings=True, show_progress_bar=False
            )
            self._vectors.update(zip(texts, found, strict=True))
        return [float(self._vectors[a] @ self._vectors[b]) for a, b in pairs]

    def _loaded(self) -> Any:
        if self._model is None:
            from sentence_transformers import SentenceTransformer

            self._model = SentenceTransformer(
                str(self._folder), device="cpu", local_files_only=True
            )
        return self._model
