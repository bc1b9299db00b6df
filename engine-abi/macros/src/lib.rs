//! `#[hooks]`: reads from an `impl ContextEngine` or `impl MemoryProvider` which hooks it has, so that an author never lists
//! them.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Adds `const HOOKS` to an `impl ContextEngine for …` or `impl MemoryProvider for …`: the names of the functions that stand in it.
///
/// The host sees only these hooks. A hook that is left to its default costs no call.
#[proc_macro_attribute]
pub fn hooks(_: TokenStream, implementation: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = implementation.into_iter().collect();
    // The body is the last token of an impl block. Anything else is left as it is: the compiler then says that HOOKS is
    // missing.
    if let Some(TokenTree::Group(body)) = tokens.last().filter(|token| is_body(token)) {
        let names: Vec<String> = function_names(body).iter().map(|name| format!("{name:?}")).collect();
        let list = format!("const HOOKS: ::engine_abi::Hooks = ::engine_abi::Hooks::of(&[{}]);", names.join(", "));
        let mut inner: TokenStream = list.parse().unwrap_or_default();
        inner.extend(body.stream());
        let mut whole = Group::new(Delimiter::Brace, inner);
        whole.set_span(body.span());
        tokens.pop();
        tokens.push(TokenTree::Group(whole));
    }
    tokens.into_iter().collect()
}

fn is_body(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

/// Names that follow `fn` directly inside the block; what stands deeper is inside another group.
fn function_names(body: &Group) -> Vec<String> {
    let mut names = Vec::new();
    let mut after_fn = false;
    for token in body.stream() {
        match token {
            TokenTree::Ident(name) if after_fn => {
                names.push(name.to_string());
                after_fn = false;
            }
            TokenTree::Ident(word) => after_fn = word.to_string() == "fn",
            _ => after_fn = false,
        }
    }
    names
}
