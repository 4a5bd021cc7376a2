//! `live_memory SAMPLES PROCESSES`: plays short processes to a live replay, as two CPUs at 99 Hz
//! would have sampled them, and prints what memory it takes once it has warmed up and at the end.
#![allow(clippy::print_stdout, reason = "an example")]

mod played;
mod programs;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let (Some(samples), Some(processes)) = (numbers.next(), numbers.next()) else {
        return Err("give numbers of samples and processes".into());
    };
    let played = played::play(samples?, processes?, programs::mostly_one)?;
    println!("{played}");
    Ok(())
}
