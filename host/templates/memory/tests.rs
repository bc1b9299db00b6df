use super::*;
use engine_abi::testing::{Failure, Memory};

#[test]
fn what_was_kept_is_found_best_first() -> Result<(), Failure> {
    let memory = Memory::new::<Memories>("{}")?;
    memory.append("The harbour pilot is called Marisol.")?;
    memory.append("The harbour closes at nine.")?;
    let hits = memory.search("Who is the harbour pilot?", 10)?;
    let texts: Vec<&str> = hits.iter().map(|hit| hit.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "The harbour pilot is called Marisol.",
            "The harbour closes at nine."
        ]
    );
    assert!(hits[0].score > hits[1].score);
    assert_eq!(memory.search("harbour", 1)?.len(), 1);
    assert!(memory.search("weather", 10)?.is_empty());
    Ok(())
}

#[test]
fn many_memories_keep_their_order() -> Result<(), Failure> {
    let memory = Memory::new::<Memories>(r#"{ "newest": 2 }"#)?;
    assert_eq!(memory.prompt_section(&[], CitationsMode::Auto)?, None);
    for day in 0..600 {
        memory.append(&format!("Day {day}"))?;
    }
    let section = memory
        .prompt_section(&[], CitationsMode::Auto)?
        .unwrap_or_default();
    assert!(section.ends_with("- Day 599\n- Day 598"), "{section}");
    Ok(())
}

#[test]
fn nothing_is_no_memory() {
    let memory = Memory::new::<Memories>("{}").unwrap();
    assert!(memory.append("  ").is_err());
}
