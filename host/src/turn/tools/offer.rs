//! What the model is offered in a turn.
//!
//! The client's tools come first, as they came; then the gateway's own, then those of the engine that serves. They stay the same
//! within the turn, also when their engine is dropped: what a model was told it may call, it may call, and reads an error.

use super::{GatewayTool, gateway_tools};
use crate::diagnostic::Diagnostic;
use crate::model::{CLIENT, GATEWAY, ModelError};
use crate::slot::{EngineRef, Hook, HookFailure, Tool};
use crate::transcript::{Message, ToolCall};
use crate::turn::run::TurnRun;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Schemas whose check is remembered.
const CHECKED: usize = 1024;

/// Who runs a tool.
#[derive(Clone)]
pub(super) enum By {
    Gateway(Arc<dyn GatewayTool>),
    Engine(EngineRef),
}

struct Offered {
    tool: Tool,
    by: By,
}

/// The tools of one turn, and how many calls are left.
#[derive(Default)]
pub(in crate::turn) struct Toolbox {
    /// Names of the client's tools.
    client: HashSet<String>,
    offered: Vec<Offered>,
    /// Engines that were asked in this turn.
    asked: Vec<String>,
    /// The gateway's own are in `offered`.
    opened: bool,
    /// Calls that were run.
    used: u32,
    /// The bound was passed: nothing of the gateway's is offered any more.
    closed: bool,
    /// The model takes no tools: nothing of the gateway's is offered.
    withheld: bool,
    /// A model call was answered with calls that the gateway ran.
    looped: bool,
    /// The client's parameters with the offered tools, when there are any.
    params: Option<Map<String, Value>>,
}

impl Toolbox {
    /// True when the model is, or was, offered tools that the gateway runs.
    pub(in crate::turn) fn any(&self) -> bool {
        !self.offered.is_empty()
    }

    /// Who offers tools now, the client first.
    pub(in crate::turn) fn offered_by(&self, client: &Map<String, Value>) -> Vec<String> {
        let mut by: Vec<String> = offers(client).then(|| CLIENT.to_owned()).into_iter().collect();
        for offered in self.offered.iter().filter(|_| !self.closed) {
            let whose = match &offered.by {
                By::Gateway(_) => GATEWAY,
                By::Engine(engine) => engine.id(),
            };
            if !by.iter().any(|known| known == whose) {
                by.push(whose.to_owned());
            }
        }
        by
    }

    /// Takes back what was offered beside the client's tools. False when that changes nothing, or comes too late: the client
    /// offers tools itself, or the model has called one already.
    fn withhold(&mut self, client: &Map<String, Value>) -> bool {
        if offers(client) || self.offered.is_empty() || self.closed || self.looped {
            return false;
        }
        self.offered.clear();
        self.params = None;
        self.withheld = true;
        true
    }

    /// True when the bound was passed.
    pub(in crate::turn) fn closed(&self) -> bool {
        self.closed
    }

    /// True when the client runs the call: it offered the tool, or nobody else offered anything.
    pub(in crate::turn) fn is_clients(&self, call: &ToolCall) -> bool {
        !self.any() || call.kind != "function" || self.client.contains(&call.function.name)
    }

    /// True for the name of a tool of the client.
    pub(super) fn client_has(&self, name: &str) -> bool {
        self.client.contains(name)
    }

    /// The calls of a message that the gateway answers: those of its own tools, and those of tools that nobody has.
    pub(in crate::turn) fn ours(&self, message: &Message) -> Vec<ToolCall> {
        message.tool_calls.iter().filter(|call| !self.is_clients(call)).cloned().collect()
    }

    /// Who runs a tool; `None` when nobody has it.
    pub(super) fn owner(&self, name: &str) -> Option<By> {
        self.offered.iter().find(|offered| offered.tool.name == name).map(|offered| offered.by.clone())
    }

