//! The C header against the wire's source: it is generated from it, checked in, and compared here.
//!
//! `UPDATE_HEADER=1 cargo test -p engine-abi --test header` writes it anew.
#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests may")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use syn::{Expr, Fields, GenericArgument, Item, Lit, Meta, PathArguments, ReturnType, Type};

const TOP: &str = r#"/* engineroom.h: the engine contract of Engineroom, for C and every language that can call C.
 *
 * Generated from engine-abi/wire and compared with it by the tests; do not edit. docs/engine-in-c.md is the tutorial, and
 * engines/c-window is a whole engine.
 *
 * THE WAY IN. A library exports one function, engineroom_entry_v1, which returns a static EngineroomEntryPointV1, and holds a
 * manifest (ENGINEROOM_MANIFEST, at the end), which the host reads before it loads anything. The host calls `register_` once; the
 * library hands over a factory for each of its engines and memory providers. The factory makes instances: a table of functions,
 * the hooks, and a pointer of the engine's own, which every hook gets first and the host never looks at.
 *
 * OWNERSHIP. Nobody frees what the other side made.
 *   - What a hook gets is lent: it is valid until the hook returns, so copy what shall live longer.
 *   - A result is pushed into the call's sink while the hook runs. The host has copied it when the push returns, so it may lie on
 *     the stack. Push the result that belongs to the hook, once, then return the push's own status.
 *   - What a service of the host writes into `out` is lent until the hook returns.
 *   - Tables, factories and the entry live as long as the process: make them static. A library is never unloaded.
 *   - The engine's own pointer lives from `create` to `dispose`, where the engine frees it.
 *
 * TEXTS. A text is a pointer and a length in bytes, without a NUL at its end, and is UTF-8. A null pointer means absent; an empty
 * text has a pointer. The host checks what it is given. Lists are a pointer and a length, too; with length 0 the pointer may not
 * be read. A number that is unknown is ENGINEROOM_NONE_U64. A time is milliseconds since the Unix epoch, -1 when unknown. Entries
 * come oldest first, tools by their names. A code or a set of bits is of the enum that its comment names, or that has its name.
 * Flags are 0 or 1. Set every `reserved` to 0: `= {0}` does.
 *
 * FAILURE. Every function returns a status. On a failure push the reason with `sink->fail`, then return ENGINEROOM_STATUS_ERROR.
 * An error that is not the engine's own but comes from a service is handed on with the token of `host->last_error`: then the
 * engine is not blamed for it. No function unwinds: catch every C++ exception, and never longjmp out of a hook. A failed hook puts
 * the engine out of service until the next start.
 *
 * THREADS. Hooks run on threads of the host with 8 MiB of stack. One instance is entered from several threads at once for
 * different sessions, never twice at once for one session: guard what sessions share. Push and ask services only from the thread
 * that runs the hook, and only until it returns; `host->log` alone may be called from any thread, at any time. Threads of the
 * engine's own are allowed, must be joined in `dispose`, and must not touch a call.
 *
 * TIME. Each call has a deadline. Long work asks `call->cancelled(call->frame)` now and then, and returns
 * ENGINEROOM_STATUS_CANCELLED when it says 1. A call that misses its deadline is abandoned: whatever it pushes or asks for later
 * returns ENGINEROOM_STATUS_EXPIRED and changes nothing.
 *
 * GROWTH. A struct of this header never changes. What comes later is a new table, asked for by an id with a version
 * (`host->service`, `get_extension`); one that is not there is null.
 */
#ifndef ENGINEROOM_H
#define ENGINEROOM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

"#;

const BOTTOM: &str = r#"/* A text that ends with a NUL, as the contract has texts; absent when `text` is null. */
static inline EngineroomStr engineroom_str(const char *text) {
  EngineroomStr str = {(const uint8_t *)text, text ? strlen(text) : 0};
  return str;
}

/* The manifest: key=value texts with "\0" between them, for example
 *
 *   ENGINEROOM_MANIFEST(manifest, "plugin=mine\0engines=mine\0kind=context-engine\0contract=" ENGINEROOM_CONTRACT_VERSION
 *                                 "\0panic=unwind\0door=c");
 *
 * Further keys: memory (ids of memory providers; then `engines` may be absent, and `kind` is memory), config_schema (a JSON
 * Schema), name, version, description. For linkers that drop what nothing names, the door says
 * `(void)*(volatile const char *)manifest.magic;`.
 */
