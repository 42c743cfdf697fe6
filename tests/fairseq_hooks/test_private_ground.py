"""Names that torch and fairseq need not keep: where one is gone, this says what used it."""

import importlib

import pytest

USED = {
    # torch
    "torch._weights_only_unpickler:Unpickler": "errors.one_line",
    # fairseq, all of what installation.wraps names beside these
    "fairseq.trainer:Trainer._reduce_and_log_stats": "watch.after_update",
    "fairseq.distributed.utils:_broadcast_object_slow": "ranks.broadcast",
    "fairseq.distributed.utils:_infer_torch_distributed_launch_init": "ranks.launch_on_cpu_too",
    "fairseq.utils:xm": "installation.let_bf16_run_on_a_gpu",
    "fairseq.data.indexed_dataset:_code_to_dtype": "preflight.tokens_of",
    "fairseq.optim.fp16_optimizer:_MemoryEfficientFP16OptimizerMixin": "watch.clip_or_skip",
}


@pytest.mark.parametrize("name", USED)
def test_is_still_there(name: str) -> None:
    module, path = name.split(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        assert hasattr(found, part), f"{name} is gone; {USED[name]} needs it"
        found = getattr(found, part)


def test_an_optimizer_in_bf16_keeps_its_factor_where_watch_resets_it() -> None:
    import inspect

    from fairseq.optim import fp16_optimizer

    assert "self._multiply_factor = 1.0" in inspect.getsource(fp16_optimizer)
