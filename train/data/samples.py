"""Stop 5 of the line for a data set of a user's own, whose items are samples and not records.

Any map-style data set of PyTorch's will do, with any transform in it: its items are (image, label),
put together by PyTorch's own `default_collate`. Images cross to the device as they are: uint8
(B, S, S, 3) is normalised there, anything else is what the model gets.
"""

from typing import Any, List, Optional, Tuple, Union

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset, default_collate

from train.data.batch import (
    NO_LABEL,
    Bad,
    Batch,
    Failure,
    no_substitute,
    substitutes,
)
from train.data.fill import reason_of
from train.data.generators import seeded
from train.data.sampler import BatchRequest
from train.errors import BadSample, DataError


class Samples(Dataset):
    """A data set whose items are whole batches, made of another one's samples.

    What the samples draw from the generators of Python, NumPy and PyTorch depends on (seed, epoch,
    batch) alone, in worker processes; threads share the generators, so there it does not.

    Args:
        dataset: `dataset[i]` gives (image, label): image a tensor, an array or a number; label an
            int. It may raise `BadSample`: another sample takes its place, as for our own.
        train: in training a bad sample gets a substitute; else it counts nowhere.
        seed: of the run.
    """

    def __init__(self, dataset: Any, train: bool, seed: int):
        self.dataset, self.train, self.seed = dataset, train, seed

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Batch:
        """A batch of one, for looking at a sample."""
        batch = self.__getitems__(BatchRequest(0, 0, np.array([index])))
        if isinstance(batch, Failure):
            raise BadSample(batch.message)
        return batch

    def __getitems__(self, request: BatchRequest) -> Union[Batch, Failure]:
        """Make the batch that is asked for."""
        bad: List[Bad] = []
        samples: List[Optional[Tuple[Any, Any]]] = []
        with seeded(self.seed, request):
            for index in request.indices.tolist():
                sample = self._read(index, bad)
                if sample is None and self.train:
                    sample = self._substitute(index, request.epoch, bad)
                    if sample is None:
                        return Failure(no_substitute(bad))
                samples.append(sample)
        images, labels = self._together(samples)
        if images is None:
            return Failure(f"no sample of a batch could be used: {bad[-1].key}: {bad[-1].reason}")
        labels = np.asarray(labels, dtype=np.int64)
        labels[len(labels) - request.padding :] = NO_LABEL
        return Batch(
            images,
            labels,
            request.epoch,
            request.samples_seen,
            request.indices,
            tuple(bad),
        )

    def _read(self, index: int, bad: List[Bad]) -> Optional[Tuple[Any, Any]]:
        try:
            sample = self.dataset[index]
        except (BadSample, OSError) as error:
            bad.append(Bad(index, str(index), reason_of(error)))
            return None
        if isinstance(sample, dict):  # of two entries: it would unpack into its keys
            raise DataError(
                f"dataset[i] gives a dict of {', '.join(map(repr, sample))}; expected a pair "
                "(image, label)"
            )
        image, label = sample
        if isinstance(image, Image.Image):
            raise DataError(
                "dataset[i] gives Pillow images, which torch does not put together: give the data "
                "set a transform that ends in tensors of one size; or leave cropping and resizing "
                "to us: build_loader(PictureSource(dataset)), from "
                "train.data.sources.torchvision_source"
            )
        return image, label

    def _substitute(self, index: int, epoch: int, bad: List[Bad]) -> Optional[Tuple[Any, Any]]:
        """Another sample in the place of a bad one, a function of (seed, epoch, index)."""
        for other in substitutes(self.seed, epoch, index, len(self)):
            sample = self._read(other, bad)
            if sample is not None:
                return sample
        return None

    def _together(self, samples: List[Optional[Tuple[Any, Any]]]) -> Tuple[Any, Any]:
        """Images and labels of a batch; no images where none is good."""
        if not samples:
            return torch.zeros(0), []
        good = next((sample for sample in samples if sample is not None), None)
        if good is None:
            return None, []
        # Where nothing may take its place, another image keeps the shape; its label counts nowhere.
        filled = [(good[0], NO_LABEL) if sample is None else sample for sample in samples]
        images, labels = default_collate(filled)
        return images, labels
