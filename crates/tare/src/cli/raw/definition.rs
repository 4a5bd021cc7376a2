//! One definition for each option of `stat`, `record`, `top` and `report`: [`options!`] wraps a
//! struct that clap describes, and derives from the same attributes the defaults and a parser for
//! plain command lines ([`super::plain`]).

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Arg;

/// Adds a command's own default to the help of an option that it shares with other commands.
pub(super) fn with_default(arg: Arg, default: &str) -> Arg {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    arg.help(format!("{help} [default: {default}]"))
}

/// Declares a struct of options. Each field has clap's attributes: names, value, help, conflicts
/// and default (`default_value = …`, or `default_value_t = …` with a constant).
macro_rules! options {
    (
        $(#[$($attribute:tt)*])*
        pub struct $name:ident {
            $( $(#[$($option:tt)*])* pub $field:ident: $type:ty, )*
        }
    ) => {
        $(#[$($attribute)*])*
        pub struct $name {
            $( $(#[$($option)*])* pub $field: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $crate::cli::raw::definition::default_value!($([$($option)*])*), )* }
            }
        }

        impl $crate::cli::raw::definition::PlainOptions for $name {
            fn read_plain(
                &mut self,
                reader: &mut $crate::cli::raw::definition::PlainReader<'_>,
            ) -> Option<bool> {
                // A struct without plain options doesn't use it.
                let _ = &reader;
                $( $crate::cli::raw::definition::plain_option!(
                    self reader $field; $([$($option)*])*
                ); )*
                Some(false)
            }
        }
    };
}

/// The value of an option that wasn't typed, from its attributes.
macro_rules! default_value {
    () => { Default::default() };
    (@settings [$($rest:tt)*]) => { $crate::cli::raw::definition::default_value!($($rest)*) };
    (@settings $rest:tt default_value_t = $value:expr $(, $($more:tt)*)?) => { $value };
    (@settings $rest:tt default_value = $text:expr $(, $($more:tt)*)?) => { $text.into() };
    (@settings $rest:tt $skipped:tt $($more:tt)*) => {
        $crate::cli::raw::definition::default_value!(@settings $rest $($more)*)
    };
    ([arg($($settings:tt)*)] $($rest:tt)*) => {
        $crate::cli::raw::definition::default_value!(@settings [$($rest)*] $($settings)*)
    };
    ([$($other:tt)*] $($rest:tt)*) => { $crate::cli::raw::definition::default_value!($($rest)*) };
}

/// Reads a field's option if it was typed and is plain: a flag or one value, with no setting but
/// names, help, conflicts and `default_value`. Other options are left to clap.
macro_rules! plain_option {
    (@read $options:ident $reader:ident $field:ident $short:tt $long:tt $conflicts:tt;) => {
        if $reader.is_named($short, $long) {
            $crate::cli::raw::definition::PlainValue::read(&mut $options.$field, $reader)?;
            $reader.note(stringify!($field), &$conflicts);
            return Some(true);
        }
    };
    (@read $options:ident $reader:ident $field:ident $short:tt $long:tt $conflicts:tt;
        short = $letter:literal $(, $($more:tt)*)?) => {
        $crate::cli::raw::definition::plain_option!(
            @read $options $reader $field $letter $long $conflicts; $($($more)*)?
        )
    };
    (@read $options:ident $reader:ident $field:ident $short:tt $long:tt $conflicts:tt;
        short $(, $($more:tt)*)?) => {
        $crate::cli::raw::definition::plain_option!(
            @read $options $reader $field
            (stringify!($field).chars().next().unwrap_or_default()) $long $conflicts; $($($more)*)?
        )
    };
    (@read $options:ident $reader:ident $field:ident $short:tt $long:tt $conflicts:tt;
        long = $name:literal $(, $($more:tt)*)?) => {
        $crate::cli::raw::definition::plain_option!(
            @read $options $reader $field $short $name $conflicts; $($($more)*)?
        )
    };
    (@read $options:ident $reader:ident $field:ident $short:tt $long:tt $conflicts:tt;
        long $(, $($more:tt)*)?) => {
        $crate::cli::raw::definition::plain_option!(
            @read $options $reader $field $short (stringify!($field)) $conflicts; $($($more)*)?
        )
    };
    (@read $options:ident $reader:ident $field:ident $short:tt $long:tt $conflicts:tt;
        value_name = $name:literal $(, $($more:tt)*)?) => {
        $crate::cli::raw::definition::plain_option!(
            @read $options $reader $field $short $long $conflicts; $($($more)*)?
        )
    };
    (@read $options:ident $reader:ident $field:ident $short:tt $long:tt $conflicts:tt;
        help_heading = $name:literal $(, $($more:tt)*)?) => {
        $crate::cli::raw::definition::plain_option!(
            @read $options $reader $field $short $long $conflicts; $($($more)*)?
        )
    };
    (@read $options:ident $reader:ident $field:ident $short:tt $long:tt $conflicts:tt;
        default_value = $value:expr $(, $($more:tt)*)?) => {
        $crate::cli::raw::definition::plain_option!(
            @read $options $reader $field $short $long $conflicts; $($($more)*)?
        )
    };
    (@read $options:ident $reader:ident $field:ident $short:tt $long:tt $conflicts:tt;
        conflicts_with = $id:literal $(, $($more:tt)*)?) => {
        $crate::cli::raw::definition::plain_option!(
            @read $options $reader $field $short $long [$id]; $($($more)*)?
        )
    };
    (@read $options:ident $reader:ident $field:ident $short:tt $long:tt $conflicts:tt;
        conflicts_with_all = $ids:tt $(, $($more:tt)*)?) => {
        $crate::cli::raw::definition::plain_option!(
            @read $options $reader $field $short $long $ids; $($($more)*)?
        )
    };
    (@read $($not_plain:tt)*) => {};
    ($options:ident $reader:ident $field:ident;) => {};
    ($options:ident $reader:ident $field:ident; [command(flatten $($heading:tt)*)] $($rest:tt)*) => {
        if $crate::cli::raw::definition::PlainOptions::read_plain(&mut $options.$field, $reader)? {
            return Some(true);
        }
    };
    ($options:ident $reader:ident $field:ident; [arg(skip)] $($rest:tt)*) => {};
    ($options:ident $reader:ident $field:ident; [arg(trailing_var_arg $($settings:tt)*)]) => {};
    ($options:ident $reader:ident $field:ident; [arg($($settings:tt)*)] $($rest:tt)*) => {
        $crate::cli::raw::definition::plain_option!(
            @read $options $reader $field '\0' "" []; $($settings)*
        )
    };
    ($options:ident $reader:ident $field:ident; [$($documentation:tt)*] $($rest:tt)*) => {
        $crate::cli::raw::definition::plain_option!($options $reader $field; $($rest)*)
    };
}

pub(super) use {default_value, options, plain_option};

/// A struct of options that reads those that are plain.
pub(crate) trait PlainOptions {
    /// Reads the option that the reader is at. `None` if clap must read the command line,
    /// `Some(false)` if the option isn't one of these.
    fn read_plain(&mut self, reader: &mut PlainReader<'_>) -> Option<bool>;
}

/// A value that a plain option sets.
pub(crate) trait PlainValue {
    /// Sets the value, from the next word where the option takes one. `None` if clap must read it.
    fn read(&mut self, reader: &mut PlainReader<'_>) -> Option<()>;
}

impl PlainValue for bool {
    fn read(&mut self, _: &mut PlainReader<'_>) -> Option<()> {
        *self = true;
        Some(())
    }
}

impl PlainValue for String {
    fn read(&mut self, reader: &mut PlainReader<'_>) -> Option<()> {
        reader.value()?.clone_into(self);
        Some(())
    }
}

impl PlainValue for PathBuf {
    fn read(&mut self, reader: &mut PlainReader<'_>) -> Option<()> {
        *self = reader.value()?.into();
        Some(())
    }
}

impl<T: FromStr> PlainValue for Option<T> {
    fn read(&mut self, reader: &mut PlainReader<'_>) -> Option<()> {
        *self = Some(reader.value()?.parse().ok()?);
        Some(())
    }
}

impl PlainValue for Vec<String> {
    fn read(&mut self, reader: &mut PlainReader<'_>) -> Option<()> {
        self.push(reader.value()?.to_owned());
        Some(())
    }
}

/// An option that was typed.
#[derive(Debug)]
struct TypedOption {
    id: &'static str,
    /// Ids of the options that can't be typed with it.
    conflicts: &'static [&'static str],
}

/// Words of a command line, and the option that is being read.
#[derive(Debug)]
pub(crate) struct PlainReader<'a> {
    words: &'a [OsString],
    option: &'a str,
    typed: Vec<TypedOption>,
    after_dashes: bool,
}

impl<'a> PlainReader<'a> {
    pub(super) fn new(words: &'a [OsString]) -> Self {
        Self { words, option: "", typed: Vec::new(), after_dashes: false }
    }

    /// Reads all options, and returns the command behind them. `None` if clap must read the command
    /// line: an option or its value isn't plain, two conflict, or there is no command.
    pub(super) fn read(&mut self, options: &mut impl PlainOptions) -> Option<Vec<OsString>> {
        while let Some((word, rest)) = self.words.split_first() {
            if !word.as_encoded_bytes().starts_with(b"-") {
                break;
            }
            self.words = rest;
            self.option = word.to_str()?;
            if self.option == "--" {
                self.after_dashes = true;
                break;
            }
            if !options.read_plain(self)? {
                return None;
            }
        }
        let is_typed = |id: &&str| self.typed.iter().any(|option| option.id == *id);
        let conflict = self.typed.iter().any(|option| option.conflicts.iter().any(is_typed));
        (!conflict && !self.words.is_empty()).then(|| self.words.to_vec())
    }

    /// Whether `--` stands before the command.
    pub(super) fn is_after_dashes(&self) -> bool {
        self.after_dashes
    }

    /// Whether the option has this letter or this name, in which `_` stands for `-`.
    pub(crate) fn is_named(&self, short: char, long: &str) -> bool {
        let is_long = |name: &str| {
            let letters = long.bytes().map(|letter| if letter == b'_' { b'-' } else { letter });
            !long.is_empty() && letters.eq(name.bytes())
        };
        match self.option.strip_prefix("--") {
            Some(name) => is_long(name),
            None => self.option[1..].chars().eq([short]),
        }
    }

    /// Notes an option for the check of conflicts.
    pub(crate) fn note(&mut self, id: &'static str, conflicts: &'static [&'static str]) {
        self.typed.push(TypedOption { id, conflicts });
    }

    /// Takes the next word as a value; `None` if it is empty, begins with `-` or isn't UTF-8.
    fn value(&mut self) -> Option<&'a str> {
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        word.to_str().filter(|value| !value.is_empty() && !value.starts_with('-'))
    }
}
