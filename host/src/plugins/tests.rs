//! The whole way, with real libraries.

use super::fixture::{Bench, Fixture};
use super::*;
use crate::config::{EntryConfig, Isolation, TrustPolicy};
use crate::ledger::Verdicts;
use engine_abi::wire::HostV1;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

/// A slot's room as far as registration sees it.
struct Port {
    taken: Vec<(&'static str, &'static str)>,
}

impl RegistrarPort for Port {
    fn register(&self, _: Kind, id: &str, _: &str) -> Result<(), String> {
        match self.taken.iter().find(|(taken, _)| *taken == id) {
            Some((_, owner)) => Err(format!("the engine id `{id}` belongs to plugin {owner}")),
            None => Ok(()),
        }
    }

    fn log(&self, _: &str, _: u32, _: &str, _: &str) {}

    fn host_table(&self, plugin_id: &str) -> *const HostV1 {
        QuietPort.host_table(plugin_id)
    }
}

fn start_with(bench: &Bench, wanted: &[&str], port: Port) -> LoadResult {
    let wanted: Vec<Wanted> = wanted.iter().map(|id| Wanted::engine(*id)).collect();
    let port: Arc<dyn RegistrarPort> = Arc::new(port);
    load(&bench.config, &wanted, &Verdicts::default(), &port)
}

fn start(bench: &Bench, wanted: &[&str]) -> LoadResult {
    start_with(bench, wanted, Port { taken: Vec::new() })
}

/// Starts with engine `w` wanted, and gives why it is refused.
fn refusal(bench: &Bench) -> StageFailure {
    let result = start(bench, &["w"]);
    assert!(result.registrations.is_empty());
    let outcome = &result.engines[0];
    assert_eq!(outcome.state, OutcomeState::Refused, "{outcome:?}");
    let failure = outcome.failure.clone().unwrap();
    assert!(!failure.hint.is_empty() && !failure.message.is_empty());
    let report = result.reports.iter().find(|report| Some(&report.file) == outcome.file.as_ref()).unwrap();
    assert_eq!((report.state.clone(), report.wanted), (PluginState::Refused, true));
    failure
}

fn refused_file(bytes: &[u8]) -> StageFailure {
    let bench = Bench::new();
    std::fs::write(bench.at("libw.so"), bytes).unwrap();
    refusal(&bench)
}

fn built(fixture: &Fixture) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::read(fixture.build(&dir.path().join("x.so"))).unwrap()
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_good_library_goes_all_the_way() {
    let bench = Bench::new().with("w", &Fixture::new("w"));
    let result = start(&bench, &["legacy", "w"]);
    let [registration] = &result.registrations[..] else { panic!("{:?}", result.engines) };
    assert_eq!((registration.engine_id.as_str(), &*registration.config_json), ("w", "{}"));
    assert!(registration.staged.starts_with(bench.config.gateway.state_dir.join("staged")));
    assert_eq!(result.engines.len(), 1);
    assert_eq!(result.engines[0].state, OutcomeState::Registered);

    let report = &result.reports[0];
    assert_eq!(report.state, PluginState::Loaded);
    assert_eq!(report.staged.as_ref(), Some(&registration.staged));
    let stages: Vec<Stage> = report.timings.iter().map(|(stage, _)| *stage).collect();
    use Stage::{Inspect, Layout, Load, Probe, Register, Stage as Staging, Trust};
    assert_eq!(stages, [Inspect, Trust, Staging, Probe, Load, Layout, Register]);
    let scratch = std::fs::read_dir(bench.config.gateway.state_dir.join("probe")).unwrap();
    assert_eq!(scratch.count(), 0, "a probe leaves nothing behind");
}

