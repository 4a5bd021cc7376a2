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

pub use answer::{Answer, AnswerColumn, AnswerFormat, Cell, FlameGraph, Reply};
pub use condition::{Condition, Test};
pub use engine::{
    Access, BuiltIn, ClickHouse, DuckDb, DuckDbProgram, Engine, EngineOptions, LineSink,
    ResourceLimits, RunControl, Secret, Spark, SqlEngine, StoreFiles, TrendOptions, TrendSeries,
    Trends, Trino,
};
pub use error::FleetError;
pub use question::{Grouping, LossLimits, Question, Request, Selection};
pub use rows::{ColumnType, JsonRowSink, Part, PartSink, RowColumn, RowValue};
pub use sql::{Dialect, Tables, definitions, statement, statements};