    /// Names of all tools, the client's first.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let open = !self.closed;
        self.offered.iter().filter(move |_| open).map(|offered| offered.tool.name.as_str())
    }

    /// Counts one call in; false when the bound is passed, and from then on nothing is offered.
    pub(super) fn take(&mut self, most: u32) -> bool {
        if self.used >= most {
            self.closed = true;
            self.params = None;
            return false;
        }
        self.used += 1;
        true
    }

    /// Calls of a message were run.
    pub(super) fn looped(&mut self, client: &Map<String, Value>) {
        self.looped = true;
        self.merge(client);
    }

    /// What the model is sent beside the messages.
    pub(in crate::turn) fn params<'a>(&'a self, client: &'a Map<String, Value>) -> &'a Map<String, Value> {
        self.params.as_ref().unwrap_or(client)
    }

    fn merge(&mut self, client: &Map<String, Value>) {
        if self.closed || self.offered.is_empty() {
            self.params = None;
            return;
        }
        let mut params = client.clone();
        let mut tools = match params.get_mut("tools").map(Value::take) {
            Some(Value::Array(tools)) => tools,
            _ => Vec::new(),
        };
        tools.extend(self.offered.iter().map(|offered| {
            let Tool { name, description, parameters } = &offered.tool;
            json!({"type": "function",
                "function": {"name": name, "description": description, "parameters": parameters}})
        }));
        params.insert("tools".into(), Value::Array(tools));
        // Something was called, as the client wants it; asked again, the model would call for ever.
        if self.looped && params.get("tool_choice").is_some_and(|choice| choice == "required") {
            params.insert("tool_choice".into(), "auto".into());
        }
        self.params = Some(params);
    }

    /// Adds a tool, unless its name is taken or its schema is none. Gives the reason when it is not offered.
    fn add(&mut self, tool: Tool, by: By) -> Result<(), String> {
        if self.client.contains(&tool.name) {
            return Err("the client has a tool of this name, and it wins".into());
        }
        if self.owner(&tool.name).is_some() {
            return Err("another tool of this turn has the name already".into());
        }
        if let Some(wrong) = schema_error(&tool.parameters) {
            return Err(format!("its parameters are no JSON Schema of an object: {wrong}"));
        }
        self.offered.push(Offered { tool, by });
        Ok(())
    }
}

impl TurnRun {
    /// True when nothing of the gateway's or an engine's may be offered.
    fn only_clients_tools(&self) -> bool {
        // The old form of tools and the new one exclude each other; and of several answers at once none could be gone on with.
        let several = self.params.get("n").and_then(Value::as_u64).is_some_and(|n| n > 1);
        several
            || self.params.contains_key("functions")
            || self.house.config.tools.max_calls == 0
            || self.tools.withheld
    }

    /// A model that is known to take no tools is offered none.
    fn withhold_from_toolless(&mut self) {
        if self.tools.opened || self.tools.withheld || offers(&self.params) {
            return;
        }
        if let Some(said) = self.agent.takes_no_tools(&self.model_name()) {
            self.tools.withheld = true;
            self.notes.tools_withheld = Some(said);
        }
    }

    /// After a model that said that it takes no tools. `Ok` says that what engines and the gateway offered is taken back, for
    /// this turn and for later ones of this model: ask again. The client's own tools are the client's to leave out.
    ///
    /// # Errors
    ///
    /// The same failure, with those who offered tools.
    pub(in crate::turn) fn without_tools(&mut self, error: ModelError) -> Result<(), ModelError> {
        let ModelError::NoTools { said, .. } = error else { return Err(error) };
        let by = self.tools.offered_by(&self.params);
        let told = said.message.clone();
        let error = ModelError::NoTools { said, by };
        if !self.tools.withhold(&self.params) {
            return Err(error);
        }
        self.tool_tokens = self.agent.tool_tokens(&self.params);
        let model = self.model_name();
        tracing::warn!(
            model,
            said = told,
            hint = error.hint(),
            session = self.session.key.as_deref(),
            "the model takes no tools: it is asked again without, and offered none until the gateway restarts"
        );
        self.agent.note_toolless(model, told.clone());
        self.notes.tools_withheld = Some(told);
        Ok(())
    }

