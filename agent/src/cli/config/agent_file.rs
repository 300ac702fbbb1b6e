//! A configuration file of the agent: TOML, in which each key is a flag without its dashes.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs, io, iter,
    path::{Path, PathBuf},
    slice,
};

use clap::{Arg, ArgAction, Command};
use thiserror::Error;
use toml::{Spanned, Value};

use crate::cli::retired;

/// The flag that names the file, and what no file can have.
const CONFIG: &str = "config";

/// A file that is none, or has what no flag takes.
#[derive(Debug, Error)]
pub(crate) enum AgentFileError {
    /// It cannot be read.
    #[error("--config {}: cannot read it: {source}", path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// Reason of the failure.
        source: io::Error,
    },
    /// It is not TOML.
    #[error("--config {}: {reason}", path.display())]
    Syntax {
        /// Its path.
        path: PathBuf,
        /// Place of the error, and its cause.
        reason: String,
    },
    /// A key or its value is wrong.
    #[error("--config {}: line {line}: {key}: {fault}", path.display())]
    Setting {
        /// Path of the file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The key.
        key: String,
        /// Fault of the key or its value.
        fault: String,
    },
}

/// The settings of a file, as the flags of the same meaning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AgentFile {
    /// The flag's long name, and its words on the command line.
    settings: Vec<(String, Vec<String>)>,
}

/// Returns whether a file is the agent's own: another is a KubeProxyConfiguration, which is YAML or JSON and has an
/// `apiVersion`. A file that cannot be read is judged by its name.
pub(crate) fn is_agent_file(path: &Path) -> bool {
    let is_named = path.extension() == Some(OsStr::new("toml"));
    is_named
        || fs::read_to_string(path)
            .ok()
            .and_then(|text| text.parse::<toml::Table>().ok())
            .is_some_and(|table| !table.contains_key("apiVersion"))
}

/// Returns the command line of `shunt agent` with the settings of the file that its `--config` names: each flag that
/// the command line does not have itself. Returns it as it is if it names none of the agent's own files.
///
/// # Errors
///
/// The file is wrong.
pub(crate) fn with_file(
    arguments: Vec<OsString>,
    agent: &Command,
) -> Result<Vec<OsString>, AgentFileError> {
    let Some(at) = arguments.iter().position(|argument| argument == "agent") else {
        return Ok(arguments);
    };
    // The subcommand stands first: `shunt lookup agent` is none.
    if at != 1 {
        return Ok(arguments);
    }
    let given = given(&arguments[at + 1..]);
    let Some(path) = given.get(CONFIG).cloned().flatten().map(PathBuf::from) else {
        return Ok(arguments);
    };
    if !is_agent_file(&path) {
        return Ok(arguments);
    }
    let AgentFile { settings } = AgentFile::read(&path, agent)?;
    let added = settings
        .into_iter()
        .filter(|(name, _)| !given.contains_key(name))
        .flat_map(|(_, words)| words)
        .map(OsString::from);
    let mut all = arguments[..=at].to_vec();
    all.extend(added);
    all.extend_from_slice(&arguments[at + 1..]);
    Ok(all)
}

/// The long flags that are given, each with its value if it has one.
fn given(arguments: &[OsString]) -> BTreeMap<String, Option<String>> {
    let texts: Vec<_> = arguments
        .iter()
        .map(|argument| argument.to_string_lossy())
        .collect();
    let flags = texts.iter().enumerate().filter_map(|(at, text)| {
        let flag = text.strip_prefix("--")?;
        Some(match flag.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => {
                let next = texts.get(at + 1).map(|next| next.clone().into_owned());
                (flag.to_owned(), next)
            }
        })
    });
    flags.collect()
}

impl AgentFile {
    /// Reads the file, whose keys are the flags of `agent`.
    ///
    /// # Errors
    ///
    /// See [`AgentFileError`].
    pub(crate) fn read(path: &Path, agent: &Command) -> Result<Self, AgentFileError> {
        let text = fs::read_to_string(path).map_err(|source| AgentFileError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path, agent)
    }

    fn parse(text: &str, path: &Path, agent: &Command) -> Result<Self, AgentFileError> {
        let table: BTreeMap<Spanned<String>, Value> =
            toml::from_str(text).map_err(|error| AgentFileError::Syntax {
                path: path.to_owned(),
                reason: error.to_string().trim_end().replace('\n', "; "),
            })?;
        let mut settings = Vec::new();
        let mut entries: Vec<_> = table.into_iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let line = 1 + text[..key.span().start.min(text.len())]
                .matches('\n')
                .count();
            let key = key.into_inner();
            let words = refuse_retired(&key, &value)
                .and_then(|()| flag(&key, agent))
                .and_then(|arg| words(&key, arg, &value))
                .map_err(|fault| AgentFileError::Setting {
                    path: path.to_owned(),
                    line,
                    key: key.clone(),
                    fault,
                })?;
            settings.push((key, words));
        }
        Ok(Self { settings })
    }

    /// Returns the number of settings.
    pub(crate) const fn len(&self) -> usize {
        self.settings.len()
    }

    /// Returns the words of the command line with the same meaning.
    pub(crate) fn words(&self) -> impl Iterator<Item = &String> {
        self.settings.iter().flat_map(|(_, words)| words)
    }
}

