use super::*;
use crate::config::{EntryConfig, Isolation, TrustPolicy};
use crate::diagnostic::Diagnostic;
use crate::ledger::Verdicts;
use crate::plugins::fixture::{Bench, Fixture};
use crate::plugins::signature::Signer;
use crate::plugins::{Cause, LOCK_FILE, Pins, PluginReport, SignatureReport, check as checked, discover, load};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

/// A library outside of the plugins folder.
fn built(bench: &Bench, fixture: &Fixture, name: &str) -> PathBuf {
    let folder = bench.base.path().join("build");
    std::fs::create_dir_all(&folder).unwrap();
    fixture.build(&folder.join(name))
}

fn installed(bench: &Bench, source: &Source) -> Result<Installed, InstallError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let parcel = runtime.block_on(source.take(None, true))?;
    put(&bench.config, &examine(&bench.config, parcel)?, source, false)
}

fn install_file(bench: &Bench, path: &Path) -> Result<Installed, InstallError> {
    installed(bench, &Source::File(path.to_owned()))
}

fn only(bench: &Bench) -> PluginReport {
    let mut reports = discover(&bench.config.plugins);
    assert_eq!(reports.len(), 1, "{reports:?}");
    reports.remove(0)
}

/// Names of everything in the plugins folder, hidden files too.
fn names(bench: &Bench) -> Vec<String> {
    let entries = std::fs::read_dir(&bench.config.plugins.dir).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn version(id: &str, version: &str) -> Fixture {
    Fixture::new(id).key("version", version)
}

#[test]
fn a_library_is_copied_pinned_and_mended_by_the_same_words() {
    let bench = Bench::new();
    let file = built(&bench, &version("w", "1"), "libw.so");
    let first = install_file(&bench, &file).unwrap();
    let place = bench.at("libw.so");
    assert_eq!((&first.file, first.changed, &first.previous), (&place, true, &None));
    assert_eq!(std::fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(names(&bench), ["libw.so", LOCK_FILE], "and nothing is left of the trial");
    let vouched = only(&bench).vouched.unwrap();
    assert_eq!(vouched.reason(), Some("pinned"));
    assert_eq!(vouched.pin.unwrap().source, Some(file.display().to_string()));
    assert!(!install_file(&bench, &file).unwrap().changed, "a second time there is nothing to do");

    // Somebody copies another build over it: refused, with both hashes and what accepts it.
    version("w", "2").build(&place);
    let refused = only(&bench).failure.unwrap();
    assert_eq!(refused.code, Cause::HashDiffers.code());
    assert!(refused.causes[0].contains(&first.sha256), "{refused:?}");
    assert!(refused.hint.contains(&format!("plugins install {}", place.display())), "{refused:?}");
    assert!(refused.hint.contains("plugins update w"), "{refused:?}");
    let mended = install_file(&bench, &file).unwrap();
    assert!(mended.changed && only(&bench).failure.is_none());

    // The new build, on purpose.
    built(&bench, &version("w", "3"), "libw.so");
    let newer = install_file(&bench, &file).unwrap();
    let previous = newer.previous.unwrap();
    assert_eq!((previous.version.as_deref(), newer.version.as_deref()), (Some("1"), Some("3")));
    assert_eq!(previous.sha256, first.sha256);
}

#[test]
fn a_file_that_lies_there_is_pinned_as_it_is() {
    let mut bench = Bench::new().with("w", &Fixture::new("w"));
    bench.config.plugins.trust_policy = TrustPolicy::Pinned;
    let refused = only(&bench).failure.unwrap();
    assert_eq!(refused.code, Cause::NotPinned.code());
    let place = bench.at("libw.so");
    assert!(refused.hint.contains(&format!("plugins install {}", place.display())), "{refused:?}");
    let parcel = from_file(&place, None).unwrap();
    let examined = examine(&bench.config, parcel).unwrap();
    assert!(pin_in_place(&bench.config, &examined, &place, true).unwrap().dry_run);
    assert_eq!(names(&bench), ["libw.so"]);
    assert!(pin_in_place(&bench.config, &examined, &place, false).unwrap().changed);
    assert_eq!(only(&bench).failure, None);
    // Under another name it is the same plugin still, and another file of it is not the one that was pinned.
    std::fs::rename(&place, bench.at("libv.so")).unwrap();
    assert_eq!(only(&bench).failure, None);
    version("w", "2").build(&bench.at("libv.so"));
    assert_eq!(only(&bench).failure.unwrap().code, Cause::HashDiffers.code());
    unpin(&bench.config.plugins.dir, &[place]).unwrap();
    assert_eq!(only(&bench).failure.unwrap().code, Cause::NotPinned.code());
}

#[test]
fn what_is_pinned_runs_in_process_by_default_and_what_is_not_in_a_worker() {
    let mut bench = Bench::new();
    bench.config.plugins.isolation = Isolation::Auto;
    let file = built(&bench, &Fixture::new("w"), "libw.so");
    std::fs::copy(&file, bench.at("libw.so")).unwrap();
    let apart = only(&bench).placement.unwrap();
    assert!(apart.is_apart() && apart.reason.contains("plugins install"), "{apart}");
    std::fs::remove_file(bench.at("libw.so")).unwrap();
    install_file(&bench, &file).unwrap();
    assert_eq!(only(&bench).placement.unwrap().to_string(), "in-process (pinned)");
    let own = EntryConfig { isolation: Isolation::Process, ..EntryConfig::default() };
    bench.config.plugins.entries.insert("w".into(), own);
    assert!(only(&bench).placement.unwrap().is_apart(), "what its entry says counts");
}

#[test]
fn what_is_wrong_with_a_file_is_told_and_nothing_is_changed() {
    let bench = Bench::new();
    let at = |name: &str| bench.base.path().join(name);
    std::fs::write(at("libtext.so"), "not a library, just words that go on for a while").unwrap();
    std::fs::write(at("plugins.toml"), "[plugins]\nenabled = true # just words\n").unwrap();
    let no_manifest = built(&bench, &Fixture::new("w").without_manifest(), "libplain.so");
    let other = built(&bench, &Fixture::new("w").key("contract", "9.9"), "libother.so");
    let dies = built(&bench, &Fixture::new("w").start("abort();"), "libdies.so");
    let twice = built(&bench, &Fixture::new("w").enroll("return 1;"), "libfails.so");
    for (path, code) in [
        (at("libtext.so"), Cause::NotALibrary),
        (at("plugins.toml"), Cause::NotALibrary),
        (no_manifest, Cause::NoManifest),
        (other, Cause::OtherContract),
        (dies, Cause::ProbeSignal),
        (twice, Cause::RegisterError),
    ] {
        let error = install_file(&bench, &path).unwrap_err();
        assert_eq!(error.code(), code.code(), "{error}");
        let told = error.report().to_string();
        assert!(!told.contains(".engineroom-install-"), "{told}");
        assert!(told.contains(path.file_name().unwrap().to_str().unwrap()), "{told}");
    }
    for (path, code, words) in [
        (at("build"), "CE832", "plugins install -l"),
        (at("build/libplan.so"), "CE831", "libplain.so"),
        (at("nowhere/x.so"), "CE831", "target/release"),
    ] {
        let error = install_file(&bench, &path).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.hint().unwrap().contains(words), "{:?}", error.hint());
    }
    assert_eq!(names(&bench), [""; 0]);
    let left = std::fs::read_dir(bench.base.path()).unwrap().flatten().map(|entry| entry.file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().starts_with(".engineroom")));
}

