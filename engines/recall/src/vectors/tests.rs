#![allow(clippy::unwrap_used, reason = "tests")]

use super::table::{Hash, Piece};
use super::*;

fn pieces(text: &str) -> String {
    let mut all = Vec::new();
    pieces::each(text, |piece| all.push(TABLE.spelling(piece)));
    all.join(" ")
}

fn alike(a: &str, b: &str) -> f32 {
    dot(&embed(a).unwrap(), &embed(b).unwrap())
}

/// Expected pieces are those of the model's own `tokenizer.json`, less its `[UNK]`s.
#[test]
fn words_are_cut_as_the_model_cuts_them() {
    for (text, expected) in [
        ("Hello, World! It's 3:45pm", "hello , world ! it ' s 3 : 45 ##pm"),
        ("— naïve café résumé.", "— naive cafe resume ."),
        ("İstanbul'da ÇOK güzel", "istanbul ' da co ##k gu ##zel"),
        ("Übergrößenträger straße", "uber ##gr ##o ##ße ##nt ##rage ##r st ##raße"),
        ("unaffable embeddings tokenization", "una ##ffa ##ble em ##bed ##ding ##s token ##ization"),
        ("漢字かな交じり文 and 한국어 text", "漢 か ##な し ##り 文 and ᄒ ##ᅡ ##ᆫ ##ᄀ ##ᅮ ##ᆨ ##ᄋ ##ᅥ text"),
        ("a\0b\u{200b}c\u{a0}d\u{c}e\u{2028}f", "abc de f"),
        ("snake_case camelCase x+=1; // C++", "snake _ case camel ##case x + = 1 ; / / c + +"),
        ("¿Qué? «quoted» … “curly” ‘single’", "¿ que ? « quoted » … “ curly ” ‘ single ’"),
        ("Привет мир, γειά σου", "п ##р ##и ##в ##е ##т м ##и ##р , γ ##ε ##ια σ ##ου"),
        ("हिन्दी भाषा", "ह ##ि ##न ##द ##ी भ ##ा ##ष ##ा"),
        ("ﬁne ½ ²", "ﬁ ##ne ½ ²"),
    ] {
        assert_eq!(pieces(text), expected, "{text:?}");
    }
}

#[test]
fn a_word_of_a_hundred_characters_is_the_longest() {
    assert_eq!(pieces(&"y".repeat(100)).split(' ').count(), 100);
    assert_eq!(pieces(&format!("{} ok", "y".repeat(101))), "ok");
    assert_eq!(pieces(&format!("{} ok", "𝒴".repeat(5000))), "ok");
}

#[test]
fn a_symbol_does_not_take_the_word_that_it_touches() {
    assert_eq!(pieces("great🙂 👍🏽ok"), "great ok");
}

#[test]
fn every_piece_is_found_by_its_spelling() {
    let mut pieces = 0;
    for number in 0..TABLE.len() {
        let spelling = TABLE.spelling(Piece::nth(number));
        let text = spelling.strip_prefix("##").unwrap_or(&spelling);
        let continues = text.len() < spelling.len();
        let hash = text.bytes().fold(Hash::new(continues), Hash::and);
        assert_eq!(TABLE.find(text.as_bytes(), continues, hash), Some(Piece::nth(number)), "{spelling}");
        pieces += 1;
    }
    assert!(pieces > 20_000);
}

#[test]
fn what_is_like_is_nearer_than_what_is_not() {
    for (text, near, far) in [
        ("When did she go to the beach?", "We swam in the sea last summer.", "The parser rejects nested comments."),
        ("Which pet does he have?", "My puppy chewed the sofa again.", "The invoice is due on Friday."),
        ("fix the failing unit test", "the assertion in the test suite breaks", "a recipe for apple pie with cinnamon"),
        ("What instrument does he play?", "I practised the violin all evening.", "I painted the fence all evening."),
        ("database connection timeout", "postgres refuses new clients", "her grandmother's birthday cake"),
    ] {
        assert!(alike(text, near) > alike(text, far) + 0.05, "{text}: {} {}", alike(text, near), alike(text, far));
    }
}

#[test]
fn a_text_without_known_words_has_no_vector() {
    for text in ["", " \n\t", "🙂🙂", "\u{1234}\u{1235}", "\0", &"𝒴".repeat(5000)] {
        assert_eq!(embed(text), None, "{text:?}");
    }
}

#[test]
fn the_direction_does_not_depend_on_the_length() {
    let once = embed("the quick brown fox jumps over the lazy dog").unwrap();
    let often = embed(&"the quick brown fox jumps over the lazy dog ".repeat(3000)).unwrap();
    assert_eq!(once, often);
    assert!((dot(&once, &often) - 1.0).abs() < 1e-5);
}

#[test]
fn many_are_compared_as_one_is() {
    let all = ["a red car", "blue sky over the hills", "reset the password"].map(|text| embed(text).unwrap());
    let query = embed("I forgot my login").unwrap();
    let mut found = vec![9.0; 7];
    scan(&query, &all, &mut found);
    assert_eq!(found, all.map(|vector| dot(&query, &vector)));
    scan(&query, &[], &mut found);
    assert!(found.is_empty());
}

/// The components are those that numpy finds from the same file.
#[test]
fn a_vector_is_the_same_everywhere() {
    let vector = embed("Yesterday we drove to the lake, naïvely: no map!").unwrap();
    assert_eq!(vector.values[..12], [-90, 74, 25, -10, 17, -69, -127, 5, 50, 15, -27, -13]);
    assert_eq!(vector.values[DIMENSIONS - 4..], [34, -70, -23, -5]);
}

#[test]
fn what_would_overflow_is_left_out() {
    let row = [127; DIMENSIONS];
    let mut sum = Sum { far: [127; DIMENSIONS], far_rows: ROWS_IN_32_BITS - ROWS_IN_16_BITS, ..Sum::new() };
    sum.far[0] = i32::MIN + 1;
    (0..1000).for_each(|_| sum.add(&row));
    let vector = sum.direction().unwrap();
    assert_eq!((vector.values[0], vector.values[1]), (-127, 0));
}
