//! The static table that turns a text into a vector.
//!
//! Each piece of the vocabulary has a row, distilled from a sentence transformer; the vector of a text is the sum of the rows of
//! its pieces. That costs microseconds and comes close to the transformer for the ranking of passages. What the file holds, from
//! which model it was made and how good it is stands in `data/README.md`.
//!
//! All sums are of integers, and the few operations on floats are those that IEEE 754 defines to the bit, so a text has the same
//! vector, byte for byte, on every machine.

mod pieces;
mod table;

use table::{DIMENSIONS, TABLE};

/// Rows that are added up in 16 bits before the sums must move to 32: 258 · 127 is the most that an `i16` holds.
const ROWS_IN_16_BITS: u32 = i16::MAX as u32 / i8::MAX as u32;

/// Rows that are added up in all, lest 32 bits overflow. The text of so many has dozens of megabytes, and its direction is settled.
const ROWS_IN_32_BITS: u32 = i32::MAX as u32 / i8::MAX as u32;

/// Numbers of 16 bits in a vector register of 128.
const LANES: usize = 8;
const _: () = assert!(DIMENSIONS.is_multiple_of(2 * LANES));

/// What a text is about, as a direction: texts on the same things have vectors of a high [`dot`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(8))]
pub(crate) struct Vector {
    /// Components, scaled so that the largest has the magnitude 127.
    values: [i8; DIMENSIONS],
    /// One over the Euclidean length of `values`.
    inverse: f32,
}

impl Vector {
    /// Has no direction: its [`dot`] with any other is 0.
    pub(crate) const NONE: Vector = Vector { values: [0; DIMENSIONS], inverse: 0.0 };

    /// On which side of each axis it lies; `None` for a vector without direction.
    pub(crate) fn sides(&self) -> Option<Sides> {
        if self.inverse == 0.0 {
            return None;
        }
        let mut sides = [0; DIMENSIONS / 64];
        for (bits, values) in sides.iter_mut().zip(self.values.chunks_exact(64)) {
            *bits = values.iter().fold(0, |bits, value| bits << 1 | u64::from(*value < 0));
        }
        Some(Sides(sides))
    }
}

const _: () = assert!(DIMENSIONS.is_multiple_of(64));

/// A vector by the sides of the axes alone: what random planes are in a SimHash (Charikar 2002, "Similarity estimation techniques
/// from rounding algorithms").
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sides([u64; DIMENSIONS / 64]);

impl Sides {
    /// About the angle between two vectors, as a share of a half turn.
    pub(crate) fn apart(&self, other: &Sides) -> f32 {
        let differ: u32 = self.0.iter().zip(&other.0).map(|(a, b)| (a ^ b).count_ones()).sum();
        differ as f32 / DIMENSIONS as f32
    }
}

/// The vector of a text, whatever its length. `None` where the table knows no word of it: an empty text, or a script that it
/// does not cover.
pub(crate) fn embed(text: &str) -> Option<Vector> {
    let mut sum = Sum::new();
    pieces::each(text, |piece| sum.add(TABLE.row(piece)));
    sum.direction()
}

/// Cosine of the angle between two vectors: 1 for the same direction, around 0 for unrelated texts.
pub(crate) fn dot(a: &Vector, b: &Vector) -> f32 {
    products(&a.values.map(i16::from), &b.values) as f32 * (a.inverse * b.inverse)
}

/// [`dot`] of `query` with each of `all`, in their order. What was in `out` is replaced. 100 000 vectors take 1.5 ms.
pub(crate) fn scan(query: &Vector, all: &[Vector], out: &mut Vec<f32>) {
    let wide = query.values.map(i16::from);
    out.clear();
    out.extend(all.iter().map(|vector| products(&wide, &vector.values) as f32 * (query.inverse * vector.inverse)));
}

/// Sum of the products of components, those of `a` being bytes too, only wider.
///
/// It is written for the vector unit that every x86-64 has (SSE2), whose one fast product of integers is of eight 16-bit lanes: two
/// products of bytes add up to at most 2 · 127², which fits. So the compiler needs half the instructions of a plain loop.
fn products(a: &[i16; DIMENSIONS], b: &[i8; DIMENSIONS]) -> i32 {
    let mut sums = [0i32; LANES];
    for (a, b) in a.as_chunks::<{ 2 * LANES }>().0.iter().zip(b.as_chunks::<{ 2 * LANES }>().0) {
        let pairs: [i16; LANES] = std::array::from_fn(|lane| {
            let [first, second] = [lane, lane + LANES].map(|at| a[at].wrapping_mul(i16::from(b[at])));
            first.wrapping_add(second)
        });
        for (sum, pair) in sums.iter_mut().zip(pairs) {
            *sum += i32::from(pair);
        }
    }
    sums.iter().sum()
}

/// A sum of rows. The newest rows are added in 16 bits, eight lanes at a time, and moved on before these can overflow.
struct Sum {
    near: [i16; DIMENSIONS],
    near_rows: u32,
    far: [i32; DIMENSIONS],
    far_rows: u32,
}

impl Sum {
    fn new() -> Sum {
        Sum { near: [0; DIMENSIONS], near_rows: 0, far: [0; DIMENSIONS], far_rows: 0 }
    }

    fn add(&mut self, row: &[u8; DIMENSIONS]) {
        if self.near_rows == ROWS_IN_16_BITS {
            self.settle();
        }
        for (sum, &byte) in self.near.iter_mut().zip(row) {
            *sum += i16::from(byte as i8);
        }
        self.near_rows += 1;
    }

    fn settle(&mut self) {
        if self.far_rows < ROWS_IN_32_BITS - ROWS_IN_16_BITS {
            for (far, &near) in self.far.iter_mut().zip(&self.near) {
                *far += i32::from(near);
            }
            self.far_rows += self.near_rows;
        }
        self.near = [0; DIMENSIONS];
        self.near_rows = 0;
    }

    fn direction(mut self) -> Option<Vector> {
        self.settle();
        let largest = self.far.iter().map(|value| value.abs()).max().unwrap_or(0);
        if largest == 0 {
            return None;
        }
        let scale = f32::from(i8::MAX) / largest as f32;
        let values = self.far.map(|value| rounded(value as f32 * scale));
        let inverse = 1.0 / (products(&values.map(i16::from), &values) as f32).sqrt();
        Some(Vector { values, inverse })
    }
}

/// The nearest integer, halves to the even one. Added to 1.5 · 2²³, a float has no bits left for a fraction, and its lowest bits are
/// the integer: so the compiler can vectorise it, as it cannot with `round`.
fn rounded(value: f32) -> i8 {
    (value + 12_582_912.0).to_bits() as i8
}

#[cfg(test)]
mod tests;
