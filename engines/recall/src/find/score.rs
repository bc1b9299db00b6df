//! How well each passage answers a question.
//!
//! A linear model over a few features, each of which says one thing that can be told in words ([`WEIGHTS`]).
//!
//! The weights were fitted once, on five long conversations of two people with 786 questions whose evidence is known: they make the
//! evidence of a question likely among all passages of its conversation (softmax over the passages, each question's evidence
//! sharing a weight of the root of its number, L2 penalty 3 on standardized features). The figures in the README come from fits
//! that leave out the conversation that is asked about. A score is therefore, up to a constant of the answer, the logarithm of how
//! likely a passage is to be evidence, and is used as such when room is shared out.
//!
//! Features of the whole session, such as the rarity of a word or the mean of all cosines, are of what is indexed, not of what may
//! be found.

use super::pack::DAY_MS;
use super::query::{Query, Speaker};
use crate::index::{Index, NEIGHBOUR, Signs};
use crate::vectors;
use engine_abi::wire::role;

/// How fast further occurrences of a word stop to count, and how much the length of a passage matters: the usual values of BM25.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// Passages that are looked at closely.
const CANDIDATES: usize = 2_000;

/// Of so many passages one is in the sample that tells which are out of the question; so many times the candidates pass it.
const SAMPLE_STEP: usize = 16;
const SAMPLE_SPARE: usize = 2;

/// Words that weigh less than this share of all of a question's are not looked for: their lists are the longest.
const SHARE_MIN: f32 = 0.01;

/// How fast entries on both sides fade that say what is being talked about around a passage.
const FADE: f32 = 5.0;

/// Number of features.
pub(crate) const FEATURES: usize = 30;

/// What a passage shows of being an answer, in the order of [`WEIGHTS`].
pub(crate) type Features = [f32; FEATURES];

/// A feature's name, and what it is worth.
pub(crate) const WEIGHTS: [(&str, f32); FEATURES] = [
    // Share of the question's words, by rarity, that stand in the passage.
    ("covered", 4.720),
    // BM25 of the passage, scaled.
    ("words", 1.298),
    // The same against the best passage.
    ("words of the best", -0.882),
    // BM25 of the entry before, of the one before that, and of the one after.
    ("words before", 0.198),
    ("words before that", 0.596),
    ("words after", -0.036),
    // BM25 of all entries on both sides, fading with the distance: the subject that is being talked about.
    ("around", 0.891),
    // Said by whom the question is about.
    ("speaker", 2.342),
    // Logarithm of the length against the mean: long messages say more.
    ("long", 0.407),
    // Ends with a question: questions are seldom evidence.
    ("asks", -0.656),
    // Has a whole sentence.
    ("states", 0.186),
    // Speaks of oneself: what people say of themselves is what is asked later.
    ("self", 0.349),
    // Speaks to the other one.
    ("other", -0.034),
    // Has something in quotation marks: titles, names.
    ("quotes", 0.888),
    // Has a word with a capital letter.
    ("names", -0.141),
    // Has a word that places something in time.
    ("time", 0.249),
    // The same, where the question asks for a time.
    ("time for when", 1.677),
    // Has a number, where the question asks for one.
    ("number for how many", 0.380),
    // BM25 of the entry before, if that one ends with a question.
    ("answers a question", 0.704),
    // Is a tool's result. Not fitted, since conversations of people have none: tools repeat what people say.
    ("tool", -0.500),
    // Said in the days that the question speaks of, or not long after.
    ("dated", 4.267),
    // Near the beginning of a sitting, where the news is told.
    ("opens", 0.666),
    // Cosine of passage and neighbours together to the question, in deviations from the mean of all.
    ("vector window", 1.425),
    // Cosine of the passage alone, of the one before and of the one after: what the window has too much of.
    ("vector", -0.088),
    ("vector before", -0.308),
    ("vector after", -0.136),
    // Cosine against the nearest passage's.
    ("vector of the best", -0.043),
    // Products: the second sign of the same thing adds less than the first.
    ("window and covered", -0.668),
    ("window and around", -0.099),
    ("covered and around", -0.648),
];

// Places of the weights that a first guess goes by.
const COVERED: usize = 0;
const WORDS: usize = 1;
const AROUND: usize = 6;
const SPEAKER: usize = 7;
const WINDOW: usize = 22;
const WINDOW_COVERED: usize = 27;
const WINDOW_AROUND: usize = 28;
const COVERED_AROUND: usize = 29;

/// A passage and how well it answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scored {
    /// The passage.
    pub passage: u32,
    /// Natural logarithm of how likely it is the evidence, but for a constant of the answer.
    pub score: f32,
}