#[test]
fn only_what_a_slot_lists_runs() {
    let bench = Bench::new().with("w", &Fixture::new("w")).with("other", &Fixture::new("other").start("abort();"));
    let result = start(&bench, &["w"]);
    assert_eq!(result.registrations.len(), 1);
    let other = result.reports.iter().find(|report| report.plugin_id.as_deref() == Some("other")).unwrap();
    assert!(matches!(other.state, PluginState::Declared { .. }) && other.staged.is_none() && !other.wanted);
    assert_eq!(discover(&bench.config.plugins).len(), 2);
}

#[test]
fn files_that_are_no_library_are_told_apart() {
    assert_eq!(refused_file(b"just some text\n").code, Cause::NotALibrary.code());
    assert_eq!(refused_file(b"").code, Cause::Empty.code());
    assert_eq!(refused_file(&[7; 5000]).code, Cause::NotALibrary.code());
    assert_eq!(refused_file(b"\x7fELF").code, Cause::CutOff.code());
    let mut windows = b"MZ".to_vec();
    windows.resize(64, 0);
    windows[0x3c] = 64;
    windows.extend(b"PE\0\0\x64\x86");
    windows.extend([0; 18]);
    windows.extend(0x20bu16.to_le_bytes());
    windows.extend([0; 400]);
    assert_eq!(refused_file(&windows).code, Cause::OtherPlatform.code());
}

#[test]
fn every_cut_of_a_library_is_found_before_anything_runs() {
    let whole = built(&Fixture::new("w"));
    for percent in [1, 10, 50, 70, 90, 99] {
        let failure = refused_file(&whole[..whole.len() * percent / 100]);
        assert_eq!(failure.code, Cause::CutOff.code(), "{percent} %: {failure:?}");
    }
    assert_eq!(refused_file(&whole[..whole.len() - 1]).code, Cause::CutOff.code());
}

#[test]
fn a_library_for_another_processor_is_named() {
    let mut other = built(&Fixture::new("w"));
    let machine: u16 = if cfg!(target_arch = "x86_64") { 183 } else { 62 };
    other[18..20].copy_from_slice(&machine.to_le_bytes());
    let failure = refused_file(&other);
    assert_eq!(failure.code, Cause::OtherPlatform.code());
    assert!(failure.message.contains(std::env::consts::ARCH), "{}", failure.message);
}

#[test]
fn a_library_without_manifest_or_without_sections_is_told_apart() {
    let failure = refused_file(&built(&Fixture::new("w").without_manifest()));
    assert_eq!(failure.code, Cause::NoManifest.code());
    assert!(failure.message.contains("not an Engineroom engine"), "{}", failure.message);

    let mut wiped = built(&Fixture::new("w"));
    wiped[40..48].fill(0);
    wiped[58..64].fill(0);
    assert_eq!(refused_file(&wiped).code, Cause::NoSections.code());
    // Left in place, but emptied.
    let mut wiped = built(&Fixture::new("w"));
    let at = usize::try_from(u64::from_le_bytes(wiped[40..48].try_into().unwrap())).unwrap();
    wiped[at..].fill(0);
    assert_eq!(refused_file(&wiped).code, Cause::NoSections.code());
}

#[test]
fn manifests_that_do_not_fit_are_refused() {
    let code = |fixture: Fixture| {
        let bench = Bench::new().with("w", &fixture);
        refusal(&bench).code
    };
    assert_eq!(code(Fixture::new("w").key("contract", "0.9")), Cause::OtherContract.code());
    assert_eq!(code(Fixture::new("w").key("panic", "abort")), Cause::PanicAbort.code());
    assert_eq!(code(Fixture::new("w").key("engines", "w,legacy")), Cause::BadIds.code());
    assert_eq!(code(Fixture::new("w").key("door", "window")), Cause::BadManifest.code());
    assert_eq!(code(Fixture::new("w").key("config_schema", "{")), Cause::BadSchema.code());
    assert_eq!(code(Fixture::new("w").key("config_schema", "{\"type\":1}")), Cause::BadSchema.code());
    // By the Rust door the library has nothing.
    assert_eq!(code(Fixture::new("w").key("door", "rust")), Cause::NoDoor.code());
}

