"""Random resized crops for peers that have none of their own; standard library alone."""

import math
import random

from race.measure import CROP, RATIO


def random_crop(width, height):
    """The crop of torchvision's RandomResizedCrop: (left, top, width, height)."""
    for _ in range(10):
        area = width * height * random.uniform(*CROP)
        ratio = math.exp(random.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        wide, high = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < wide <= width and 0 < high <= height:
            return random.randint(0, width - wide), random.randint(0, height - high), wide, high
    wide, high = min(width, round(height * RATIO[1])), min(height, round(width / RATIO[0]))
    return (width - wide) // 2, (height - high) // 2, wide, high
