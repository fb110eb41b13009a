//! The module tree of a crate, read from its sources, and which file imports which.
//!
//! The sources are read as tokens, so paths within macros count as well. A path counts for the file that defines what it
//! names: re-exports are followed, and are no imports themselves. Code under `#[cfg(test)]` is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Import that would be followed in a circle.
const DEEPEST: usize = 20;

/// A module: a file, or a part of one.
#[derive(Default)]
struct Module {
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// What `use` brings into it, by the name it has here.
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    items: BTreeSet<String>,
    /// All names that it says outside of imports.
    words: BTreeSet<String>,
    /// What it passes on to others: imports of its own only if it says their names.
    passed_on: Vec<(Vec<String>, String)>,
    /// All paths of two and more names in it.
    paths: Vec<Vec<String>>,
}

/// The files of a crate and their imports.
pub struct Crate {
    pub files: Vec<PathBuf>,
    modules: Vec<Module>,
}

fn tokens(of: TokenStream) -> Vec<TokenTree> {
    of.into_iter().collect()
}

fn ident(tree: Option<&TokenTree>) -> Option<String> {
    match tree {
        Some(TokenTree::Ident(name)) => Some(name.to_string().trim_start_matches("r#").to_owned()),
        _ => None,
    }
}

fn punct(tree: Option<&TokenTree>, which: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(punct)) if punct.as_char() == which)
}

fn colons(trees: &[TokenTree], at: usize) -> bool {
    punct(trees.get(at), ':') && punct(trees.get(at + 1), ':')
}

fn group(tree: Option<&TokenTree>, delimiter: Delimiter) -> Option<Vec<TokenTree>> {
    match tree {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(tokens(group.stream())),
        _ => None,
    }
}

/// The paths of a use declaration with the names that they get; `*` where it takes everything.
fn use_tree(trees: &[TokenTree], prefix: &[String], found: &mut Vec<(Vec<String>, String)>) {
    for part in trees.split(|tree| punct(Some(tree), ',')) {
        let mut path = prefix.to_vec();
        let mut at = 0;
        loop {
            if let Some(inner) = group(part.get(at), Delimiter::Brace) {
                use_tree(&inner, &path, found);
                break;
            }
            if punct(part.get(at), '*') {
                found.push((path, "*".to_owned()));
                break;
            }
            let Some(name) = ident(part.get(at)) else { break };
            if name != "self" || path.is_empty() {
                path.push(name);
            }
            at += 1;
            if colons(part, at) {
                at += 2;
                continue;
            }
            let renamed = (ident(part.get(at)).as_deref() == Some("as")).then(|| ident(part.get(at + 1)));
            let name = renamed.flatten().unwrap_or_else(|| path[path.len() - 1].clone());
            found.push((path, name));
            break;
        }
    }
}

impl Crate {
    /// Reads the crate with this root file.
    pub fn read(root: &Path) -> Crate {
        let mut this = Crate { files: vec![root.to_owned()], modules: vec![Module::default()] };
        let folder = root.parent().expect("a folder");
        this.file(0, folder);
        this
    }

    /// Reads a module's file; modules that it declares are in `folder`.
    fn file(&mut self, module: usize, folder: &Path) {
        let path = &self.files[self.modules[module].file];
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let stream =
            TokenStream::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.body(module, &tokens(stream), folder);
    }

    fn child(&mut self, parent: usize, name: &str, file: usize) -> usize {
        let child = self.modules.len();
        self.modules.push(Module { file, parent: Some(parent), ..Module::default() });
        self.modules[parent].children.insert(name.to_owned(), child);
        child
    }

    fn body(&mut self, module: usize, trees: &[TokenTree], folder: &Path) {
        let mut at = 0;
        let (mut test, mut elsewhere, mut public) = (false, None, false);
        while at < trees.len() {
            if let (true, Some(attribute)) =
                (punct(trees.get(at), '#'), group(trees.get(at + 1), Delimiter::Bracket))
            {
                let words: String = attribute.iter().map(TokenTree::to_string).collect();
                test |= words.starts_with("cfg(test)") || words.starts_with("cfg(all(test");
                let path = words.strip_prefix("path=");
                elsewhere = path.map(|path| path.trim_matches('"').to_owned()).or(elsewhere);
                at += 2;
                continue;
            }
            let word = ident(trees.get(at)).unwrap_or_default();
            // The visibility belongs to the item that follows.
            if word == "pub" {
                public = true;
                at += 1 + usize::from(group(trees.get(at + 1), Delimiter::Parenthesis).is_some());
                continue;
            }
            if std::mem::take(&mut test) {
                let ends = |tree: &TokenTree| {
                    punct(Some(tree), ';') || group(Some(tree), Delimiter::Brace).is_some()
                };
                at += trees[at..].iter().position(ends).map_or(trees.len(), |n| n + 1);
                elsewhere = None;
                continue;
            }
            let name = ident(trees.get(at + 1));
            let public = std::mem::take(&mut public);
            match (word.as_str(), name) {
                ("mod", Some(name)) => {
                    if let Some(inner) = group(trees.get(at + 2), Delimiter::Brace) {
                        let child = self.child(module, &name, self.modules[module].file);
                        self.body(child, &inner, &folder.join(&name));
                    } else {
                        self.declared(module, &name, folder, elsewhere.take());
                    }
                    at += 3;
                    continue;
                }
                // `use<'a>` is a bound.
                ("use", _) if !punct(trees.get(at + 1), '<') => {
                    let length = trees[at..].iter().position(|tree| punct(Some(tree), ';')).expect("an end");
                    let mut found = Vec::new();
                    use_tree(&trees[at + 1..at + length], &[], &mut found);
                    for (path, name) in found {
                        let module = &mut self.modules[module];
                        match public {
                            true => module.passed_on.push((path.clone(), name.clone())),
                            false => module.paths.push(path.clone()),
                        }
                        match name.as_str() {
                            "*" => module.globs.push(path),
                            _ => drop(module.imports.insert(name, path)),
                        }
                    }
                    at += length + 1;
                    continue;
                }
                ("struct" | "enum" | "union" | "trait" | "type" | "const" | "static" | "fn", Some(name)) => {
                    self.modules[module].items.insert(name);
                }
                _ => {}
            }
            at = self.token(module, trees, at, folder);
        }
    }