#[test]
fn a_configuration_that_does_not_fit_is_told_with_its_path() {
    let schema = r#"{"type":"object","properties":{"keep":{"type":"integer"}},"additionalProperties":false}"#;
    let mut bench = Bench::new().with("w", &Fixture::new("w").key("config_schema", schema));
    let mut entry = EntryConfig::default();
    entry.config.insert("keep".into(), "many".into());
    bench.config.plugins.entries.insert("w".into(), entry);
    let failure = refusal(&bench);
    assert_eq!(failure.code, Cause::BadConfig.code());
    assert!(failure.message.contains("plugins.entries.w.config.keep"), "{}", failure.message);
}

#[test]
fn what_the_loader_and_the_entry_get_wrong_is_refused() {
    let code = |fixture: Fixture| refusal(&Bench::new().with("w", &fixture)).code;
    assert_eq!(code(Fixture::new("w").start("abort();")), Cause::ProbeSignal.code());
    assert_eq!(code(Fixture::new("w").start("extern void nowhere(void); nowhere();")), Cause::CannotOpen.code());
    assert_eq!(code(Fixture::new("w").entry("return 0;")), Cause::BadEntry.code());
    assert_eq!(code(Fixture::new("w").entry("entry.enroll = 0; return &entry;")), Cause::BadEntry.code());
    assert_eq!(code(Fixture::new("w").entry("entry.major = 9; return &entry;")), Cause::EntryVersion.code());
}

#[test]
fn what_register_gets_wrong_is_refused_with_its_reason() {
    let failure = |enroll: &str| refusal(&Bench::new().with("w", &Fixture::new("w").enroll(enroll)));
    let error = failure("r->fail(r->context, text(\"no\\nmodel\")); return 1;");
    assert_eq!(error.code, Cause::RegisterError.code());
    assert!(error.message.ends_with("no model"), "{}", error.message);
    assert_eq!(failure("return 2;").code, Cause::RegisterPanic.code());
    assert_eq!(failure("return 77;").code, Cause::RegisterCode.code());
    assert_eq!(failure("return 0;").code, Cause::NotRegistered.code());
    let broken = "static Factory none; return r->engine(r->context, text(\"w\"), &none) == 7 ? 0 : 1;";
    assert_eq!(failure(broken).code, Cause::NotRegistered.code());
    let unannounced = "r->engine(r->context, text(\"x\"), &factory); r->engine(r->context, text(\"legacy\"), &factory);\
                       r->engine(r->context, (Str){ 0, 0 }, &factory); return 0;";
    assert_eq!(failure(unannounced).code, Cause::NotRegistered.code());
}

#[test]
fn a_hang_in_register_is_abandoned() {
    let mut bench = Bench::new().with("w", &Fixture::new("w").enroll("for (;;) pause();"));
    bench.config.plugins.deadlines.insert("register".into(), 300);
    // In the probe the child itself notices, and says where.
    assert_eq!(refusal(&bench).code, Cause::RegisterDeadline.code());
}

#[test]
fn an_id_of_another_owner_is_refused_and_names_the_owner() {
    let bench = Bench::new().with("w", &Fixture::new("w"));
    let result = start_with(&bench, &["w"], Port { taken: vec![("w", "first")] });
    assert!(result.registrations.is_empty());
    let failure = result.engines[0].failure.as_ref().unwrap();
    assert_eq!(failure.code, Cause::ForeignId.code());
    assert!(failure.message.contains("first"), "{}", failure.message);
}

#[test]
fn registering_twice_keeps_the_first_and_is_noted() {
    let twice = "r->engine(r->context, text(\"w\"), &factory); \
                 return r->engine(r->context, text(\"w\"), &factory) == 6 ? 0 : 1;";
    let bench = Bench::new().with("w", &Fixture::new("w").enroll(twice));
    let result = start(&bench, &["w"]);
    assert_eq!(result.registrations.len(), 1, "{:?}", result.engines);
    assert!(result.reports[0].notes.iter().any(|note| note.contains("registered already")));
}

