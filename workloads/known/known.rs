// known-rust SECONDS: depths of 1 to 8 calls, a closure, a caught panic. `known-rust --chains`: see
// known.c.
use std::hint::black_box;
use std::panic::catch_unwind;
use std::time::{Duration, Instant};

#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn leaf(passes: u64, mut seed: u64) -> u64 {
    for pass in 0..passes {
        seed = black_box(seed.wrapping_mul(6364136223846793005) ^ pass);
    }
    seed
}

macro_rules! levels {
    ($($own:ident $next:ident $depth:literal)*) => { $(
        #[inline(never)]
        #[unsafe(no_mangle)]
        extern "C" fn $own(depth: u64, seed: u64) -> u64 {
            let room = black_box([seed; $depth]);
            let below = if depth == $depth { leaf(5000, seed) } else { $next(depth, seed + 1) };
            below.wrapping_add(room[0])
        }
    )* };
}

levels! { r1 r2 1 r2 r3 2 r3 r4 3 r4 r5 4 r5 r6 5 r6 r7 6 r7 r8 7 r8 leaf 8 }

#[inline(never)]
#[unsafe(no_mangle)]
extern "C-unwind" fn panics(seed: u64) -> u64 {
    let value = leaf(20000, seed);
    if black_box(true) {
        std::panic::resume_unwind(Box::new(value));
    }
    value
}

#[inline(never)]
#[unsafe(no_mangle)]
extern "C-unwind" fn work(seconds: f64) {
    let begin = Instant::now();
let wanted = Duration::from_secs_f64(seconds);
    let mut round = 0;
    while begin.elapsed() < wanted {
        round += 1;
        black_box(r1(round % 8 + 1, round));
        let caught = catch_unwind(|| panics(round));
        black_box(caught.is_err());
    }
}

fn main() {
    let word = std::env::args().nth(1).unwrap_or_default();
    if word == "--chains" {
        println!("chain work\nchain leaf panics work\nchain panics work");
        for depth in 1..=8 {
            let callers: Vec<_> = (1..=depth).rev().map(|at| format!("r{at}")).collect();
            println!("chain leaf {0} work\nchain {0} work", callers.join(" "));
        }
        return;
    }
    work(word.parse().unwrap_or(1.0));
}
