"""Writes the table as `words.bin`; the layout is documented in `src/vectors/table.rs`."""

import struct

import numpy as np

DIMENSIONS = 192
CLIP = 4.0  # standard deviations of a component that the range of a byte spans
FNV_OFFSET, FNV_PRIME, MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


def fnv(data: bytes) -> int:
    value = FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * FNV_PRIME) & MASK
    return value


def quantised(rows: np.ndarray) -> np.ndarray:
    """Weighted rows as signed bytes with one scale for all, which the direction of a sum does not depend on."""
    scale = 127.0 / (CLIP * rows.std())
    return np.clip(np.round(rows * scale), -127, 127).astype(np.int8)


def read(path) -> tuple[dict[str, int], np.ndarray]:
    """The number of each piece, and the rows, of a file that `write` made."""
    file = open(path, "rb").read()
    _, dimensions, count, starters, size, _, length = struct.unpack_from("<7I", file, 8)
    rows = np.frombuffer(file, np.int8, count * dimensions, 64).reshape(count, dimensions)
    offsets = np.frombuffer(file, "<u4", count + 1, 64 + count * dimensions + 4 * size)
    text = file[len(file) - length :]
    spellings = [text[a:b].decode() for a, b in zip(offsets, offsets[1:])]
    return {"##" * (number >= starters) + piece: number for number, piece in enumerate(spellings)}, rows


def write(path, pieces: list[str], rows: np.ndarray) -> None:
    """`pieces` as the model's vocabulary spells them, `rows` one for each."""
    order = sorted(range(len(pieces)), key=lambda i: (pieces[i].startswith("##"), i))
    starters = sum(not piece.startswith("##") for piece in pieces)
    count = len(order)
    size = 1 << (2 * count - 1).bit_length()
    slots = np.zeros(size, np.uint32)
    text, offsets = b"", [0]
    for number, i in enumerate(order):
        key = pieces[i].encode()
        value = fnv(key)
        slot = (value ^ (value >> 32)) % size
        while slots[slot]:
            slot = (slot + 1) % size
        slots[slot] = (value >> 48) << 16 | (number + 1)
        text += key.removeprefix(b"##")
        offsets.append(len(text))
    longest = max(b - a for a, b in zip(offsets, offsets[1:]))
    head = b"RECALLWT" + struct.pack("<7I", 1, rows.shape[1], count, starters, size, longest, len(text))
    with open(path, "wb") as file:
        file.write(head.ljust(64, b"\0"))
        file.write(quantised(rows)[order].tobytes())
        file.write(slots.astype("<u4").tobytes())
        file.write(np.array(offsets, "<u4").tobytes())
        file.write(text)
