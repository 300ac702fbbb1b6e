//! Imports among the files of a crate, from their `use` lines.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use syn::{
    Item, ItemMod, ItemUse, UseTree, Visibility,
    visit::{self, Visit},
};

/// The files of a crate, by their module paths: `[]` is `lib.rs` or `main.rs`.
pub(crate) type Files = BTreeMap<Vec<String>, File>;

/// A file and what it imports.
#[derive(Debug)]
pub(crate) struct File {
    /// Path below the crate's source folder.
    pub(crate) path: PathBuf,
    /// Imports from its own crate.
    pub(crate) own: Vec<Import>,
    /// The crates that it imports from.
    pub(crate) crates: BTreeSet<String>,
    /// The names that it only hands on.
    hands_on: BTreeSet<String>,
    /// True if it defines anything.
    defines: bool,
}

/// A name that is imported from a file of the same crate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    /// The module path of that file.
    pub(crate) module: Vec<String>,
    /// The name; empty for the module itself.
    pub(crate) name: String,
}

impl File {
    /// Returns whether the name is not defined here, but elsewhere, and handed on.
    pub(crate) fn hands_on(&self, name: &str) -> bool {
        self.hands_on.contains(name)
    }

    /// Returns whether it is a table of contents: modules and what is handed on of them.
    pub(crate) const fn is_contents(&self) -> bool {
        !self.defines
    }
}

/// Reads all files below `folder`, the source folder of a crate. Tests are left out: they may look
/// at anything.
pub(crate) fn files(folder: &Path) -> Files {
    let mut paths = Vec::new();
    walk(folder, &mut paths);
    let read: BTreeMap<_, _> = paths
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let parsed = syn::parse_file(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let path = path.strip_prefix(folder).unwrap().to_owned();
            (module_of(&path), (path, Uses::of(&parsed)))
        })
        .collect();
    let modules: BTreeSet<_> = read.keys().cloned().collect();
    let tests: BTreeSet<Vec<String>> = read
        .iter()
        .flat_map(|(module, (_, uses))| uses.tests.iter().map(|name| joined(module, name)))
        .collect();
    let is_test = |module: &[String]| tests.iter().any(|test| module.starts_with(test));
    read.into_iter()
        .filter(|(module, _)| !is_test(module))
        .map(|(module, (path, uses))| {
            let file = uses.resolve(path, &module, &modules);
            (module, file)
        })
        .collect()
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()));
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The module that a file is, by its path below the source folder.
fn module_of(path: &Path) -> Vec<String> {
    let mut module: Vec<String> = path
        .with_extension("")
        .iter()
        .map(|part| part.to_str().unwrap().to_owned())
        .collect();
    let last = module.last().unwrap();
    if last == "mod" || module.len() == 1 && (last == "lib" || last == "main") {
        module.pop();
    }
    module
}

fn joined(module: &[String], name: &str) -> Vec<String> {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

/// The `use` lines of one file, outside of its tests.
#[derive(Debug, Default)]
struct Uses {
    /// Each path, as it is written, and whether it is handed on.
    paths: Vec<(Vec<String>, bool)>,
    /// The modules that are there for tests only.
    tests: Vec<String>,
    defines: bool,
}

impl Uses {
    fn of(file: &syn::File) -> Self {
        let mut uses = Self::default();
        uses.visit_file(file);
        uses.defines = file.items.iter().any(|item| match item {
            Item::Use(_) => false,
            Item::Mod(module) => module.content.is_some() && !is_for_tests(module),
            _ => true,
        });
        uses
    }

    /// Resolves the paths of `module` to files.
    fn resolve(self, path: PathBuf, module: &[String], modules: &BTreeSet<Vec<String>>) -> File {
        let mut file = File {
            path,
            own: Vec::new(),
            crates: BTreeSet::new(),
            hands_on: BTreeSet::new(),
            defines: self.defines,
        };
        for (path, is_handed_on) in self.paths {
            let Some(target) = absolute(&path, module) else {
                file.crates.insert(path[0].clone());
                continue;
            };
            let depth = (0..=target.len())
                .rev()
                .find(|depth| modules.contains(&target[..*depth]))
                .unwrap_or(0);
            let name = target.get(depth).cloned().unwrap_or_default();
            if is_handed_on {
                file.hands_on.insert(name.clone());
            }
            let import = Import {
                module: target[..depth].to_vec(),
                name,
            };
            if import.module != module {
                file.own.push(import);
            }
        }
        file.own.sort();
        file.own.dedup();
        file
    }
}

/// The path from the crate's root; `None` if it leads out of the crate.
fn absolute(path: &[String], module: &[String]) -> Option<Vec<String>> {
    let (base, rest) = match path[0].as_str() {
        "crate" => (&[][..], &path[1..]),
        "self" => (module, &path[1..]),
        "super" => {
            let up = path.iter().take_while(|part| *part == "super").count();
            (&module[..module.len().saturating_sub(up)], &path[up..])
        }
        _ => return None,
    };
    Some(base.iter().chain(rest).cloned().collect())
}

fn is_for_tests(module: &ItemMod) -> bool {
    module.attrs.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|condition| condition.is_ident("test"))
    })
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if is_for_tests(module) {
            self.tests.push(module.ident.to_string());
        } else {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_handed_on = !matches!(item.vis, Visibility::Inherited);
        flatten(&item.tree, &mut Vec::new(), &mut |path| {
            self.paths.push((path, is_handed_on));
        });
    }

    /// A path in the code that is written from the crate's root is an import, too.
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        if parts.len() > 1 && (parts[0] == "crate" || parts[0] == "super") {
            self.paths.push((parts, false));
        }
        visit::visit_path(self, path);
    }
}

/// Passes each path of a tree to `found`; `self` at its end is the module before it.
fn flatten(tree: &UseTree, prefix: &mut Vec<String>, found: &mut impl FnMut(Vec<String>)) {
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, found);
            prefix.pop();
        }
        UseTree::Group(group) => {
            for item in &group.items {
                flatten(item, prefix, found);
            }
        }
        UseTree::Name(name) if name.ident == "self" => found(prefix.clone()),
        UseTree::Name(name) => found(with(prefix, &name.ident)),
        UseTree::Rename(rename) if rename.ident == "self" => found(prefix.clone()),
        UseTree::Rename(rename) => found(with(prefix, &rename.ident)),
        UseTree::Glob(_) => found(prefix.clone()),
    }
}

fn with(prefix: &[String], name: &syn::Ident) -> Vec<String> {
    joined(prefix, &name.to_string())
}
