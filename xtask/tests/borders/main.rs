//! The borders of the house: which room of a crate may import from which, and which crate may be
//! named where. `docs/architecture.md` has the same as a picture.
//!
//! A room is a folder or a file right below a crate's source folder. Tests may look at anything.

mod imports;
mod rooms;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use imports::{File, Files, files};
use rooms::{CRATES, Crate, NAMED, Room};

fn source(folder: &str) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    workspace.join(folder)
}

/// The room that a module is in; the crate's root is in none.
fn room(module: &[String]) -> Option<&str> {
    module.first().map(String::as_str)
}

/// Fails with all that was found, so that a rule need not be run for each breach of it.
fn none(rule: &str, breaches: &BTreeSet<String>) {
    let list: Vec<&str> = breaches.iter().map(String::as_str).collect();
    assert!(breaches.is_empty(), "{rule}:\n  {}", list.join("\n  "));
}

#[test]
fn a_room_imports_only_from_rooms_below_it() {
    let mut breaches = BTreeSet::new();
    for Crate {
        folder,
        rooms,
        values,
    } in CRATES
    {
        for (module, File { path, own, .. }) in &files(&source(folder)) {
            let Some(from) = room(module) else { continue };
            let below = match rooms.iter().find(|room| room.name == from) {
                Some(Room { below, .. }) => *below,
                None => &[],
            };
            for import in own {
                match room(&import.module) {
                    Some(to) if to == from || below.contains(&to) || values.contains(&to) => {}
                    to => {
                        let (path, to) = (path.display(), to.unwrap_or("the crate's root"));
                        breaches.insert(format!("{folder}/{path} imports {} of {to}", import.name));
                    }
                }
            }
        }
    }
    none("an import that runs back up, or sideways", &breaches);
}

#[test]
fn the_rooms_are_there_and_stand_on_each_other_in_order() {
    for Crate {
        folder,
        rooms,
        values,
    } in CRATES
    {
        let there: BTreeSet<String> = files(&source(folder))
            .keys()
            .filter_map(|module| module.first().cloned())
            .collect();
        let names = rooms
            .iter()
            .map(|room| room.name)
            .chain(values.iter().copied());
        let known: BTreeSet<String> = names.map(str::to_owned).collect();
        assert_eq!(there, known, "the rooms of {folder}");
        for (index, Room { name, below }) in rooms.iter().enumerate() {
            for other in *below {
                let is_below = rooms[index + 1..].iter().any(|room| room.name == *other);
                assert!(is_below, "{folder}: {name} is above {other} in the table");
            }
        }
    }
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut breaches = BTreeSet::new();
    for Crate { folder, .. } in CRATES {
        let files = files(&source(folder));
        for circle in circles(&files) {
            breaches.insert(format!("{folder}: {}", circle.join(" -> ")));
        }
    }
    none("a circle of files", &breaches);
}

/// The circles, each as the paths of its files. What a table of contents hands on is no import.
fn circles(files: &Files) -> Vec<Vec<String>> {
    let arrows: BTreeMap<&[String], BTreeSet<&[String]>> = files
        .iter()
        .filter(|(_, file)| !file.is_contents())
        .map(|(module, file)| {
            let to = file.own.iter().map(|import| import.module.as_slice());
            (module.as_slice(), to.collect())
        })
        .collect();
    let mut circles = Vec::new();
    let mut done = BTreeSet::new();
    for start in arrows.keys() {
        follow(&arrows, start, &mut Vec::new(), &mut done, &mut |circle| {
            let path = |module: &&[String]| files[*module].path.display().to_string();
            circles.push(circle.iter().map(path).collect());
        });
    }
    circles
}

fn follow<'a>(
    arrows: &BTreeMap<&'a [String], BTreeSet<&'a [String]>>,
    at: &'a [String],
    way: &mut Vec<&'a [String]>,
    done: &mut BTreeSet<&'a [String]>,
    found: &mut impl FnMut(&[&'a [String]]),
) {
    if let Some(begin) = way.iter().position(|module| *module == at) {
        return found(&way[begin..]);
    }
    if !done.insert(at) {
        return;
    }
    way.push(at);
    for to in arrows.get(at).into_iter().flatten() {
        follow(arrows, to, way, done, found);
    }
    way.pop();
}

#[test]
fn a_name_is_imported_from_the_file_that_defines_it() {
    let mut breaches = BTreeSet::new();
    for Crate { folder, .. } in CRATES {
        let files = files(&source(folder));
        for file in files.values() {
            for import in &file.own {
                if files[&import.module].hands_on(&import.name) {
                    let (path, name) = (file.path.display(), &import.name);
                    let from = files[&import.module].path.display();
                    breaches.insert(format!("{folder}/{path} imports {name} through {from}"));
                }
            }
        }
    }
    none("a name that is taken from a face", &breaches);
}

#[test]
fn a_library_is_named_only_where_it_belongs() {
    let mut breaches = BTreeSet::new();
    for Crate { folder, .. } in CRATES {
        for (module, File { path, crates, .. }) in &files(&source(folder)) {
            for (library, places) in NAMED {
                let place = module
                    .iter()
                    .fold((*folder).to_owned(), |place, part| place + "/" + part);
                let is_there = places.iter().any(|allowed| place.starts_with(allowed));
                if crates.contains(*library) && !is_there {
                    breaches.insert(format!("{folder}/{}: {library}", path.display()));
                }
            }
        }
    }
    none("a library outside its rooms", &breaches);
}
