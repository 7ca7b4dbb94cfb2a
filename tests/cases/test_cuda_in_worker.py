"""A data set that touches the GPU in a forked worker: PyTorch's words, and what to do."""

import pytest
import torch
from loading import Breaking, make

pytestmark = pytest.mark.usefixtures("deadline", "no_child_left")


def to_the_gpu(index):
    torch.cuda._lazy_init()  # what `.cuda()` does first


def test_the_error_says_where_the_step_belongs(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    # What PyTorch finds in a child that was forked after CUDA had begun.
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    loader = make(Breaking(30, 7, to_the_gpu), 2)
    with pytest.raises(RuntimeError, match="Cannot re-initialize CUDA") as stop:
        list(loader)
    loader.close()
    assert "do that step on whole batches" in str(stop.value)
    assert "data.workers=0" in str(stop.value)
    assert "to_the_gpu" in str(stop.value.__cause__)  # where in the data set it was
