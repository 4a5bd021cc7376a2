#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod answer;
mod condition;
mod engine;
mod error;
mod question;
mod rows;
mod sql;
mod time;

pub use answer::{Answer, AnswerColumn, Cell};
pub use condition::{Condition, Test};
pub use engine::{
    BuiltIn, DuckDb, DuckDbProgram, Engine, ResourceLimits, RunControl, StoreFiles, TrendOptions,
    TrendSeries, Trends,
};
pub use error::FleetError;
pub use question::{Grouping, LossLimits, Question, Request, Selection};
pub use rows::{ColumnType, JsonRowSink, Part, RowColumn, RowSink, RowValue};
pub use sql::{Dialect, Tables, definitions, statement, statements};
