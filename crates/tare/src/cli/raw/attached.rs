//! Optional values joined to a one-letter option: `-z3`, `-I?`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Arg, Command};

/// Rewrites `-z3` as `-z=3`, clap's form for optional values. Words from the command to run on stay
/// as they are. Returns whether `--` stands before that command.
pub(super) fn put_equals(args: &mut [OsString], tare: &mut Command) -> bool {
    let Some(command) = args.get(1).and_then(|name| tare.find_subcommand_mut(name)) else {
        return false;
    };
    // hyperfine's `-iN` is `-i -N`.
    if command.get_name() == "bench" {
        return false;
    }
    // Describes the arguments, which are deferred.
    command.build();
    let mut at = 2;
    while let Some(word) = args.get(at).map(|word| word.as_bytes().to_vec()) {
        if word == b"--" {
            return true;
        }
        if !word.starts_with(b"-") || word == b"-" {
            break;
        }
        at += 1;
        let takes_next = match word.strip_prefix(b"--") {
            Some(long) => {
                !long.contains(&b'=') && long_option(command, long).is_some_and(needs_value)
            }
            None => short_options(command, &word, &mut args[at - 1]),
        };
        at += usize::from(takes_next);
    }
    false
}

/// Returns the option of this name, or the only one with this prefix.
fn long_option<'a>(command: &'a Command, name: &[u8]) -> Option<&'a Arg> {
    let named = |is_name: &dyn Fn(&[u8]) -> bool| {
        let is_meant = |arg: &&Arg| arg.get_long().is_some_and(|long| is_name(long.as_bytes()));
        let mut meant = command.get_arguments().filter(is_meant);
        meant.next().filter(|_| meant.next().is_none())
    };
    named(&|long| long == name).or_else(|| named(&|long| long.starts_with(name)))
}

fn needs_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

/// Inserts the `=` into a word of one-letter options. Returns whether the last letter takes the
/// next word as its value.
fn short_options(command: &Command, word: &[u8], argument: &mut OsString) -> bool {
    for (at, &letter) in word.iter().enumerate().skip(1) {
        let option =
            command.get_arguments().find(|arg| arg.get_short() == Some(char::from(letter)));
        let rest = &word[at + 1..];
        let takes_value = option.is_some_and(|arg| arg.get_action().takes_values());
        match option {
            Some(arg) if takes_value && arg.is_require_equals_set() => {
                if !rest.is_empty() && !rest.starts_with(b"=") {
                    *argument = OsString::from_vec([&word[..=at], b"=", rest].concat());
                }
                return false;
            }
            Some(_) if takes_value => return rest.is_empty(),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use clap::CommandFactory;

    #[test]
    fn adds_equals_signs_to_optional_values_only() {
        for (typed, read) in [
            ("tare record -z3 gzip -z3", "tare record -z=3 gzip -z3"),
            ("tare record -gz19 -o -z3 -- -z3", "tare record -gz=19 -o -z3 -- -z3"),
            (
                "tare record -e -z3 --freq 99 -z=4 -z -I? a",
                "tare record -e -z3 --freq 99 -z=4 -z -I=? a",
            ),
            (
                "tare record --switch-output -F99 -IAX,BX",
                "tare record --switch-output -F99 -I=AX,BX",
            ),
            ("tare record --ev -z3 -z3", "tare record --ev -z3 -z=3"),
            ("tare stat -z3", "tare stat -z3"),
            ("tare", "tare"),
        ] {
            let words = |text: &str| {
                text.split(' ').map(OsStr::new).map(OsStr::to_owned).collect::<Vec<_>>()
            };
            let mut args = words(typed);
            let dashes = put_equals(&mut args, &mut crate::cli::raw::Tare::command());
            assert_eq!((args, dashes), (words(read), typed.contains(" -- ")));
        }
    }
}