#[test]
fn one_engine_of_two_can_fail_alone() {
    let enroll = "return r->engine(r->context, text(\"w\"), &factory);";
    let bench = Bench::new().with("w", &Fixture::new("w").key("engines", "w,v").enroll(enroll));
    let result = start(&bench, &["v", "w"]);
    assert_eq!(result.registrations.len(), 1);
    let states: Vec<_> = result.engines.iter().map(|outcome| outcome.state.clone()).collect();
    assert_eq!(states, [OutcomeState::Refused, OutcomeState::Registered]);
    assert_eq!(result.reports[0].state, PluginState::Loaded);
}

#[test]
fn a_missing_engine_suggests_the_nearest_and_tells_what_could_not_be_read() {
    let bench = Bench::new().with("window", &Fixture::new("window"));
    std::fs::write(bench.at("broken.so"), "text").unwrap();
    let result = start(&bench, &["windwo"]);
    assert_eq!(result.engines[0].state, OutcomeState::Missing);
    let failure = result.engines[0].failure.as_ref().unwrap();
    assert_eq!(failure.code, Cause::EngineMissing.code());
    assert!(failure.hint.contains("`window`"), "{}", failure.hint);
    assert!(failure.causes.iter().any(|cause| cause.contains("broken.so")), "{:?}", failure.causes);
    assert_eq!(start(&Bench::new(), &["w"]).engines[0].state, OutcomeState::Missing);
}

#[test]
fn two_libraries_that_claim_one_engine_are_both_refused() {
    let bench = Bench::new().with("a", &Fixture::new("w")).with("b", &Fixture::new("w").key("plugin", "v"));
    let result = start(&bench, &["w"]);
    let failure = result.engines[0].failure.as_ref().unwrap();
    assert_eq!(failure.code, Cause::ClaimedTwice.code());
    assert!(failure.message.contains("liba.so") && failure.message.contains("libb.so"), "{}", failure.message);
    assert!(result.reports.iter().all(|report| report.state == PluginState::Refused));
}

#[test]
fn what_the_operator_switched_off_is_declared_and_not_a_failure() {
    type Change = fn(&mut crate::config::PluginsConfig);
    let cases: [(Change, &str); 4] = [
        (|plugins| plugins.enabled = false, "switched off"),
        (|plugins| plugins.deny = vec!["w".into()], "denied"),
        (|plugins| plugins.allow = vec!["x".into()], "plugins.allow"),
        (
            |plugins| {
                let entry = EntryConfig { enabled: false, ..EntryConfig::default() };
                plugins.entries.insert("w".into(), entry);
            },
            "disabled",
        ),
    ];
    let mut bench = Bench::new().with("w", &Fixture::new("w"));
    let plugins = bench.config.plugins.clone();
    for (change, word) in cases {
        bench.config.plugins = plugins.clone();
        change(&mut bench.config.plugins);
        let result = start(&bench, &["w"]);
        let OutcomeState::Disabled { reason } = &result.engines[0].state else { panic!("{:?}", result.engines) };
        assert!(reason.contains(word), "{reason}");
        assert_eq!(result.engines[0].failure, None);
        assert!(matches!(&result.reports[0].state, PluginState::Declared { reason } if reason.contains(word)));
    }
}

