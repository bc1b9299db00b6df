//! The smallest engine: the newest whole turns that fit.
use engine_abi::*;

struct Smallest;

#[hooks]
impl ContextEngine for Smallest {
    type Config = serde_json::Value;
    const COMMIT: Commit = Commit::Stateless;

    fn create(_: Self::Config, _: &Factory) -> Result<Self> {
        Ok(Smallest)
    }
    fn info(&self) -> Info {
        Info::new("smallest", "Smallest")
    }
    fn ingest(&self, _: &Context, _: &Entry) -> Result<bool> {
        Ok(false)
    }
    fn assemble(&self, context: &Context, request: &AssembleRequest) -> Result<Assembly> {
        let budget = context.session().token_budget().unwrap_or(u64::MAX);
        let history = request.history();
        Ok(Assembly::new().keep(&history.heads()[history.newest_turns(budget)..]))
    }
    fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
        Ok(context.delegate_compaction(request)?)
    }
}

export_engine! { plugin: "smallest", engines: { "smallest" => Smallest } }
