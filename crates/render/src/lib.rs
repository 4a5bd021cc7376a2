//! A profile as text for people and as data for programs.
