"""Trains the table and writes it: `python train.py WORK WORDS_BIN`.

Reads what `teacher.py` made. The rows begin as a plain distillation (Model2Vec: each piece of the vocabulary alone through the
teacher, principal components, weighted by the logarithm of its rank) and are then trained so that, within a batch of texts, the
similarities of the sums of rows are those of the teacher's vectors: for each text the distribution over the others that a softmax
makes of the cosines, compared by the Kullback-Leibler divergence. Matching the similarities alone, not the vectors, leaves a sum of
rows free to be good at what it can be good at; for the ranking of passages it does better than the cosine to the teacher's vector.
"""

import pathlib
import re
import sys

import numpy as np
import torch

from teacher import CLS, SEP, Teacher, tokenizer
from write import DIMENSIONS, write

BATCH = 512
EPOCHS = 3
RATE = 2e-3  # of Adam, falling to zero
TEMPERATURE = 0.1
SPECIAL = re.compile(r"\[(unused\d+|PAD|UNK|CLS|SEP|MASK)\]")
RARE = 1996  # before this number, the vocabulary has special and single characters


def vocabulary(work: pathlib.Path) -> np.ndarray:
    """The teacher's vector of each piece alone; made once."""
    path = work / "vocabulary.npy"
    if not path.exists():
        np.save(path, Teacher().embed([[CLS, piece, SEP] for piece in range(tokenizer().get_vocab_size())]))
    return np.load(path)


def taught(work: pathlib.Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors of all texts; their pieces one after another; where each text ends in these."""
    vectors, pieces, ends, before = [], [], [], 0
    for path in sorted(path for path in (work / "teacher").glob("*.npz") if path.stem.isdigit()):
        chunk = np.load(path)
        vectors.append(chunk["vectors"].astype(np.float32))
        pieces.append(chunk["ids"].astype(np.int64))
        ends.append(chunk["ends"] + before)
        before += len(chunk["ids"])
    return np.concatenate(vectors), np.concatenate(pieces), np.concatenate(ends)


def normalised(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def components(*samples: np.ndarray) -> np.ndarray:
    """Principal components of the samples together, each sample counting the same."""
    covariance = sum(np.cov(sample.T) / np.trace(np.cov(sample.T)) for sample in samples)
    return np.linalg.eigh(covariance)[1][:, ::-1][:, :DIMENSIONS].copy()


def first_rows(pieces: np.ndarray, basis: np.ndarray) -> np.ndarray:
    weights = np.log(1 + np.maximum(np.arange(len(pieces)) - 900, 1))
    rows = pieces @ basis * weights[:, None]
    return rows / np.sqrt((rows[RARE:] ** 2).sum(1).mean())


def divergence(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    itself = torch.eye(len(student), dtype=torch.bool)
    found, wanted = ((x @ x.T / TEMPERATURE).masked_fill(itself, -1e9).log_softmax(1) for x in (student, teacher))
    return torch.nn.functional.kl_div(found, wanted, log_target=True, reduction="batchmean")


def trained(rows: np.ndarray, targets: np.ndarray, pieces: np.ndarray, ends: np.ndarray) -> np.ndarray:
    torch.manual_seed(1)
    chance = np.random.default_rng(1)
    table = torch.nn.EmbeddingBag.from_pretrained(torch.from_numpy(rows.astype(np.float32)), freeze=False, mode="sum")
    optimiser = torch.optim.Adam(table.parameters(), lr=RATE)
    starts = np.concatenate([[0], ends[:-1]])
    pieces, targets = torch.from_numpy(pieces), torch.from_numpy(targets.astype(np.float32))
    usable = np.flatnonzero(ends > starts)
    steps, step = EPOCHS * (len(usable) // BATCH), 0
    for epoch in range(EPOCHS):
        order, losses = chance.permutation(usable), []
        for batch in np.split(order, range(BATCH, len(order), BATCH))[: len(usable) // BATCH]:
            offsets = np.concatenate([[0], np.cumsum(ends[batch] - starts[batch])[:-1]])
            sums = table(torch.cat([pieces[starts[i] : ends[i]] for i in batch]), torch.from_numpy(offsets))
            loss = divergence(torch.nn.functional.normalize(sums, dim=1), targets[batch])
            for group in optimiser.param_groups:
                group["lr"] = RATE * (1 - step / steps)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
            step += 1
        print(epoch, np.mean(losses), flush=True)
    return table.weight.detach().numpy()


def reachable(spellings: list[str]) -> list[int]:
    """Pieces that a text can have: no special ones, and none that the normalisation or the splitting of words rules out."""
    cutter = tokenizer()

    def possible(spelling: str) -> bool:
        word = re.sub("^##", "a", spelling)
        cut = cutter.pre_tokenizer.pre_tokenize_str(cutter.normalizer.normalize_str(word))
        return not SPECIAL.fullmatch(spelling) and [part for part, _ in cut] == [word]

    return [number for number, spelling in enumerate(spellings) if possible(spelling)]


def main(work: pathlib.Path, target: pathlib.Path):
    torch.set_num_threads(1)
    alone = vocabulary(work)
    alone = alone - alone[RARE:].mean(0)
    vectors, pieces, ends = taught(work)
    vectors = vectors - vectors.mean(0)
    basis = components(alone[RARE:], vectors)
    rows = trained(first_rows(alone, basis), normalised(vectors @ basis), pieces, ends)
    numbers = tokenizer().get_vocab()
    spellings = sorted(numbers, key=numbers.get)
    kept = reachable(spellings)
    np.save(work / "rows.npy", rows)
    write(target, [spellings[i] for i in kept], rows[kept])
    print(len(ends), "texts,", len(pieces), "pieces of text,", len(kept), "rows")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
