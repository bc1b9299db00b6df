//! Every way a library can fail to become an engine: one code, one stage and one remedy each.

use serde::{Serialize, Serializer};

/// A stage of the way of a library, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Files in the plugins folder and linked paths are listed.
    Discover,
    /// The file is read once and parsed as data; its configuration is checked against its schema. No code runs.
    Inspect,
    /// Rules of place, owner, mode, links, hash.
    Trust,
    /// The inspected bytes are written to a private, content-addressed copy.
    Stage,
    /// A disposable child process does all that follows, first.
    Probe,
    /// The worker in which an isolated library lives is started; it does all that follows.
    Worker,
    /// `dlopen` of the staged copy; its constructors run here.
    Load,
    /// The entry is found and its layout compared.
    Layout,
    /// The library registers its engines.
    Register,
    /// The engine is built with its configuration.
    Factory,
    /// `info` and the table are checked; in the probe each hook runs once.
    Contract,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Stage; 11] = [
        Stage::Discover,
        Stage::Inspect,
        Stage::Trust,
        Stage::Stage,
        Stage::Probe,
        Stage::Worker,
        Stage::Load,
        Stage::Layout,
        Stage::Register,
        Stage::Factory,
        Stage::Contract,
    ];

    /// Name as documents show it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Stage::Discover => "discover",
            Stage::Inspect => "inspect",
            Stage::Trust => "trust",
            Stage::Stage => "stage",
            Stage::Probe => "probe",
            Stage::Worker => "worker",
            Stage::Load => "load",
            Stage::Layout => "layout",
            Stage::Register => "register",
            Stage::Factory => "factory",
            Stage::Contract => "contract",
        }
    }

    /// The stage of that name.
    pub fn from_name(name: &str) -> Option<Stage> {
        Stage::ALL.into_iter().find(|stage| stage.as_str() == name)
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! causes {
    ($($name:ident = $code:literal, $stage:ident, $doc:literal, $hint:literal;)*) => {
        /// What went wrong. The code never changes its meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Cause {
            $(#[doc = concat!("`", $code, "`: ", $doc)] $name,)*
        }

        impl Cause {
            /// All causes, in the order of their codes.
            pub const ALL: &'static [Cause] = &[$(Cause::$name),*];

            /// Stable code.
            pub const fn code(self) -> &'static str {
                match self { $(Cause::$name => $code),* }
            }

            /// The stage that finds it.
            pub const fn stage(self) -> Stage {
                match self { $(Cause::$name => Stage::$stage),* }
            }

            /// What it means, in a few words.
            pub const fn meaning(self) -> &'static str {
                match self { $(Cause::$name => $doc),* }
            }

            /// What an operator does about it, where nothing more exact is known.
            pub const fn hint(self) -> &'static str {
                match self { $(Cause::$name => $hint),* }
            }
        }
    };
}

