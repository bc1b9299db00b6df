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

/// What a text is about, as a direction: texts on the same things have vectors of a high [`dot`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(8))]
pub(crate) struct Vector {
    /// Components, scaled so that the largest has the magnitude 127.
    values: [i8; DIMENSIONS],
    /// One over the Euclidean length of `values`.
    inverse: f32,
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
    products(&a.values, &b.values) as f32 * (a.inverse * b.inverse)
}

/// [`dot`] of `query` with each of `all`, in their order. What was in `out` is replaced.
pub(crate) fn scan(query: &Vector, all: &[Vector], out: &mut Vec<f32>) {
    out.clear();
    out.extend(all.iter().map(|vector| dot(query, vector)));
}

/// Sum of the products. It cannot overflow, and a sum of integers may be reordered, which lets the compiler vectorise it.
fn products(a: &[i8; DIMENSIONS], b: &[i8; DIMENSIONS]) -> i32 {
    a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
}

/// A sum of rows. The newest rows are added in 16 bits, eight lanes at a time, and moved on before these can overflow.
struct Sum {
    near: [i16; DIMENSIONS],
    near_rows: u32,
    far: [i64; DIMENSIONS],
}

impl Sum {
    fn new() -> Sum {
        Sum { near: [0; DIMENSIONS], near_rows: 0, far: [0; DIMENSIONS] }
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
        for (far, near) in self.far.iter_mut().zip(&mut self.near) {
            *far += i64::from(std::mem::take(near));
        }
        self.near_rows = 0;
    }

    fn direction(mut self) -> Option<Vector> {
        self.settle();
        let largest = self.far.iter().map(|value| value.unsigned_abs()).max().unwrap_or(0);
        if largest == 0 {
            return None;
        }
        let scale = f32::from(i8::MAX) / largest as f32;
        let values = self.far.map(|value| rounded(value as f32 * scale));
        let inverse = 1.0 / (products(&values, &values) as f32).sqrt();
        Some(Vector { values, inverse })
    }
}

/// The nearest integer, halves away from zero. (`f32::round` is a call into the C library on baseline x86-64.)
fn rounded(value: f32) -> i8 {
    (value + 0.5f32.copysign(value)) as i8
}

#[cfg(test)]
mod tests;