#if defined(__APPLE__)
#define ENGINEROOM_SECTION __attribute__((used, section("__DATA_CONST,__engineroom")))
#elif defined(__has_attribute) && __has_attribute(retain)
#define ENGINEROOM_SECTION __attribute__((used, retain, section(".engineroom")))
#else
#define ENGINEROOM_SECTION __attribute__((used, section(".engineroom")))
#endif
#define ENGINEROOM_MANIFEST(name, body)                                                                                \
  ENGINEROOM_SECTION static const struct {                                                                             \
    char magic[8];                                                                                                     \
    uint64_t length; /* little-endian, as every supported target is */                                                 \
    char text[sizeof(body)];                                                                                           \
  } name = {{'E', 'N', 'G', 'R', 'O', 'O', 'M', 1}, sizeof(body), body}

/* The door: the one symbol that a library exports, also where all others are hidden. */
__attribute__((visibility("default"))) const EngineroomEntryPointV1 *engineroom_entry_v1(void);

#ifdef __cplusplus
}
#endif

#endif
"#;

/// Field names that C or C++ keeps for itself; they get an underscore.
const RESERVED: &[&str] = &["private", "register"];

/// Most characters of a line.
const WIDTH: usize = 132;

/// The documentation of an item as one text.
fn doc(attributes: &[syn::Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    let text = lines.collect::<Vec<_>>().join(" ");
    text.replace("[`", "`").replace("`]", "`").replace("crate::", "").replace("super::", "")
}

/// The words of a text, in small letters; words in camel case are several.
fn words(text: &str) -> BTreeSet<String> {
    let mut spaced = String::new();
    let mut was_lower = false;
    for c in text.chars() {
        if c.is_uppercase() && was_lower {
            spaced.push(' ');
        }
        was_lower = c.is_lowercase();
        spaced.extend(c.to_lowercase());
    }
    let words = spaced.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// Words that tell nothing that a declaration does not.
const EMPTY: &[&str] = &[
    "1",
    "a",
    "absent",
    "an",
    "and",
    "are",
    "arguments",
    "as",
    "at",
    "be",
    "bits",
    "body",
    "borrowed",
    "bytes",
    "call",
    "code",
    "codes",
    "dangling",
    "each",
    "element",
    "elements",
    "entries",
    "entry",
    "entrys",
    "first",
    "folder",
    "for",
    "from",
    "given",
    "has",
    "in",
    "into",
    "is",
    "it",
    "its",
    "kept",
    "last",
    "len",
    "length",
    "list",
    "message",
    "models",
    "mostly",
    "new",
    "none",
    "null",
    "number",
    "of",
    "on",
    "one",
    "or",
    "result",
    "row",
    "running",
    "s",
    "session",
    "size",
    "some",
    "something",
    "table",
    "text",
    "that",
    "the",
    "there",
    "this",
    "to",
    "unknown",
    "what",
    "when",
    "where",
    "which",
    "will",
    "with",
    "zero",
];

/// Fields that their names and the head of the header tell well enough.
const PLAIN: &[&str] = &[
    "AfterTurnArgsV1.entries",
    "AnchorV1.idempotency_key",
    "AssembleArgsV1.available_tools",
    "AssembleArgsV1.model",
    "AssembleArgsV1.session",
    "BootstrapResultV1.bootstrapped",
    "CallToolArgsV1.call_id",
    "CallToolArgsV1.name",
    "CallV1.sink",
    "CommitTurnArgsV1.admission",
    "CommitTurnArgsV1.entries",
    "CommitTurnArgsV1.terminal",
    "CompactArgsV1.attempt",
    "CompactArgsV1.entries",
    "CompactArgsV1.max_attempts",
    "CompactArgsV1.session",
    "CompactArgsV1.target",
    "CompactResultV1.tokens_before",
    "CompactResultV1.first_kept_entry_id",
    "CursorPageV1.cursor",
    "CursorPageV1.has_more",
    "EntryHeadV1.time_ms",
    "EntryPointV1.contract_major",
    "EntryPointV1.contract_minor",
    "FactoryV1.tag",
    "InstanceV1.instance",
    "LlmRequestV1.purpose",
    "LlmRequestV1.reasoning",
    "MemoryFactoryV1.tag",
    "MemoryHitV1.time_ms",
    "MemoryHitsV1.ptr",
    "MemoryInstanceV1.instance",
    "MemoryPromptArgsV1.available_tools",
    "PrepareSubagentArgsV1.ttl_ms",
    "PromptCacheV1.broke",
    "PromptCacheV1.changes_json",
    "PromptCacheV1.expires_ms",
    "PromptCacheV1.last_cache_touch_ms",
    "PromptV1.tokens",
    "RuntimeSettingsV1.degraded_reason",
    "RuntimeSettingsV1.fallback_reason",
    "RuntimeSettingsV1.schema_version",
    "RuntimeSettingsV1.selection_source",
    "SessionEndedArgsV1.reason",
    "SessionV1.current_token_count",
    "SessionV1.heartbeat",
    "SpanV1.first",
    "SpanV1.last",
    "Str.ptr",
    "Bytes.ptr",
    "SubagentEndedArgsV1.reason",
    "ToolCallV1.arguments",
    "ToolResultV1.text",
    "ToolV1.description",
    "ToolV1.parameters_json",
];

/// What the head of the header says of every text, number and list.
const SAID: &[&str] = &[
    "; absent when none",
    "; absent when unknown or not accepted",
    "; absent when unknown",
    "; absent when there is none",
    "; mostly absent",
    ", or `NONE_U64`",
    "; null when none",
    " Token numbers may be `NONE_U64`.",
    " Texts are absent when unknown.",
];

/// The documentation, or nothing where the name, the type and the struct's name say it all.
fn telling(text: &str, known: &[&str]) -> String {
    let text = SAID.iter().fold(text.to_owned(), |text, said| text.replace(said, ""));
    let text = match text.find("; dangling when") {
        Some(at) => text[..at].to_owned(),
        None => text,
    };
    // A name of the original contract alone: its last part is this name.
    let path = text.trim_end_matches('.').strip_prefix('`').and_then(|text| text.strip_suffix('`'));
    let last = path.filter(|path| !path.contains([' ', '`'])).and_then(|path| path.rsplit(['.', ':']).next());
    let known: BTreeSet<String> = known.iter().flat_map(|name| words(name)).collect();
    // Words with the same beginning are of one family.
    let family = |word: &str| word.get(..4).map(str::to_owned);
    let families: BTreeSet<String> = known.iter().filter_map(|word| family(word)).collect();
    let is_known = |word: &String| known.contains(word) || EMPTY.contains(&word.as_str());
    let is_akin = |word: &String| family(word).is_some_and(|family| families.contains(&family));
    let all_known = |text: &str| words(text).iter().all(|word| is_known(word) || is_akin(word));
    if all_known(&text) || last.is_some_and(all_known) { String::new() } else { text }
}

/// A comment of its own lines.
fn comment(text: &str, indent: &str) -> String {
    let mut lines = vec![format!("{indent}/*")];
    for word in text.split_whitespace() {
        let line = lines.last_mut().unwrap();
        if line.len() + word.len() + 4 > WIDTH {
            lines.push(format!("{indent} * {word}"));
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    if text.is_empty() { String::new() } else { format!("{} */\n", lines.join("\n")) }
}

/// A line with its comment behind it: as much of it, in whole sentences or clauses, as stands there; the Rust documentation
/// has the rest. What is too long even then stands before the line.
fn line(code: &str, text: &str) -> String {
    let indent = " ".repeat(code.len() - code.trim_start().len());
    let ends = [text.len()]
        .into_iter()
        .chain(text.rmatch_indices(". ").map(|(at, _)| at))
        .chain(text.rmatch_indices("; ").map(|(at, _)| at));
    for end in ends {
        // Whether a pointer may be null is always told.
        if text[end..].contains("null") {
            continue;
        }
        let text = text[..end].strip_suffix('.').filter(|text| !text.contains(". ")).unwrap_or(&text[..end]);
        let one = if text.is_empty() { code.to_owned() } else { format!("{code} /* {text} */") };
        if one.len() <= WIDTH {
            return format!("{one}\n");
        }
    }
    let first = text.find(". ").map_or(text, |at| &text[..at]);
    format!("{}{}", comment(first.trim_end_matches('.'), &indent), lines_of(code))
}

/// A declaration, broken at its parameters where it is too long.
fn lines_of(code: &str) -> String {
    if code.len() <= WIDTH {
        return format!("{code}\n");
    }
    let cut = code[..WIDTH].rfind(", ").map_or(code.len(), |at| at + 1);
    format!("{}\n{}", &code[..cut], lines_of(&format!("      {}", code[cut..].trim_start())))
}

/// A declaration of `name` with the Rust type `of`.
fn declare(of: &Type, name: &str) -> String {
    match of {
        Type::Path(path) => {
            let last = path.path.segments.last().unwrap();
            let plain = match last.ident.to_string().as_str() {
                "Option" => {
                    let PathArguments::AngleBracketed(arguments) = &last.arguments else { panic!("Option of what?") };
                    let Some(GenericArgument::Type(inner)) = arguments.args.first() else { panic!("Option of what?") };
                    return declare(inner, name);
                }
                "u8" => "uint8_t".to_owned(),
                "u32" => "uint32_t".to_owned(),
                "u64" => "uint64_t".to_owned(),
                "i64" => "int64_t".to_owned(),
                "f64" => "double".to_owned(),
                "usize" => "size_t".to_owned(),
                own => format!("Engineroom{own}"),
            };
            format!("{plain} {name}").trim_end().to_owned()
        }
        Type::Ptr(pointer) => {
            let inner = declare(&pointer.elem, &format!("*{name}"));
            if pointer.const_token.is_some() { format!("const {inner}") } else { inner }
        }
        Type::BareFn(function) => {
            let parameters: Vec<String> = function
                .inputs
                .iter()
                .map(|input| {
                    let name = input.name.as_ref().map(|(name, _)| name.to_string()).unwrap_or_default();
                    // What the type says is not said again.
                    let name = if ["frame", "call", "host", "args", "result", "context"].contains(&name.as_str()) {
                        ""
                    } else {
                        &name
                    };
                    declare(&input.ty, name)
                })
                .collect();
            let parameters = if parameters.is_empty() { "void".to_owned() } else { parameters.join(", ") };
            let returned = match &function.output {
                ReturnType::Default => "void".to_owned(),
                ReturnType::Type(_, of) => declare(of, ""),
            };
            format!("{returned} (*{name})({parameters})")
        }
        Type::Array(_) => format!("char {name}[1]"),
        _ => panic!("a type that the wire should not have"),
    }
}

/// Names of the structs that a struct holds by value.
fn held(item: &syn::ItemStruct) -> Vec<String> {
    let Fields::Named(fields) = &item.fields else { return Vec::new() };
    fields
        .named
        .iter()
        .filter_map(|field| match &field.ty {
            Type::Path(path) => path.path.get_ident().map(ToString::to_string),
            _ => None,
        })
        .collect()
}

/// The value of a constant in C.
fn value(item: &syn::ItemConst) -> Option<String> {
    Some(match item.expr.as_ref() {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => format!("\"{}\"", text.value()),
            Lit::Int(number) => number.base10_digits().to_owned(),
            _ => return None,
        },
        Expr::Binary(shift) => match (shift.left.as_ref(), shift.right.as_ref()) {
            (Expr::Lit(left), Expr::Lit(right)) => match (&left.lit, &right.lit) {
                (Lit::Int(left), Lit::Int(right)) => format!("{} << {}", left.base10_digits(), right.base10_digits()),
                _ => return None,
            },
            // Sums of bits, which C authors can write themselves.
            _ => return None,
        },
        Expr::Path(_) if item.ident == "NONE_U64" => "UINT64_MAX".to_owned(),
        _ => return None,
    })
}

/// A constant that the preprocessor must know.
fn define(item: &syn::ItemConst, prefix: &str) -> Option<String> {
    let code = format!("#define {prefix}{} {}", item.ident, value(item)?);
    Some(line(&code, &telling(&doc(&item.attrs), &[&item.ident.to_string()])))
}

/// A list of codes: an enum of numbers, or texts.
fn codes(list: &syn::ItemMod) -> String {
    let Some((_, items)) = &list.content else { return String::new() };
    let constants = items.iter().filter_map(|item| match item {
        Item::Const(item) => Some(item),
        _ => None,
    });
    let name = list.ident.to_string();
    let prefix = format!("ENGINEROOM_{}_", name.to_uppercase());
    let about = doc(&list.attrs);
    let mut body = String::new();
    for item in constants {
        let Some(value) = value(item) else { continue };
        if value.starts_with('"') {
            body.extend(define(item, &prefix));
            continue;
        }
        let told = telling(&doc(&item.attrs), &[&item.ident.to_string(), &name]);
        let code = format!("{prefix}{} = {value},", item.ident);
        let code = line(&format!("  {code}"), &told).trim().to_owned();
        let code = if code.starts_with("/*") { format!("{code}\n") } else { code };
        // A line holds as many as fit.
        match body.lines().last().map(str::len) {
            Some(length) if length + code.len() < WIDTH && !code.contains('\n') => {
                body.truncate(body.len() - 1);
                body.push_str(&format!(" {code}\n"));
            }
            _ => body.push_str(&format!("  {}\n", code.trim_end())),
        }
    }
    if body.contains("#define") {
        return format!("\n{}{body}", comment(&about, ""));
    }
    // A list that needs no words stands on one line.
    match body.trim_end().trim_end_matches(',').trim_start() {
        inner if !inner.contains('\n') && !inner.contains("/*") && inner.len() + about.len() + 16 < WIDTH => {
            line(&format!("enum {{ {inner} }};"), &about)
        }
        _ => format!("{}{}", line("enum {", &about), closed(body, "};")),
    }
}

/// The first line of a struct, with all that is told of it.
fn opened(code: &str, text: &str) -> String {
    let one = format!("{code} /* {} */", text.trim_end_matches('.'));
    match text {
        "" => format!("{code}\n"),
        _ if one.len() <= WIDTH => format!("{one}\n"),
        _ => format!("\n{}{code}\n", comment(text, "")),
    }
}

/// A struct with its documentation.
fn structure(item: &syn::ItemStruct, is_declared: bool) -> String {
    let name = format!("Engineroom{}", item.ident);
    let open = if is_declared { format!("struct {name} {{") } else { format!("typedef struct {name} {{") };
    let mut text = opened(&open, &telling(&doc(&item.attrs), &[&name]));
    let mut body = String::new();
    for field in &item.fields {
        let mut field_name = field.ident.as_ref().unwrap().to_string();
        let is_plain = PLAIN.contains(&format!("{}.{field_name}", item.ident).as_str());
        let told = if is_plain { String::new() } else { telling(&doc(&field.attrs), &[&field_name, &name]) };
        if RESERVED.contains(&field_name.as_str()) {
            field_name.push('_');
        }
        let code = declare(&field.ty, &field_name);
        // A length stands with its pointer.
        let pointer = field_name.strip_suffix("_len").or((field_name == "len").then_some("ptr"));
        if let Some(pointer) =
            pointer.filter(|pointer| told.is_empty() && body.trim_end().contains(&format!("*{pointer};")))
        {
            let at = body.rfind(&format!("*{pointer};")).unwrap() + pointer.len() + 2;
            if !body[at..].trim_end().contains('\n') {
                body.insert_str(at, &format!(" {code};"));
                continue;
            }
        }
        let of = code.strip_suffix(&format!(" {field_name}")).unwrap_or_default();
        // What needs no words shares a line with its neighbours, a function with none.
        let shared = body.lines().last().filter(|last| {
            told.is_empty()
                && last.ends_with(';')
                && !last.contains('(')
                && !code.contains('(')
                && !last.starts_with("      ")
        });
        let same = shared.is_some_and(|last| {
            !of.is_empty()
                && last
                    .trim_end_matches(';')
                    .rsplit("; ")
                    .next()
                    .is_some_and(|last| last.trim().starts_with(&format!("{of} ")))
        });
        match shared.map(str::len) {
            Some(length) if same && length + field_name.len() + 2 <= WIDTH => {
                body.truncate(body.len() - 2);
                body.push_str(&format!(", {field_name};\n"));
            }
            Some(length) if length + code.len() + 2 <= WIDTH => {
                body.truncate(body.len() - 1);
                body.push_str(&format!(" {code};\n"));
            }
            _ => body.push_str(&line(&format!("  {code};"), &told)),
        }
    }
    // What is small stands on one line.
    let told = telling(&doc(&item.attrs), &[&name]);
    if body.lines().count() == 1 && !body.contains("/*") {
        let close = if is_declared { "};".to_owned() } else { format!("}} {name};") };
        let one = format!("{open} {} {close}", body.trim());
        if one.len() <= WIDTH {
            return line(&one, &told);
        }
    }
    let close = if is_declared { "};".to_owned() } else { format!("}} {name};") };
    text.push_str(&closed(body, &close));
    text
}

/// A body and its closing brace: on the last line where there is room and no comment.
fn closed(body: String, close: &str) -> String {
    let last = body.trim_end().lines().last().unwrap_or_default();
    if last.len() + close.len() < WIDTH && !last.ends_with("*/") {
        format!("{} {close}\n", body.trim_end())
    } else {
        format!("{body}{close}\n")
    }
}

/// Names of all structs that a struct names, in whatever way.
fn named(item: &syn::ItemStruct) -> BTreeSet<String> {
    let declared = item.fields.iter().map(|field| declare(&field.ty, "x")).collect::<String>();
    let names = declared.split(|c: char| !c.is_alphanumeric()).filter_map(|word| word.strip_prefix("Engineroom"));
    names.map(str::to_owned).collect()
}

fn header() -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("wire/src");
    let files = ["lib", "codes", "types", "args", "sinks", "services", "memory", "host", "module"];
    assert_eq!(std::fs::read_dir(&source).unwrap().count(), files.len(), "a file of the wire is missing here");
    let items: Vec<Item> = files
        .iter()
        .flat_map(|file| {
            let text = std::fs::read_to_string(source.join(file).with_extension("rs")).unwrap();
            syn::parse_file(&text).unwrap().items
        })
        .collect();

    let mut text = TOP.to_owned();
    for item in &items {
        match item {
            Item::Const(item) => text.extend(define(item, "ENGINEROOM_")),
            Item::Mod(item) => text.push_str(&codes(item)),
            _ => {}
        }
    }

    let mut structs: Vec<&syn::ItemStruct> = items
        .iter()
        .filter_map(|item| match item {
            Item::Struct(item) if item.ident != "EngineModule" => Some(item),
            _ => None,
        })
        .collect();
    // C wants what a struct holds by value before it. What it only points to may come later, and is declared ahead.
    let names: BTreeSet<String> = structs.iter().map(|item| item.ident.to_string()).collect();
    let (mut done, mut ahead, mut body) = (BTreeSet::new(), BTreeSet::new(), String::new());
    while !structs.is_empty() {
        let ready =
            |item: &&syn::ItemStruct| held(item).iter().all(|name| !names.contains(name) || done.contains(name));
        let at = structs.iter().position(ready).unwrap();
        let item = structs.remove(at);
        let name = item.ident.to_string();
        ahead.extend(named(item).into_iter().filter(|name| !done.contains(name)));
        // An engine never looks into a frame.
        if name != "FrameV1" {
            body.push_str(&structure(item, ahead.contains(&name)));
        }
        done.insert(name);
    }
    text.push_str(
        "\n/* Declared ahead. A frame belongs to the host: an engine hands it on, and never looks into it. */\n",
    );
    let ahead: Vec<String> =
        ahead.iter().map(|name| format!("typedef struct Engineroom{name} Engineroom{name};")).collect();
    for line in &ahead {
        let last = text.lines().last().map_or(0, str::len);
        if text.ends_with(";\n") && last + line.len() < WIDTH {
            text.pop();
            text.push(' ');
        }
        let _ = writeln!(text, "{line}");
    }
    text.push_str(&body);
    text.push('\n');
    text.push_str(BOTTOM);
    text
}

/// An author reads it in one sitting.
const MOST_LINES: usize = 600;

#[test]
fn the_header_is_the_one_that_the_wire_makes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/engineroom.h");
    let now = header();
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let then = std::fs::read_to_string(&path).unwrap();
    for (then, now) in then.lines().zip(now.lines()) {
        assert_eq!(then, now, "{} is out of date", path.display());
    }
    assert_eq!(then.lines().count(), now.lines().count());
    assert!(now.lines().count() < MOST_LINES, "{} lines", now.lines().count());
}
