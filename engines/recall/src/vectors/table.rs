//! The file `data/words.bin`: vocabulary, a hash table over it, and a row for each piece.
//!
//! It is part of the library, mapped with it and read in place. All numbers are little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | magic `RECALLWT` |
//! | 4 | version, 1 |
//! | 4 | `D`, components of a row |
//! | 4 | `N`, pieces, at most 65 535 |
//! | 4 | `F`: the first `F` pieces begin a word, the others continue one |
//! | 4 | `S`, slots of the hash table, a power of two |
//! | 4 | `L`, bytes of the longest piece |
//! | 4 | `T`, bytes of all pieces |
//! | 28 | zeros |
//! | `N` · `D` | the rows, signed bytes, each already multiplied with the weight of its piece |
//! | `S` · 4 | the slots: 0 when free, else the upper 16 bits of a piece's hash above the piece's number plus one |
//! | (`N` + 1) · 4 | where each piece starts in the text, and where the last one ends |
//! | `T` | the text of all pieces, UTF-8, without the `##` before those that continue a word |
//!
//! The hash of a piece is 64-bit FNV-1a over its text, with the `##` of a piece that continues a word; its slot is the first free
//! one from `(hash ^ hash >> 32) mod S` on.

/// Components of a vector.
pub(super) const DIMENSIONS: usize = 192;

/// No piece is longer, in bytes.
pub(super) const LONGEST: usize = 24;

/// The table that the library carries. The compiler reads its head, so a file of another layout fails the build.
pub(super) static TABLE: Table = Table::parse(include_bytes!("../../data/words.bin"));

const HEAD: usize = 64;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// The parts of the file, where they lie.
pub(super) struct Table {
    starters: u32,
    rows: &'static [[u8; DIMENSIONS]],
    slots: &'static [[u8; 4]],
    offsets: &'static [[u8; 4]],
    text: &'static [u8],
}

/// Number of a piece in the vocabulary; only [`Table::find`] gives them out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece(u16);

/// A hash that grows byte by byte, so that all prefixes of a word are hashed in one pass.
#[derive(Clone, Copy)]
pub(super) struct Hash(u64);

impl Hash {
    /// Before the first byte of a piece that begins a word, or continues one.
    pub(super) const fn new(continues: bool) -> Hash {
        if continues { Hash(FNV_OFFSET).and(b'#').and(b'#') } else { Hash(FNV_OFFSET) }
    }

    pub(super) const fn and(self, byte: u8) -> Hash {
        Hash((self.0 ^ byte as u64).wrapping_mul(FNV_PRIME))
    }
}

impl Table {
    const fn parse(file: &'static [u8]) -> Table {
        let (head, rest) = file.split_at(HEAD);
        assert!(matches!(head.first_chunk(), Some(b"RECALLWT")) && number(head, 8) == 1, "another format");
        assert!(number(head, 12) as usize == DIMENSIONS, "another number of dimensions");
        let count = number(head, 16) as usize;
        let slots = number(head, 24) as usize;
        assert!(
            count < u16::MAX as usize && slots.is_power_of_two() && slots > count,
            "a table that cannot be searched"
        );
        assert!(number(head, 28) as usize <= LONGEST, "a piece that is too long");
        let (rows, rest) = rest.split_at(count * DIMENSIONS);
        let (slots, rest) = rest.split_at(slots * 4);
        let (offsets, text) = rest.split_at((count + 1) * 4);
        assert!(number(head, 32) as usize == text.len(), "another length");
        Table {
            starters: number(head, 20),
            rows: rows.as_chunks().0,
            slots: slots.as_chunks().0,
            offsets: offsets.as_chunks().0,
            text,
        }
    }

    /// The piece of this text, whose hash is `hash`.
    pub(super) fn find(&self, text: &[u8], continues: bool, hash: Hash) -> Option<Piece> {
        let mask = self.slots.len() - 1;
        let mut slot = (hash.0 ^ hash.0 >> 32) as usize & mask;
        loop {
            let entry = u32::from_le_bytes(self.slots[slot]);
            let number = (entry & 0xffff).checked_sub(1)?;
            if entry >> 16 == (hash.0 >> 48) as u32
                && (number >= self.starters) == continues
                && self.text(number as usize) == text
            {
                return Some(Piece(number as u16));
            }
            slot = (slot + 1) & mask;
        }
    }

    /// The row of a piece: signed bytes.
    pub(super) fn row(&self, piece: Piece) -> &'static [u8; DIMENSIONS] {
        &self.rows[usize::from(piece.0)]
    }

    fn text(&self, number: usize) -> &'static [u8] {
        let [start, end] = [number, number + 1].map(|index| u32::from_le_bytes(self.offsets[index]) as usize);
        &self.text[start..end]
    }
}

/// The number at this place of the head.
const fn number(head: &[u8], at: usize) -> u32 {
    match head.split_at(at).1.first_chunk() {
        Some(bytes) => u32::from_le_bytes(*bytes),
        None => 0,
    }
}

#[cfg(test)]
impl Piece {
    pub(super) fn nth(number: usize) -> Piece {
        Piece(number as u16)
    }
}

#[cfg(test)]
impl Table {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// A piece as the vocabulary of the model spells it.
    pub(super) fn spelling(&self, piece: Piece) -> String {
        let mark = if u32::from(piece.0) < self.starters { "" } else { "##" };
        format!("{mark}{}", String::from_utf8_lossy(self.text(usize::from(piece.0))))
    }
}
