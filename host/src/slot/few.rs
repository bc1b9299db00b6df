//! Lists of a worker's, read no further than to their bound: an element takes a few bytes on a lane and many times that in
//! memory, so a frame must not be believed as far as it is long.

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use std::fmt;

/// Reads a list of at most `MOST` elements. One that is longer is an error at the first element too many.
pub(crate) fn few<'de, const MOST: usize, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    light(deserializer, MOST, |_| 1)
}

/// The same for elements that hold lists themselves: each counts as much as `weight` says, at most `most` in all.
pub(crate) fn light<'de, D, T>(deserializer: D, most: usize, weight: fn(&T) -> usize) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_seq(Light { most, weight })
}

struct Light<T> {
    most: usize,
    weight: fn(&T) -> usize,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Light<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {} elements", self.most)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
        let (mut list, mut left) = (Vec::new(), self.most);
        while let Some(element) = elements.next_element()? {
            let Some(rest) = left.checked_sub((self.weight)(&element)) else {
                return Err(serde::de::Error::invalid_length(list.len() + 1, &self));
            };
            left = rest;
            list.push(element);
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::{few, light};
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Three(#[serde(deserialize_with = "few::<3, _, _>")] Vec<u32>);

    #[test]
    fn a_list_is_read_to_its_bound_and_no_further() {
        for fits in [vec![], vec![1], vec![1, 2, 3]] {
            let bytes = postcard::to_stdvec(&Three(fits.clone())).unwrap();
            assert_eq!(postcard::from_bytes::<Three>(&bytes).unwrap(), Three(fits));
        }
        let long = postcard::to_stdvec(&Three(vec![1, 2, 3, 4])).unwrap();
        assert!(postcard::from_bytes::<Three>(&long).is_err());
    }

    #[test]
    fn what_elements_hold_counts_as_well() {
        let read = |lists: &[Vec<u8>]| {
            let bytes = postcard::to_stdvec(lists).unwrap();
            let mut from = postcard::Deserializer::from_bytes(&bytes);
            light(&mut from, 4, |list: &Vec<u8>| 1 + list.len()).map(|lists| lists.len())
        };
        assert_eq!(read(&[vec![1], vec![2]]), Ok(2));
        assert!(read(&[vec![1], vec![2, 3]]).is_err());
    }
}
