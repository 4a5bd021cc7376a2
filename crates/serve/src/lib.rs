#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod access;
mod drawing;
mod error;
mod job;
mod pages;
mod request;
mod response;
mod route;
mod server;
mod source;
mod view;

pub use access::{Token, TokenError};
pub use error::ServeError;
pub use server::{ServeOptions, Server};
pub use source::{RecordedProfile, Source};