#[test]
fn place_mode_and_links_decide_whom_to_trust() {
    let whole = Fixture::new("w");
    let bench = Bench::new().with("w", &whole);
    let file = bench.at("libw.so");
    set_mode(&file, 0o777);
    assert_eq!(refusal(&bench).code, Cause::LooseMode.code());
    set_mode(&file, 0o755);
    set_mode(&bench.config.plugins.dir, 0o777);
    assert_eq!(refusal(&bench).code, Cause::LooseFolder.code());
    set_mode(&bench.config.plugins.dir, 0o755);
    std::fs::hard_link(&file, bench.base.path().join("second")).unwrap();
    assert_eq!(refusal(&bench).code, Cause::HardLinked.code());

    let mut bench = Bench::new();
    let outside = whole.build(&bench.base.path().join("outside.so"));
    std::os::unix::fs::symlink(&outside, bench.at("libw.so")).unwrap();
    assert_eq!(refusal(&bench).code, Cause::OutsideFolder.code());
    // Named by the operator it is welcome, with its second name too.
    std::fs::remove_file(bench.at("libw.so")).unwrap();
    std::fs::hard_link(&outside, bench.base.path().join("second")).unwrap();
    bench.config.plugins.links = vec![outside];
    assert_eq!(start(&bench, &["w"]).engines[0].state, OutcomeState::Registered);
}

#[test]
fn hash_policy_and_isolation_are_kept() {
    let mut bench = Bench::new().with("w", &Fixture::new("w"));
    let hash = discover(&bench.config.plugins)[0].sha256.clone().unwrap();
    bench.config.plugins.trust_policy = TrustPolicy::Pinned;
    let failure = refusal(&bench);
    assert_eq!(failure.code, Cause::NotPinned.code());
    assert!(failure.hint.contains(&hash) && failure.hint.contains("plugins install"), "{}", failure.hint);

    let entry = EntryConfig { sha256: Some(hash.to_uppercase()), ..EntryConfig::default() };
    bench.config.plugins.entries.insert("w".into(), entry);
    let outcome = start(&bench, &["w"]).engines.remove(0);
    assert_eq!(outcome.state, OutcomeState::Registered, "{outcome:?}");
    bench.config.plugins.trust_policy = TrustPolicy::Signed;
    assert_eq!(refusal(&bench).code, Cause::NotSigned.code());

    bench.config.plugins.trust_policy = TrustPolicy::Any;
    let entry = EntryConfig { sha256: Some("0".repeat(64)), ..EntryConfig::default() };
    bench.config.plugins.entries.insert("w".into(), entry);
    assert_eq!(refusal(&bench).code, Cause::HashDiffers.code());
    let entry = EntryConfig { isolation: Isolation::Process, ..EntryConfig::default() };
    bench.config.plugins.entries.insert("w".into(), entry);
    let result = start(&bench, &["w"]);
    assert_eq!(result.engines[0].state, OutcomeState::Registered, "it passed its probe");
    assert!(result.registrations.is_empty(), "and nothing of it is loaded here");
    let apart: Vec<_> = result.apart.iter().map(|apart| apart.wanted.clone()).collect();
    assert_eq!(apart, [Wanted::engine("w")]);
}

#[test]
fn a_file_that_is_replaced_is_a_change_and_the_copy_stays_as_it_was() {
    let bench = Bench::new().with("w", &Fixture::new("w"));
    let result = start(&bench, &["w"]);
    assert_eq!(changes(&bench.config.plugins, &result.reports), []);
    let staged = result.registrations[0].staged.clone();
    let before = std::fs::read(&staged).unwrap();

    Fixture::new("w").key("description", "newer").build(&bench.at("libw.so"));
    std::fs::write(bench.at("new.so"), "x").unwrap();
    let kinds: Vec<ChangeKind> = changes(&bench.config.plugins, &result.reports).iter().map(|c| c.kind).collect();
    assert_eq!(kinds, [ChangeKind::Replaced, ChangeKind::Added]);
    assert_eq!(std::fs::read(&staged).unwrap(), before);

    let again = start(&bench, &["w"]);
    assert_ne!(again.registrations[0].staged, staged);
    assert!(!staged.exists(), "the old copy is swept at the next start");
    std::fs::remove_file(bench.at("libw.so")).unwrap();
    assert_eq!(changes(&bench.config.plugins, &again.reports)[0].kind, ChangeKind::Removed);
}

#[test]
fn a_file_that_was_only_touched_is_no_change() {
    let bench = Bench::new().with("w", &Fixture::new("w"));
    let reports = discover(&bench.config.plugins);
    let bytes = std::fs::read(bench.at("libw.so")).unwrap();
    std::fs::write(bench.at("libw.so"), bytes).unwrap();
    assert_eq!(changes(&bench.config.plugins, &reports), []);
}

