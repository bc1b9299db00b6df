//! A folder for an author: a working engine or memory provider with everything that it is built from.
//!
//! ```text
//!  order ──► name (is it an id, a crate, free?) ──► template (its files) ─┐
//!                                   engineroom-sdk (packed into this binary) ─┴─► a folder beside, renamed into place
//! ```
//!
//! Nothing is taken from a registry or a checkout, so what is made builds wherever a toolchain is.

mod error;
mod name;
mod template;
#[cfg(test)]
mod tests;
mod write;

pub use error::ScaffoldError;
use std::path::PathBuf;

/// Languages that a project can be made in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Lang {
    /// Rust
    Rust,
    /// C
    C,
}

/// What a project begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Template {
    /// An engine that shows the newest whole turns and leaves compaction to the host
    Window,
    /// An engine that compacts by itself and keeps its state in the store; Rust only
    Owning,
    /// A memory provider; Rust only
    Memory,
}

/// What is to be made.
#[derive(Debug)]
pub struct Order {
    /// Id of the plugin, of its engine or memory provider, and of its package.
    pub name: String,
    /// The language.
    pub lang: Lang,
    /// What it begins with.
    pub template: Template,
    /// The folder; it is made, or is there and empty.
    pub folder: PathBuf,
}

/// What was made.
#[derive(Debug, serde::Serialize)]
pub struct Made {
    /// The folder.
    pub folder: PathBuf,
    /// Id of the engine or memory provider.
    pub id: String,
    /// Number of files that are the author's own.
    pub files: usize,
    /// Command that tests it, in the folder.
    pub test: &'static str,
    /// Command that builds the library, in the folder.
    pub build: &'static str,
    /// The library that the build makes.
    pub library: PathBuf,
    /// Arguments of `plugins select` for it.
    pub select: Vec<String>,
}

/// Makes the folder, whole or not at all.
///
/// # Errors
///
/// [`ScaffoldError`]: the name, the combination or the folder is not to be had, or the folder cannot be written.
pub fn make(order: &Order) -> Result<Made, ScaffoldError> {
    name::check(&order.name)?;
    let kit = template::kit(order)?;
    write::folder(&order.folder, &order.name, &kit)?;
    let mut select = vec![order.name.clone()];
    if order.template == Template::Memory {
        select.insert(0, "--memory".into());
    }
    Ok(Made {
        folder: order.folder.clone(),
        id: order.name.clone(),
        files: kit.files.len(),
        test: kit.test,
        build: kit.build,
        library: order.folder.join(&kit.library),
        select,
    })
}