#[test]
fn a_library_without_a_name_of_one_is_named_after_its_plugin() {
    let bench = Bench::new();
    let file = built(&bench, &Fixture::new("w"), "download");
    let done = install_file(&bench, &file).unwrap();
    assert_eq!(done.file, bench.at(&format!("{}w{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)));
    assert_eq!(only(&bench).failure, None);
}

#[test]
fn a_configuration_that_does_not_fit_yet_keeps_nobody_from_installing() {
    let mut bench = Bench::new();
    let schema = r#"{"type":"object","required":["url"],"properties":{"url":{"type":"string"}}}"#;
    let file = built(&bench, &Fixture::new("w").key("config_schema", schema), "libw.so");
    let parcel = from_file(&file, None).unwrap();
    let open = examine(&bench.config, parcel.clone()).unwrap().open;
    assert_eq!(open.iter().map(|failure| failure.code).collect::<Vec<_>>(), [Cause::BadConfig.code()]);
    let mut entry = EntryConfig::default();
    entry.config.insert("url".into(), "here".into());
    bench.config.plugins.entries.insert("w".into(), entry);
    assert_eq!(examine(&bench.config, parcel).unwrap().open, []);
}

#[test]
fn what_has_its_name_or_its_ids_is_not_overwritten() {
    let bench = Bench::new().with("v", &Fixture::new("v"));
    let file = built(&bench, &Fixture::new("w"), "libv.so");
    let taken = |bench: &Bench, file: &Path| {
        let error = install_file(bench, file).unwrap_err();
        assert_eq!(error.code(), "CE842", "{error}");
        format!("{error}; {}", error.hint().unwrap())
    };
    assert!(taken(&bench, &file).contains("is the file of the plugin v"));
    // Another plugin that offers the same engine.
    let same = built(&bench, &Fixture::new("v").key("plugin", "u"), "libu.so");
    assert!(taken(&bench, &same).contains("plugins uninstall v"));
    std::fs::write(bench.at("libx.so"), "something of mine").unwrap();
    let file = built(&bench, &Fixture::new("x"), "libx.so");
    assert!(taken(&bench, &file).contains("is there already"));
    // A linked one is not shadowed by a copy.
    let mut bench = Bench::new();
    let file = built(&bench, &Fixture::new("w"), "libw.so");
    bench.config.plugins.links = vec![file.clone()];
    assert!(taken(&bench, &file).contains("is linked from"));
}

#[test]
fn a_lock_that_cannot_be_read_keeps_every_file_out_and_says_so() {
    let bench = Bench::new();
    let file = built(&bench, &Fixture::new("w"), "libw.so");
    install_file(&bench, &file).unwrap();
    std::fs::write(bench.at(LOCK_FILE), "version = 7\n").unwrap();
    let refused = only(&bench).failure.unwrap();
    assert_eq!(refused.code, Cause::LockUnreadable.code());
    assert!(refused.message.contains("format 7"), "{refused}");
    assert_eq!(install_file(&bench, &file).unwrap_err().code(), Cause::LockUnreadable.code());
    let linked = Bench {
        config: {
            let mut config = bench.config.clone();
            config.plugins.links = vec![file];
            config.plugins.dir = bench.base.path().join("other");
            config
        },
        base: tempfile::tempdir().unwrap(),
    };
    assert_eq!(only(&linked).failure, None, "what is linked was never pinned");
}

#[test]
fn signatures_come_along_and_the_policy_is_obeyed() {
    let (own, stranger) = (Signer::new(1), Signer::new(2));
    let mut bench = Bench::new();
    bench.config.plugins.trust_policy = TrustPolicy::Signed;
    bench.config.plugins.trust_keys = vec![own.key()];
    let file = built(&bench, &Fixture::new("w"), "libw.so");
    let bytes = std::fs::read(&file).unwrap();
    let beside = signature::signature_path(&file);
    let code = |bench: &Bench| install_file(bench, &file).unwrap_err().code();
    assert_eq!(code(&bench), Cause::NotSigned.code(), "no signature");
    std::fs::write(&beside, stranger.sign(&bytes, "x", true)).unwrap();
    assert_eq!(code(&bench), Cause::NotSigned.code(), "a stranger's");
    std::fs::write(&beside, own.sign(b"other bytes", "x", true)).unwrap();
    assert_eq!(code(&bench), Cause::BadSignature.code(), "of another file");
    std::fs::write(&beside, own.sign(&bytes, "release 1", true)).unwrap();
    install_file(&bench, &file).unwrap();
    assert_eq!(names(&bench), ["libw.so", "libw.so.minisig", LOCK_FILE]);
    let report = only(&bench);
    assert_eq!(report.failure, None);
    let signature = report.vouched.unwrap().signature;
    assert_eq!(signature, Some(SignatureReport::Good { key: own.key(), comment: "release 1".into() }));
    // Whatever the policy, a signature by a trusted key that does not fit is no good sign.
    bench.config.plugins.trust_policy = TrustPolicy::Any;
    std::fs::write(bench.at("libw.so.minisig"), own.sign(b"other bytes", "x", false)).unwrap();
    assert_eq!(only(&bench).failure.unwrap().code, Cause::BadSignature.code());
}

/// An archive with these files; a name may be anything, and an empty content is a link.
fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        // By hand: the builder itself refuses what a hostile archive holds.
        let raw = &mut header.as_old_mut().name;
        raw[..name.len()].copy_from_slice(name.as_bytes());
        header.set_mode(0o644);
        if content.is_empty() {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

#[test]
fn the_library_for_this_machine_is_found_in_an_archive_wherever_it_lies() {
    let bench = Bench::new();
    let bytes = std::fs::read(built(&bench, &Fixture::new("w"), "libw.so")).unwrap();
    let musl = std::fs::read(built(&bench, &version("w", "musl"), "libm.so")).unwrap();
    let mut arm = bytes.clone();
    // The machine of an ELF header.
    arm[18..20].copy_from_slice(&[if cfg!(target_arch = "aarch64") { 62 } else { 183 }, 0]);
    let here = format!("package/lib/{}/libw.so", platform());
    let path = bench.base.path().join("w.tar.gz");
    let signature = Signer::new(1).sign(&bytes, "x", true);
    let pack = |files: &[(&str, &[u8])]| std::fs::write(&path, archive(files)).unwrap();
    pack(&[
        ("package/README.md", b"words"),
        ("package/lib/other/libw.so", &arm),
        (&here, &bytes),
        ("package/lib/other-musl/libw.so", &musl),
        (&format!("{here}.minisig"), signature.as_bytes()),
    ]);
    let done = install_file(&bench, &path).unwrap();
    assert_eq!(std::fs::read(bench.at("libw.so")).unwrap(), bytes);
    assert_eq!(std::fs::read_to_string(bench.at("libw.so.minisig")).unwrap(), signature);
    let pins = Pins::read(&bench.config.plugins.dir).unwrap();
    let pin = &pins.files["libw.so"];
    assert_eq!(pin.archive_sha256, Some(sha256_hex(&std::fs::read(&path).unwrap())));
    assert_eq!((&pin.sha256, pin.source.as_deref()), (&done.sha256, path.to_str()));

    let code = || {
        let error = install_file(&bench, &path).unwrap_err();
        (error.code(), error.report().to_string())
    };
    pack(&[("a/libw.so", &bytes), ("b/libw.so", &musl)]);
    let (several, told) = code();
    assert!(several == "CE839" && told.contains("a/libw.so (plugin w)"), "{told}");
    pack(&[("libw.so", &arm)]);
    let (none, told) = code();
    assert!(
        none == "CE838" && told.contains("libw.so: the library is built for") && told.contains(&platform()),
        "{told}"
    );
    pack(&[("readme.txt", b"x")]);
    assert!(code().1.contains("no file in it has the name of a library"));
    pack(&[("libw.so", b"")]);
    assert!(code().1.contains("not a regular file"));
    for name in ["../libw.so", "/tmp/libw.so", "a/../../libw.so"] {
        pack(&[(name, &bytes)]);
        let (hostile, told) = code();
        assert!(hostile == "CE837" && told.contains("leads out of it"), "{told}");
    }
    std::fs::write(&path, &archive(&[("libw.so", &bytes)])[..2000]).unwrap();
    assert_eq!(code().0, "CE837", "cut off");
}

#[test]
fn an_archive_that_unpacks_without_end_is_stopped_at_the_bound() {
    let zeroes = vec![0; 4 * 1024 * 1024];
    let one = archive(&[("padding", &zeroes)]);
    assert!(one.len() < 64 * 1024, "{}", one.len());
    let refused = archive::library("bomb", &one, 1024 * 1024).unwrap_err();
    assert_eq!(refused.code(), "CE837");
    // Behind the end of the archive, and as a second gzip member.
    let mut encoder = flate2::write::GzEncoder::new(one, flate2::Compression::fast());
    encoder.write_all(&zeroes).unwrap();
    let refused = archive::library("bomb", &encoder.finish().unwrap(), 6 * 1024 * 1024).unwrap_err();
    assert!(refused.to_string().contains("6 MiB"), "{refused}");
}

/// A server on this machine that answers each request by its path.
fn server(answer: impl Fn(&str) -> (u16, Vec<u8>, String) + Send + 'static) -> String {
    use std::io::{BufRead, BufReader};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines();
            let Some(Ok(first)) = lines.next() else { continue };
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let (status, body, headers) = answer(first.split(' ').nth(1).unwrap_or_default());
            let head =
                format!("HTTP/1.1 {status} x\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n", body.len());
            let _ = (&stream).write_all(head.as_bytes()).and_then(|()| (&stream).write_all(&body));
        }
    });
    format!("http://{address}")
}

#[test]
fn a_download_needs_its_hash_and_brings_its_signature() {
    let mut bench = Bench::new();
    let bytes = std::fs::read(built(&bench, &Fixture::new("w"), "libw.so")).unwrap();
    let own = Signer::new(1);
    let (served, signature) = (bytes.clone(), own.sign(&bytes, "v1", true));
    let base = server(move |path| match path {
        "/libw.so" => (200, served.clone(), String::new()),
        "/libw.so.minisig" => (200, signature.clone().into_bytes(), String::new()),
        "/moved" => (302, Vec::new(), "location: /libw.so\r\n".into()),
        "/away" => (302, Vec::new(), "location: http://192.0.2.1/libw.so\r\n".into()),
        "/round" => (302, Vec::new(), "location: /round\r\n".into()),
        _ => (404, Vec::new(), String::new()),
    });
    let hash = sha256_hex(&bytes);
    let source = |path: &str, hash: &str| Source::parse(&format!("{base}{path}"), Some(hash)).unwrap();
    bench.config.plugins.trust_keys = vec![own.key()];
    bench.config.plugins.trust_policy = TrustPolicy::Signed;
    let done = installed(&bench, &source("/libw.so", &hash)).unwrap();
    assert_eq!((done.sha256.as_str(), done.source.unwrap()), (hash.as_str(), format!("{base}/libw.so")));
    assert_eq!(names(&bench), ["libw.so", "libw.so.minisig", LOCK_FILE]);
    bench.config.plugins.trust_policy = TrustPolicy::Any;
    let failed = |path: &str, hash: &str| {
        let error = installed(&bench, &source(path, hash)).unwrap_err();
        (error.code(), error.report().to_string())
    };
    let (code, told) = failed("/libw.so", &"0".repeat(64));
    assert!(code == "CE836" && told.contains(&hash) && told.contains("do not use it"), "{told}");
    assert!(failed("/gone", &hash).1.contains("404"));
    assert!(failed("/away", &hash).1.contains("can be changed on its way"), "{:?}", failed("/away", &hash));
    assert_eq!(failed("/round", &hash).0, "CE835");
    let code = |text: &str, hash: Option<&str>| Source::parse(text, hash).unwrap_err().code();
    assert_eq!(code("https://example.org/libw.so", None), "CE833");
    assert_eq!(code("https://example.org/libw.so", Some("abc")), "CE833");
    assert_eq!(code("http://example.org/libw.so", Some(&hash)), "CE834");
    assert_eq!(code("ftp://example.org/libw.so", Some(&hash)), "CE834");
    assert_eq!(code("https://me:secret@example.org/libw.so", Some(&hash)), "CE834");
}

#[test]
fn a_download_is_bounded() {
    let base = server(|path| match path {
        "/said" => (200, vec![0; 10_000], String::new()),
        _ => (404, Vec::new(), String::new()),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let get = |path: &str, most, may_lack| {
        let url = fetch::address(&format!("{base}{path}")).unwrap();
        runtime.block_on(fetch::download(&url, most, may_lack))
    };
    assert_eq!(get("/said", 10_000, false).unwrap().unwrap().len(), 10_000);
    assert!(get("/said", 9_999, false).unwrap_err().to_string().contains("larger than"));
    assert_eq!(get("/none", 1, true).unwrap(), None);
    assert_eq!(get("/none", 1, false).unwrap_err().code(), "CE835");
}

#[test]
fn a_package_is_brought_by_npm_and_nothing_in_it_is_run() {
    let bench = Bench::new();
    let bytes = std::fs::read(built(&bench, &Fixture::new("w"), "libw.so")).unwrap();
    let package = bench.base.path().join("package.tgz");
    std::fs::write(&package, archive(&[(&format!("package/lib/{}/libw.so", platform()), &bytes)])).unwrap();
    let npm = bench.base.path().join("npm");
    let said = bench.base.path().join("said");
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {}\ncase \"$*\" in *absent*) echo 'npm error code E404' >&2; exit 1;; esac\ncp {} acme-w-1.0.0.tgz\n",
        said.display(),
        package.display()
    );
    std::fs::write(&npm, script).unwrap();
    std::fs::set_permissions(&npm, std::fs::Permissions::from_mode(0o755)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let pack = |program: &Path, spec: &str| {
        let folder = tempfile::tempdir().unwrap();
        runtime.block_on(npm::pack_with(program.as_os_str(), spec, folder.path()))
    };
    let brought = pack(&npm, "@acme/w@1.0.0").unwrap();
    assert_eq!(archive::open("npm:w", &brought).unwrap().bytes, bytes);
    assert_eq!(std::fs::read_to_string(&said).unwrap(), "pack --ignore-scripts --silent -- @acme/w@1.0.0\n");
    let failed = pack(&npm, "absent").unwrap_err();
    assert!(failed.code() == "CE841" && failed.to_string().contains("E404"), "{failed}");
    let none = pack(&bench.base.path().join("no-such-npm"), "w").unwrap_err();
    assert!(none.code() == "CE841" && none.hint().unwrap().contains("install Node.js"), "{none}");
    assert_eq!(pack(&npm, "../w").unwrap_err().code(), "CE840");
}

#[test]
fn two_commands_do_not_change_the_folder_at_once() {
    let bench = Bench::new();
    let files: Vec<PathBuf> =
        ["a", "b", "c", "d"].map(|id| built(&bench, &Fixture::new(id), &format!("lib{id}.so"))).into();
    std::thread::scope(|scope| {
        let running: Vec<_> = files.iter().map(|file| scope.spawn(|| install_file(&bench, file))).collect();
        running.into_iter().for_each(|one| assert!(one.join().unwrap().unwrap().changed));
    });
    assert_eq!(Pins::read(&bench.config.plugins.dir).unwrap().files.len(), 4);
}

#[test]
fn what_was_installed_serves_after_the_next_start() {
    let bench = Bench::new();
    let file = built(&bench, &Fixture::new("w"), "libw.so");
    install_file(&bench, &file).unwrap();
    let wanted = [crate::plugins::Wanted::engine("w")];
    let result = checked(&bench.config, &wanted);
    assert_eq!(result.engines[0].failure, None);
    let port: std::sync::Arc<dyn crate::plugins::RegistrarPort> = std::sync::Arc::new(crate::plugins::QuietPort);
    let loaded = load(&bench.config, &wanted, &Verdicts::default(), &port);
    assert_eq!(loaded.registrations.len(), 1);
}
