//! kube-proxy's flags on the agent's command line.

use std::path::PathBuf;

use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, error::ErrorKind,
    parser::ValueSource, value_parser,
};
use serde_json::{Map, Value};

use crate::cli::{
    config::{
        agent_file::is_agent_file,
        table::{SETTINGS, Setting, Takes},
        v1alpha1::KubeProxyConfiguration,
    },
    flags::switch::Switch,
};

const CONFIG: &str = "config";

/// The flags of kube-proxy that were given, and its configuration file.
#[derive(Debug, Clone, Default)]
pub(crate) struct KubeProxyFlags {
    /// The file.
    pub(crate) config: Option<PathBuf>,
    /// Each flag that was given, with its values.
    pub(crate) given: Vec<(&'static Setting, Vec<String>)>,
}

impl Args for KubeProxyFlags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new(CONFIG)
            .long(CONFIG)
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help(
                "A file of settings: TOML in which each key is a flag without its dashes, where flags \
                 of the command line win; or a KubeProxyConfiguration of kube-proxy \
                 (kubeproxy.config.k8s.io/v1alpha1), in YAML or JSON, whose fields count in place \
                 of kube-proxy's flags, which are accepted as well: docs/kube-proxy-config.md",
            );
        let theirs = SETTINGS
            .iter()
            .filter(|setting| !setting.flag.is_empty() && !setting.is_ours);
        command.arg(config).args(theirs.map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// A flag that is not listed in the help: kube-proxy's own documents have it.
fn arg(setting: &'static Setting) -> Arg {
    let arg = Arg::new(setting.flag)
        .long(setting.flag)
        .hide(true)
        .allow_hyphen_values(true)
        .action(ArgAction::Append);
    match setting.takes {
        Takes::Switch => Switch::flag(arg),
        Takes::Number | Takes::Decimal | Takes::Text | Takes::List | Takes::Gates => arg,
    }
}

impl FromArgMatches for KubeProxyFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self {
            config: matches
                .get_one::<PathBuf>(CONFIG)
                // Its settings were put among the flags before.
                .filter(|path| !is_agent_file(path))
                .cloned(),
            given: Vec::new(),
        };
        for setting in SETTINGS.iter().filter(|setting| !setting.flag.is_empty()) {
            if matches.value_source(setting.flag) != Some(ValueSource::CommandLine) {
                continue;
            }
            let values = matches.get_raw(setting.flag).into_iter().flatten();
            let values = values.map(|value| value.to_string_lossy().into_owned());
            flags.given.push((setting, values.collect()));
        }
        // An impossible value is an error of the command line.
        flags
            .configuration()
            .map_err(|error| clap::Error::raw(ErrorKind::ValueValidation, error + "\n"))?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl KubeProxyFlags {
    /// Returns the configuration of the flags, as a file would have it.
    ///
    /// # Errors
    ///
    /// A value is not what its flag takes.
    pub(crate) fn configuration(&self) -> Result<KubeProxyConfiguration, String> {
        let mut root = Map::new();
        for (setting, values) in &self.given {
            let value = values
                .last()
                .map_or(Ok(Value::Bool(true)), |last| value(setting, last, values))
                .map_err(|error| format!("--{}: {error}", setting.flag))?;
            if !setting.field.is_empty() {
                insert(&mut root, setting.field, value);
            }
        }
        serde_json::from_value(Value::Object(root)).map_err(|error| error.to_string())
    }
}

/// The value of a flag; of one that is given several times, the last counts, and all of a list.
fn value(setting: &Setting, last: &str, all: &[String]) -> Result<Value, String> {
    let wrong = |what: &str| format!("`{last}` is no {what}");
    let parts = || all.iter().flat_map(|value| value.split(','));
    match setting.takes {
        Takes::Switch => {
            let switch: Switch = last.parse().map_err(|_| wrong("`true` or `false`"))?;
            Ok(switch.is_on().into())
        }
        Takes::Number => {
            let number: i64 = last.parse().map_err(|_| wrong("whole number"))?;
            Ok(number.into())
        }
        Takes::Decimal => {
            let number: f64 = last.parse().map_err(|_| wrong("number"))?;
            Ok(number.into())
        }
        Takes::Text => Ok(last.into()),
        Takes::List => Ok(parts().filter(|part| !part.is_empty()).collect()),
        Takes::Gates => {
            let gates = parts().filter(|part| !part.is_empty()).map(|gate| {
                let (name, value) = gate.split_once('=')?;
                let switch: Switch = value.parse().ok()?;
                Some((name.to_owned(), switch.is_on().into()))
            });
            let gates: Option<Map<String, Value>> = gates.collect();
            gates
                .map(Value::Object)
                .ok_or_else(|| wrong("list of NAME=true or NAME=false"))
        }
    }
}

/// Puts a value at `path`.
fn insert(object: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            object.insert(path.to_owned(), value);
        }
        Some((section, rest)) => {
            let section = object
                .entry(section)
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(section) = section {
                insert(section, rest, value);
            }
        }
    }
}
