"""Gathers the texts that the table is trained on, from packages whose licences permit it.

    python texts.py WORK

writes `WORK/texts.jsonl`: one `{"source": ..., "text": ...}` a line, in a fixed shuffled order, so that any beginning of the file is
a fair sample. The Debian packages are fetched by name and unpacked under WORK, not installed.
"""

import ast
import html
import importlib.util
import json
import pathlib
import random
import re
import subprocess
import sys

import yaml

DEBIAN = ["wordnet-base", "python3.11-doc", "postgresql-doc-15"]
DOCSTRINGS = ["numpy", "scipy", "sklearn", "transformers", "tokenizers"]
SHARES = {"chitchat": 90_000, "chatterbot": 3_000, "wordnet": 25_000, "python": 12_000, "postgresql": 8_000, "docstrings": 12_000}
SHORTEST, LONGEST = 12, 600  # characters


def package(name: str) -> pathlib.Path:
    return pathlib.Path(importlib.util.find_spec(name).submodule_search_locations[0])


def debian(work: pathlib.Path) -> pathlib.Path:
    root = work / "debian"
    if not root.exists():
        root.mkdir(parents=True)
        subprocess.run(["apt-get", "download", *DEBIAN], cwd=root, check=True)
        for archive in root.glob("*.deb"):
            subprocess.run(["dpkg", "-x", archive, root], check=True)
    return root


def chitchat():
    """Turns of conversations: what one says before the other answers. One in four joins a turn and its answer."""
    for talk in json.loads((package("chitchat_dataset") / "dataset.json").read_text()).values():
        turns = [" ".join(message["text"].strip() for message in turn) for turn in talk["messages"]]
        yield from turns
        yield from (f"{a} {b}" for a, b in list(zip(turns, turns[1:]))[::4])


def chatterbot():
    for file in sorted((package("chatterbot_corpus") / "data" / "english").glob("*.yml")):
        for talk in yaml.safe_load(file.read_text())["conversations"]:
            yield from (str(line) for line in talk)


def wordnet(root: pathlib.Path):
    """Words of a meaning, and what they mean; its example sentences alone."""
    for file in sorted((root / "usr/share/wordnet").glob("data.*")):
        for line in file.read_text().splitlines():
            if line.startswith("  "):
                continue
            data, _, gloss = line.partition(" | ")
            fields = data.split(" ")
            words = [fields[4 + 2 * i].partition("(")[0].replace("_", " ") for i in range(int(fields[3], 16))]
            meaning, *examples = gloss.strip().split('; "')
            yield f"{', '.join(words)}: {meaning}"
            yield from (example.strip().strip('"') for example in examples)


def paragraphs(text: str):
    for part in re.split(r"\n\s*\n", text):
        part = re.sub(r"\s+", " ", part).strip()
        if sum(char.isalpha() or char == " " for char in part) > 0.75 * len(part) and part.count(" ") >= 4:
            yield part


def python(root: pathlib.Path):
    for file in sorted((root / "usr/share/doc/python3.11/html/_sources").rglob("*.txt")):
        text = re.sub(r":[a-z:]+:`[~!]?([^`<]*?)(?: <[^`]*>)?`", r"\1", file.read_text())
        yield from paragraphs(re.sub(r"``?|\*\*?|^\.\. .*$", "", text, flags=re.M))


def postgresql(root: pathlib.Path):
    for file in sorted((root / "usr/share/doc/postgresql-doc-15/html").glob("*.html")):
        for part in re.findall(r"<p>(.*?)</p>", file.read_text(errors="replace"), re.S):
            yield from paragraphs(html.unescape(re.sub(r"<[^>]*>", "", part)))


def docstrings():
    for name in DOCSTRINGS:
        for file in sorted(package(name).rglob("*.py")):
            try:
                tree = ast.parse(file.read_text())
            except (SyntaxError, UnicodeDecodeError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (doc := ast.get_docstring(node)):
                    yield from paragraphs(re.sub(r"``?|>>>.*", "", doc))


def main(work: pathlib.Path):
    work.mkdir(parents=True, exist_ok=True)
    root = debian(work)
    sources = {
        "chitchat": chitchat(),
        "chatterbot": chatterbot(),
        "wordnet": wordnet(root),
        "python": python(root),
        "postgresql": postgresql(root),
        "docstrings": docstrings(),
    }
    chance = random.Random(5)
    chosen = []
    for source, texts in sources.items():
        texts = sorted({text[:LONGEST] for text in texts if len(text) >= SHORTEST})
        chance.shuffle(texts)
        print(source, len(texts), "->", min(len(texts), SHARES[source]))
        chosen += [{"source": source, "text": text} for text in texts[: SHARES[source]]]
    chance.shuffle(chosen)
    with open(work / "texts.jsonl", "w") as file:
        file.writelines(json.dumps(text, ensure_ascii=False) + "\n" for text in chosen)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