/// Refuses a key, or a value of it, that the agent no longer takes.
fn refuse_retired(key: &str, value: &Value) -> Result<(), String> {
    let values = match value {
        Value::Array(values) => values.as_slice(),
        value => slice::from_ref(value),
    };
    let texts = values.iter().map(Value::as_str);
    // A flag that went has gone without a value, too.
    let mut gone = iter::once(None)
        .chain(texts)
        .filter_map(|text| retired::find(key, text));
    match gone.next() {
        Some(retired) => Err(retired.to_string()),
        None => Ok(()),
    }
}

/// The flag of this name.
fn flag<'a>(key: &str, agent: &'a Command) -> Result<&'a Arg, String> {
    let mut flags = agent.get_arguments();
    let found = flags.find(|arg| arg.get_long() == Some(key));
    found
        .filter(|_| !matches!(key, CONFIG | "help"))
        .ok_or_else(|| "the agent has no such flag: `shunt agent --help` lists them".to_owned())
}

/// Returns the words of the command line with the same meaning.
fn words(key: &str, arg: &Arg, value: &Value) -> Result<Vec<String>, String> {
    let word = |value: &Value| match value {
        Value::String(text) => Ok(format!("--{key}={text}")),
        Value::Integer(number) => Ok(format!("--{key}={number}")),
        Value::Float(number) => Ok(format!("--{key}={number}")),
        Value::Boolean(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
            Err(format!("{} is not what the flag takes", value.type_str()))
        }
    };
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, Value::Boolean(true)) => Ok(vec![format!("--{key}")]),
        (ArgAction::SetTrue, Value::Boolean(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, _) => Err("either true or false is needed".to_owned()),
        // A switch.
        (_, Value::Boolean(is_on)) if arg.is_require_equals_set() => {
            Ok(vec![format!("--{key}={is_on}")])
        }
        (ArgAction::Append, Value::Array(values)) => values.iter().map(word).collect(),
        (_, value) => Ok(vec![word(value)?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::dispatch::command;

    fn parsed(text: &str) -> Result<Vec<String>, String> {
        let command = command();
        let agent = command.find_subcommand("agent").unwrap();
        let file = AgentFile::parse(text, Path::new("a.toml"), agent);
        let file = file.map_err(|error| error.to_string())?;
        Ok(file.words().cloned().collect())
    }

    #[test]
    fn each_key_is_a_flag() {
        let text = "\
            events = \"my.jsonl\"\n\
            pod-cidr = [\"10.1.0.0/16\", \"fd00::/64\"]\n\
            max-frontends = 1000\n\
            redirect = true\n\
            no-pin = false\n\
            masquerade-all = false\n\
            conntrack-udp-timeout = \"30s\"\n";
        assert_eq!(
            parsed(text).unwrap(),
            [
                "--events=my.jsonl",
                "--pod-cidr=10.1.0.0/16",
                "--pod-cidr=fd00::/64",
                "--max-frontends=1000",
                "--redirect",
                "--masquerade-all=false",
                "--conntrack-udp-timeout=30s",
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, words) in [
            (
                "\nmax-frontend = 1\n",
                "line 2: max-frontend: the agent has no such flag",
            ),
            ("config = \"b.toml\"\n", "line 1: config: "),
            (
                "redirect = \"yes\"\n",
                "line 1: redirect: either true or false",
            ),
            (
                "max-frontends = [1]\n",
                "line 1: max-frontends: array is not",
            ),
            ("[events]\nfile = 1\n", "events: table is not"),
            ("events = \n", "a.toml: "),
            ("redirect = true\nredirect = true\n", "duplicate key"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(words), "{words} is missing in: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn flags_of_the_command_line_win() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.toml");
        fs::write(&path, "reject-rate = 7\nmax-slots = 9\n").unwrap();
        let command = command();
        let agent = command.find_subcommand("agent").unwrap();
        let line = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let path = path.to_str().unwrap();
        let given = line(&["shunt", "agent", "--config", path, "--max-slots=5"]);
        let all = with_file(given, agent).unwrap();
        let expected = [
            "shunt",
            "agent",
            "--reject-rate=7",
            "--config",
            path,
            "--max-slots=5",
        ];
        assert_eq!(all, line(&expected));
        for others in [
            line(&["shunt", "status", "--config", path]),
            line(&["shunt", "agent"]),
            line(&["shunt", "lookup", "agent"]),
        ] {
            assert_eq!(with_file(others.clone(), agent).unwrap(), others);
        }
    }

    #[test]
    fn a_configuration_of_kube_proxy_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content, is_ours) in [
            ("a.toml", "", true),
            ("a.conf", "redirect = true\n", true),
            (
                "b.conf",
                "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n",
                false,
            ),
            ("c.conf", "{\"apiVersion\": \"x\"}", false),
            ("d.conf", "apiVersion = \"x\"\n", false),
        ] {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            assert_eq!(is_agent_file(&path), is_ours, "{name}");
        }
    }
}
