//! Files of the page, in the binary. No name of them comes from a request: each path has its line
//! here.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// A file of the page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asset {
    path: &'static str,
    /// Its content type.
    pub(super) kind: &'static str,
    pub(super) bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const WORDS: &str = "text/plain; charset=utf-8";

macro_rules! assets {
    ($($kind:ident $path:literal,)*) => {
        &[$(Asset {
            path: concat!("/", $path),
            kind: $kind,
            bytes: include_bytes!(concat!("assets/", $path)),
        },)*]
    };
}

/// All of them. `vendor` has uPlot 1.6.32 (MIT) as its npm package has it; everything else is ours.
const ASSETS: &[Asset] = assets![
    HTML "index.html",
    CSS "style/tokens.css",
    CSS "style/frame.css",
    CSS "style/parts.css",
    CSS "style/screens.css",
    SVG "icon.svg",
    SCRIPT "app.js",
    SCRIPT "dom.js",
    SCRIPT "format.js",
    SCRIPT "ask.js",
    SCRIPT "live.js",
    SCRIPT "chart.js",
    SCRIPT "table.js",
    SCRIPT "keys.js",
    SCRIPT "theme.js",
    SCRIPT "words.js",
    SCRIPT "screens/changes.js",
    SCRIPT "screens/overview.js",
    SCRIPT "screens/services.js",
    SCRIPT "screens/service.js",
    SCRIPT "screens/topology.js",
    SCRIPT "screens/connections.js",
    SCRIPT "screens/drops.js",
    SCRIPT "screens/status.js",
    SCRIPT "screens/trace.js",
    SCRIPT "screens/events.js",
    SCRIPT "vendor/uplot.min.js",
    CSS "vendor/uplot.min.css",
    WORDS "vendor/LICENSE",
];

/// Returns a hash of all files: a page that was loaded from others is of another build.
pub(super) fn build() -> String {
    let mut hasher = DefaultHasher::new();
    for Asset { path, kind, bytes } in ASSETS {
        (path, kind, bytes).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// Returns the file at this path.
pub(super) fn find(path: &str) -> Option<&'static Asset> {
    let path = if path == "/" { "/index.html" } else { path };
    ASSETS.iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    fn files(folder: &Path, root: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, root, found);
            } else {
                let name = path.strip_prefix(root).unwrap();
                found.insert(format!("/{}", name.display()));
            }
        }
    }

    #[test]
    fn every_file_has_a_line() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ui/assets");
        let mut found = BTreeSet::new();
        files(&root, &root, &mut found);
        let listed = ASSETS.iter().map(|asset| asset.path.to_owned());
        assert_eq!(listed.collect::<BTreeSet<_>>(), found);
    }

    #[test]
    fn nothing_comes_from_elsewhere_and_nothing_stands_in_line() {
        for Asset { path, bytes, .. } in ASSETS {
            if path.starts_with("/vendor/") {
                continue;
            }
            let text = std::str::from_utf8(bytes).unwrap();
            for forbidden in ["style=\"", "onclick=", "javascript:", "eval(", "innerHTML"] {
                assert!(!text.contains(forbidden), "{path} has {forbidden}");
            }
            // A namespace of XML is no address.
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for scheme in ["http://", "https://"] {
                assert!(!text.contains(scheme), "{path} has an address of elsewhere");
            }
        }
    }

    #[test]
    fn the_page_names_its_modules_so_that_none_waits_for_another() {
        let page = std::str::from_utf8(find("/").unwrap().bytes).unwrap();
        let modules = ASSETS.iter().filter(|asset| asset.kind == SCRIPT);
        for module in modules {
            assert!(page.contains(module.path), "{}", module.path);
        }
        assert!(find("/../Cargo.toml").is_none());
        assert!(find("").is_none());
    }
}
