//! The built-in engine, through the public contract: it uses nothing that another engine could not.
//!
//! It takes nothing in, shows the model the projected history as it is, and leaves compaction to the host. It is linked
//! statically, always registered under the id `legacy`, runs on the caller's thread and cannot be quarantined: it is what
//! serves when nothing else can.

use engine_abi::wire::FactoryV1;
use engine_abi::{
    AssembleRequest, Assembly, Commit, CompactRequest, Compaction, Context, ContextEngine, Entry, Factory, Info,
    Result, hooks,
};

/// Its configuration: none.
#[derive(serde::Deserialize)]
struct Config {}

struct Legacy;

#[hooks]
impl ContextEngine for Legacy {
    type Config = Config;
    const COMMIT: Commit = Commit::Stateless;

    fn create(_: Config, _: &Factory) -> Result<Self> {
        Ok(Legacy)
    }

    fn info(&self) -> Info {
        Info::new("legacy", "Legacy").version(env!("CARGO_PKG_VERSION"))
    }

    fn ingest(&self, _: &Context, _: &Entry) -> Result<bool> {
        Ok(false)
    }

    fn assemble(&self, _: &Context, request: &AssembleRequest) -> Result<Assembly> {
        Ok(Assembly::new().keep(request.history().heads()))
    }

    fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
        Ok(context.delegate_compaction(request)?)
    }
}

/// The factory that the slot registers under `legacy`.
pub(crate) fn factory() -> FactoryV1 {
    engine_abi::factory::<Legacy>()
}
