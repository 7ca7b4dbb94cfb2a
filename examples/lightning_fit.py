"""The loader in Lightning: made in `train_dataloader`, where rank and device are known.

python examples/lightning_fit.py [DIR] [EPOCHS]. A checkpoint of Lightning's has the loader's place
in it: a run that ended in the middle of an epoch goes on from the very next image.
"""

import sys

import lightning
import torch
from torch.nn.functional import cross_entropy
from torchvision.models import resnet18

from train.data import build_loader


class Classifier(lightning.LightningModule):
    """ResNet-18 on a folder of images.

    Args:
        path: what `data.path` takes.
    """

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.model = resnet18(num_classes=10)

    def train_dataloader(self):
        """Float images, normalised, on this rank's device."""
        return build_loader(self.path, batch_size=32, image_size=64, device=self.device)

    def val_dataloader(self):
        """The validation images of the same path."""
        return build_loader(
            self.path, train=False, batch_size=32, image_size=64, device=self.device
        )

    def training_step(self, batch, number):
        """One batch: a pair (images, labels)."""
        images, labels = batch
        loss = cross_entropy(self.model(images), labels, ignore_index=-1)
        self.log("loss", loss, prog_bar=True, batch_size=len(labels))
        return loss

    def validation_step(self, batch, number):
        """Shares of right answers, summed up by Lightning over batches and ranks."""
        images, labels = batch
        count = int((labels >= 0).sum())  # -1 counts nowhere
        right = (self.model(images).argmax(1) == labels).sum() / max(1, count)
        self.log("top1", right, batch_size=count, sync_dist=True)

    def configure_optimizers(self):
        """Plain SGD."""
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)


if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else "data/sample"
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    trainer = lightning.Trainer(max_epochs=epochs, logger=False, default_root_dir="runs/lightning")
    trainer.fit(Classifier(path))
    print({name: round(float(value), 3) for name, value in trainer.callback_metrics.items()})
