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

from typing import TYPE_CHECKING, Any, Optional, Union, overload

from train.config import DataConfig
from train.data.batch import Batches
from train.data.fill import recipe_of
from train.data.loader import Loader
from train.data.sampler import Sampler
from train.data.samples import Samples
from train.data.settings import LoaderSettings
from train.data.sources import Source

if TYPE_CHECKING:
    from train.data.device_loader import DeviceLoader

__all__ = ["build_loader"]


@overload
def build_loader(
    source: Any,
    config: Optional[DataConfig] = ...,
    settings: None = ...,
    train: bool = ...,
    seed: int = ...,
    epochs: Optional[int] = ...,
    rank: Optional[int] = ...,
    world_size: Optional[int] = ...,
    device: Any = ...,
    **options: Any,
) -> "DeviceLoader": ...


@overload
def build_loader(
    source: Union[Source, Any],
    config: DataConfig,
    settings: LoaderSettings,
    train: bool,
    seed: int,
    epochs: Optional[int] = ...,
    rank: Optional[int] = ...,
    world_size: Optional[int] = ...,
) -> Loader: ...


def build_loader(
    source: Any,
    config: Optional[DataConfig] = None,
    settings: Optional[LoaderSettings] = None,
    train: bool = True,
    seed: int = 42,
    epochs: Optional[int] = None,
    rank: Optional[int] = None,
    world_size: Optional[int] = None,
    device: Any = None,
    **options: Any,
) -> "Union[DeviceLoader, Loader]":
    """The line put together, for a training loop of any kind.

    ```
    loader = build_loader("path/to/data", batch_size=256, image_size=224)
    for images, labels in loader: ...
    ```

    gives float32 (B, 3, S, S), normalised, on the GPU where there is one, with workers and so on
    chosen from the machine (`print(loader)` tells what, and why). With `settings` it is stops 1 to
    6 alone, and nothing is chosen.

    Args:
        source: a path that `data.path` takes; a data set of torchvision or Hugging Face; a source;
            or any map-style data set whose items are (image, label). Of a data set with a transform
            of its own, and of any other map-style one, the samples are put together by torch as
            they are: `image_size` and crops are then its own business.
        config: image size, batch size, crops ... in one object.
        settings: workers, prefetch depth, pinning: chosen by `settings.choose` from the machine.
            Gives a `Loader` of host batches instead.
        train: shuffle and augment, and of a path the training images; else the source's order,
            central crops, and of a path the validation images. Labels of -1 count nowhere.
        seed: decides order and crops; what is set aside for validation does not depend on it.
        epochs: where the order ends; None: never.
        rank: this process among all, from 0.
        world_size: how many processes train together. None for both: as torch.distributed has it.
        device: "auto", "cpu", "cuda" (the process's current GPU) or a torch.device; None: auto.
        options: any setting of section `data` in place of the one in `config`: batch_size,
            image_size, crop_min, flip, workers, val_share ... (`train fit --help`).

    Returns:
        A `DeviceLoader`; with `settings` a `Loader`. Workers start at the first `for`, or earlier
        by `start()`.

    Raises:
        TrainError: what can be mended: a setting, the data, the device; or fewer samples than the
            ranks need.
    """
    if settings is None:
        from train.data.standalone import open_loader  # late: it stands after this module

        return open_loader(
            source, config, train, seed, epochs, rank, world_size, device, dict(options)
        )
    if config is None or device is not None or options:
        raise TypeError("with settings, config is needed, and neither device nor options")
    sampler = Sampler(
        len(source),
        config.batch_size,
        seed,
        shuffle=train,
        rank=rank or 0,
        world_size=world_size or 1,
        min_batch=2 if train else 1,
        whole_batches=not train,
    )
    recipe = recipe_of(config, train, seed)
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
