//! A value of a session that is stored whole when it changed.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ops::{Deref, DerefMut};

/// A value, what the store has of it, and whether they may differ. Writing through it is noticed.
#[derive(Default)]
pub(crate) struct Kept<T> {
    value: T,
    /// What the store has; empty for nothing.
    stored: Vec<u8>,
    touched: bool,
}

impl<T> Deref for Kept<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Kept<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.touched = true;
        &mut self.value
    }
}

impl<T: Default + Serialize + DeserializeOwned> Kept<T> {
    /// The value that the store has; `None` when it cannot be read.
    pub(crate) fn read(stored: Option<Vec<u8>>) -> Option<Kept<T>> {
        let Some(stored) = stored else { return Some(Kept::default()) };
        let value = decode(&stored)?;
        Some(Kept { value, stored, touched: false })
    }

    /// Changes the value where `change` says that it did.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut T) -> bool) {
        self.touched |= change(&mut self.value);
    }

    /// The store has a value.
    pub(crate) fn is_stored(&self) -> bool {
        !self.stored.is_empty()
    }

    /// The value as it is stored.
    ///
    /// # Errors
    ///
    /// When the value cannot be encoded.
    pub(crate) fn encode(&self) -> engine_abi::Result<Vec<u8>> {
        Ok(postcard::to_extend(&self.value, vec![super::stored::FORMAT])?)
    }

    /// What is to be stored, if that is not what the store has.
    ///
    /// # Errors
    ///
    /// When the value cannot be encoded.
    pub(crate) fn changed(&mut self) -> engine_abi::Result<Option<&[u8]>> {
        if !std::mem::take(&mut self.touched) {
            return Ok(None);
        }
        let now = self.encode()?;
        if now == self.stored {
            return Ok(None);
        }
        self.stored = now;
        Ok(Some(&self.stored))
    }
}

fn decode<T: DeserializeOwned>(stored: &[u8]) -> Option<T> {
    let (format, fields) = stored.split_first()?;
    if *format != super::stored::FORMAT {
        return None;
    }
    match postcard::take_from_bytes(fields) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_stored() {
        let mut kept: Kept<Vec<u32>> = Kept::default();
        assert_eq!(kept.changed().unwrap(), None);
        kept.push(7);
        let stored = kept.changed().unwrap().unwrap().to_vec();
        kept[0] = 7;
        assert_eq!(kept.changed().unwrap(), None, "written, but the same");
        kept.change(|value| {
            value[0] = 7;
            false
        });
        assert!(!kept.touched);
        kept.change(|_| true);
        assert!(kept.touched);
        let read: Kept<Vec<u32>> = Kept::read(Some(stored.clone())).unwrap();
        assert_eq!(*read, [7]);
        assert!(Kept::<Vec<u32>>::read(Some(stored[1..].to_vec())).is_none());
        assert!(Kept::<Vec<u32>>::read(None).unwrap().is_empty());
    }
}
