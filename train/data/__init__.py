"""The line that a sample travels, in the order of its stops.

```
1 sampler.py    (seed, epoch, rank)     -> indices
2 sources/      index                   -> Record(data, label, key)
3 augment.py    (seed, epoch, index)    -> crop box, flip
4 decode.py     bytes, crop box         -> uint8 (h, w, 3)
5 batch.py      B of them               -> uint8 (B, S, S, 3), int64 (B,)
6 loader.py     workers over 5          -> host batches, written into ring.py
7 prefetch.py   host batch              -> device batch
8 prefetch.py   uint8 (B, S, S, 3)      -> float (B, 3, S, S) channels_last, normalised,
                                           on the device
```
"""

from typing import Any, Optional, Union

from train.config import DataConfig
from train.data.batch import Batches, Recipe
from train.data.loader import Loader
from train.data.sampler import Sampler
from train.data.samples import Samples
from train.data.settings import LoaderSettings
from train.data.sources import Source

__all__ = ["build_loader"]


def build_loader(
    source: Union[Source, Any],
    config: DataConfig,
    settings: LoaderSettings,
    train: bool,
    seed: int,
    epochs: Optional[int] = None,
    rank: int = 0,
    world_size: int = 1,
) -> Loader:
    """Stops 1 to 6 of the line, put together.

    Args:
        source: the records; or a map-style data set of your own, whose items are (image, label).
        config: image size, batch size, crops.
        settings: workers, prefetch depth, pinning: chosen by `settings.choose` from the machine.
        train: shuffle and augment; else the source's order and central crops.
        seed: of the run.
        epochs: where the order ends; None: never.
        rank: this process among all, from 0.
        world_size: how many processes train together.

    Returns:
        A loader of host batches; its workers start at the first `for`, or earlier by `start()`.

    Raises:
        ConfigError: fewer samples than the ranks need.
    """
    sampler = Sampler(
        len(source),
        config.batch_size,
        seed,
        shuffle=train,
        rank=rank,
        world_size=world_size,
        min_batch=2 if train else 1,
    )
    recipe = Recipe(
        train,
        config.image_size,
        config.crop_min,
        config.flip,
        config.max_pixels,
        seed,
        config.resize,
    )
    # A source has keys. Samples of a user's own are put together by torch.
    whole = Batches(source, recipe) if hasattr(source, "key") else Samples(source, train, seed)
    return Loader(
        whole,
        sampler,
        workers=settings.workers if train else settings.eval_workers,
        prefetch=settings.prefetch if train else settings.eval_prefetch,
        pin_memory=settings.pin_memory,
        start_method=settings.start_method,
        epochs=epochs,
        workers_kind=settings.workers_kind,
    )
