//! Parses `print fmt`.

use super::expression::{Expression, evaluate_constant};
use super::field::{Field, Location, type_size};
use super::lexer::{Token, tokenize};
use super::printf::{Directive, parse_directives};

/// Maximum recursion depth of the parser. A pair of parentheses takes two levels, an operator or a
/// cast one.
const DEPTH: u32 = 400;

/// Parses a `print fmt` to directives; `None` if any part of it isn't understood.
pub(super) fn parse_print(text: &str, fields: &[Field]) -> Option<Vec<Directive>> {
    let tokens = tokenize(text)?;
    let mut parser = Parser { rest: &tokens, fields, depth: 0 };
    let Expression::Text(format) = parser.parse_primary()? else { return None };
    let mut arguments = Vec::new();
    while !parser.rest.is_empty() {
        parser.expect(",")?;
        arguments.push(parser.parse_expression()?);
    }
    parse_directives(&format, arguments)
}

struct Parser<'t> {
    rest: &'t [Token],
    fields: &'t [Field],
    depth: u32,
}

impl<'t> Parser<'t> {
    fn next(&mut self) -> Option<&'t Token> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn is_next(&self, sign: &str) -> bool {
        matches!(self.rest.first(), Some(Token::Sign(next)) if *next == sign)
    }

    fn take(&mut self, sign: &str) -> bool {
        let is_next = self.is_next(sign);
        if is_next {
            self.next();
        }
        is_next
    }

    fn expect(&mut self, sign: &str) -> Option<()> {
        self.take(sign).then_some(())
    }

    fn take_word(&mut self) -> Option<&'t str> {
        if let Token::Word(word) = self.next()? { Some(word) } else { None }
    }

    fn parse_expression(&mut self) -> Option<Expression> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let condition = self.parse_binary(0)?;
        let expression = if self.take("?") {
            let yes = self.parse_expression()?;
            self.expect(":")?;
            Expression::Choice(condition.into(), yes.into(), self.parse_expression()?.into())
        } else {
            condition
        };
        self.depth -= 1;
        Some(expression)
    }

    /// Parses operators that bind at least as tightly as `least`.
    fn parse_binary(&mut self, least: u8) -> Option<Expression> {
        let mut left = self.parse_unary()?;
        while let Some(Token::Sign(sign)) = self.rest.first() {
            let Some(binding) = operator_binding(sign).filter(|binding| *binding >= least) else {
                break;
            };
            self.next();
            self.depth += 1;
            let right = if self.depth > DEPTH { None } else { self.parse_binary(binding + 1) }?;
            self.depth -= 1;
            left = Expression::Binary(sign, left.into(), right.into());
        }
        Some(left)
    }

    fn parse_unary(&mut self) -> Option<Expression> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let expression = match self.rest.first()? {
            Token::Sign(sign @ ("!" | "~" | "-" | "+" | "&" | "*")) => {
                self.next();
                let operand = self.parse_unary()?;
                // An expression with a field's address uses the field itself.
                if matches!(*sign, "+" | "&") {
                    operand
                } else {
                    Expression::Unary(sign, operand.into())
                }
            }
            Token::Sign("(") if self.parse_cast().is_some() => {
                let (size, rest) = self.parse_cast()?;
                self.rest = rest;
                let operand = self.parse_unary()?;
                match operand {
                    // A cast to elements of another size.
                    Expression::Dynamic(field, _) if size.1 => Expression::Dynamic(field, size.0),
                    operand if size.1 => operand,
                    operand => Expression::Cast(size.0, operand.into()),
                }
            }
            _ => self.parse_postfix()?,
        };
        self.depth -= 1;
        Some(expression)
    }

    /// Parses a type in parentheses. Returns its size in bytes (of a pointer, that of its target),
    /// whether it is a pointer, and the tokens after it. `None` if it isn't a type.
    fn parse_cast(&self) -> Option<((usize, bool), &'t [Token])> {
        let end = self.rest.iter().position(|token| *token == Token::Sign(")"))?;
        let mut words = Vec::new();
        let mut pointers = 0;
        for token in self.rest.get(1..end)? {
            match token {
                Token::Word(word) if pointers == 0 => words.push(word.as_str()),
                Token::Sign("*") => pointers += 1,
                _ => return None,
            }
        }
        let is_type = |word: &&str| {
            matches!(*word, "struct" | "enum" | "union" | "const" | "unsigned" | "signed" | "void")
                || type_size(word).is_some()
        };
        if words.is_empty()
            || words[0] == "REC"
            || !words.iter().any(is_type) && pointers == 0 && !words[0].ends_with("_t")
        {
            return None;
        }
        let size = type_size(&words.join(" ")).unwrap_or(if pointers > 1 { 8 } else { 1 });
        Some((
            (if pointers == 0 && words[0] == "enum" { 4 } else { size }, pointers > 0),
            self.rest.get(end + 1..)?,
        ))
    }

    fn parse_postfix(&mut self) -> Option<Expression> {
        let mut expression = self.parse_primary()?;
        while self.take("[") {
            let index = self.parse_expression()?;
            self.expect("]")?;
            expression = Expression::Element(expression.into(), index.into());
        }
        Some(expression)
    }

    fn parse_primary(&mut self) -> Option<Expression> {
        match self.next()? {
            Token::Number(number) => Some(Expression::Number(*number)),
            Token::Text(text) => {
                let mut text = text.clone();
                while let Some(Token::Text(more)) = self.rest.first() {
                    text.extend_from_slice(more);
                    self.next();
                }
                Some(Expression::Text(text))
            }
            Token::Sign("(") => {
                let expression = self.parse_expression()?;
                self.expect(")")?;
                Some(expression)
            }
            Token::Word(word) if word == "REC" => {
                self.expect("->")?;
                let name = self.take_word()?;
                self.find_field(name).map(Expression::Field)
            }
            // A name of the kernel that the description doesn't define counts as 0.
            Token::Word(_) if !self.is_next("(") => Some(Expression::Number(0)),
            Token::Word(word) => {
                self.expect("(")?;
                let call = self.parse_call(word)?;
                self.expect(")")?;
                Some(call)
            }
            Token::Sign(_) => None,
        }
    }

    fn find_field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    /// Parses the name of a dynamic field, and returns the field's index.
    fn parse_dynamic(&mut self) -> Option<usize> {
        let name = self.take_word()?;
        self.find_field(name).filter(|field| self.fields[*field].location != Location::Inline)
    }

    fn parse_boxed(&mut self) -> Option<Box<Expression>> {
        self.parse_expression().map(Box::new)
    }

    /// Parses a comma and a further argument.
    fn parse_further(&mut self) -> Option<Box<Expression>> {
        self.expect(",")?;
        self.parse_boxed()
    }

    /// Parses the arguments of one of the helpers in the kernel's tracing headers.
    fn parse_call(&mut self, name: &str) -> Option<Expression> {
        Some(match name {
            "__get_str" | "__get_rel_str" => Expression::Str(self.parse_dynamic()?),
            "__get_dynamic_array" | "__get_rel_dynamic_array" => {
                let field = self.parse_dynamic()?;
                Expression::Dynamic(field, self.fields[field].element_size())
            }
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => {
                Expression::DynamicLen(self.parse_dynamic()?)
            }
            "__get_bitmask" | "__get_cpumask" | "__get_rel_bitmask" | "__get_rel_cpumask" => {
                Expression::Bitmask(self.parse_dynamic()?)
            }
            "__print_flags" | "__print_flags_u64" => {
                let value = self.parse_boxed()?;
                let Expression::Text(between) = *self.parse_further()? else { return None };
                Expression::Flags(value, between, self.parse_pairs()?)
            }
            "__print_symbolic" | "__print_symbolic_u64" => {
                Expression::Symbolic(self.parse_boxed()?, self.parse_pairs()?)
            }
            "__print_hex" => Expression::Hex(self.parse_boxed()?, self.parse_further()?, " "),
            "__print_hex_str" => Expression::Hex(self.parse_boxed()?, self.parse_further()?, ""),
            "__print_array" => {
                Expression::Array(self.parse_boxed()?, self.parse_further()?, self.parse_further()?)
            }
            "__builtin_expect" => {
                let value = self.parse_expression()?;
                self.parse_further()?;
                value
            }
            "sizeof" => self.parse_size()?,
            _ => return None,
        })
    }

    /// Parses the operand of `sizeof`.
    fn parse_size(&mut self) -> Option<Expression> {
        if matches!(self.rest, [Token::Word(word), Token::Sign("->"), ..] if word == "REC") {
            let Expression::Field(field) = self.parse_primary()? else { return None };
            return Some(Expression::Number(self.fields[field].size as u64));
        }
        let mut words = Vec::new();
        while let Some(Token::Word(word)) = self.rest.first() {
            words.push(word.as_str());
            self.next();
        }
        let is_pointer = self.take("*");
        let size = if is_pointer { 8 } else { type_size(&words.join(" "))? };
        Some(Expression::Number(size as u64))
    }

    /// Parses a constant expression or the name of a number; an unknown name is -1.
    fn parse_pair_value(&mut self) -> Option<i64> {
        if let [Token::Word(word), Token::Sign(","), ..] = self.rest {
            self.next();
            return Some(
                ENUMERATED.iter().find(|(name, _)| name == word).map_or(-1, |(_, value)| *value),
            );
        }
        evaluate_constant(&self.parse_expression()?).map(u64::cast_signed)
    }

    /// Parses any number of `, { VALUE, "name" }`.
    fn parse_pairs(&mut self) -> Option<Vec<(i64, Vec<u8>)>> {
        let mut pairs = Vec::new();
        while self.take(",") {
            self.expect("{")?;
            let value = self.parse_pair_value()?;
            self.expect(",")?;
            let name = self.parse_expression()?;
            self.expect("}")?;
            // The kernel ends some lists with a pair without a name.
            if let Expression::Text(name) = name {
                pairs.push((value, name));
            }
        }
        Some(pairs)
    }
}

/// Names of the kernel's own enumerations, as in libtraceevent.
const ENUMERATED: [(&str, i64); 12] = [
    ("HI_SOFTIRQ", 0),
    ("TIMER_SOFTIRQ", 1),
    ("NET_TX_SOFTIRQ", 2),
    ("NET_RX_SOFTIRQ", 3),
    ("BLOCK_SOFTIRQ", 4),
    ("IRQ_POLL_SOFTIRQ", 5),
    ("TASKLET_SOFTIRQ", 6),
    ("SCHED_SOFTIRQ", 7),
    ("HRTIMER_SOFTIRQ", 8),
    ("RCU_SOFTIRQ", 9),
    ("HRTIMER_NORESTART", 0),
    ("HRTIMER_RESTART", 1),
];

fn operator_binding(sign: &str) -> Option<u8> {
    Some(match sign {
        "||" => 1,
        "&&" => 2,
        "|" => 3,
        "^" => 4,
        "&" => 5,
        "==" | "!=" => 6,
        "<" | ">" | "<=" | ">=" => 7,
        "<<" | ">>" => 8,
        "+" | "-" => 9,
        "*" | "/" | "%" => 10,
        _ => return None,
    })
}
