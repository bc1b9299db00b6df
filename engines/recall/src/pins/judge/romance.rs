//! What Spanish and French put between "no" and the verb, and how their orders look.

use super::grounds::is_idle;
use super::reading::Reading;
use crate::pins::subject::one_of;

/// Pronouns that stand before a verb.
const PRONOUNS: &str = "me m te t se s nos os nous vous lui leur y en lo la los las le les l";
/// Verbs in the second person that state, where others in "-es" forbid: "no me entiendes".
const STATING: &str = "entiendes quieres puedes tienes dices haces comes debes crees sabes conoces pareces sigues pides lees ves eres vienes pones \
                       respondes ofreces traes prometes escribes vuelves pierdes sueles sirves mientes sientes prefieres conviertes refieres \
                       interrumpes corriges repites vives abres cumples permites compartes recibes sorprendes debes corres metes coges";
/// Verbs in the second person that forbid, where others in "-as" state: "no me digas".
const FORBIDDING: &str = "hagas digas pongas tengas seas vayas traigas vengas salgas repitas pidas sigas escribas respondas interrumpas corrijas \
                          anadas metas omitas insistas asumas permitas incluyas bebas leas veas mientas prometas discutas confundas resumas \
                          traduzcas ofrezcas pierdas elijas sugieras mandas vendas cometas excedas conviertas distraigas introduzcas";
/// The same, spoken to with "usted".
const FORMAL: &str = "use utilice escriba responda conteste incluya ponga haga diga mantenga evite revise tutee llame mencione invente anada borre \
                      toque cambie suponga asuma repita envie publique muestre ofrezca interrumpa traduzca hable trate";

/// The verb, behind the pronouns that stand before it in these languages; `at` where they are none.
pub(super) fn verb(reading: &Reading, at: usize) -> usize {
    if !is_romance(reading.word(reading.head)) {
        return at;
    }
    (at..reading.end).find(|at| !one_of(reading.word(*at), PRONOUNS)).unwrap_or(at)
}

/// Words that say no at the head in these languages.
fn is_romance(word: &str) -> bool {
    one_of(word, "no ne n nunca jamas jamais toujours siempre")
}

/// Behind "no" or "ne" and pronouns stands a verb that states, or a set phrase.
pub(super) fn narrates(reading: &Reading, next: usize, verb: usize) -> bool {
    let word = reading.word(verb);
    match reading.word(reading.head) {
        "no" => verb > next && !is_prohibition(word, true) || word == "digas" && verb > next && reading.words() <= 4,
        "ne" | "n" => {
            let care = reading.word(verb - 1) == "en" && matches!(word, "fais" | "faites");
            care || word.ends_with("ant") || (word == "aie" || word == "ayez")
        }
        _ => false,
    }
}

/// Behind "nunca" or "siempre" a pronoun before the verb, or what would be, makes a statement: "nunca te pediría eso".
pub(super) fn states(reading: &Reading, next: usize) -> bool {
    let word = reading.word(next);
    let would = word.len() > 5 && ["ria", "rias", "riamos", "rais", "rait"].iter().any(|ending| word.ends_with(ending));
    let spanish = matches!(reading.word(reading.head), "nunca" | "jamas" | "siempre");
    would && is_romance(reading.word(reading.head)) || spanish && one_of(word, "me te se nos os")
}

/// Spanish forbids in the subjunctive: "no toques", "no me hagas". Behind a pronoun statements are frequent, so the form decides.
pub(super) fn is_prohibition(word: &str, exact: bool) -> bool {
    if one_of(word, FORMAL) {
        return true;
    }
    let ends = word.len() > 3 && (word.ends_with("es") || word.ends_with("as"));
    if !exact {
        return ends;
    }
    ends && if word.ends_with("es") { !one_of(word, STATING) } else { one_of(word, FORBIDDING) }
}

/// "Nunca me llames Pepe", "toujours me vouvoyer", "ne me tutoie jamais": an order with "always" or "never".
pub(super) fn orders(reading: &Reading, next: usize) -> bool {
    if matches!(reading.word(reading.head), "ne" | "n") {
        let (next, at) = (reading.head + 1, verb(reading, reading.head + 1));
        return at < reading.end && !is_idle(reading, at) && !narrates(reading, next, at);
    }
    let at = verb(reading, next);
    let word = reading.word(at);
    let infinitive = word.len() > 4 && ["er", "ir", "re"].iter().any(|ending| word.ends_with(ending));
    at > next
        && match reading.word(reading.head) {
            "nunca" | "jamas" => is_prohibition(word, true),
            "toujours" | "jamais" => infinitive,
            _ => false,
        }
}