causes! {
    FolderUnreadable = "CE200", Discover, "a folder with plugins cannot be listed",
        "check that the folder exists and that the gateway may read it, or change plugins.dir";
    EngineMissing = "CE201", Discover, "no library offers the engine",
        "put the library into the plugins folder, or correct the id in plugins.slots";
    ClaimedTwice = "CE202", Discover, "two libraries claim the same engine id",
        "remove one of the two files, or deny one of the two plugins (plugins.deny)";
    LinkMissing = "CE203", Discover, "a linked path does not exist",
        "correct or remove the path in plugins.links";
    LockUnreadable = "CE204", Discover, "plugins.lock cannot be used, so nobody can say which files changed",
        "restore it, or remove it and pin each file again: `engineroom plugins install FILE`";

    NotAFile = "CE210", Inspect, "not a regular file",
        "put the library itself there, not a folder, device or socket";
    Unreadable = "CE211", Inspect, "the file cannot be read",
        "give the gateway's user the right to read it";
    TooLarge = "CE212", Inspect, "the file is larger than any engine should be",
        "strip the library of its debug information";
    Empty = "CE213", Inspect, "the file is empty",
        "copy the library again; the copy was probably interrupted";
    NotALibrary = "CE214", Inspect, "the file is not an object file",
        "put a compiled shared library there (crate-type = [\"cdylib\"])";
    OtherPlatform = "CE215", Inspect, "built for another system or processor",
        "build the engine for this machine, or get the build that is";
    NotShared = "CE216", Inspect, "an object file, but not a shared library",
        "build the engine as a shared library (crate-type = [\"cdylib\"], or cc -shared)";
    CutOff = "CE217", Inspect, "the file is cut off",
        "copy the library again; copy under another name first and rename it, so that nobody sees half of it";
    NoManifest = "CE218", Inspect, "the library has no engine manifest",
        "this is not an Engineroom engine; remove it, or export one with engine_abi's export macro";
    NoSections = "CE219", Inspect, "the library's section headers were removed",
        "the manifest lives in a section: build without `sstrip` or similar tools (`strip` is fine)";
    BadManifest = "CE220", Inspect, "the manifest cannot be understood",
        "build the engine with the SDK of this contract version, or correct the manifest";
    OtherContract = "CE221", Inspect, "made for another contract version",
        "build the engine against the engine-abi of this gateway, or use the gateway it was made for";
    PanicAbort = "CE222", Inspect, "built with panic = \"abort\"",
        "build the engine with panic = \"unwind\": an engine that aborts takes the gateway with it";
    BadIds = "CE223", Inspect, "an id in the manifest is reserved, blank or malformed",
        "choose an id of letters, digits, '-', '_' and '.'; `legacy` belongs to the core";
    BadSchema = "CE224", Inspect, "the configuration schema in the manifest is not a JSON Schema",
        "tell the engine's author; the schema is part of the library";
    BadConfig = "CE225", Inspect, "the engine's configuration does not fit its schema",
        "correct plugins.entries.ID.config; `engineroom plugins inspect` shows the schema";
    Damaged = "CE226", Inspect, "the object file contradicts itself",
        "the file is damaged: copy or build the library again";
    InspectFault = "CE227", Inspect, "the inspection itself failed",
        "remove the file, and report it together with the message";

    OutsideFolder = "CE230", Trust, "the file leads out of the plugins folder",
        "copy the library into the folder, or name its real place in plugins.links";
    ForeignOwner = "CE231", Trust, "the file belongs to another user",
        "make the gateway's user (or root) its owner: chown";
    LooseMode = "CE232", Trust, "others may write to the file",
        "take the right away: chmod go-w";
    LooseFolder = "CE233", Trust, "others own the folder or may write to it",
        "make the gateway's user (or root) the folder's owner and take the right away: chmod go-w";
    HardLinked = "CE234", Trust, "the file has a second name",
        "copy the library (cp) in place of linking it, or name its place in plugins.links";
    HashDiffers = "CE235", Trust, "the file is not the one that was pinned",
        "if the change is yours, `engineroom plugins install FILE` accepts it";
    NotPinned = "CE236", Trust, "the policy asks for a pinned hash",
        "`engineroom plugins install FILE` pins it, once you know that it is the right one";
    NotSigned = "CE237", Trust, "the policy asks for a signature by a trusted key",
        "get the library with its signature (NAME.minisig beside it), or list its author's key in plugins.trust.keys";
    BadSignature = "CE238", Trust, "the signature is not one of this file",
        "get the library and its signature again from their author; remove the signature only if you know why it is wrong";

    Crashed = "CE239", Trust, "it ended the gateway before",
        "mend or replace the library, then `engineroom plugins release ID`; or let a worker serve it (isolation = \"process\")";

    CannotStage = "CE240", Stage, "the private copy cannot be written",
        "check the state folder: free space, and the right to write";
    LooseStage = "CE241", Stage, "others own or may write to the folder of private copies",
        "remove the folder that is named; it is made again";

    ProbeStart = "CE250", Probe, "the probe cannot be started",
        "check the limits of the gateway's user, and that the gateway's own program can be executed";
    ProbeSignal = "CE251", Probe, "the library killed its probe",
        "the library is damaged or faulty; see what the probe wrote, and ask the engine's author";
    ProbeExit = "CE252", Probe, "the library ended its probe",
        "see what the probe wrote; a missing dependency of the library also ends like this";
    ProbeDeadline = "CE253", Probe, "the probe did not end in time",
        "the library hangs, or is slow: raise plugins.deadlines.probe_ms if it only needs longer";
    ProbeTalk = "CE254", Probe, "the probe's answer cannot be understood",
        "start the gateway again if it was just updated; else report this";
    NoSandbox = "CE255", Probe, "the sandbox cannot be entered",
        "`engineroom doctor` says what this system lacks";

    WorkerStart = "CE256", Worker, "the worker cannot be started",
        "check the limits of the gateway's user (processes, descriptors), and that the gateway's own program can be executed";
    WorkerDied = "CE257", Worker, "the library ended its worker while it was opened",
        "the library is faulty, lacks something that it depends on, or its limits are too low: see what the worker wrote";
    WorkerDeadline = "CE258", Worker, "the worker was not ready in time",
        "the library hangs, or is slow: raise plugins.deadlines.probe_ms if it only needs longer";
    WorkerTalk = "CE259", Worker, "what the worker says cannot be understood",
        "start the gateway again if it was just updated; else report this";

    CannotOpen = "CE260", Load, "the system's loader refuses the library",
        "install what the library depends on (ldd shows it), or build it again";
    NoDoor = "CE261", Load, "the library has no entry",
        "export the engine with engine_abi's export macro, or in C with engineroom_entry_v1";
    LoadDeadline = "CE262", Load, "loading did not end in time",
        "a constructor of the library hangs; ask the engine's author";
    LoadFault = "CE263", Load, "the gateway could not run the loader",
        "check the limits of the gateway's user (threads, memory)";

    EntryDeadline = "CE264", Layout, "the entry did not answer in time",
        "the library's entry function hangs; ask the engine's author";
    LayoutDiffers = "CE265", Layout, "a type of the library is laid out differently",
        "build the engine against the engine-abi of this gateway";
    BadEntry = "CE266", Layout, "the entry is empty or misplaced",
        "the engine's entry must give a static EntryPointV1 with a register function";
    EntryVersion = "CE267", Layout, "the entry speaks of another contract version than the manifest",
        "build the engine again from clean; manifest and entry come from different builds";

    RegisterError = "CE270", Register, "the library could not register",
        "see the reason; it is the engine's own";
    RegisterPanic = "CE271", Register, "the library panicked while it registered",
        "see the reason, and tell the engine's author";
    RegisterDeadline = "CE272", Register, "the registration did not end in time",
        "register should only name engines: ask the engine's author to move slow work into the factory";
    RegisterCode = "CE273", Register, "the registration answered with an unknown code",
        "tell the engine's author";
    NotRegistered = "CE274", Register, "the library did not register an engine that its manifest names",
        "tell the engine's author: manifest and register must name the same ids";
    ForeignId = "CE275", Register, "the engine id belongs to another plugin",
        "remove one of the two plugins, or ask an author to rename the engine";

    FactoryError = "CE280", Factory, "the engine could not be built",
        "see the reason; mostly the engine's configuration or something that it needs is missing";
    FactoryPanic = "CE281", Factory, "the engine panicked while it was built",
        "see the reason, and tell the engine's author";
    FactoryDeadline = "CE282", Factory, "building the engine did not end in time",
        "raise plugins.deadlines.factory_ms if the engine only needs longer";
    FactoryNothing = "CE283", Factory, "the factory gave no instance, or a broken table",
        "tell the engine's author";

    InfoFailed = "CE290", Contract, "info failed",
        "tell the engine's author";
    BlankInfo = "CE291", Contract, "info has no id or no name",
        "tell the engine's author: both must say something";
    HookMissing = "CE292", Contract, "a required hook is missing",
        "tell the engine's author: info, ingest, assemble and compact are required";
    BadInfo = "CE293", Contract, "info holds a value that the contract does not know",
        "tell the engine's author";
    SelfTest = "CE294", Contract, "a hook failed in the self-test",
        "see the hook and the reason; `engineroom doctor` repeats it while no gateway runs";
    SelfTestDeadline = "CE295", Contract, "a hook did not return in the self-test",
        "see the hook; raise its deadline in plugins.deadlines if it only needs longer";
}

impl Cause {
    /// The cause with that code.
    pub fn from_code(code: &str) -> Option<Cause> {
        Cause::ALL.iter().copied().find(|cause| cause.code() == code)
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_rise() {
        let codes: Vec<&str> = Cause::ALL.iter().map(|cause| cause.code()).collect();
        let mut sorted = codes.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(codes, sorted);
        assert!(codes.iter().all(|code| code.len() == 5 && code.starts_with("CE2")));
    }

    #[test]
    fn each_stage_has_a_cause_and_the_causes_stand_in_the_order_of_the_stages() {
        let stages: Vec<Stage> = Cause::ALL.iter().map(|cause| cause.stage()).collect();
        assert!(stages.is_sorted());
        assert!(Stage::ALL.iter().all(|stage| stages.contains(stage)));
    }

    #[test]
    fn codes_and_stage_names_read_back() {
        assert!(Cause::ALL.iter().all(|cause| Cause::from_code(cause.code()) == Some(*cause)));
        assert!(Stage::ALL.iter().all(|stage| Stage::from_name(stage.as_str()) == Some(*stage)));
        assert_eq!(Cause::from_code("CE299"), None);
    }
}