/// What is known of all passages before single ones are looked at.
pub(crate) struct Scan<'a> {
    index: &'a Index,
    query: &'a Query,
    /// By passage: BM25, and the share of the question's words that stand in it.
    words: Vec<f32>,
    covered: Vec<f32>,
    /// The best of all BM25.
    best: f32,
    /// By entry: the best BM25 of its passages, and what its neighbourhood has of it.
    entry_words: Vec<f32>,
    around: Vec<f32>,
    /// By passage: how near its vector and that of its window are to the question's, in deviations from the mean.
    vector: Vec<f32>,
    window: Vec<f32>,
    /// The nearest of all vectors.
    nearest: f32,
}

impl<'a> Scan<'a> {
    /// Goes through the postings of the words that are looked for, and through all vectors.
    pub(crate) fn of(index: &'a Index, query: &'a Query) -> Scan<'a> {
        let (words, covered) = by_words(index, query);
        let best = words.iter().fold(f32::EPSILON, |best, score| score.max(best));
        let entry_words = by_entry(index, &words);
        let around = spread(&entry_words);
        let mut vector = Vec::new();
        if let Some(asked) = vectors::embed(&query.bare) {
            vectors::scan(&asked, &index.vectors, &mut vector);
        }
        let mut window = windows(&vector, &index.windows);
        standardize(&mut vector);
        standardize(&mut window);
        vector.resize(index.passages.len(), 0.0);
        window.resize(index.passages.len(), 0.0);
        let nearest = vector.iter().fold(0.0, |best: f32, near| best.max(*near));
        Scan { index, query, words, covered, best, entry_words, around, vector, window, nearest }
    }

    /// The passages that are worth a closer look, in the order of the session.
    pub(crate) fn candidates(&self, allowed: &dyn Fn(u32) -> bool) -> Vec<u32> {
        let passages = &self.index.passages;
        let may = |passage: &u32| allowed(passages[*passage as usize].entry);
        let count = passages.len() as u32;
        if count as usize <= CANDIDATES {
            return (0..count).filter(may).collect();
        }
        let rough: Vec<f32> = (0..count).map(|passage| self.rough(passage)).collect();
        // Most passages are out of the question. A sample tells a bar that a few times as many pass as are wanted, unless those
        // that may not be found are the best ones; then there is no bar.
        let mut sample: Vec<f32> = rough.iter().copied().step_by(SAMPLE_STEP).collect();
        let place = (CANDIDATES * SAMPLE_SPARE / SAMPLE_STEP).min(sample.len() - 1);
        let bar = *sample.select_nth_unstable_by(place, |a, b| b.total_cmp(a)).1;
        let over =
            |bar: f32| (0..count).filter(|passage| rough[*passage as usize] >= bar).filter(may).collect::<Vec<u32>>();
        let mut found = over(bar);
        if found.len() < CANDIDATES {
            found = over(f32::NEG_INFINITY);
        }
        if found.len() > CANDIDATES {
            let by_rough = |a: &u32, b: &u32| rough[*b as usize].total_cmp(&rough[*a as usize]).then(a.cmp(b));
            found.select_nth_unstable_by(CANDIDATES, by_rough);
            found.truncate(CANDIDATES);
            found.sort_unstable();
        }
        found
    }

    /// The score without what only a look at the neighbours tells.
    fn rough(&self, passage: u32) -> f32 {
        let at = passage as usize;
        let here = &self.index.passages[at];
        let weight = |feature: usize| WEIGHTS[feature].1;
        weight(COVERED) * self.covered[at]
            + weight(WORDS) * self.words[at] / SCALE
            + weight(AROUND) * self.around[here.entry as usize]
            + weight(SPEAKER) * self.spoken(here.entry)
            + weight(WINDOW) * self.window[at]
            + weight(WINDOW_COVERED) * self.window[at] * self.covered[at]
            + weight(WINDOW_AROUND) * self.window[at] * self.around[here.entry as usize]
            + weight(COVERED_AROUND) * self.covered[at] * self.around[here.entry as usize]
    }

    /// What a passage shows of being an answer.
    pub(crate) fn features(&self, passage: u32) -> Features {
        let at = passage as usize;
        let here = &self.index.passages[at];
        let entry = here.entry as usize;
        let said = &self.index.entries[entry];
        let mean = self.index.words as f32 / self.words.len().max(1) as f32;
        let sign = |signs| f32::from(u8::from(here.signs.has(signs)));
        let before = self.entry_before(entry, 1);
        let after = self.entry_words.get(entry + 1).copied().unwrap_or(0.0);
        [
            self.covered[at],
            self.words[at] / SCALE,
            self.words[at] / self.best,
            before,
            self.entry_before(entry, 2),
            after,
            self.around[entry],
            self.spoken(here.entry),
            ((f32::from(here.words) + 3.0) / (mean + 3.0)).ln(),
            sign(Signs::ASKS),
            sign(Signs::STATES),
            sign(Signs::SELF),
            sign(Signs::OTHER),
            sign(Signs::QUOTE),
            sign(Signs::NAME),
            sign(Signs::TIME),
            if self.query.when { sign(Signs::TIME) } else { 0.0 },
            if self.query.how_many { sign(Signs::NUMBER) } else { 0.0 },
            if self.asks(entry) { before } else { 0.0 },
            f32::from(u8::from(u32::from(said.role) == role::TOOL)),
            self.dated(said.time_ms),
            self.opens(entry),
            self.window[at],
            self.vector[at],
            at.checked_sub(1).map_or(0.0, |before| self.vector[before]),
            self.vector.get(at + 1).copied().unwrap_or(0.0),
            self.vector[at] - self.nearest,
            self.window[at] * self.covered[at],
            self.window[at] * self.around[entry],
            self.covered[at] * self.around[entry],
        ]
    }

    /// 1 for the words of whom the question is about.
    fn spoken(&self, entry: u32) -> f32 {
        let said = &self.index.entries[entry as usize];
        let by = match self.query.speaker {
            Speaker::Any => false,
            Speaker::Named(name) => said.name == name,
            Speaker::Person => u32::from(said.role) == role::USER,
        };
        f32::from(u8::from(by))
    }

    /// The best BM25 of an entry some places before this one.
    fn entry_before(&self, entry: usize, places: usize) -> f32 {
        entry.checked_sub(places).map_or(0.0, |before| self.entry_words[before])
    }

    /// The entry before this one ends with a question.
    fn asks(&self, entry: usize) -> bool {
        let last = (self.index.entries[entry].passage as usize).checked_sub(1);
        last.is_some_and(|last| self.index.passages[last].signs.has(Signs::ASKS))
    }

    /// How near a time is to the days that the question speaks of: 1 within, less the later it was told.
    fn dated(&self, time_ms: i64) -> f32 {
        let near = |(from, until): &(i64, i64)| match time_ms {
            time if time < *from => 0.0,
            time if time < *until => 1.0,
            time => TOLD_LATER * (-((time - until) as f32 / DAY_MS as f32) / TOLD_WITHIN).exp(),
        };
        self.query.days.iter().map(near).fold(0.0, f32::max)
    }

    /// How near an entry is to the beginning of a sitting, where the news is told.
    fn opens(&self, entry: usize) -> f32 {
        let entries = &self.index.entries;
        let steps = (0..OPENING).find(|step| {
            let Some(at) = entry.checked_sub(*step) else { return true };
            at == 0 || entries[at].time_ms - entries[at - 1].time_ms > PAUSE_MS
        });
        steps.map_or(0.0, |steps| (-(steps as f32) / OPENING_FADE).exp())
    }
}

