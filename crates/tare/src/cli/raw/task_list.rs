//! Lists of processes and threads, as options take them.

/// Ids of processes or threads from one option. The lists of a repeated option add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskList(Vec<i32>);

impl TaskList {
    /// Returns the ids of all lists.
    pub(crate) fn ids(lists: &[Self]) -> Vec<i32> {
        lists.iter().flat_map(|list| list.0.iter().copied()).collect()
    }
}

/// Parses ids with commas or white space between them, as `pidof` prints them.
pub(super) fn parse_tasks(text: &str) -> Result<TaskList, String> {
    let words = text.split(|c: char| c == ',' || c.is_ascii_whitespace());
    let number = |word: &str| {
        word.parse().map_err(|_| format!("'{word}' is not the id of a process or thread"))
    };
    let ids: Vec<i32> =
        words.filter(|word| !word.is_empty()).map(number).collect::<Result<_, _>>()?;
    if ids.is_empty() {
        return Err("there is no id of a process or thread".to_owned());
    }
    Ok(TaskList(ids))
}
