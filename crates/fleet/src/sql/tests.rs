use crate::question::{Grouping, Question, Request, Selection};
use crate::rows::Part;
use crate::sql::{Dialect, Tables, statement};

/// Values that would end a literal, a statement or a comment, or change its meaning.
const HOSTILE: [&str; 9] = [
    "it's",
    "'; drop table samples; --",
    "\\'; select 1; --",
    "\\",
    "a'b''c\\'d",
    "/* */ -- \n '",
    "\"`$${}",
    "\u{202e}'",
    "%_'",
];

fn request(question: Question, conditions: &[String]) -> Request {
    let conditions = conditions.iter().map(|text| text.parse().unwrap()).collect();
    Request { question, selection: Selection { conditions, ..Selection::default() } }
}

/// Removes literals as the dialect reads them; what is left is the statement's own text.
fn without_literals(dialect: Dialect, text: &str) -> String {
    let mut rest = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\'' {
            rest.push(letter);
            continue;
        }
        loop {
            match letters.next() {
                Some('\\') if dialect.escapes_by_backslash() => drop(letters.next()),
                Some('\'') if letters.peek() == Some(&'\'') => drop(letters.next()),
                Some('\'') => break,
                Some(_) => {}
                None => panic!("a literal doesn't end: {text}"),
            }
        }
        rest.push('?');
    }
    rest
}

#[test]
fn hostile_values_stay_within_their_literals() {
    let function = Grouping::Column(tare_store::schema::SampleColumn::Function);
    let questions = |pattern: &str| {
        vec![
            Question::Top { by: Grouping::service(), with_total: false, limit: 3 },
            Question::Top { by: function, with_total: true, limit: 3 },
            Question::Top { by: Grouping::Module, with_total: true, limit: 3 },
            Question::Nameless,
            Question::Regressions { versus: None },
            Question::Flame { by: Grouping::service() },
            Question::Search { pattern: pattern.to_owned(), cost_per_core_hour: None },
        ]
    };
    for dialect in Dialect::ALL {
        let tables = Tables::from_files(dialect, [&[], &[], &[]]).unwrap();
        let texts = |value: &str| -> Vec<String> {
            // DataFusion knows no further labels.
            let labels = ["service=", "host!=", "further="].into_iter();
            let known = labels.take(if dialect == Dialect::DataFusion { 2 } else { 3 });
            let conditions: Vec<String> = known.map(|label| format!("{label}{value}")).collect();
            let mut texts = Vec::new();
            for question in questions(value) {
                for part in question.parts() {
                    let request = request(question.clone(), &conditions);
                    let text = statement(&request, *part, dialect, &tables).unwrap();
                    texts.push(without_literals(dialect, &text));
                }
            }
            texts
        };
        let harmless = texts("x");
        for value in HOSTILE {
            assert_eq!(texts(value), harmless, "{dialect:?} {value:?}");
        }
    }
}

#[test]
fn names_of_labels_and_nul_are_refused() {
    let question = || Question::Top { by: Grouping::service(), with_total: false, limit: 3 };
    for dialect in Dialect::ALL {
        let tables = Tables::from_files(dialect, [&[], &[], &[]]).unwrap();
        for condition in ["a'b=1", "a\"b=1", "a b=1", "service=\0"] {
            let request = request(question(), &[condition.to_owned()]);
            assert!(statement(&request, Part::Sums, dialect, &tables).is_err(), "{condition}");
        }
        let path = "/a/b*c.parquet".into();
        assert!(Tables::from_files(dialect, [&[path], &[], &[]]).is_err());
    }
}
