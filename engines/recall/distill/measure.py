"""Measures a table by the recall of evidence: `python measure.py DATA WORDS_BIN`.

DATA is a file of conversations and questions in the schema of LoCoMo (it is not part of this repository and must not be used for
training): `[{conversation: {session_N: [{dia_id, text, blip_caption?}]}, qa: [{question, evidence, category}]}]`. All turns of a
conversation are ranked for each question of the categories 1 to 4; printed is the share of the evidence turns among the first 10 and
50, for the table, for BM25, for both fused by reciprocal ranks, and for the teacher and the table of wordllama in the same way.
"""

import collections
import importlib.util
import json
import math
import pathlib
import re
import sys

import numpy as np
import snowballstemmer
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from teacher import Teacher, tokenizer
from train import normalised
from write import read

FUSION = 60  # k of reciprocal rank fusion (Cormack et al., 2009)


def load(path):
    """For each conversation: texts of its turns, and (question, places of its evidence, category)."""
    for item in json.load(open(path)):
        sessions = [turns for key, turns in item["conversation"].items() if re.fullmatch(r"session_\d+", key)]
        turns = [turn for session in sessions for turn in session]
        place = {turn["dia_id"]: i for i, turn in enumerate(turns)}
        shared = [f" [shares image: {turn['blip_caption']}]" if turn.get("blip_caption") else "" for turn in turns]
        questions = []
        for question in item["qa"]:
            evidence = set(re.findall(r"D\d+:\d+", " ".join(question["evidence"]))) & place.keys()
            if evidence and question["category"] <= 4:
                questions.append((question["question"], [place[name] for name in evidence], question["category"]))
        yield [turn["text"] + image for turn, image in zip(turns, shared)], questions


def table_embedder(path):
    numbers, rows = read(path)
    pieces, rows = tokenizer(), rows.astype(np.int32)
    def embed(texts):
        known = [[numbers[piece] for piece in encoding.tokens if piece in numbers] for encoding in pieces.encode_batch(texts)]
        return np.stack([rows[ids].sum(0) for ids in known]).astype(np.float32)
    return embed


def teacher_embedder():
    pieces, teacher = tokenizer(), Teacher()
    return lambda texts: teacher.embed([encoding.ids for encoding in pieces.encode_batch(texts)])


def wordllama_embedder():
    root = pathlib.Path(importlib.util.find_spec("wordllama").submodule_search_locations[0])
    rows = load_file(root / "weights/l2_supercat_256.safetensors")["embedding.weight"].astype(np.float32)
    pieces = Tokenizer.from_file(str(root / "tokenizers/l2_supercat_tokenizer_config.json"))
    pieces.no_padding()
    return lambda texts: np.stack([rows[e.ids].mean(0) for e in pieces.encode_batch(texts, add_special_tokens=False)])


def bm25(texts, questions, k1=1.2, b=0.75):
    stem = snowballstemmer.stemmer("english").stemWord
    words = lambda text: [stem(word) for word in re.findall(r"[a-z0-9]+", text.lower())]
    counts = [collections.Counter(words(text)) for text in texts]
    spread = collections.Counter(word for count in counts for word in count)
    mean = sum(count.total() for count in counts) / len(counts)
    scores = np.zeros((len(questions), len(texts)))
    for row, question in enumerate(questions):
        for word in set(words(question)) & spread.keys():
            weight = math.log(1 + (len(texts) - spread[word] + 0.5) / (spread[word] + 0.5))
            for column, count in enumerate(counts):
                if word in count:
                    norm = k1 * (1 - b + b * count.total() / mean)
                    scores[row, column] += weight * count[word] * (k1 + 1) / (count[word] + norm)
    return scores


def ranks(scores):
    return np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1)


def report(name, data, scored):
    found = collections.defaultdict(list)
    for (_, questions), scores in zip(data, scored):
        for (_, evidence, category), row in zip(questions, ranks(scores)):
            recall = [(row[evidence] < depth).mean() for depth in (10, 50)]
            found["all"].append(recall)
            found[category].append(recall)
    parts = [f"{key}: {a:.1%} / {b:.1%}" for key in ("all", 1, 2, 3, 4) for a, b in [np.mean(found[key], axis=0)]]
    print(f"{name:24}", "   ".join(parts), flush=True)


def main(data_path, table_path):
    data = list(load(data_path))
    lexical = [bm25(texts, [question for question, _, _ in questions]) for texts, questions in data]
    report("BM25", data, lexical)
    lexical = [np.where(scores > 0, 1 / (FUSION + 1 + ranks(scores)), 0) for scores in lexical]
    embedders = {"table": table_embedder(table_path), "teacher": teacher_embedder(), "wordllama": wordllama_embedder()}
    for name, embed in embedders.items():
        scored = [normalised(embed([q for q, _, _ in qs])) @ normalised(embed(texts)).T for texts, qs in data]
        report(name, data, scored)
        report(f"{name} + BM25", data, [one + 1 / (FUSION + 1 + ranks(other)) for one, other in zip(lexical, scored)])


if __name__ == "__main__":
    main(*sys.argv[1:])
