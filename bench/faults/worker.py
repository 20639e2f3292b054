"""The injector inside vLLM: a ``--worker-extension-cls`` that harms a running server and mends it exactly.

It is the live-weights extension too, so the fingerprint of the weights says whether an undo was complete.
Every method takes and gives text, because vLLM's development route passes nothing else.
"""

from __future__ import annotations

import json
from typing import Any

from bench.faults import worker_cache, worker_logits, worker_weights
from bench.faults.weight_steps import Step
from bench.faults.worker_undo import UndoStacks
from quality_lib.serving.live_weights_worker import LiveWeights


class FaultWorker(LiveWeights):
    """Mixed into vLLM's worker; ``model_runner`` and ``vllm_config`` are the worker's own."""

    model_runner: Any
    vllm_config: Any

    def fault_weights(self, given: str) -> str:
        """Harm weights in memory; return the tensors that were touched, as JSON."""
        told = json.loads(given)
        steps = [Step.from_json(step) for step in told["steps"]]
        folder = str(self.vllm_config.model_config.model)
        stack = self._stacks().of("weights")
        model = self.model_runner.model
        touched = worker_weights.harm(model, folder, steps, told["seed"], told["source"], stack)
        return json.dumps(touched)

    def fault_cache(self, given: str) -> str:
        """Harm the KV cache of generating requests from now on."""
        worker_cache.harm(self.model_runner, json.loads(given), self._stacks().of("cache"))
        return "ok"

    def fault_logits(self, given: str) -> str:
        """Harm the scores or the choice of the next token from now on."""
        worker_logits.harm(self.model_runner, json.loads(given), self._stacks().of("logits"))
        return "ok"

    def fault_rope(self, given: str) -> str:
        """Overwrite the table of rotary angles."""
        model = self.model_runner.model
        worker_weights.harm_rope(model, json.loads(given), self._stacks().of("rope"))
        return "ok"

    def fault_jitter(self, given: str) -> str:
        """Add rounding-like noise before the output head."""
        told = json.loads(given)
        model, stack = self.model_runner.model, self._stacks().of("jitter")
        worker_logits.jitter(model, float(told["size"]), int(told["seed"]), stack)
        return "ok"

    def fault_mend(self, part: str) -> str:
        """Take back everything of one part; ``all`` takes everything back.

        Raises:
            RuntimeError: a tensor is not what it was before the harm.
        """
        return str(self._stacks().mend(part))

    def _stacks(self) -> UndoStacks:
        if not hasattr(self, "_fault_stacks"):
            self._fault_stacks = UndoStacks()
        return self._fault_stacks