/// By passage: BM25, and the share of the question's words that stand there, by their weight.
fn by_words(index: &Index, query: &Query) -> (Vec<f32>, Vec<f32>) {
    let count = index.passages.len();
    let (mut words, mut covered) = (vec![0.0; count], vec![0.0; count]);
    let mean = (index.words as f32 / count.max(1) as f32).max(1.0);
    for wanted in &query.wanted {
        let share = wanted.weight / query.total;
        if share < SHARE_MIN {
            continue;
        }
        index.postings.each(wanted.term, |passage, times| {
            let at = passage as usize;
            let norm = K1 * (1.0 - B + B * f32::from(index.passages[at].words) / mean);
            let times = times as f32;
            words[at] += wanted.weight * times * (K1 + 1.0) / (times + norm);
            covered[at] += share;
        });
    }
    (words, covered)
}

/// By entry: the best BM25 of its first passages, scaled.
fn by_entry(index: &Index, words: &[f32]) -> Vec<f32> {
    let mut best = vec![0.0f32; index.entries.len()];
    for (passage, score) in index.passages.iter().zip(words) {
        let best = &mut best[passage.entry as usize];
        *best = best.max(score / SCALE);
    }
    best
}

/// By entry: what the entries before and after it have, fading with the distance.
fn spread(entries: &[f32]) -> Vec<f32> {
    let fade = (-1.0 / FADE).exp();
    let mut around = vec![0.0; entries.len()];
    let mut carried = 0.0;
    for (around, here) in around.iter_mut().zip(entries) {
        *around = carried;
        carried = (carried + here) * fade;
    }
    carried = 0.0;
    for (around, here) in around.iter_mut().zip(entries).rev() {
        *around += carried;
        carried = (carried + here) * fade;
    }
    around
}

