"""The loader in Accelerate: it shards by rank itself, so it isn't passed to `prepare`.

python examples/accelerate_fit.py [DIR] [EPOCHS], or accelerate launch examples/accelerate_fit.py.
"""

import sys

import torch
from accelerate import Accelerator
from torch.nn.functional import cross_entropy
from torchvision.models import resnet18

from train.data import build_loader


def main(path="data/sample", epochs="2"):
    """Train, and score the validation images.

    Args:
        path: what `data.path` takes.
        epochs: passes.
    """
    accelerator = Accelerator()  # before the loader: it starts torch.distributed
    options = {"batch_size": 32, "image_size": 64, "device": accelerator.device}
    loader = build_loader(path, **options)
    val = build_loader(path, train=False, **options)
    model = resnet18(num_classes=len(loader.classes))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    model, optimizer = accelerator.prepare(model, optimizer)
    accelerator.register_for_checkpointing(loader)  # save_state and load_state keep its place
    for epoch in range(int(epochs)):
        model.train()
        for images, labels in loader:
            loss = cross_entropy(model(images), labels, ignore_index=-1)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
        accelerator.print(f"epoch {epoch + 1}: loss {loss.item():.2f}")
    model.eval()
    sums = torch.zeros(2, device=accelerator.device)  # right, seen
    with torch.inference_mode():
        for images, labels in val:
            right = (model(images).argmax(1) == labels).sum()
            sums += torch.stack([right, (labels >= 0).sum()])
    right, seen = accelerator.reduce(sums).tolist()
    accelerator.print(f"top-1 {right / seen:.0%} of {seen:.0f} validation images")
    loader.close()
    val.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
