//! Folds the names of threads that differ in numbers only: `worker-12` becomes `worker-*`.

/// Returns a thread's name with each run of decimal digits replaced by `*`.
#[must_use]
pub fn fold(name: &str) -> String {
    let mut folded = String::with_capacity(name.len());
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        if !c.is_ascii_digit() {
            folded.push(c);
            continue;
        }
        while chars.next_if(char::is_ascii_digit).is_some() {}
        folded.push('*');
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_folded() {
        for (name, folded) in [
            ("worker-12", "worker-*"),
            ("kworker/3:1H-kblockd", "kworker/*:*H-kblockd"),
            ("tokio-runtime-w", "tokio-runtime-w"),
            ("G1 Conc#0", "G* Conc#*"),
            ("7", "*"),
            ("", ""),
        ] {
            assert_eq!(fold(name), folded);
        }
    }
}