    /// The model that the request names, or that of the configuration.
    fn model_name(&self) -> String {
        let named = self.params.get("model").and_then(Value::as_str);
        named.unwrap_or(&self.agent.info.resolved).to_owned()
    }

    /// Offers the gateway's own tools, once a turn.
    pub(in crate::turn) fn open_tools(&mut self) {
        self.withhold_from_toolless();
        if self.only_clients_tools() || std::mem::replace(&mut self.tools.opened, true) {
            return;
        }
        self.tools.client = client_names(&self.params);
        for tool in gateway_tools(self) {
            self.offer(tool.definition(), By::Gateway(tool), "the gateway");
        }
        if self.tools.any() {
            self.tools.merge(&self.params);
            self.tool_tokens = self.agent.tool_tokens(self.tools.params(&self.params));
        }
    }

    /// Offers the gateway's own tools and those of `engine`, each engine asked once a turn.
    pub(in crate::turn) async fn offer_tools(&mut self, engine: &EngineRef) -> Result<(), HookFailure> {
        self.open_tools();
        if self.only_clients_tools() {
            return Ok(());
        }
        let before = self.tools.offered.len();
        let asks = engine.has(Hook::Tools) && engine.has(Hook::CallTool);
        if asks && !self.tools.asked.iter().any(|asked| asked == engine.id()) {
            let facts = self.session_facts(None, None);
            let tools = self.segment(facts, false, |segment| segment.tools()).await?;
            self.tools.asked.push(engine.id().to_owned());
            for tool in tools {
                self.offer(tool, By::Engine(engine.clone()), engine.id());
            }
        }
        if self.tools.offered.len() != before {
            self.tools.merge(&self.params);
            self.tool_tokens = self.agent.tool_tokens(self.tools.params(&self.params));
        }
        Ok(())
    }

    fn offer(&mut self, tool: Tool, by: By, whose: &str) {
        let name = tool.name.clone();
        if let Err(why) = self.tools.add(tool, by) {
            tracing::warn!(
                tool = name,
                by = whose,
                why,
                session = self.session.key.as_deref(),
                "a tool is not offered"
            );
            self.notes.tools.push(json!({"name": name, "by": whose, "refused": why}));
        }
    }
}

/// True when these parameters offer tools, in the old form or the new one.
fn offers(params: &Map<String, Value>) -> bool {
    let some = |name: &str| params.get(name).and_then(Value::as_array).is_some_and(|tools| !tools.is_empty());
    some("tools") || some("functions")
}

/// Names of the client's tools.
fn client_names(params: &Map<String, Value>) -> HashSet<String> {
    let tools = params.get("tools").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let name = |tool: &Value| {
        let name = ["/function/name", "/custom/name", "/name"].iter().find_map(|path| tool.pointer(path)?.as_str());
        name.map(str::to_owned)
    };
    tools.iter().filter_map(name).collect()
}

