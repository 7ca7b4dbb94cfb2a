"""A checkpoint of Lightning's in the middle of an epoch: the loader goes on from the next image."""

import numpy as np
import pytest
import torch

from train.data import build_loader
from train.data.sources.torchvision_source import PixelSource

pytestmark = [
    pytest.mark.usefixtures("packages", "deadline", "no_child_left"),
    pytest.mark.filterwarnings("ignore"),  # Lightning's own, of which this test is no judge
]


def loader():
    pixels = np.zeros((22, 8, 8, 3), np.uint8)
    source = PixelSource(pixels, np.arange(22))
    return build_loader(source, batch_size=4, image_size=8, device="cpu", workers=1)


def fit(folder, resume=None):
    """Two epochs, saved after the 8th of 12 batches; the labels of every batch trained on."""
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer, self.seen = torch.nn.Linear(3, 1), []

        def training_step(self, batch, number):
            self.seen.append(batch[1].tolist())
            return self.layer(batch[0].mean((2, 3))).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    model, batches = Model(), loader()
    trainer = lightning.Trainer(
        max_epochs=2,
        callbacks=[ModelCheckpoint(folder, "{step}", every_n_train_steps=8, save_top_k=-1)],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accelerator="cpu",
    )
    trainer.fit(model, batches, ckpt_path=resume)
    batches.close()
    return model.seen


def test_a_resumed_run_sees_what_the_whole_one_sees(tmp_path):
    whole = fit(tmp_path)
    assert len(whole) == 12
    assert sorted(label for batch in whole[:6] for label in batch) == list(range(22))
    assert fit(tmp_path / "rest", resume=tmp_path / "step=8.ckpt") == whole[8:]