/// 200 copies with random bytes changed in the first 16 KiB. What passes is not loaded here, where another copy was
/// loaded before; each copy has a clear end, and this process goes on.
#[test]
fn damaged_copies_never_hurt_the_parent() {
    let bench = Bench::new();
    let whole = built(&Fixture::new("w"));
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap()
    };
    let mut stages = std::collections::BTreeMap::<&str, u32>::new();
    for _ in 0..200 {
        let mut copy = whole.clone();
        for _ in 0..8 {
            let at = random(copy.len().min(16 * 1024));
            copy[at] = u8::try_from(random(256)).unwrap();
        }
        std::fs::write(bench.at("libw.so"), &copy).unwrap();
        let result = check(&bench.config, &[Wanted::engine("w")]);
        let outcome = &result.engines[0];
        match (&outcome.state, &outcome.failure) {
            (OutcomeState::Registered, None) => {}
            (_, Some(failure)) => assert!(!failure.hint.is_empty() && !failure.message.is_empty()),
            other => panic!("{other:?}"),
        }
        *stages.entry(outcome.failure.as_ref().map_or("passed", |failure| failure.stage.as_str())).or_default() += 1;
    }
    assert!(stages.contains_key("inspect") && stages.contains_key("passed"), "{stages:?}");
}

/// A relocation that writes behind the library may hit nothing in the probe and something in the gateway.
#[test]
fn what_the_loader_follows_must_stay_inside_the_library() {
    let whole = built(&Fixture::new("w"));
    let header = elf_header(&whole);
    let endian = object::Endianness::default();
    let programs = header.program_headers(endian, &whole[..]).unwrap();
    let dynamic = programs.iter().find_map(|program| program.dynamic(endian, &whole[..]).unwrap()).unwrap();
    let offset_in_file = |address: u64| {
        let load = programs.iter().find(|p| {
            p.p_type(endian) == object::elf::PT_LOAD
                && (p.p_vaddr(endian)..p.p_vaddr(endian) + p.p_memsz(endian)).contains(&address)
        });
        let load = load.unwrap();
        usize::try_from(address - load.p_vaddr(endian) + load.p_offset(endian)).unwrap()
    };
    let value = |tag| dynamic.iter().find(|entry| entry.tag(endian) == tag).unwrap().val(endian);
    let relocations = offset_in_file(value(object::elf::DT_RELA));
    let symbols = offset_in_file(value(object::elf::DT_SYMTAB));
    let table = (dynamic.as_ptr() as usize) - (whole.as_ptr() as usize);
    let load_address = 64 + 16 + 56 * programs.iter().rposition(|p| p.p_type(endian) == object::elf::PT_LOAD).unwrap();

    let relative = usize::try_from(value(object::elf::DT_RELASZ)).unwrap() > 24;
    assert!(relative, "the fixture has relocations");
    for (what, at) in [
        ("the place of a relocation", relocations),
        ("the value of a relocation", relocations + 16),
        ("an address in the dynamic table", table + 8),
        ("the address of a segment", load_address),
    ] {
        let mut damaged = whole.clone();
        damaged[at + 2] ^= 0x40;
        assert_eq!(refused_file(&damaged).code, Cause::Damaged.code(), "{what}");
    }
    // The last symbol is one that the library defines.
    let count = {
        use object::Object;
        object::File::parse(&whole[..]).unwrap().dynamic_symbols().count()
    };
    let mut damaged = whole.clone();
    damaged[symbols + 24 * count + 8 + 3] ^= 0x40;
    assert_eq!(refused_file(&damaged).code, Cause::Damaged.code(), "the address of a symbol");
    // Two values for one place.
    let mut damaged = whole;
    damaged.copy_within(relocations..relocations + 8, relocations + 24);
    assert_eq!(refused_file(&damaged).code, Cause::Damaged.code(), "a place that is written twice");
}