    /// A token that begins no item of a module: a path, or a group with more of them. Where it ends.
    fn token(&mut self, module: usize, trees: &[TokenTree], at: usize, folder: &Path) -> usize {
        if let Some(TokenTree::Group(group)) = trees.get(at) {
            self.body(module, &tokens(group.stream()), folder);
            return at + 1;
        }
        let mut path: Vec<String> = ident(trees.get(at)).into_iter().collect();
        self.modules[module].words.extend(path.clone());
        let mut end = at + 1;
        while !path.is_empty() && colons(trees, end) {
            let Some(name) = ident(trees.get(end + 2)) else { break };
            path.push(name);
            end += 3;
        }
        // `a.b::<C>()` and `<T as A>::b` begin with no name of a module.
        let before = at.checked_sub(1).and_then(|at| trees.get(at));
        if path.len() > 1 && !punct(before, '.') && !punct(before, ':') {
            self.modules[module].paths.push(path);
        }
        end
    }

    /// `mod name;`
    fn declared(&mut self, module: usize, name: &str, folder: &Path, elsewhere: Option<String>) {
        let own = self.files[self.modules[module].file].parent().expect("a folder").to_owned();
        let (flat, deep) = (folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs"));
        let path = match elsewhere {
            Some(path) => own.join(path),
            None if flat.exists() => flat,
            None => deep,
        };
        let below = match path.file_name().is_some_and(|file| file == "mod.rs") {
            true => path.parent().expect("a folder").to_owned(),
            false => folder.join(name),
        };
        self.files.push(path);
        let child = self.child(module, name, self.files.len() - 1);
        self.file(child, &below);
    }

    /// The module that a path from this one ends in, as far as it is one of this crate.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        if depth == 0 {
            return None;
        }
        match first.as_str() {
            "crate" => self.walk(0, rest, depth),
            "self" => self.walk(from, rest, depth),
            "super" => {
                let up = self.modules[from].parent?;
                match rest.first().map(String::as_str) {
                    Some("super") => self.resolve(up, rest, depth),
                    _ => self.walk(up, rest, depth),
                }
            }
            name if self.knows(from, name, depth) => self.walk(from, path, depth),
            _ => None,
        }
    }

    /// A module has a child, an import or an item of this name.
    fn knows(&self, module: usize, name: &str, depth: usize) -> bool {
        let this = &self.modules[module];
        let by_glob = || {
            this.globs.iter().any(|glob| {
                let target =
                    (depth > 0).then(|| self.resolve(module, glob, depth.saturating_sub(1))).flatten();
                target.is_some_and(|target| {
                    target != module && self.knows(target, name, depth.saturating_sub(1))
                })
            })
        };
        this.children.contains_key(name)
            || this.imports.contains_key(name)
            || this.items.contains(name)
            || by_glob()
    }

    /// Goes down a path; what it names at last belongs to the module of the answer.
    fn walk(&self, mut module: usize, path: &[String], depth: usize) -> Option<usize> {
        for (n, name) in path.iter().enumerate() {
            let this = &self.modules[module];
            if let Some(&child) = this.children.get(name) {
                module = child;
                continue;
            }
            if let Some(import) = this.imports.get(name) {
                // A name can be imported from the module of the same name: that is no circle.
                let target = self.resolve(module, import, depth.saturating_sub(1))?;
                return match self.is_module(module, import, depth.saturating_sub(1)) {
                    true => self.walk(target, &path[n + 1..], depth.saturating_sub(1)),
                    false => Some(target),
                };
            }
            if this.items.contains(name) {
                return Some(module);
            }
            for glob in &this.globs {
                match (depth > 0).then(|| self.resolve(module, glob, depth.saturating_sub(1))).flatten() {
                    Some(target) if target != module && self.knows(target, name, depth.saturating_sub(1)) => {
                        return self.walk(target, &path[n..], depth.saturating_sub(1));
                    }
                    _ => {}
                }
            }
            return Some(module);
        }
        Some(module)
    }

    /// The path names a module and nothing in it.
    fn is_module(&self, from: usize, path: &[String], depth: usize) -> bool {
        let Some((last, rest)) = path.split_last() else { return true };
        if matches!(last.as_str(), "crate" | "self" | "super") {
            return true;
        }
        let parent = match rest {
            [] => Some(from),
            rest => self.resolve(from, rest, depth),
        };
        parent.is_some_and(|parent| self.modules[parent].children.contains_key(last))
    }

    /// Which file imports which, by their numbers, and an example of what.
    pub fn imports(&self) -> BTreeMap<(usize, usize), String> {
        let mut all = BTreeMap::new();
        for (number, module) in self.modules.iter().enumerate() {
            let own = module.passed_on.iter().filter(|(_, name)| module.words.contains(name));
            for path in module.paths.iter().chain(own.map(|(path, _)| path)) {
                let target = self.resolve(number, path, DEEPEST).map(|target| self.modules[target].file);
                if let Some(target) = target.filter(|&target| target != module.file) {
                    all.entry((module.file, target)).or_insert_with(|| path.join("::"));
                }
            }
        }
        all
    }
}