/// Why a schema cannot be one of a tool's parameters. Remembered, since a tool comes again every turn.
fn schema_error(schema: &Value) -> Option<String> {
    static CHECKED_SCHEMAS: LazyLock<Mutex<HashMap<u128, Option<String>>>> = LazyLock::new(Mutex::default);
    let key = xxhash_rust::xxh3::xxh3_128(schema.to_string().as_bytes());
    let mut checked = CHECKED_SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = checked.get(&key) {
        return known.clone();
    }
    let wrong = match schema.get("type") {
        Some(kind) if kind != "object" => Some(format!("its type is {kind}")),
        _ => jsonschema::validator_for(schema).err().map(|error| error.to_string()),
    };
    if checked.len() >= CHECKED {
        checked.clear();
    }
    checked.insert(key, wrong.clone());
    wrong
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::slot::ToolOutput;
    use crate::turn::tools::ToolRun;
    use futures_util::future::BoxFuture;

    struct Echo;

    impl GatewayTool for Echo {
        fn definition(&self) -> Tool {
            tool("echo", json!({"type": "object"}))
        }

        fn call(&self, run: ToolRun) -> BoxFuture<'static, ToolOutput> {
            let text = Value::Object(run.arguments).to_string();
            Box::pin(std::future::ready(ToolOutput { text, is_error: false }))
        }
    }

    /// A toolbox with tools of the client and of the gateway.
    pub(in crate::turn::tools) fn toolbox(client: &[&str], gateway: &[&str]) -> Toolbox {
        let client = client.iter().map(|name| (*name).to_owned()).collect();
        let mut toolbox = Toolbox { client, ..Toolbox::default() };
        for name in gateway {
            toolbox.add(tool(name, json!({"type": "object"})), by()).unwrap();
        }
        toolbox
    }

    fn tool(name: &str, parameters: Value) -> Tool {
        Tool { name: name.into(), description: "d".into(), parameters }
    }

    fn by() -> By {
        By::Gateway(Arc::new(Echo))
    }

    fn call(name: &str) -> ToolCall {
        serde_json::from_value(json!({"id": "c", "function": {"name": name, "arguments": "{}"}})).unwrap()
    }

    fn params(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn the_clients_tools_come_first_and_win_a_name() {
        let client = params(json!({"model": "m", "tools": [{"type": "function", "function": {"name": "echo"}}]}));
        let mut toolbox = Toolbox { client: client_names(&client), ..Toolbox::default() };
        assert!(toolbox.add(Echo.definition(), by()).unwrap_err().contains("client"));
        toolbox.add(tool("find", json!({"type": "object"})), by()).unwrap();
        assert!(toolbox.add(tool("find", json!({})), by()).is_err());
        toolbox.merge(&client);
        let names: Vec<_> = toolbox.params(&client)["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t["function"]["name"].clone())
            .collect();
        assert_eq!(names, ["echo", "find"]);
        assert!(toolbox.is_clients(&call("echo")) && !toolbox.is_clients(&call("find")));
        assert!(!toolbox.is_clients(&call("nobody's")), "nobody has it, so the gateway says so");
    }

    #[test]
    fn without_an_offer_nothing_of_the_client_changes() {
        let client = params(json!({"model": "m"}));
        let mut toolbox = Toolbox::default();
        toolbox.merge(&client);
        assert!(std::ptr::eq(toolbox.params(&client), &raw const client));
        assert!(toolbox.is_clients(&call("anything")));
    }

    #[test]
    fn a_schema_that_is_none_is_refused() {
        let mut toolbox = Toolbox::default();
        assert!(toolbox.add(tool("a", json!({"type": "string"})), by()).is_err());
        assert!(toolbox.add(tool("b", json!({"type": "object", "properties": {"x": {"type": 7}}})), by()).is_err());
        assert!(
            toolbox.add(tool("c", json!({"type": "object", "properties": {"x": {"type": "string"}}})), by()).is_ok()
        );
    }

    #[test]
    fn past_the_bound_nothing_is_offered_and_a_forced_call_is_forced_once() {
        let client = params(json!({"tool_choice": "required"}));
        let mut toolbox = Toolbox::default();
        toolbox.add(Echo.definition(), by()).unwrap();
        toolbox.merge(&client);
        assert_eq!(toolbox.params(&client)["tool_choice"], "required");
        assert!(toolbox.take(1));
        toolbox.looped(&client);
        assert_eq!(toolbox.params(&client)["tool_choice"], "auto");
        assert!(!toolbox.take(1));
        assert!(toolbox.closed() && !toolbox.params(&client).contains_key("tools"));
    }
}