fn elf_header(bytes: &[u8]) -> &object::elf::FileHeader64<object::Endianness> {
    object::elf::FileHeader64::parse(bytes).unwrap()
}

#[test]
fn an_entry_without_effect_is_told() {
    let mut bench = Bench::new().with("chaos", &Fixture::new("chaos"));
    let told = |bench: &Bench| {
        let reports = discover(&bench.config.plugins);
        let remarks = entry_remarks(&bench.config, &reports);
        remarks.into_iter().map(|remark| format!("{} → {}", remark.message, remark.hint)).collect::<Vec<_>>()
    };
    let limits = crate::config::LimitsConfig { memory_mb: 64, ..Default::default() };
    let entry = EntryConfig { limits: limits.clone(), isolation: Isolation::Process, ..EntryConfig::default() };
    bench.config.plugins.entries.insert("chaos".into(), entry.clone());
    assert_eq!(told(&bench), Vec::<String>::new());
    bench.config.plugins.entries.insert("choas".into(), EntryConfig::default());
    let found = told(&bench);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("no library has the plugin id \"choas\"") && found[0].contains("did you mean \"chaos\"?")
    );
    bench.config.plugins.entries.remove("choas");
    bench
        .config
        .plugins
        .entries
        .insert("chaos".into(), EntryConfig { isolation: Isolation::InProcess, ..entry.clone() });
    let found = told(&bench);
    assert!(found.len() == 1 && found[0].contains("runs in-process, where nothing is bounded"), "{found:?}");
    let state = bench.config.gateway.state_dir.clone();
    std::fs::create_dir_all(&state).unwrap();
    let limits = crate::config::LimitsConfig { read: vec![state.join("nope"), state], ..limits };
    bench.config.plugins.entries.insert("chaos".into(), EntryConfig { limits, ..entry });
    let found = told(&bench);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].contains("nope, which does not exist") && found[1].contains("can read the state folder"),
        "{found:?}"
    );
}

#[test]
fn a_setting_without_the_grant_or_the_service_that_it_needs_is_told() {
    let schema = r#"{"properties": {"wide": {"type": "boolean", "x-needs": {"true": "grant:sessions"}},
        "by": {"enum": ["rules", "model"], "x-needs": {"model": "service:llm.complete"}}}}"#;
    let fixture = Fixture::new("chaos").key("config_schema", schema);
    let mut bench = Bench::new().with("chaos", &fixture);
    let told = |bench: &Bench| {
        let reports = discover(&bench.config.plugins);
        let remarks = entry_remarks(&bench.config, &reports);
        remarks.into_iter().map(|remark| format!("{} → {}", remark.message, remark.hint)).collect::<Vec<_>>()
    };
    let set = |bench: &mut Bench, config: serde_json::Value, grants: &[&str]| {
        let grants = grants.iter().map(|grant| (*grant).to_owned()).collect();
        let entry = EntryConfig { config: config.as_object().unwrap().clone(), grants, ..EntryConfig::default() };
        bench.config.plugins.entries.insert("chaos".into(), entry);
    };
    bench.config.model.provider = "openai".into();
    set(&mut bench, json!({"wide": true, "by": "model"}), &["memory-append"]);
    let found = told(&bench);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("config.wide = true has no effect without the grant \"sessions\""), "{found:?}");
    assert!(found[0].contains("grants = [\"memory-append\", \"sessions\"]"), "{found:?}");
    set(&mut bench, json!({"wide": true, "by": "model"}), &["sessions"]);
    assert_eq!(told(&bench), Vec::<String>::new());
    bench.config.model.provider = "offline".into();
    let found = told(&bench);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("config.by = \"model\" has no effect with the gateway's model"), "{found:?}");
    set(&mut bench, json!({"wide": false, "by": "rules"}), &[]);
    assert_eq!(told(&bench), Vec::<String>::new());
}
