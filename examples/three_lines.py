"""The loader in a training loop of your own: the three lines are marked.

python examples/three_lines.py [DIR] [EPOCHS]: seconds on the CPU, with the sample that
scripts/sample_data.py makes.
"""

import sys

import torch
from torch.nn.functional import cross_entropy
from torchvision.models import resnet18

from train.data import build_loader  # 1

path = sys.argv[1] if len(sys.argv) > 1 else "data/sample"
epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 2

loader = build_loader(path, batch_size=32, image_size=64, crop_min=0.35)  # 2
print(loader)  # what it chose for this machine, and why

model = resnet18(num_classes=len(loader.classes)).to(loader.device)
model = model.to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for epoch in range(epochs):
    for images, labels in loader:  # 3
        loss = cross_entropy(model(images), labels, ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch + 1}: loss {loss.item():.2f}, the loader stands at {loader.state_dict()}")
loader.close()

val = build_loader(path, train=False, batch_size=32, image_size=64)
model.eval()
with torch.inference_mode():
    right = [(model(images).argmax(1) == labels) for images, labels in val]
print(f"top-1 {torch.cat(right).float().mean():.0%} of {len(torch.cat(right))} validation images")
val.close()
