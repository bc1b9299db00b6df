//! `[plugins.entries.recall.config]`.

use engine_abi::serde::Deserialize;
use engine_abi::{Error, Result};

/// What an operator may set. Every default is what the README gives figures for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Most of the budget for passages of older turns.
    pub retrieved_share: Share,
    /// Least of the budget for the newest turns word for word.
    pub tail_share: f64,
    /// Most of the budget for the compacted log, counted above the budgets that have none.
    pub log_share: f64,
    /// Most of the budget for what is pinned.
    pub pinned_share: f64,
    /// Who writes the lines of the log.
    pub gists: Gists,
    /// The search tool finds in the agent's other sessions, too. Needs the grant `sessions`.
    pub other_sessions: bool,
    /// The model gets the tools.
    pub tools: bool,
    /// Most memory of all sessions together, in MiB. The least recently used are dropped and come back from the store.
    pub memory_mb: usize,
}

/// A share of the budget, or what the session itself says that it should be.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Share {
    /// A number from 0 to 1.
    Fixed(f64),
    /// The word `auto`.
    Named(Auto),
}

/// The word `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Auto {
    /// By how many tools the session uses.
    #[serde(rename = "auto")]
    Auto,
}

/// Who writes the lines of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Gists {
    /// Sentences are picked out; no model is asked.
    Extract,
    /// In the background the host's model is asked to write them better; where there is none, sentences stay.
    Model,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            retrieved_share: Share::Named(Auto::Auto),
            tail_share: 0.25,
            log_share: 0.15,
            pinned_share: 0.10,
            gists: Gists::Extract,
            other_sessions: false,
            tools: true,
            memory_mb: 512,
        }
    }
}

impl Config {
    /// The configuration, when its shares leave room for each other.
    ///
    /// # Errors
    ///
    /// Names the setting that is out of its bounds; the schema says the same of each alone.
    pub(crate) fn checked(self) -> Result<Config> {
        let retrieved = match self.retrieved_share {
            Share::Fixed(share) => share,
            Share::Named(Auto::Auto) => 0.0,
        };
        let bounds = [
            ("retrieved_share", retrieved, 0.0, 0.75),
            ("tail_share", self.tail_share, 0.25, 0.9),
            ("log_share", self.log_share, 0.0, 0.5),
            ("pinned_share", self.pinned_share, 0.0, 0.1),
        ];
        for (name, share, least, most) in bounds {
            if !(least..=most).contains(&share) {
                return Err(Error::new(format_args!("{name} is {share}; it must be from {least} to {most}")));
            }
        }
        // In thousandths, as they are shown: 0.7 and 0.3 are no more than 1.
        let [of_passages, of_tail] = [retrieved, self.tail_share].map(|share| (share * 1_000.0).round() / 1_000.0);
        if of_passages + of_tail > 1.0 + 1e-9 {
            let [for_passages, for_tail] = [of_tail, of_passages].map(|other| format!("{:.3}", 1.0 - other));
            let (for_passages, for_tail) = (shortened(&for_passages), shortened(&for_tail));
            return Err(Error::new(format_args!(
                "retrieved_share {of_passages} and tail_share {of_tail} are together more than the whole budget; lower \
                 retrieved_share to {for_passages} or tail_share to {for_tail}"
            )));
        }
        Ok(self)
    }
}

/// A share without the zeros at its end.
fn shortened(share: &str) -> &str {
    share.trim_end_matches('0').trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(json: &str) -> Option<String> {
        let config: Config = serde_json::from_str(json).unwrap();
        config.checked().err().map(|error| error.message().to_owned())
    }

    #[test]
    fn shares_that_are_too_much_together_say_which_to_lower_and_how_far() {
        let said = refused(r#"{"retrieved_share": 0.6, "tail_share": 0.55}"#).unwrap();
        assert!(said.contains("lower retrieved_share to 0.45 or tail_share to 0.4"), "{said}");
        assert_eq!(refused(r#"{"retrieved_share": 0.7, "tail_share": 0.3}"#), None, "whatever 0.7 and 0.3 add up to");
        assert_eq!(refused(r#"{"retrieved_share": "auto", "tail_share": 0.9}"#), None);
        assert!(refused(r#"{"retrieved_share": 0.9}"#).unwrap().contains("from 0 to 0.75"));
    }

    #[test]
    fn what_the_schema_allows_the_engine_takes() {
        let schema: serde_json::Value = serde_json::from_str(include_str!("schema.json")).unwrap();
        let share = &schema["properties"]["retrieved_share"];
        assert_eq!(
            (&share["minimum"], &share["maximum"], &share["pattern"]),
            (&0.into(), &0.75.into(), &"^auto$".into())
        );
        // One rule that says what it allows, and not several of which each says only that it does not hold.
        assert!(!schema.to_string().contains("anyOf") && !schema.to_string().contains("oneOf"));
        for key in schema["properties"].as_object().unwrap().keys() {
            assert!(include_str!("config.rs").contains(&format!("pub {key}:")), "{key}");
        }
    }
}