/// By passage: the cosine of its window, which is its vector and some of its neighbours', to the question.
fn windows(cosines: &[f32], lengths: &[f32]) -> Vec<f32> {
    let at = |place: Option<usize>| place.and_then(|place| cosines.get(place)).copied().unwrap_or(0.0);
    let mut windows = cosines.to_vec();
    for ((window, around), length) in
        windows.iter_mut().skip(1).zip(cosines.array_windows()).zip(lengths.iter().skip(1))
    {
        let [before, here, after] = around;
        *window = (here + NEIGHBOUR * (before + after)) * length;
    }
    // The ends have one neighbour.
    for place in [Some(0), cosines.len().checked_sub(1)].into_iter().flatten() {
        if place < cosines.len() {
            let beside = at(place.checked_sub(1)) + at(place.checked_add(1));
            windows[place] = (cosines[place] + NEIGHBOUR * beside) * lengths[place];
        }
    }
    windows
}

/// In deviations from the mean.
fn standardize(values: &mut [f32]) {
    let count = values.len().max(1) as f32;
    let mean = sum(values, |value| value) / count;
    let square = sum(values, |value| (value - mean) * (value - mean)) / count;
    let scale = 1.0 / square.sqrt().max(1e-6);
    values.iter_mut().for_each(|value| *value = (*value - mean) * scale);
}

/// The sum over all values, in as many lanes as a vector unit has.
fn sum(values: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += of(*value);
        }
    }
    lanes.iter().sum::<f32>() + rest.iter().map(|value| of(*value)).sum::<f32>()
}

/// Numbers that are added at a time.
const LANES: usize = 8;

/// Brings BM25 to about the size of the other features.
const SCALE: f32 = 5.0;

/// Days after which about a third of what happened is still to be told.
const TOLD_WITHIN: f32 = 10.0;

/// What the day after counts against the day itself.
const TOLD_LATER: f32 = 0.9;

/// A pause that ends a sitting.
const PAUSE_MS: i64 = 60 * 60 * 1000;

/// Entries of a sitting that count as its opening, and how fast that fades.
const OPENING: usize = 12;
const OPENING_FADE: f32 = 3.0;

/// Cosine from which a passage is about what is asked for without any of its words. Unrelated texts stay far below.
const ALIKE: f32 = 0.5;

/// By passage: true when it has to do with the question at all. It has one of the words that matter, or its vector points the
/// same way. A question of nothing but grammar is answered by whatever has a word of it.
pub(crate) fn related(index: &Index, query: &Query) -> Vec<bool> {
    let mut related = vec![false; index.passages.len()];
    for wanted in query.wanted.iter().filter(|wanted| wanted.matters || !query.matters) {
        index.postings.each(wanted.term, |passage, _| related[passage as usize] = true);
    }
    if let Some(asked) = vectors::embed(&query.bare) {
        let mut cosines = Vec::new();
        vectors::scan(&asked, &index.vectors, &mut cosines);
        for (related, cosine) in related.iter_mut().zip(cosines) {
            *related |= cosine >= ALIKE;
        }
    }
    related
}

/// The passages that answer best, best first.
pub(crate) fn ranked(index: &Index, query: &Query, allowed: &dyn Fn(u32) -> bool) -> Vec<Scored> {
    let scan = Scan::of(index, query);
    let mut scored: Vec<Scored> = scan
        .candidates(allowed)
        .into_iter()
        .map(|passage| {
            let features = scan.features(passage);
            let score = features.iter().zip(&WEIGHTS).map(|(feature, (_, weight))| feature * weight).sum();
            Scored { passage, score }
        })
        .collect();
    scored.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.passage.cmp(&b.passage)));
    scored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_weights_are_those_of_their_names() {
        let names = [COVERED, WORDS, AROUND, SPEAKER, WINDOW, WINDOW_COVERED, WINDOW_AROUND, COVERED_AROUND]
            .map(|at| WEIGHTS[at].0);
        let expected = [
            "covered",
            "words",
            "around",
            "speaker",
            "vector window",
            "window and covered",
            "window and around",
            "covered and around",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn what_is_around_fades_on_both_sides() {
        let around = spread(&[0.0, 0.0, 1.0, 0.0]);
        assert!(around[1] > around[0] && around[0] > 0.0 && around[3] == around[1] && around[2] == 0.0, "{around:?}");
    }

    #[test]
    fn standardized_values_have_no_mean_and_a_deviation_of_one() {
        let mut values: Vec<f32> = (0..21).map(|value| value as f32).collect();
        standardize(&mut values);
        assert!(sum(&values, |value| value).abs() < 1e-4);
        assert!((sum(&values, |value| value * value) / 21.0 - 1.0).abs() < 1e-4);
        standardize(&mut []);
    }
}
