//! Splits `print fmt` into tokens.

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Number(u64),
    /// With its escapes resolved.
    Text(Vec<u8>),
    Word(String),
    /// One or two characters.
    Sign(&'static str),
}

/// Limit of tokens per `print fmt`.
const MOST: usize = 1 << 14;

const SIGNS: [&str; 32] = [
    "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "[", "]", "{", "}", ",", "+",
    "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">", "?", ":", ".", ";",
];

/// Splits a `print fmt` into tokens; `None` if it contains anything else, or too many.
pub(super) fn tokenize(text: &str) -> Option<Vec<Token>> {
    let mut rest = text.trim_start();
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        if tokens.len() >= MOST {
            return None;
        }
        let (token, len) = match first {
            '"' => read_string(rest)?,
            '\'' => read_character(rest)?,
            '0'..='9' => read_number(rest)?,
            first if first.is_ascii_alphabetic() || first == '_' => {
                let len = rest
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .unwrap_or(rest.len());
                (Token::Word(rest[..len].to_owned()), len)
            }
            _ => {
                let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign))?;
                (Token::Sign(sign), sign.len())
            }
        };
        tokens.push(token);
        rest = rest[len..].trim_start();
    }
    Some(tokens)
}

fn read_number(text: &str) -> Option<(Token, usize)> {
    let len = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let digits = text[..len].trim_end_matches(['u', 'U', 'l', 'L']);
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8),
        None => digits.parse(),
    };
    Some((Token::Number(value.ok()?), len))
}

fn read_character(text: &str) -> Option<(Token, usize)> {
    let (bytes, len) = read_quoted(text, b'\'')?;
    Some((Token::Number((*bytes.first()?).into()), len))
}

fn read_string(text: &str) -> Option<(Token, usize)> {
    read_quoted(text, b'"').map(|(bytes, len)| (Token::Text(bytes), len))
}

/// Returns the text between two quotes with its escapes resolved, and the length of its source
/// including the quotes, in bytes.
fn read_quoted(text: &str, quote: u8) -> Option<(Vec<u8>, usize)> {
    let mut bytes = text.bytes().enumerate().skip(1);
    let mut content = Vec::new();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => content.push(match bytes.next()?.1 {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'0' => 0,
                other => other,
            }),
            byte if byte == quote => return Some((content, at + 1)),
            byte => content.push(byte),
        }
    }
    None
}
