//! The C header against the wire's source: it is generated from it, checked in, and compared here.
//!
//! `UPDATE_HEADER=1 cargo test -p engine-abi --test header` writes it anew.
#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests may")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use syn::{Expr, Fields, GenericArgument, Item, Lit, Meta, PathArguments, ReturnType, Type};

const TOP: &str = r#"/* The engine contract of Engineroom for C and other languages.
 *
 * Generated from engine-abi/wire; do not edit. The rules that hold for every function stand in that crate's documentation:
 * arguments are borrowed for the call, results are pushed into the call's sink, a text is a pair of pointer and length in
 * UTF-8 and absent when its pointer is null, every status but ENGINEROOM_STATUS_OK is a failure, nothing ever unwinds.
 */
#ifndef ENGINEROOM_H
#define ENGINEROOM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

"#;

const BOTTOM: &str = r#"/* The manifest: key=value texts with "\0" between them, for example
 *
 *   ENGINEROOM_MANIFEST(manifest, "plugin=mine\0engines=mine\0kind=context-engine\0contract=" ENGINEROOM_CONTRACT_VERSION
 *                                 "\0panic=unwind\0door=c");
 *
 * Name it once in engineroom_entry_v1, `(void)*(volatile const char *)manifest.magic;`, for compilers without `retain`.
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

/* The door: the one symbol that a library exports. The entry is a static. */
const EngineroomEntryPointV1 *engineroom_entry_v1(void);

#ifdef __cplusplus
}
#endif

#endif
"#;

/// Field names that C or C++ keeps for itself; they get an underscore.
const RESERVED: &[&str] = &["private", "register"];

fn docs(attributes: &[syn::Attribute], indent: &str) -> String {
    let lines: Vec<String> = attributes
        .iter()
        .filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
                Expr::Lit(literal) => match &literal.lit {
                    Lit::Str(text) => {
                        Some(text.value().trim().replace("[`", "`").replace("`]", "`").replace("crate::", ""))
                    }
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        })
        .collect();
    let mut text = String::new();
    for (i, line) in lines.iter().enumerate() {
        let open = if i == 0 { "/*" } else { " *" };
        let close = if i + 1 == lines.len() { " */" } else { "" };
        let space = if line.is_empty() { "" } else { " " };
        let _ = writeln!(text, "{indent}{open}{space}{line}{close}");
    }
    text
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
                    declare(&input.ty, &input.name.as_ref().map(|(name, _)| name.to_string()).unwrap_or_default())
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

fn constant(item: &syn::ItemConst, prefix: &str) -> Option<String> {
    let name = format!("{prefix}{}", item.ident);
    let value = match item.expr.as_ref() {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => format!("\"{}\"", text.value()),
            Lit::Int(number) => number.base10_digits().to_owned(),
            _ => return None,
        },
        Expr::Binary(shift) => match (shift.left.as_ref(), shift.right.as_ref()) {
            (Expr::Lit(left), Expr::Lit(right)) => match (&left.lit, &right.lit) {
                (Lit::Int(left), Lit::Int(right)) => {
                    format!("({}u << {})", left.base10_digits(), right.base10_digits())
                }
                _ => return None,
            },
            // Sums of bits, which C authors can write themselves.
            _ => return None,
        },
        Expr::Path(_) if item.ident == "NONE_U64" => "UINT64_MAX".to_owned(),
        _ => return None,
    };
    Some(format!("{}#define {name} {value}\n", docs(&item.attrs, "")))
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
            Item::Const(item) => text.extend(constant(item, "ENGINEROOM_")),
            Item::Mod(item) => {
                let Some((_, inner)) = &item.content else { continue };
                text.push('\n');
                text.push_str(&docs(&item.attrs, ""));
                for inner in inner {
                    if let Item::Const(constant_item) = inner {
                        let prefix = format!("ENGINEROOM_{}_", item.ident.to_string().to_uppercase());
                        text.extend(constant(constant_item, &prefix));
                    }
                }
            }
            _ => {}
        }
    }
    text.push('\n');

    let mut structs: Vec<&syn::ItemStruct> = items
        .iter()
        .filter_map(|item| match item {
            Item::Struct(item) if item.ident != "EngineModule" => Some(item),
            _ => None,
        })
        .collect();
    for item in &structs {
        let name = format!("Engineroom{}", item.ident);
        let _ = writeln!(text, "typedef struct {name} {name};");
    }
    // C wants what a struct holds by value before it.
    let names: BTreeSet<String> = structs.iter().map(|item| item.ident.to_string()).collect();
    let mut done = BTreeSet::new();
    while !structs.is_empty() {
        let ready =
            |item: &&syn::ItemStruct| held(item).iter().all(|name| !names.contains(name) || done.contains(name));
        let at = structs.iter().position(ready).unwrap();
        let item = structs.remove(at);
        done.insert(item.ident.to_string());
        // An engine never looks into a frame.
        if item.ident == "FrameV1" {
            continue;
        }
        let _ = write!(text, "\n{}struct Engineroom{} {{\n", docs(&item.attrs, ""), item.ident);
        for field in &item.fields {
            text.push_str(&docs(&field.attrs, "  "));
            let mut name = field.ident.as_ref().unwrap().to_string();
            if RESERVED.contains(&name.as_str()) {
                name.push('_');
            }
            let _ = writeln!(text, "  {};", declare(&field.ty, &name));
        }
        text.push_str("};\n");
    }
    text.push('\n');
    text.push_str(BOTTOM);
    text
}

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
}
