//! Sessions as they are every day.

use super::script::{Turn, answer, turns, user};
use super::talk::{AMPLE, TIGHT, Talk};
use super::{Lab, Step, file_with};
use crate::check::blame::Finding;
use crate::check::catalogue::Check;
use crate::check::world::World;
use crate::plugins::Kind;
use crate::slot::{CommitStatus, Hook, MemoryPromptArgs, SubagentSpawn};
use engine_abi::wire::{session_end, subagent_end};

/// A word that is said nowhere else.
const MARK: &str = "xylotomography";

/// It starts in a worker, and answers.
pub(super) fn worker(lab: &Lab) -> Step<()> {
    let bench = lab.bench(&lab.folder("state")?)?;
    let mut talk = Talk::new(lab, &bench, &World::new(), "agent:main:worker", AMPLE);
    if lab.request.wanted.kind == Kind::Memory {
        talk.call(|segment| {
            let args = MemoryPromptArgs { available_tools: vec!["lookup".into()], ..MemoryPromptArgs::default() };
            segment.memory_prompt(&args)?;
            segment.memory_search("Are you there?", 5).map(drop)
        })?;
        return Ok(bench.dispose()?);
    }
    talk.turn(&vec![user("Are you there?"), answer("Yes.")])?;
    Ok(bench.dispose()?)
}

/// Turns with and without tools, first with room for all of them, then without; the hooks beside turns once each.
pub(super) fn ordinary(lab: &Lab) -> Step<()> {
    let bench = lab.bench(&lab.folder("state")?)?;
    let world = World::new();
    let script = turns(&mut lab.random(), 18);
    let mut talk = Talk::new(lab, &bench, &world, "agent:main:ordinary", AMPLE);
    for (at, turn) in script.iter().enumerate() {
        talk.budget = if at < 9 { AMPLE } else { TIGHT };
        talk.turn(turn)?;
    }
    // An owning engine compacts when it likes, and a budget that shrank at once is no fair measure of one answer.
    if let Some((shown, budget)) = talk.over_budget {
        let found = format!("{shown} tokens were shown within a budget of {budget}");
        lab.found(Finding::new(Check::Budget, found));
    }
    if let Some((said, counted)) = talk.misjudged {
        let found = format!("estimatedTokens is {said}, the host counts {counted}");
        lab.found(Finding::new(Check::Estimate, found));
    }
    tools(&talk)?;
    subagents(&talk)?;
    talk.end(session_end::EXPIRED)?;
    Ok(bench.dispose()?)
}

fn tools(talk: &Talk<'_>) -> Step<()> {
    if !talk.bench.engine().has(Hook::Tools) {
        return Ok(());
    }
    talk.lab.doing("in callTool");
    let found = talk.call(|segment| {
        let tools = segment.tools()?;
        let arguments = ["{}", "not json", "{\"query\": \"invoice\", \"id\": -1, \"limit\": 1e9}", "[]", ""];
        for tool in &tools {
            for (at, text) in arguments.iter().enumerate() {
                segment.call_tool(&format!("check_{at}"), &tool.name, text)?;
            }
        }
        Ok(tools)
    });
    let tools = found.map_err(|failure| {
        let is_call = failure.hook == Hook::CallTool && failure.kind == crate::slot::FailureKind::Error;
        let finding = Finding::from(failure);
        if is_call { Finding { check: Check::Tools, ..finding } } else { finding }
    })?;
    for tool in tools {
        if tool.parameters.get("type").is_some_and(|kind| kind != "object") {
            talk.lab.found(Finding::new(Check::Tools, format!("the parameters of {} are no object", tool.name)));
        }
    }
    Ok(())
}

fn subagents(talk: &Talk<'_>) -> Step<()> {
    talk.lab.doing("in prepareSubagentSpawn");
    let key = talk.key.clone();
    talk.call(move |segment| {
        for (number, fork) in [false, true].into_iter().enumerate() {
            let child = format!("{key}:subagent:{number}");
            let spawn = SubagentSpawn {
                parent_session_key: key.clone(),
                child_session_key: child.clone(),
                fork,
                ..SubagentSpawn::default()
            };
            match segment.prepare_subagent_spawn(&spawn)? {
                Some(handle) if !fork => drop(segment.rollback_subagent_spawn(handle)?),
                _ => {}
            }
            segment.on_subagent_ended(&child, subagent_end::COMPLETED)?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Every second turn is offered twice under its key.
pub(super) fn commit(lab: &Lab) -> Step<()> {
    let script = turns(&mut lab.random(), 6);
    let mut prompts = Vec::new();
    for doubled in [false, true] {
        let bench = lab.bench(&lab.folder(if doubled { "twice" } else { "once" })?)?;
        let world = World::new();
        let mut talk = Talk::new(lab, &bench, &world, "agent:main:commit", AMPLE);
        if talk.fleeting {
            lab.skip(Check::CommitOnce, "the engine takes no durable turns");
            return Ok(());
        }
        for (at, turn) in script.iter().enumerate() {
            let first = talk.session().branch.head() + 1;
            talk.turn(turn)?;
            if !doubled || at % 2 == 1 {
                continue;
            }
            let first = talk.session().from(first).first().map_or(0, |entry| entry.head.id);
            let before = world.stored();
            let status = talk.commit(talk.accepted(first))?;
            let same = before == world.stored();
            if status == Some(CommitStatus::Committed) && !same {
                let found = "the same turn under the same key was committed again, and the store changed";
                return Err(Finding::new(Check::CommitOnce, found));
            }
        }
        prompts.push(talk.look("What do you know?")?);
        bench.dispose()?;
    }
    let what = "a turn that was offered twice is not shown like one that was offered once";
    match prompts.as_slice() {
        [once, twice] => super::talk::same(Check::CommitOnce, what, once, twice),
        _ => Ok(()),
    }
}

/// A turn of nobody's session; then somebody's, in which nothing of it may stand.
pub(super) fn ephemeral(lab: &Lab) -> Step<()> {
    let folder = lab.folder("state")?;
    let bench = lab.bench(&folder)?;
    let world = World::new();
    let turn: Turn = vec![user(&format!("The {MARK} is mine.")), answer(&format!("I see, the {MARK}."))];
    for number in 0..2 {
        let mut talk = Talk::new(lab, &bench, &world, &format!("ephemeral-{number}"), AMPLE);
        talk.fleeting = true;
        let own = |finding: Finding| Finding { check: Check::Ephemeral, ..finding };
        talk.turn(&turn).map_err(|finding| if finding.check == Check::HookErrors { own(finding) } else { finding })?;
        talk.end(session_end::EPHEMERAL)?;
        world.delete(&talk.key);
    }
    if let Some(place) = world.find(MARK.as_bytes()) {
        return Err(Finding::new(Check::Ephemeral, format!("what was said stands in {place}")));
    }
    let mut talk = Talk::new(lab, &bench, &world, "agent:main:after", AMPLE);
    if talk.turn(&vec![user("Hello."), answer("Hello.")])?.holds(MARK) {
        return Err(Finding::new(Check::Ephemeral, "what was said in an ephemeral turn is shown in another session"));
    }
    bench.dispose()?;
    match file_with(&folder, MARK.as_bytes()) {
        Some(file) => {
            let name = file.strip_prefix(&folder).unwrap_or(&file).display().to_string();
            Err(Finding::new(Check::Ephemeral, format!("what was said stands in the file {name}")))
        }
        None => Ok(()),
    }
}
