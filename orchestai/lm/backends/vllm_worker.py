"""A worker of vLLM that also renews what a CPU build keeps of weights beside them; it runs in vLLM's own processes."""

from __future__ import annotations

from typing import Any

EXTENSION = f"{__name__}.FolderLoader"
"""What `worker_extension_cls` (`--worker-extension-cls`) is to name."""
METHOD = "load_folder"


class FolderLoader:
    """Mixed into vLLM's worker, whose `reload_weights` it calls.

    On a CPU, layers multiply with a packed copy of their weights. `reload_weights` packs anew what it has read, but an
    output layer that is tied to the embeddings is in no checkpoint, and would keep its old copy.
    """

    reload_weights: Any
    model_runner: Any

    def load_folder(self, weights_path: str) -> None:
        """Take over the weights that `save_pretrained` wrote."""
        from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

        self.reload_weights(weights_path=weights_path)
        for layer in self.model_runner.get_model().modules():
            if isinstance(layer, ParallelLMHead):
                layer.quant_method.process_weights_after_loading(layer)
