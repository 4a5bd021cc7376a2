//! `live_memory SAMPLES PROCESSES`: plays short processes to a live replay, as two CPUs at 99 Hz
//! sample them, and prints the memory in use after warming up and at the end.
#![allow(clippy::print_stdout, reason = "an example")]

mod played;
mod programs;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let mut number = || numbers.next().ok_or("give numbers of samples and processes");
    let samples = number()??;
    let processes = number()??;
    let played = played::play(samples, processes, programs::mostly_one)?;
    println!("{played}");
    Ok(())
}
